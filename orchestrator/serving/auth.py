"""Who may call: the keys in force on a router replica, and what each request needs."""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping
from typing import Any

from orchestrator.config.document import Document
from orchestrator.config.keys import KEYS_ENV, KeyRing, parse_keys
from orchestrator.config.servefile import keys_file
from orchestrator.errors import (
    AdminRequiredError,
    OrchestratorError,
    UnauthorizedError,
    UnavailableError,
)
from orchestrator.records import Caller
from orchestrator.serving.policies import read_on_head

logger = logging.getLogger("ray.serve")

#: What needs no key: probes, and the description of the API.
OPEN_PATHS = frozenset(("/health", "/openapi.json", "/docs"))
#: What changes nothing under `/router/`: these methods, and one request with a body.
_READS = ("GET", "HEAD")
_EXPLAIN = ("POST", "/router/explain")


class KeyHolder:
    """The keys in force, and what became of the last ones offered.

    Until keys have been read, or it is certain that none are wanted, every request is
    refused: a file that can't be read must not open the fleet.
    """

    def __init__(self) -> None:
        self._state = "closed"
        self._ring = KeyRing(())
        self._source: str | None = None
        self._rejected: dict[str, str] | None = None

    async def load(self, user_config: dict[str, Any] | None) -> None:
        """Take the keys that `user_config` names, else those of the environment.

        Never raises: keys that can't be read leave the old ones in force.
        """
        source = "user_config"
        try:
            path = keys_file(Document(user_config, source))
            source = path or KEYS_ENV
            text = await read_on_head(path) if path else os.environ.get(KEYS_ENV)
            keys = None if text is None else parse_keys(text, source)
        except Exception as error:
            known = isinstance(error, OrchestratorError)
            # An unknown error may tell what it was working on, a key that is misplaced.
            message = str(error) if known else type(error).__name__
            self._rejected = {"source": source, "error": message}
            logger.error("API keys of %s rejected: %s", source, message)
            return
        self._rejected = None
        self._ring = KeyRing(keys or ())
        if keys is None:
            self._state, self._source = "open", None
            logger.info("No API keys are in force: everybody may call")
        else:
            self._state, self._source = "keys", source
            logger.info("%d API keys of %s are in force", len(keys), source)

    def admit(
        self, headers: Mapping[str, str], method: str, path: str
    ) -> Caller | None:
        """Who sends a request; None where it needs no key.

        `headers` must find names whatever their case, `path` must be that of the app's
        own routes.

        Raises:
            UnauthorizedError: no key, or one that is not known.
            AdminRequiredError: the request changes something, and its key may not.
            UnavailableError: the keys can't be read.
        """
        if self._state == "open" or method == "OPTIONS" or path in OPEN_PATHS:
            return None
        if self._state == "closed":
            raise UnavailableError(
                "The router can't read its API keys and refuses all requests; the"
                " router's log says why."
            )
        scheme, _, token = headers.get("authorization", "").partition(" ")
        if scheme.lower() != "bearer":
            raise UnauthorizedError(
                "This needs an API key: send the header `Authorization: Bearer KEY`."
            )
        caller = self._ring.find(token.strip())
        if caller is None:
            raise UnauthorizedError("This API key is not known.")
        changes = path.startswith("/router/") and method not in _READS
        if changes and (method, path) != _EXPLAIN and not caller.admin:
            raise AdminRequiredError(
                "This changes the router and needs an API key with `admin: true`."
            )
        return caller

    def status(self) -> dict[str, Any]:
        """State, source and number of the keys in force, and the last rejection."""
        return {
            "state": self._state,
            "source": self._source,
            "count": len(self._ring),
            "rejected": self._rejected,
        }
