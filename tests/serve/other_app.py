"""A second application on the cluster, which `policy apply` must leave alone."""

import os

from ray import serve


@serve.deployment(ray_actor_options={"num_cpus": 0})
class Other:
    def __call__(self) -> str:
        return os.environ["OTHER"]


app = Other.bind()
