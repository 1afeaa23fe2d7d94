"""The policy in force on a router replica; a bad one never replaces a good one."""

from typing import Any

import pytest

from orchestrator.records import PoolTraits
from orchestrator.serving.control import PolicyHolder, join_reports

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


async def test_the_version_is_told() -> None:
    policies = holder()
    await policies.load({"policy": {**GOOD, "version": "2"}})
    assert policies.status()["version"] == "2"
    await policies.load({"policy": GOOD})
    assert policies.status()["version"] is None


@pytest.mark.parametrize("nothing", [None, {}, {"policy": None}])
async def test_without_a_word_of_a_policy_the_default_is_taken(nothing: Any) -> None:
    policies = holder()
    await policies.load({"policy": GOOD})
    await policies.load(nothing)
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


def report(name: str, hash_: str, version: str | None = None) -> dict[str, Any]:
    counts = {"by_class": {"code": {"plain": 2}, name: {"plain": 1}}, "dropped": 1}
    policy = {"hash": hash_, "version": version}
    return {"replica": name, "policy": policy, "counts": counts}


def test_reports_are_joined_and_who_is_silent_is_named() -> None:
    own, other = report("b", "1"), report("a", "1")
    joined = join_reports([own, other, own], ["a", "b", "c"])
    assert [r["replica"] for r in joined["replicas"]] == ["a", "b"]
    assert joined["unanswered"] == ["c"]
    assert joined["consistent"] is True
    by_class = {"a": {"plain": 1}, "b": {"plain": 1}, "code": {"plain": 4}}
    assert joined["totals"] == {"by_class": by_class, "dropped": 2}


@pytest.mark.parametrize("other", [("2", None), ("1", "7")])
def test_another_hash_or_version_is_no_agreement(other: Any) -> None:
    joined = join_reports([report("a", "1"), report("b", *other)], ["a", "b"])
    assert joined["consistent"] is False
