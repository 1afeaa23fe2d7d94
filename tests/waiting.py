"""Waiting for what a fleet takes its time for."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable
from typing import TypeVar

import httpx

T = TypeVar("T")


def until(get: Callable[[], T], seconds: float = 240) -> T:
    """The first result of `get` that holds; a new replica imports vLLM first.

    No answer is "not yet": the proxy may wait for a router replica that has died.
    """
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        with contextlib.suppress(httpx.TransportError):
            if result := get():
                return result
        time.sleep(0.2)
    raise AssertionError(f"it did not come about within {seconds} s")
