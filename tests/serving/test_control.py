"""What a router replica knows: its policy, whose place no bad one takes, and pools."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from orchestrator.config.fleet import Fleet
from orchestrator.records import PoolTraits
from orchestrator.serving import control
from orchestrator.serving.control import PolicyHolder, PoolWatch, join_reports

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


class Pool:
    """Stands for a pool's handle: whether it has a replica, and what that answers."""

    def __init__(self, *answers: bool | Exception, up: bool = True) -> None:
        self.up = up
        self.answers = list(answers)
        self.sampling_mended = self

    async def remote(self) -> bool:
        assert self.up, "asked without a replica"
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer


@asynccontextmanager
async def watching(**pools: Pool) -> AsyncIterator[PoolWatch]:
    """A watch that runs, of pools on a CPU; `plain` is the one without speculation."""
    ngram = {"method": "ngram", "num_speculative_tokens": 2}
    modes = dict.fromkeys(pools, ngram) | {"plain": {"method": "none"}}
    fleet = {
        "model": {"id": "m", "source": "m"},
        "accelerator": "cpu",
        "pools": {name: {"speculation": modes[name]} for name in pools},
    }
    watch = PoolWatch(Fleet.model_validate(fleet), pools)  # type: ignore[arg-type]
    running = asyncio.create_task(watch.run())
    try:
        yield watch
    finally:
        running.cancel()


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(control.hooks, "has_replica", lambda pool: pool.up)
    for name in ("LOOK_EVERY_S", "READY_EVERY_S", "ASK_AGAIN_S"):
        monkeypatch.setattr(control, name, 0.001)


async def test_a_replica_waits_for_pools_that_run_to_say_how_they_sample() -> None:
    async with watching(plain=Pool(), good=Pool(True), bad=Pool(False)) as watch:
        assert watch.health() == {"plain": True, "good": False, "bad": False}
        await watch.wait_healthy(30)
        assert watch.health() == {"plain": True, "good": True, "bad": True}
        sampling = {name: traits.sampling for name, traits in watch.traits.items()}
        assert sampling == {"plain": True, "good": True, "bad": False}


async def test_a_pool_that_is_down_is_not_waited_for_for_ever() -> None:
    ngram = Pool(True, up=False)
    async with watching(plain=Pool(), ngram=ngram) as watch:
        await watch.wait_healthy(0.05)
        assert watch.health() == {"plain": True, "ngram": False}
        ngram.up = True
        await watch.wait_healthy(30)
        assert watch.health() == {"plain": True, "ngram": True}
        ngram.up = False
        assert watch.healthy == {"plain"}


async def test_a_pool_that_fails_to_say_is_asked_again_and_holds_up_no_other() -> None:
    silent = Pool(RuntimeError("x"), RuntimeError("x"), True)
    async with watching(plain=Pool(), silent=silent, good=Pool(True)) as watch:
        await watch.wait_healthy(30)
        assert watch.traits["silent"].sampling is True
        assert silent.answers == []
