"""What a router replica knows of the world: its policy, and the pools' health."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from dataclasses import replace
from typing import Any

from ray import serve
from ray.serve.handle import DeploymentHandle, DeploymentResponseGenerator

from orchestrator.config.document import Document
from orchestrator.config.fleet import Fleet
from orchestrator.config.policy import Policy, all_plain, policy_hash
from orchestrator.config.servefile import router_config
from orchestrator.errors import OrchestratorError
from orchestrator.records import PoolTraits
from orchestrator.routing.router import Router
from orchestrator.serving import hooks
from orchestrator.serving.policies import resolve_policy
from orchestrator.serving.tally import add_up

logger = logging.getLogger("ray.serve")

#: Seconds between two looks at the pools: for a new one that can be asked how it
#: samples, and for calls that wait for one without a replica.
LOOK_EVERY_S = 0.25
#: The same while a replica starts and waits for them.
READY_EVERY_S = 0.05
#: Seconds that a pool has to say how it samples, and until one that failed to is asked
#: again.
ANSWER_S = 5.0
ASK_AGAIN_S = 1.0
#: Seconds that the router's replicas have to report.
REPORT_S = 2.0


class PoolWatch:
    """Which pools have a replica, and how they sample; asked for every request.

    The handles themselves follow Serve's news of their replicas. `serve.status()` would
    say more, at a tenth of a second of this process's time for each call.
    """

    def __init__(self, fleet: Fleet, handles: dict[str, DeploymentHandle]) -> None:
        self._fleet = fleet
        self._handles = handles
        #: Speculative pools on a CPU that have said how they sample, and those of them
        #: that sample right.
        self._asked: set[str] = set()
        self._mended: set[str] = set()
        #: Calls whose answers have not ended, by pool.
        self._calls: dict[str, set[DeploymentResponseGenerator]] = {
            name: set() for name in handles
        }
        #: The pools as the router sees them now; a new object when that changes.
        self.traits = self._traits()

    def _traits(self) -> dict[str, PoolTraits]:
        return {
            name: replace(traits, sampling=True) if name in self._mended else traits
            for name, traits in self._fleet.traits(cpu_sampling_mended=False).items()
        }

    def has_replica(self, pool: str) -> bool:
        """Whether the pool has a replica that runs, as far as Serve has told."""
        return hooks.has_replica(self._handles[pool])

    def _knows(self, pool: str) -> bool:
        """Whether it is known how the pool samples."""
        return self.traits[pool].sampling or pool in self._asked

    def began(self, pool: str, call: DeploymentResponseGenerator) -> None:
        """Note a call; while it waits for a replica and the pool loses its last one, it
        is cancelled, which shows in its answer: Serve would let it wait for minutes.
        """
        self._calls[pool].add(call)

    def ended(self, pool: str, call: DeploymentResponseGenerator) -> None:
        """Note that a call's answer has ended, or is of no interest any more."""
        self._calls[pool].discard(call)

    @property
    def healthy(self) -> frozenset[str]:
        """Pools with a running replica that have said how they sample."""
        return frozenset(
            name
            for name in self._handles
            if self.has_replica(name) and self._knows(name)
        )

    def health(self) -> dict[str, bool]:
        """Whether each pool is healthy."""
        healthy = self.healthy
        return {name: name in healthy for name in self._handles}

    async def wait_healthy(self, timeout_s: float) -> None:
        """Wait until every pool is healthy, or until the time is over."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(timeout_s):
                while len(self.healthy) < len(self._handles):
                    await asyncio.sleep(READY_EVERY_S)

    def any_order(self) -> list[str]:
        """Pools for a request that all answer alike: those that are healthy first."""
        return sorted(self._handles, key=lambda name: name not in self.healthy)

    async def run(self) -> None:
        """Ask each new pool how it samples, and free calls that no replica can take."""
        await asyncio.gather(self._free_stranded(), *map(self._ask, self._handles))

    async def _free_stranded(self) -> None:
        while True:
            await asyncio.sleep(LOOK_EVERY_S)
            for pool, calls in self._calls.items():
                if calls and not self.has_replica(pool):
                    for call in [c for c in calls if not hooks.is_assigned(c)]:
                        hooks.cancel(call)

    async def _ask(self, pool: str) -> None:
        """Ask a pool how it samples as soon as it has a replica, until it has said."""
        while not self._knows(pool):
            if not self.has_replica(pool):
                await asyncio.sleep(LOOK_EVERY_S)
                continue
            try:
                answer = self._handles[pool].sampling_mended.remote()
                if await asyncio.wait_for(answer, ANSWER_S):
                    self._mended.add(pool)
                    self.traits = self._traits()
                self._asked.add(pool)
            except Exception:
                logger.exception("Pool %s did not say whether it samples right", pool)
                await asyncio.sleep(ASK_AGAIN_S)

    async def status(self) -> dict[str, Any]:
        """Every pool's mode and health, for `/router/status`."""
        serve_status = await asyncio.to_thread(serve.status)
        app = serve_status.applications.get(serve.get_replica_context().app_name)
        deployments = app.deployments if app is not None else {}
        pools: dict[str, Any] = {}
        for name, handle in self._handles.items():
            deployment = deployments.get(handle.deployment_name)
            pools[name] = {
                "deployment": handle.deployment_name,
                "speculation": self._fleet.pools[name].speculation.to_vllm()
                or {"method": "none"},
                "healthy": name in self.healthy,
                "replicas": dict(deployment.replica_states) if deployment else {},
                "message": deployment.message if deployment else "",
                "sampling": self.traits[name].sampling,
            }
        return pools


class PolicyHolder:
    """The policy in force, and what became of the last one offered."""

    def __init__(self, watch: PoolWatch) -> None:
        self._watch = watch
        self._policy: Policy = all_plain(watch.traits)
        self._source = "built in"
        self._rejected: dict[str, Any] | None = None
        self._traits = watch.traits
        self._router = Router(self._policy, self._traits)

    @property
    def router(self) -> Router:
        """The router of the policy in force and the pools as they are."""
        if self._watch.traits is not self._traits:
            self._traits = self._watch.traits
            self._router = Router(self._policy, self._traits)
        return self._router

    async def load(self, user_config: dict[str, Any] | None) -> None:
        """Take the policy that `user_config` holds or names; keep the old if bad."""
        source = "user_config"
        try:
            config = router_config(Document(user_config, source))
            reference = config.policy or "default"
            source = reference if isinstance(reference, str) else "inline"
            policy = await resolve_policy(reference)
            router = Router(policy, self._watch.traits)
        except Exception as error:
            known = isinstance(error, OrchestratorError)
            message = str(error) if known else f"{type(error).__name__}: {error}"
            self._rejected = {"source": source, "error": message}
            logger.error("Policy %s rejected: %s", source, message)
            return
        self._policy, self._source, self._rejected = policy, source, None
        self._router, self._traits = router, self._watch.traits
        logger.info("Policy %s (%s) is in force", policy.name, policy_hash(policy))

    def status(self) -> dict[str, Any]:
        """What is in force and where it comes from, and the last rejection."""
        return {
            "name": self._policy.name,
            "version": self._policy.version,
            "hash": policy_hash(self._policy),
            "source": self._source,
            "rejected": self._rejected,
        }


async def ask_all(own: dict[str, Any]) -> dict[str, Any]:
    """What every replica of the router reports, for `/router/status`.

    `own` is the report of the replica that asks; it counts even where asking fails.
    """
    context = serve.get_replica_context()
    answers: list[dict[str, Any]] = []
    asked: list[str] = []
    try:
        handle = await asyncio.to_thread(
            serve.get_deployment_handle, context.deployment, context.app_name
        )
        answers, asked = await hooks.ask_replicas(handle, "report", REPORT_S)
    except Exception:
        logger.exception("The router's replicas could not be asked")
    return join_reports([own, *answers], asked)


def join_reports(reports: list[dict[str, Any]], asked: list[str]) -> dict[str, Any]:
    """The reports in one: who did not answer, whether all agree, and the totals."""
    by_name = {report["replica"]: report for report in reports}
    replicas = [by_name[name] for name in sorted(by_name)]
    policies = {(r["policy"]["hash"], r["policy"]["version"]) for r in replicas}
    return {
        "replicas": replicas,
        "unanswered": sorted(set(asked) - set(by_name)),
        "consistent": len(policies) == 1,
        "totals": add_up(report["counts"] for report in replicas),
    }
