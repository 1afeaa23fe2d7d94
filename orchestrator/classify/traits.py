"""Evidence in a request as a whole: its fields, and the form of its last message."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

from orchestrator.classify.evidence import Hit
from orchestrator.classify.shapes import NUMBER, code_lines
from orchestrator.records import Features

_SMALL_TALK = re.compile(
    r"\b(?:hi|hello|hey|thanks|thank you|ok|okay|good (?:morning|evening)|how are you"
    r"|bye)\b"
    r"|你好|您好|谢谢|嗨|早上好|晚上好|在吗|再见|哈哈|你是谁"
)
#: Single letters that stand for people or things.
_LETTERS = re.compile(r"[B-HJ-Z](?<![A-Za-z'].)(?![A-Za-z'+#.])")
_ASKS = re.compile(
    r"(?:who|whom|whose|what|when|where|which|why|how|is|are|was|were|do|does|did|can|name)"
    r"(?![a-z])|谁|什么|哪|为什么|如何|多少|几|是否|怎"
)
_FIRST_PERSON = re.compile(r"\b(?:i|my|me|we|our|us)\b|我", re.IGNORECASE)
#: Sentences that state something, and clauses.
_STATEMENT = re.compile(r".*\w[.。;；]", re.DOTALL)
_CLAUSE = re.compile(r".*[.,;:!?。，；：\n]", re.DOTALL)
_CAMEL_CASE = re.compile(r"\b[a-z]{2,}[A-Z][a-z]")
#: What every camelCase holds; rare in prose, and found much faster.
_HUMP = re.compile(r"[A-Z](?<=[a-z]{2}.)[a-z]")
#: `quoted`, calls such as `foo.bar(` and `foo_bar(`.
_CODE_WORD = re.compile(r"`[\w.]+[(`]|\.\w+\(|_\w+\(")
_QUOTE = re.compile(r"[:：\n\"“]")
_QUESTION = ("?", "？")


def zone(text: str, language: str) -> str:
    """Where a text says what it wants: all of a short one, else both of its ends."""
    head, tail = (250, 150) if language == "zh" else (500, 300)
    if len(text) <= head + tail:
        return text
    first = text[:head].lstrip().partition("\n\n")[0]
    end = text[-tail:]
    return f"{first}\n{end.partition(chr(10))[2] or end}"


class View:
    """The features with what several traits need of them, computed once."""

    def __init__(self, features: Features) -> None:
        self.features = features
        message = features.last_message.strip()
        self.zone = zone(features.last_message, features.language)
        self.lower = self.zone.lower()
        self.first, _, self.rest = message.partition("\n")
        self.last = message.rpartition("\n")[2].strip()
        #: Length in characters of English: Chinese says more in each.
        self.scale = 2.5 if features.language == "zh" else 1.0
        self.size = features.message_chars * self.scale
        self.asks = message.endswith(_QUESTION)
        self.has_code = features.code_lines > 0

    @property
    def offers_tools(self) -> bool:
        """Whether the model may call a tool."""
        return bool(self.features.tools) and self.features.tool_choice != "none"


@dataclass(frozen=True, slots=True)
class Trait:
    """One row: what holds for a request speaks for a class, or against it."""

    cls: str
    weight: float
    signal: str
    holds: Callable[[View], bool]


def _passage_and_question(v: View) -> bool:
    return (
        v.size > 600
        and v.features.code_lines < 3
        and any(
            len(line) < 200 and (line.endswith(_QUESTION) or _ASKS.match(line.lower()))
            for line in (v.first, v.last)
        )
    )


def _request_and_text(v: View) -> bool:
    """A line that asks for something, then a text that is no question."""
    return (
        len(v.first) < 200
        and v.first.endswith((":", "?", ".", "：", "？", "。"))
        and len(v.rest) > len(v.first)
        and len(v.rest) * v.scale > 120
        and not v.asks
        and not v.has_code
    )


def _facts_and_question(v: View) -> bool:
    return (
        v.size < 400
        and v.asks
        and bool(_STATEMENT.match(v.zone))
        and not _FIRST_PERSON.search(v.zone)
    )


def _numbers_and_question(v: View) -> bool:
    """The last clause asks, and a number stands before it."""
    clauses = _CLAUSE.match(v.lower.rstrip(" \n?？")) if v.asks else None
    return v.size < 900 and clauses is not None and bool(NUMBER.search(clauses[0]))


def _nothing_to_work_on(v: View) -> bool:
    return (
        v.size < 110
        and v.features.turns <= 1
        and not v.features.system_prompt
        and not _QUOTE.search(v.zone)
    )


def _identifiers(v: View) -> bool:
    if ("`" in v.zone or "(" in v.zone) and _CODE_WORD.search(v.zone):
        return True
    return bool(_HUMP.search(v.zone) and _CAMEL_CASE.search(v.zone))


def _small_talk(v: View) -> bool:
    return v.size < 80 and bool(_SMALL_TALK.search(v.lower))


#: What the API's fields say: far stronger than words.
FIELDS = (
    Trait(
        "structured",
        9.0,
        "response_format: JSON",
        lambda v: (v.features.response_format or "").startswith("json"),
    ),
    Trait(
        "structured",
        9.0,
        "structured_outputs: set",
        lambda v: v.features.structured_outputs,
    ),
    Trait(
        "structured",
        9.0,
        "tool_choice: forced",
        lambda v: v.offers_tools and v.features.tool_choice not in (None, "auto"),
    ),
    Trait("structured", 7.0, "tools: offered", lambda v: v.offers_tools),
    Trait(
        "structured",
        -5.0,
        "tools: small talk",
        lambda v: v.offers_tools and _small_talk(v),
    ),
    Trait(
        "structured",
        -3.0,
        "tools: result known",
        lambda v: v.offers_tools and v.features.tool_result,
    ),
    Trait(
        "grounded",
        3.0,
        "turns: after a tool's result",
        lambda v: v.features.tool_result,
    ),
)

FORM = (
    Trait("code", 3.0, "form: code block", lambda v: "```" in v.features.last_message),
    Trait("code", 2.5, "form: lines of code", lambda v: v.has_code),
    Trait("code", 2.5, "form: mostly code", lambda v: v.features.code_lines > 2),
    Trait(
        "code",
        2.0,
        "form: begins with code",
        lambda v: v.has_code and code_lines(v.first) > 0,
    ),
    Trait("code", 2.0, "form: identifiers", _identifiers),
    Trait(
        "code", 1.0, "turns: code before", lambda v: "```" in v.features.previous_answer
    ),
    Trait("grounded", 3.0, "form: a passage and a question", _passage_and_question),
    Trait("grounded", 1.5, "form: a request and a text", _request_and_text),
    Trait(
        "grounded",
        1.5,
        "length: much material",
        lambda v: v.size > 1500 and v.features.code_lines < 3,
    ),
    Trait(
        "grounded",
        2.0,
        "overlap: repeats earlier text",
        lambda v: v.features.overlap > 0.3,
    ),
    Trait("grounded", -1.5, "length: nothing to work on", _nothing_to_work_on),
    Trait("reasoning", 1.0, "form: facts and a question", _facts_and_question),
    Trait("reasoning", 2.5, "form: numbers, then a question", _numbers_and_question),
    Trait(
        "reasoning",
        1.5,
        "form: letters for things",
        lambda v: v.size < 400 and len(set(_LETTERS.findall(v.zone))) > 1,
    ),
    Trait("open", 2.0, "form: small talk", _small_talk),
    Trait("open", 0.5, "form: a short question", lambda v: v.asks and v.size < 120),
)


def trait_hits(view: View, traits: tuple[Trait, ...], factor: float = 1.0) -> list[Hit]:
    """Evidence of those `traits` that hold; `factor` scales the weights."""
    return [Hit(t.cls, t.weight * factor, t.signal) for t in traits if t.holds(view)]
