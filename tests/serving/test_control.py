"""The policy in force on a router replica; a bad one never replaces a good one."""

from typing import Any

import pytest

from orchestrator.records import PoolTraits
from orchestrator.serving.control import PolicyHolder

PLAIN, NGRAM = PoolTraits("plain", "none"), PoolTraits("ngram", "ngram")
GOOD = {"name": "good", "otherwise": "ngram", "fallback": ["plain"]}


class Watch:
    """Stands for PoolWatch: two pools, one of which can't sample yet."""

    def __init__(self) -> None:
        self.traits = {"plain": PLAIN, "ngram": PoolTraits("ngram", "ngram", False)}


def holder() -> PolicyHolder:
    return PolicyHolder(Watch())  # type: ignore[arg-type]


def test_without_a_policy_all_goes_to_the_plain_pool() -> None:
    fresh = holder()
    assert fresh.status()["name"] == "all-plain"
    assert fresh.router.policy.otherwise.pool == "plain"


@pytest.mark.parametrize(
    ("bad", "told"),
    [
        ({"policy": {"name": "x"}}, "otherwise: is required"),
        ({"policy": {**GOOD, "rules": [{"name": "r", "use": 5}]}}, "rules[0].use"),
        ({"policy": "no-such-policy"}, "no shipped policy has this name"),
        ({"policy": "some/file.yaml"}, "must be absolute"),
        ({"policy": 7}, "a shipped name, a path, or the policy itself"),
        ({"polizy": "default"}, "unknown field `polizy`"),
    ],
)
async def test_a_bad_policy_leaves_the_old_one(bad: Any, told: str) -> None:
    policies = holder()
    await policies.load({"policy": GOOD})
    before = policies.status()
    assert (before["name"], before["rejected"]) == ("good", None)
    await policies.load(bad)
    after = policies.status()
    assert (after["name"], after["hash"]) == ("good", before["hash"])
    assert told in after["rejected"]["error"]
    await policies.load({"policy": "default"})
    assert policies.status()["name"] == "default"
    assert policies.status()["rejected"] is None


async def test_the_router_follows_what_is_known_of_the_pools() -> None:
    watch = Watch()
    policies = PolicyHolder(watch)  # type: ignore[arg-type]
    await policies.load({"policy": GOOD})
    first = policies.router
    assert policies.router is first
    watch.traits = {"plain": PLAIN, "ngram": NGRAM}
    assert policies.router is not first
    assert policies.router.policy.name == "good"
