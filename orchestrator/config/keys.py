"""The API keys that people may call with: a file of their hashes, never of the keys."""

from __future__ import annotations

import hashlib
import hmac
import re
import string
from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Annotated, Any, Literal

from pydantic import Discriminator, Field, Tag, field_validator

from orchestrator.config.base import Flag, Mistake, Mistakes, StrictModel
from orchestrator.config.document import Document
from orchestrator.config.fleet import PoolName
from orchestrator.config.messages import show
from orchestrator.config.policy import Name
from orchestrator.errors import ConfigError, Problem
from orchestrator.records import Caller

#: Holds the text of a keys file where `user_config` names none, for a cluster whose
#: secrets come as environment variables.
KEYS_ENV = "ORCH_API_KEYS"
#: What the keys that this project makes begin with.
PREFIX = "sk-orch-"


class ApiKey(StrictModel):
    """One key: whose it is, its hash, and what it may do."""

    #: The tenant, as it stands in outcomes and policies.
    name: Name
    #: Of the key's text; see `hash_key`.
    sha256: str
    #: The pools that it may choose where the policy lets nobody choose.
    pools: Annotated[
        Annotated[Literal["all"], Tag("all")]
        | Annotated[tuple[PoolName, ...], Tag("list")],
        Discriminator(lambda value: "all" if isinstance(value, str) else "list"),
    ] = ()
    #: Whether it may change things under `/router/`.
    admin: Flag = False

    @field_validator("sha256", mode="before")
    @classmethod
    def _is_a_hash(cls, value: Any) -> Any:
        """Never shows the value: it may be the key itself."""
        text = value.lower() if isinstance(value, str) else ""
        if len(text) != 64 or not set(text) <= set(string.hexdigits):
            hint = "`orchestrator keys new` makes a key and its entry"
            raise Mistakes(Mistake("is no SHA-256: must be 64 hex digits", hint=hint))
        return text

    @field_validator("pools", mode="before")
    @classmethod
    def _all_or_a_list(cls, value: Any) -> Any:
        if value != "all" and not isinstance(value, list | tuple):
            text = f"must be `all` or a list of pools' names, not {show(value)}"
            raise Mistakes(Mistake(text))
        return value

    def caller(self) -> Caller:
        """Who a request with this key is from."""
        return Caller(self.name, self.pools, self.admin)


class KeysFile(StrictModel):
    """A keys file. An empty list is a mistake: it would shut everybody out."""

    keys: Annotated[tuple[ApiKey, ...], Field(min_length=1)]


class KeyRing:
    """The callers by their keys' hashes."""

    def __init__(self, keys: Iterable[ApiKey]) -> None:
        self._callers = [(bytes.fromhex(key.sha256), key.caller()) for key in keys]

    def __len__(self) -> int:
        """The number of keys."""
        return len(self._callers)

    def find(self, token: str) -> Caller | None:
        """Whose key this is; the time it takes does not tell how near a guess was."""
        wanted = bytes.fromhex(hash_key(token))
        found = None
        for digest, caller in self._callers:
            if hmac.compare_digest(digest, wanted):
                found = caller
        return found


def hash_key(key: str) -> str:
    """SHA-256 of a key, in hex.

    A slow, salted hash would gain nothing: it protects what people can guess, and a
    key is 256 random bits.
    """
    return hashlib.sha256(key.encode("utf-8", "surrogatepass")).hexdigest()


def parse_keys(text: str, source: str) -> tuple[ApiKey, ...]:
    """The keys in the text of a keys file; raises ConfigError with every mistake."""
    try:
        document = Document.of_text(text, source)
        found = list(_doubles(document.data))
        return document.parse(KeysFile, found=found).keys
    except ConfigError as error:
        raise ConfigError(source, [_masked(p) for p in error.problems]) from None


#: Long enough to be a key, or a part of one, that stands in the wrong place.
_SECRET = re.compile(r"[\w+/=-]{20,}")


def _masked(problem: Problem) -> Problem:
    """The problem without what may be a key: it goes to logs and `/router/status`."""
    shown = (problem.message, problem.field, problem.hint)
    message, field, hint = (_SECRET.sub("…", text) for text in shown)
    return replace(problem, message=message, field=field, hint=hint)


def _doubles(data: Any) -> Iterator[Mistake]:
    """Names and hashes that stand twice, on the raw data, to be told with the rest."""
    entries = data.get("keys") if isinstance(data, dict) else None
    for field in ("name", "sha256"):
        first: dict[str, int] = {}
        for i, entry in enumerate(entries if isinstance(entries, list) else ()):
            value = entry.get(field) if isinstance(entry, dict) else None
            if not isinstance(value, str):
                continue
            value = value.lower() if field == "sha256" else value
            if value in first:
                text = f"this {field} stands twice"
                hint = f"first in keys[{first[value]}]"
                yield Mistake(text, ("keys", i, field), hint)
            else:
                first[value] = i
