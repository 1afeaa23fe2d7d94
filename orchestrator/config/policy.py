"""The policy: which pool takes which request. People write it, so it tells mistakes."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from typing import Annotated, Any, Literal, cast

from pydantic import (
    Field,
    GetJsonSchemaHandler,
    StringConstraints,
    field_validator,
    model_validator,
)
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema

from orchestrator.config.base import Flag, Mistake, Mistakes, StrictModel
from orchestrator.config.condition import Condition
from orchestrator.config.document import Document
from orchestrator.config.fleet import PoolName
from orchestrator.config.shipped import find_policy
from orchestrator.records import PoolTraits

#: Names appear in response headers and as metric labels.
Name = Annotated[
    str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$", max_length=64)
]
#: Rule names that the router gives itself.
RESERVED_RULES = ("otherwise", "forced")


class Use(StrictModel):
    """The pool that a rule picks; a bare name stands for `{pool: name}`."""

    pool: PoolName

    @model_validator(mode="before")
    @classmethod
    def _bare(cls, value: Any) -> Any:
        return {"pool": value} if isinstance(value, str) else value

    @classmethod
    def __get_pydantic_json_schema__(
        cls, core_schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> JsonSchemaValue:
        """Editors must accept the bare name too."""
        mapping = handler.resolve_ref_schema(handler(core_schema))
        return {"anyOf": [mapping["properties"]["pool"], mapping]}

    @classmethod
    def unknown_field(cls, name: str) -> tuple[str, str]:
        """Some of the policy language comes with later versions."""
        return _later(name, ("speculation",)) or super().unknown_field(name)


class Rule(StrictModel):
    """The first rule whose condition holds decides."""

    name: Name
    #: Absent: the rule always matches.
    when: Condition | None = None
    use: Use

    @field_validator("when", mode="before")
    @classmethod
    def _when_says_something(cls, value: Any) -> Any:
        if value is None:
            hint = "a rule that always matches has no `when`"
            raise Mistakes(Mistake("is empty", hint=hint))
        return value

    @classmethod
    def unknown_field(cls, name: str) -> tuple[str, str]:
        """Some of the policy language comes with later versions."""
        return _later(name, ("choose", "split")) or super().unknown_field(name)


class CustomClass(StrictModel):
    """A class of the policy's own; the first that holds replaces the classifier's."""

    name: Name
    when: Condition


class Expectation(StrictModel):
    """What an example must come to; at least one field."""

    class_: str | None = Field(None, alias="class")
    rule: str | None = None
    pool: str | None = None

    @model_validator(mode="after")
    def _something(self) -> Expectation:
        if self.class_ is None and self.rule is None and self.pool is None:
            raise Mistakes(
                Mistake("expects nothing", hint="allowed: class, rule, pool")
            )
        return self


class Example(StrictModel):
    """A request and what the policy must make of it."""

    #: A request's body, as a client sends it.
    request: dict[str, Any]
    headers: dict[str, str] = Field(default_factory=dict)
    #: By default: a body with `prompt` goes to completions.
    endpoint: Literal["chat", "completions"] | None = None
    expect: Expectation


class Policy(StrictModel):
    """How requests find their pool."""

    name: Name
    #: The author's own, such as "7" or a commit: shown and recorded, not interpreted.
    version: Name | None = None
    #: Whether a client may choose the pool with the header `x-spec-pool`.
    allow_forced_pool: Flag = False
    classes: tuple[CustomClass, ...] = ()
    rules: tuple[Rule, ...] = ()
    #: Where a request goes that no rule matches.
    otherwise: Use
    #: Pools to try, in order, where the decided one can't take the request.
    fallback: tuple[PoolName, ...] = ()
    #: The policy's own tests; `orchestrator policy check` runs them.
    examples: tuple[Example, ...] = ()

    @classmethod
    def unknown_field(cls, name: str) -> tuple[str, str]:
        """Some of the policy language comes with later versions."""
        names = ("spill", "affinity", "experiments", "choose")
        return _later(name, names) or super().unknown_field(name)

    def pools(self) -> tuple[str, ...]:
        """Every pool that the policy names, each once, in the order of the file."""
        named = [rule.use.pool for rule in self.rules]
        named += [self.otherwise.pool, *self.fallback]
        return tuple(dict.fromkeys(named))


def _later(name: str, names: tuple[str, ...]) -> tuple[str, str] | None:
    if name in names:
        return f"this version does not have `{name}` yet", "remove it"
    return None


def parse_policy(
    content: str | Mapping[str, Any] | Document, source: str = "policy"
) -> Policy:
    """A policy from YAML text or a mapping; raises ConfigError with every mistake.

    `source` is how messages call it; a Document has its own.
    """
    if isinstance(content, str):
        document = Document.of_text(content, source)
    elif isinstance(content, Document):
        document = content
    else:
        document = Document(dict(content), source)
    context = {"classes": tuple(_names(document.data, "classes"))}
    return document.parse(Policy, context, list(_name_mistakes(document.data)))


def policy_hash(policy: Policy) -> str:
    """12 hex digits of what the policy decides; examples and version don't count.

    Two policies with one hash decide alike, however their authors number them.
    """
    content = policy.model_dump(
        mode="json", by_alias=True, exclude_none=True, exclude={"examples", "version"}
    )
    canonical = json.dumps(content, sort_keys=True, ensure_ascii=False)
    return hashlib.sha256(canonical.encode("utf-8", "surrogatepass")).hexdigest()[:12]


def load_policy(ref: str | Mapping[str, Any] | Document) -> Policy:
    """The policy that `ref` is or names.

    A text is a shipped policy's name, or a path. Raises ConfigError with every mistake,
    and FileNotFoundError where the text names nothing.
    """
    if isinstance(ref, str):
        path = find_policy(ref)
        return parse_policy(Document.of_file(path), str(path))
    return parse_policy(ref)


def policy_schema() -> dict[str, Any]:
    """JSON Schema of a policy file, for editors and other tools."""
    schema = Policy.model_json_schema(by_alias=True)
    schema = {"$schema": "https://json-schema.org/draft/2020-12/schema", **schema}
    return cast("dict[str, Any]", _without_null(schema))


def _without_null(schema: Any) -> Any:
    """The schema without `or null`: a file leaves a field out, it never empties it."""
    if isinstance(schema, list):
        return [_without_null(part) for part in schema]
    if not isinstance(schema, dict):
        return schema
    kept = {
        key: _without_null(value)
        for key, value in schema.items()
        if key != "title" and not (key == "default" and value is None)
    }
    choices = kept.get("anyOf")
    if isinstance(choices, list) and {"type": "null"} in choices:
        choices.remove({"type": "null"})
        if len(choices) == 1:
            del kept["anyOf"]
            kept |= choices[0]
    return kept


def all_plain(traits: Mapping[str, PoolTraits]) -> Policy:
    """The policy of a fleet that was given none: all to the pool without speculation.

    Raises ValueError for a fleet without such a pool, which `Fleet` does not allow.
    """
    plain = [name for name, pool in traits.items() if not pool.speculative]
    if not plain:
        raise ValueError("the fleet has no pool without speculation")
    rest = [name for name in traits if name not in plain]
    return Policy(
        name="all-plain", otherwise=Use(pool=plain[0]), fallback=(*plain, *rest)
    )


def _names(data: Any, section: str) -> Iterator[str]:
    """The names in a list of the raw data, whatever else is wrong there."""
    for _, name in _placed_names(data, section):
        yield name


def _placed_names(data: Any, section: str) -> Iterator[tuple[int, str]]:
    items = data.get(section) if isinstance(data, dict) else None
    for i, item in enumerate(items if isinstance(items, list) else ()):
        if isinstance(item, dict) and isinstance(item.get("name"), str):
            yield i, item["name"]


def _name_mistakes(data: Any) -> Iterator[Mistake]:
    """Mistakes between entries, found on the raw data to be told with all others."""
    for section, reserved in (("rules", RESERVED_RULES), ("classes", ())):
        first: dict[str, int] = {}
        for i, name in _placed_names(data, section):
            at = (section, i, "name")
            if name in reserved:
                yield Mistake(f"`{name}` is a name of the router's own", at)
            elif name in first:
                text = f"the name `{name}` stands twice"
                yield Mistake(text, at, f"first in {section}[{first[name]}]")
            else:
                first[name] = i
