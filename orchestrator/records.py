"""The frozen value types that flow from request to outcome; no behaviour, no I/O."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

Endpoint = Literal["chat", "completions"]

#: The classes that the classifier knows; a policy may add its own.
CLASSES: tuple[str, ...] = (
    "structured",
    "code",
    "translation",
    "grounded",
    "reasoning",
    "creative",
    "open",
)

NO_HEADERS: Mapping[str, str] = {}

#: The pools that a caller may choose with `x-spec-pool`.
PoolRights = Literal["all"] | tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Caller:
    """Who sends a request, as the API key says; the key itself is kept nowhere."""

    #: The tenant in outcomes, policies and experiments.
    name: str
    pools: PoolRights = ()
    #: May change things under `/router/`.
    admin: bool = False


@dataclass(frozen=True, slots=True)
class Features:
    """What a request says about itself, read from its body and headers.

    A field is None where the request leaves it out. Texts are truncated to what the
    classifier looks at; lengths are those of the whole request.
    """

    endpoint: Endpoint
    model: str | None
    stream: bool
    temperature: float | None
    top_p: float | None
    max_tokens: int | None
    n: int
    #: Prompts in the request: more than one only for a batch of completions.
    prompts: int
    prompt_chars: int
    #: Estimate from the characters and their script; no tokenizer runs here.
    prompt_tokens: int
    #: Messages by the user.
    turns: int
    #: Names of the tools offered.
    tools: tuple[str, ...]
    tool_choice: str | None
    #: "json_object", "json_schema", "text", ... as the request says.
    response_format: str | None
    #: vLLM's `structured_outputs` / `guided_*` fields are set.
    structured_outputs: bool
    min_p: float | None
    logit_bias: bool
    #: "en", "zh", "code", or "other": script and words of the last message.
    language: str
    #: Content parts that are no text (images, audio).
    media: int
    system_prompt: str
    last_message: str
    #: Share of the last message's word 4-grams that come from earlier or quoted text,
    #: 0..1; see classify.features.
    overlap: float
    tenant: str | None = None
    session: str | None = None
    headers: Mapping[str, str] = field(default_factory=lambda: NO_HEADERS)
    #: Characters of the whole last message, which `last_message` may cut.
    message_chars: int = 0
    #: Lines of `last_message` that look like source code.
    code_lines: int = 0
    #: The user's message before the last one, and the answer to it.
    previous_message: str = ""
    previous_answer: str = ""
    #: A tool's result came after the user's last message.
    tool_result: bool = False


@dataclass(frozen=True, slots=True)
class RequestClass:
    """A request's class, how sure the classifier is (0..1), and its evidence."""

    name: str
    confidence: float
    #: In order of weight, such as `tools: offered`, `words: translate into`.
    signals: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class PoolTraits:
    """What the router must know of a pool to tell whether a request may go there."""

    name: str
    #: vLLM's name of the speculative method, or "none".
    method: str
    #: False where sampling at temperature > 0 is wrong on this engine (see
    #: docs/compatibility.md); such a pool takes greedy requests only.
    sampling: bool = True

    @property
    def speculative(self) -> bool:
        """Whether the pool's engine runs a speculative method."""
        return self.method != "none"


@dataclass(frozen=True, slots=True)
class RuleTrace:
    """One rule of the policy as `explain` shows it."""

    rule: str
    matched: bool
    #: Why not, or which condition made it match.
    why: str


@dataclass(frozen=True, slots=True)
class Decision:
    """Where a request goes, and why."""

    pool: str
    #: The rule's name; "otherwise" where none matched, "forced" for `x-spec-pool`.
    rule: str
    reason: str
    policy: str
    policy_hash: str
    policy_version: str | None = None
    #: Pools to try after `pool`, best first; all of them feasible for the request and,
    #: where any is, healthy.
    alternatives: tuple[str, ...] = ()
    #: Speculation parameters for a per-request pool, in vLLM's names.
    speculation: Mapping[str, Any] | None = None
    experiment: str | None = None
    arm: str | None = None
    #: Probability of each candidate pool under the policy; a fixed choice has {p: 1}.
    propensities: Mapping[str, float] | None = None


Status = Literal["end", "error", "cancel"]


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of one request; exactly one is recorded for each.

    Times are in seconds, rates in tokens per second. None means unknown.
    """

    request_id: str
    #: Unix time at arrival.
    time: float
    endpoint: Endpoint
    stream: bool
    request_class: str
    confidence: float
    pool: str
    method: str
    rule: str
    policy: str
    policy_hash: str
    status: Status
    #: Class of the error, or None.
    error: str | None
    #: HTTP status sent; 499 for a client that went away.
    http_status: int
    temperature: float | None
    prompt_tokens: int | None
    completion_tokens: int | None
    #: Time to first token; for a whole (not streamed) answer unknown.
    ttft_s: float | None
    #: Time per output token after the first; unknown for whole answers, and where
    #: several answers come at once.
    tpot_s: float | None
    total_s: float
    #: Completion tokens over the whole time.
    tokens_per_s: float | None
    #: Draft tokens proposed, and those accepted.
    drafts: int | None
    accepted: int | None
    #: How many verification steps accepted 0, 1, 2, ... draft tokens.
    acceptance_histogram: tuple[int, ...] | None
    #: Tokens that one step of the engine yields on average, prefill apart; see
    #: routing.speed for the definition.
    effective_tokens: float | None
    #: Time that routing took.
    overhead_s: float
    #: The version that the policy's author gave it.
    policy_version: str | None = None
    #: The pool that failed before the first byte; `pool` is where it was sent then.
    failed_pool: str | None = None
    tenant: str | None = None
    experiment: str | None = None
    arm: str | None = None
