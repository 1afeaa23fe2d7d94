"""Finds the files that a `user_config` names, on whatever node this replica runs."""

from __future__ import annotations

import asyncio
from pathlib import Path

import ray

from orchestrator.config.base import suggest
from orchestrator.config.document import read_text
from orchestrator.config.policy import Policy, load_policy, parse_policy
from orchestrator.config.servefile import PolicyRef
from orchestrator.config.shipped import shipped_policies
from orchestrator.errors import ConfigError, Problem

#: Every Ray cluster's head node has this resource.
_HEAD = {"node:__internal_head__": 0.001}
#: Seconds that the head node has to read a file.
READ_S = 30.0


async def resolve_policy(reference: PolicyRef) -> Policy:
    """The policy written inline, shipped by this name, or in a file at this path.

    A file is read on the head node, wherever the replica runs: there it is one file for
    all of them, and there `serve deploy` and `serve run` read their own.

    Raises:
        ConfigError: the policy has mistakes, or there is none of that name or path.
        TimeoutError: the head node did not answer.
    """
    if not isinstance(reference, str) or reference in shipped_policies():
        return load_policy(reference)
    if not Path(reference).is_absolute():
        text = "no shipped policy has this name, and a path must be absolute"
        hint = suggest(reference, shipped_policies())
        raise ConfigError(reference, [Problem(text, hint=hint)])
    return parse_policy(await read_on_head(reference), source=reference)


async def read_on_head(path: str) -> str:
    """The text of a file on the head node.

    Raises:
        ConfigError: there is no such file, or it can't be read.
        TimeoutError: the head node did not answer.
    """
    read = ray.remote(_read).options(num_cpus=0, resources=_HEAD)
    answer: str | ConfigError = await asyncio.wait_for(read.remote(path), READ_S)
    if isinstance(answer, ConfigError):
        raise answer
    return answer


def _read(path: str) -> str | ConfigError:
    # The error is returned: Ray would add its own trace to one that is raised.
    if not Path(path).is_file():
        return ConfigError(path, [Problem("no such file on the head node")])
    try:
        return read_text(Path(path))
    except ConfigError as error:
        return error
