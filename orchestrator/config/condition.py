"""The conditions of a policy: what a request must be for a rule to match.

A test of a field is a mapping of comparisons, all of which must hold. A bare value
stands for `eq`, a bare list for `in`.
"""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Literal

from pydantic import (
    AfterValidator,
    Field,
    GetJsonSchemaHandler,
    ValidationInfo,
    field_validator,
    model_validator,
)
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema

from orchestrator.config.base import (
    Flag,
    Mistake,
    Mistakes,
    Number,
    StrictModel,
    suggest,
)
from orchestrator.config.foreign import FOREIGN_COMPARISONS
from orchestrator.config.patterns import check_pattern
from orchestrator.records import CLASSES

COMPARISONS = ("eq", "in", "lt", "lte", "gt", "gte", "between", "matches", "present")

Pattern = Annotated[str, Field(min_length=1), AfterValidator(check_pattern)]


class FieldTest(StrictModel):
    """Comparisons of one field; at least one, and all must hold."""

    #: What the field holds, for messages, and JSON Schema's type of one value.
    holds: ClassVar[str]
    json_type: ClassVar[str]

    @model_validator(mode="before")
    @classmethod
    def _bare(cls, value: Any) -> Any:
        """A bare value is `eq`, a bare list `in`."""
        if isinstance(value, dict):
            if not value:
                hint = suggest("", cls.field_names())
                raise Mistakes(Mistake("needs a comparison", hint=hint))
            return _no_empty_value(value)
        if value is None:
            hint = "to ask for an absent field write {present: false}"
            raise Mistakes(Mistake("is empty", hint=hint))
        return {"in": value} if isinstance(value, list) else {"eq": value}

    @classmethod
    def unknown_field(cls, name: str) -> tuple[str, str]:
        """Tell a comparison that does not fit from one that is misspelt."""
        names = cls.field_names()
        if name in COMPARISONS:
            text = f"`{name}` does not compare {cls.holds}"
            return text, f"allowed: {', '.join(names)}"
        if name in ("ne", "neq", "!=", "not", "not_in"):
            return f"unknown comparison `{name}`", "put `not` around the condition"
        if FOREIGN_COMPARISONS.get(name) in names:
            return (
                f"unknown comparison `{name}`",
                f"write `{FOREIGN_COMPARISONS[name]}`",
            )
        return f"unknown comparison `{name}`", suggest(name, names)

    @classmethod
    def __get_pydantic_json_schema__(
        cls, core_schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> JsonSchemaValue:
        """Editors must accept the bare forms too."""
        mapping = handler.resolve_ref_schema(handler(core_schema))
        bare: dict[str, Any] = {"type": cls.json_type}
        forms = [bare, {**mapping, "minProperties": 1}]
        if "in" in cls.field_names():
            forms.append({"type": "array", "items": bare, "minItems": 1})
        return {"description": mapping.get("description", ""), "anyOf": forms}


class NumberTest(FieldTest):
    """Comparisons of a number."""

    holds = "numbers"
    json_type = "number"

    eq: Number | None = None
    in_: Annotated[tuple[Number, ...], Field(min_length=1)] | None = Field(
        None, alias="in"
    )
    lt: Number | None = None
    lte: Number | None = None
    gt: Number | None = None
    gte: Number | None = None
    #: Both ends count.
    between: tuple[Number, Number] | None = None
    #: Whether the request sets the field at all.
    present: Flag | None = None

    @field_validator("between")
    @classmethod
    def _ordered(cls, ends: tuple[float, float] | None) -> tuple[float, float] | None:
        if ends is not None and ends[0] > ends[1]:
            text = f"starts at {ends[0]:g}, after its end {ends[1]:g}"
            raise Mistakes(Mistake(text, hint="write [smaller, larger]"))
        return ends


class TextTest(FieldTest):
    """Comparisons of a text."""

    holds = "text"
    json_type = "string"

    eq: str | None = None
    in_: Annotated[tuple[str, ...], Field(min_length=1)] | None = Field(
        None, alias="in"
    )
    #: A regular expression, searched in the first 4,000 characters.
    matches: Pattern | None = None
    present: Flag | None = None


class ToolsTest(TextTest):
    """Comparisons of the offered tools' names: one must pass; `true` for any tool."""

    holds = "tools"

    @model_validator(mode="before")
    @classmethod
    def _offered(cls, value: Any) -> Any:
        return {"present": value} if isinstance(value, bool) else value

    @classmethod
    def __get_pydantic_json_schema__(
        cls, core_schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> JsonSchemaValue:
        """Bare true and false are accepted too."""
        schema = super().__get_pydantic_json_schema__(core_schema, handler)
        schema["anyOf"].append({"type": "boolean"})
        return schema


class FlagTest(FieldTest):
    """Comparison of a yes or no."""

    holds = "true and false"
    json_type = "boolean"

    eq: Flag | None = None


class ClassTest(FieldTest):
    """Comparisons of the request's class."""

    holds = "classes"
    json_type = "string"

    eq: str | None = None
    in_: Annotated[tuple[str, ...], Field(min_length=1)] | None = Field(
        None, alias="in"
    )

    @field_validator("eq")
    @classmethod
    def _known(cls, name: str | None, info: ValidationInfo) -> str | None:
        if name is not None:
            _check_classes([name], info)
        return name

    @field_validator("in_")
    @classmethod
    def _all_known(
        cls, names: tuple[str, ...] | None, info: ValidationInfo
    ) -> tuple[str, ...] | None:
        if names is not None:
            _check_classes(names, info)
        return names


class LanguageTest(FieldTest):
    """Comparisons of the language of the last message."""

    holds = "languages"
    json_type = "string"

    eq: Literal["en", "zh", "code", "other"] | None = None
    in_: (
        Annotated[tuple[Literal["en", "zh", "code", "other"], ...], Field(min_length=1)]
        | None
    ) = Field(None, alias="in")


class Condition(StrictModel):
    """What must be true of a request; several keys must all be true.

    A field that the request leaves out passes no comparison but `present: false`: a
    request without `temperature` is neither hot nor cold.
    """

    class_: ClassTest | None = Field(None, alias="class")
    temperature: NumberTest | None = None
    top_p: NumberTest | None = None
    max_tokens: NumberTest | None = None
    #: Estimated; no tokenizer runs in the router.
    prompt_tokens: NumberTest | None = None
    #: Messages by the user.
    turns: NumberTest | None = None
    stream: FlagTest | None = None
    tools: ToolsTest | None = None
    response_format: TextTest | None = None
    language: LanguageTest | None = None
    system_prompt: TextTest | None = None
    last_message: TextTest | None = None
    #: By the header's name, which has no case.
    header: Annotated[dict[str, TextTest], Field(min_length=1)] | None = None
    model: TextTest | None = None
    tenant: TextTest | None = None
    all: Annotated[tuple[Condition, ...], Field(min_length=1)] | None = None
    any: Annotated[tuple[Condition, ...], Field(min_length=1)] | None = None
    not_: Condition | None = Field(None, alias="not")

    @model_validator(mode="before")
    @classmethod
    def _says_something(cls, value: Any) -> Any:
        if isinstance(value, dict):
            if not value:
                text, hint = "is empty", "a rule that always matches has no `when`"
                raise Mistakes(Mistake(text, hint=hint))
            return _no_empty_value(value)
        return value

    @field_validator("header", mode="before")
    @classmethod
    def _by_name(cls, value: Any) -> Any:
        """`{name: x-team, eq: a}` is `{x-team: {eq: a}}`; names are lower-cased."""
        if not isinstance(value, dict):
            return value
        name = value.get("name")
        rest = {k: v for k, v in value.items() if k != "name"}
        if isinstance(name, str) and all(
            key in COMPARISONS or key in FOREIGN_COMPARISONS for key in rest
        ):
            return {name.lower(): rest or {"present": True}}
        return {str(key).lower(): test for key, test in value.items()}


def _no_empty_value(mapping: dict[str, Any]) -> dict[str, Any]:
    """Without this `gte:` with its number forgotten would mean no comparison."""
    empty = [Mistake("is empty", (k,)) for k, v in mapping.items() if v is None]
    if empty:
        raise Mistakes(*empty)
    return mapping


def _check_classes(names: Any, info: ValidationInfo) -> None:
    """The policy's own classes come with the validation's context."""
    known = [*CLASSES, *(info.context or {}).get("classes", ())]
    unknown = [name for name in names if name not in known]
    if unknown:
        raise Mistakes(
            *(Mistake(f"unknown class `{n}`", (), suggest(n, known)) for n in unknown)
        )
