"""Watches one response as it passes: times, usage, drafts, and how it ended."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from orchestrator.records import Decision, Features, Outcome, RequestClass, Status
from orchestrator.routing.speed import effective_tokens
from orchestrator.serving import hooks
from orchestrator.serving.failures import ERROR_MARK, raise_failure, read_error

#: The usage chunk is the only one without choices. Quotes inside a JSON string are
#: escaped, so the text of an answer can't look like this.
_USAGE_MARK = '"choices":[]'


@dataclass(slots=True)
class Ticket:
    """One request on its way through the ingress."""

    request_id: str
    #: Unix time, and the monotonic clock, at arrival; seconds.
    time: float
    started: float
    features: Features
    request_class: RequestClass
    decision: Decision
    #: The pool that the request was sent to: the decision's, or a fallback.
    pool: str
    overhead_s: float
    #: The pool that failed before, at the cost of a retry.
    failed_pool: str | None = None


class Meter:
    """Measures one response; the ingress hands it every item that passes.

    Args:
        wants_usage: the client asked for the usage chunk of a stream.
    """

    def __init__(self, *, wants_usage: bool) -> None:
        self._wants_usage = wants_usage
        #: Whether the client has got anything.
        self.begun = False
        self._first: float | None = None
        self._last: float | None = None
        self._usage: dict[str, Any] = {}
        self._drafts: dict[str, Any] | None = None
        self.status: Status = "cancel"
        self.http_status = 499
        self.error: str | None = None
        self._ended: float | None = None

    def watch(self, item: Any, now: float) -> Any:
        """Measure what a pool yielded; return what of it the client gets, or None.

        Raises:
            PoolFailedError, PoolFullError: the item says that the engine failed.
        """
        if isinstance(item, list):
            parts = [kept for part in item if (kept := self._part(part, now))]
            passed: Any = parts or None
        else:
            passed = self._part(item, now)
        self.begun = self.begun or passed is not None
        return passed

    def _part(self, part: Any, now: float) -> Any:
        if isinstance(part, str):
            return self.event(part, now)
        if isinstance(part, hooks.ErrorResponse):
            return self._error(part, now)
        self.whole(part, now)
        return part

    def event(self, text: str, now: float) -> Any:
        """Read one server-sent event; what of it the client gets, or None."""
        if _USAGE_MARK in text:
            self._read(json.loads(text[text.index("{") :]))
            return text if self._wants_usage else None
        if text.startswith(ERROR_MARK):
            error = self._error(read_error(text), now)
            # Before the first byte it is an answer with the error's own status.
            return text if self.begun else error
        if text.startswith("data: [DONE]"):
            self.end(now)
        else:
            self._first = self._first or now
            self._last = now
        return text

    def _error(self, error: hooks.ErrorResponse, now: float) -> hooks.ErrorResponse:
        raise_failure(error)
        self.fail(error.error.type, error.error.code, now)
        return error

    def whole(self, response: Any, now: float) -> None:
        """Read a response that is not streamed: its one item is its end."""
        self._read(response.model_dump(include={"usage", "metrics"}))
        self.end(now)

    def fail(self, error: str, http_status: int, now: float) -> None:
        """Note that the request failed; the first failure counts."""
        if self._ended is None:
            self.status, self.error, self.http_status = "error", error, http_status
            self._ended = now

    def end(self, now: float) -> None:
        """Note that the response came to its end; a failure before stays one."""
        if self._ended is None:
            self.status, self.http_status, self._ended = "end", 200, now

    def _read(self, chunk: dict[str, Any]) -> None:
        self._usage = chunk.get("usage") or {}
        metrics = chunk.get("metrics") or {}
        self._drafts = metrics.get("speculative_decoding")

    def outcome(self, ticket: Ticket, *, method: str, now: float) -> Outcome:
        """The record of this request; `now` on the clock of `ticket.started`."""
        features, decision = ticket.features, ticket.decision
        tokens: int | None = self._usage.get("completion_tokens")
        total = (self._ended or now) - ticket.started
        drafts = self._drafts or {}
        ttft = None if self._first is None else self._first - ticket.started
        tpot = None
        one = features.n == 1 and features.prompts == 1
        if one and tokens and tokens > 1 and self._first and self._last:
            tpot = (self._last - self._first) / (tokens - 1)
        return Outcome(
            request_id=ticket.request_id,
            time=ticket.time,
            endpoint=features.endpoint,
            stream=features.stream,
            request_class=ticket.request_class.name,
            confidence=ticket.request_class.confidence,
            pool=ticket.pool,
            failed_pool=ticket.failed_pool,
            method=method,
            rule=decision.rule,
            policy=decision.policy,
            policy_hash=decision.policy_hash,
            policy_version=decision.policy_version,
            status=self.status,
            error=self.error,
            http_status=self.http_status,
            temperature=features.temperature,
            prompt_tokens=self._usage.get("prompt_tokens"),
            completion_tokens=tokens,
            ttft_s=ttft,
            tpot_s=tpot,
            total_s=total,
            tokens_per_s=tokens / total if tokens else None,
            drafts=drafts.get("num_draft_tokens"),
            accepted=drafts.get("num_accepted_draft_tokens"),
            acceptance_histogram=(
                tuple(drafts["acceptance_histogram"]) if drafts else None
            ),
            effective_tokens=self._effective(method) if one else None,
            overhead_s=ticket.overhead_s,
            tenant=features.tenant,
            experiment=decision.experiment,
            arm=decision.arm,
        )

    def _effective(self, method: str) -> float | None:
        tokens = self._usage.get("completion_tokens")
        if tokens is None:
            return None
        if self._drafts is not None:
            return effective_tokens(
                tokens,
                accepted=self._drafts["num_accepted_draft_tokens"],
                draft_steps=self._drafts["num_spec_steps"],
            )
        if method == "none":
            return effective_tokens(tokens, accepted=0, draft_steps=0)
        return None


def ask_for_usage(body: Any) -> bool:
    """Make a stream end with its usage; tell whether the client asked for that.

    The usage chunk carries the tokens and the engine's speculation metrics, which
    every outcome needs; a client that did not ask for it never sees it.
    """
    if not body.stream:
        return True
    options = body.stream_options
    asked = bool(options and options.include_usage)
    if not asked:
        body.stream_options = hooks.StreamOptions(include_usage=True)
    return asked
