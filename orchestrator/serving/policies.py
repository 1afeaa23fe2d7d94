"""Finds the policy that a `user_config` names, on whatever node this replica runs."""

from __future__ import annotations

import asyncio
from pathlib import Path

import ray

from orchestrator.config.policy import Policy, load_policy, parse_policy
from orchestrator.config.servefile import PolicyRef
from orchestrator.errors import ConfigError, Problem

#: Every Ray cluster's head node has this resource.
_HEAD = {"node:__internal_head__": 0.001}


async def resolve_policy(reference: PolicyRef) -> Policy:
    """The policy written inline, shipped by this name, or in a file at this path.

    A file is looked for on this node, then on the head node, where `serve deploy` and
    `serve run` read their own files: a policy's path works for replicas everywhere.

    Raises:
        ConfigError: the policy has mistakes, or no such file exists on either node.
    """
    try:
        return await asyncio.to_thread(load_policy, reference)
    except FileNotFoundError as missing:
        assert isinstance(reference, str), "an inline policy needs no file"
        reason = str(missing)
    if Path(reference).is_absolute():
        read = ray.remote(_read).options(num_cpus=0, resources=_HEAD)
        text: str | None = await read.remote(reference)
        if text is not None:
            return parse_policy(text, source=reference)
        reason += "; it is not on the head node either"
    else:
        reason += "; a path of a file on the head node must be absolute"
    raise ConfigError(reference, [Problem(reason)])


def _read(path: str) -> str | None:
    file = Path(path)
    return file.read_text(encoding="utf-8") if file.is_file() else None
