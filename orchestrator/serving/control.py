"""What an ingress replica knows of the world: its policy, and the pools' health."""

from __future__ import annotations

import asyncio
import logging
from dataclasses import replace
from typing import Any

from ray import serve
from ray.serve.handle import DeploymentHandle

from orchestrator.config.document import Document
from orchestrator.config.fleet import Fleet
from orchestrator.config.policy import Policy, all_plain, policy_hash
from orchestrator.config.servefile import policy_ref
from orchestrator.errors import OrchestratorError
from orchestrator.records import PoolTraits
from orchestrator.routing.router import Router
from orchestrator.serving.policies import resolve_policy

logger = logging.getLogger("ray.serve")

#: Seconds between two looks at Serve's own view of the pools.
REFRESH_S = 2.0
#: Seconds that a pool has to say whether it samples right.
ANSWER_S = 5.0


class PoolWatch:
    """Follows Serve's status of every pool; the router asks `healthy` per request."""

    def __init__(self, fleet: Fleet, handles: dict[str, DeploymentHandle]) -> None:
        self._fleet = fleet
        self._handles = handles
        self._replicas: dict[str, dict[str, int]] = {name: {} for name in handles}
        self._messages: dict[str, str] = {}
        #: Speculative pools on a CPU whose sampling has been mended.
        self._mended: set[str] = set()
        self.healthy: frozenset[str] = frozenset()
        #: The pools as the router sees them now; a new object when that changes.
        self.traits = self._traits()

    def _traits(self) -> dict[str, PoolTraits]:
        return {
            name: replace(traits, sampling=True) if name in self._mended else traits
            for name, traits in self._fleet.traits(cpu_sampling_mended=False).items()
        }

    def any_order(self) -> list[str]:
        """Pools for a request that all answer alike: those that are healthy first."""
        return sorted(self._handles, key=lambda name: name not in self.healthy)

    async def refresh(self) -> None:
        """Ask Serve for the pools' replicas; keep the last answer when it fails."""
        status = await asyncio.to_thread(serve.status)
        app = status.applications[serve.get_replica_context().app_name]
        for name, handle in self._handles.items():
            deployment = app.deployments.get(handle.deployment_name)
            if deployment is not None:
                self._replicas[name] = dict(deployment.replica_states)
                self._messages[name] = deployment.message
        running = frozenset(
            name for name, states in self._replicas.items() if states.get("RUNNING")
        )
        # Asked first: a pool that counts as healthy has said how it samples.
        await self._ask_for_sampling(running)
        self.healthy = running

    async def _ask_for_sampling(self, running: frozenset[str]) -> None:
        for name, traits in self.traits.items():
            if traits.sampling or name not in running:
                continue
            try:
                answer = self._handles[name].sampling_mended.remote()
                if await asyncio.wait_for(answer, ANSWER_S):
                    self._mended.add(name)
                    self.traits = self._traits()
            except Exception:
                logger.exception("Pool %s did not say whether it samples right", name)

    async def run(self) -> None:
        """Refresh for ever; where a look fails, what was seen last stands."""
        while True:
            try:
                await self.refresh()
            except Exception:
                logger.exception("Serve's status could not be read")
            await asyncio.sleep(REFRESH_S)

    def status(self) -> dict[str, Any]:
        """Every pool's mode and health, for `/router/status`."""
        return {
            name: {
                "deployment": handle.deployment_name,
                "speculation": self._fleet.pools[name].speculation.to_vllm()
                or {"method": "none"},
                "healthy": name in self.healthy,
                "replicas": self._replicas[name],
                "message": self._messages.get(name, ""),
                "sampling": self.traits[name].sampling,
            }
            for name, handle in self._handles.items()
        }


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

    async def load(self, user_config: dict[str, Any]) -> None:
        """Take the policy that `user_config` holds or names; keep the old if bad."""
        source = "user_config"
        try:
            reference = policy_ref(Document(user_config, source)) or "default"
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
        """Name, hash and source of the policy in force, and the last rejection."""
        return {
            "name": self._policy.name,
            "hash": policy_hash(self._policy),
            "source": self._source,
            "rejected": self._rejected,
        }
