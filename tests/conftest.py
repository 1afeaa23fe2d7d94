"""The running fleets of the tests: one at a time, kept while files want the same."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack
from typing import Any, TypeVar

import pytest

T = TypeVar("T")


class Fleets:
    """Starts fleets, which takes minutes, and stops one before it starts another.

    Test files that ask for a fleet by the same name, one after the other, share it.
    """

    def __init__(self) -> None:
        self._name = ""
        self._fleet: Any = None
        self._stack = ExitStack()

    def use(self, name: str, start: Callable[[], AbstractContextManager[T]]) -> T:
        """The running fleet of this name; `start` starts it where there is none."""
        if name != self._name:
            self.stop()
            self._fleet = self._stack.enter_context(start())
            self._name = name
        fleet: T = self._fleet
        return fleet

    def stop(self) -> None:
        """Stop the fleet that runs."""
        self._name, self._fleet = "", None
        self._stack.close()


@pytest.fixture(scope="session")
def fleets() -> Iterator[Fleets]:
    fleets = Fleets()
    yield fleets
    fleets.stop()


@pytest.fixture
def no_fleet(fleets: Fleets) -> None:
    """For a test that starts a fleet in its own way."""
    fleets.stop()
