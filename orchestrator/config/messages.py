"""What pydantic found, in words for people, placed where they wrote it."""

from __future__ import annotations

import types
import typing
from collections.abc import Iterator, Mapping
from typing import Any

import pydantic
from pydantic import BaseModel
from pydantic_core import ErrorDetails

from orchestrator.config.base import Mistake, Mistakes, StrictModel, suggest
from orchestrator.config.yaml import Path

_KINDS = {
    "bool": "true or false",
    "dict": "a mapping",
    "float": "a number",
    "int": "a whole number",
    "list": "a list",
    "mapping": "a mapping",
    "model": "a mapping",
    "string": "text",
    "tuple": "a list",
}
_BOUNDS = {
    "greater_than": ("more than", "gt"),
    "greater_than_equal": ("at least", "ge"),
    "less_than": ("less than", "lt"),
    "less_than_equal": ("at most", "le"),
}


def mistakes_of(
    error: pydantic.ValidationError, model: type[BaseModel], data: Any
) -> list[Mistake]:
    """Every mistake of `error`, as found when validating `data` against `model`."""
    found: list[Mistake] = []
    for detail in error.errors(include_url=False):
        path, owner = _locate(detail["loc"], model, data)
        found.extend(_mistakes(detail, path, owner))
    # One value can break two rules of one kind, a bare value stand for two fields.
    return list(dict.fromkeys(found))


def _mistakes(
    detail: ErrorDetails, path: Path, owner: type[BaseModel] | None
) -> Iterator[Mistake]:
    kind, context = detail["type"], detail.get("ctx", {})
    value = detail["input"]
    cause = context.get("error")
    if isinstance(cause, Mistakes):
        for mistake in cause.mistakes:
            yield mistake._replace(at=path + mistake.at)
    elif kind == "extra_forbidden":
        name = str(path[-1])
        if owner is not None and issubclass(owner, StrictModel):
            message, hint = owner.unknown_field(name)
        else:
            message, hint = f"unknown field `{name}`", ""
        yield Mistake(message, path, hint, name=True)
    elif kind == "missing":
        yield Mistake("is required", path)
    elif kind == "union_tag_not_found":
        field = context["discriminator"].strip("'")
        yield Mistake("is required", (*path, field))
    elif kind == "union_tag_invalid":
        field = context["discriminator"].strip("'")
        allowed = [tag.strip("'") for tag in context["expected_tags"].split(", ")]
        tag = context["tag"]
        yield Mistake(f"unknown value `{tag}`", (*path, field), suggest(tag, allowed))
    elif kind == "literal_error":
        allowed = [a.strip("'") for a in _split_literals(context["expected"])]
        message = f"unknown value {show(value)}"
        yield Mistake(message, path, suggest(str(value), allowed))
    elif kind in _BOUNDS:
        words, key = _BOUNDS[kind]
        yield Mistake(f"must be {words} {context[key]:g}, not {show(value)}", path)
    elif kind == "string_pattern_mismatch":
        is_key = detail["loc"][-1] == "[key]"
        upper = "A-Z" in context["pattern"]
        hint = "letters, digits, `.`, `_`, `-`" if upper else "a-z, 0-9, `-`"
        hint += ", beginning with a letter or digit"
        yield Mistake(f"{show(value)} is no valid name", path, hint, name=is_key)
    elif kind == "too_short" and value:
        return  # pydantic counts only the items without a mistake
    elif kind in ("string_too_short", "too_short"):
        yield Mistake("must not be empty", path)
    elif kind == "too_long":
        yield Mistake(f"has more than {context['max_length']} items", path)
    elif kind == "string_too_long":
        yield Mistake(f"has more than {context['max_length']} characters", path)
    elif kind == "finite_number":
        yield Mistake(f"must be a finite number, not {show(value)}", path)
    else:
        expected = _KINDS.get(kind.split("_", 1)[0])
        hint = ""
        if expected == "text" and isinstance(value, bool | int | float):
            hint = "put it in quotes"
        if expected is None:
            yield Mistake(f"{show(value)} is not valid: {detail['msg'].lower()}", path)
        else:
            yield Mistake(f"must be {expected}, not {show(value)}", path, hint)


def _split_literals(expected: str) -> list[str]:
    return expected.replace(" or ", ", ").split(", ")


def show(value: Any) -> str:
    """A value as it looks in YAML (text in quotes), cut to a readable length."""
    if value is None:
        return "empty"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, Mapping):
        return "a mapping"
    if isinstance(value, list | tuple):
        return "a list"
    if not isinstance(value, str):
        return str(value)[:60]
    return f'"{value if len(value) <= 60 else value[:57] + "..."}"'


def _locate(
    loc: tuple[str | int, ...], model: type[BaseModel], data: Any
) -> tuple[Path, type[BaseModel] | None]:
    """The path in the file, and the model that owns the last field.

    Pydantic's `loc` also names the branches of unions and marks keys; those are not
    in the file. `data` and the models are walked together to tell them apart.
    """
    path: list[str | int] = []
    kind: Any = model
    owner: type[BaseModel] | None = model
    for part in loc:
        if part == "[key]":
            continue
        kind = _plain(kind)
        members = _members(kind)
        if members:
            kind = next((m for m in members if _tag(m) == part), None)
            owner = kind
            continue
        if isinstance(data, list) and isinstance(part, str):
            kind = _field(kind, part)  # a bare list that stands for a mapping
            continue
        if data is not None and not isinstance(data, dict | list):
            break  # a bare value that stands for a mapping: it is the place
        path.append(part)
        data = _child(data, part)
        owner = kind if _is_model(kind) else None
        kind = _field(kind, part)
    return tuple(path), owner


def _child(data: Any, part: str | int) -> Any:
    if isinstance(data, dict):
        return data.get(part)
    if isinstance(data, list) and isinstance(part, int) and part < len(data):
        return data[part]
    return None


def _field(kind: Any, part: str | int) -> Any:
    """The type of the part of a `kind`: a model's field, an item, a mapping's value."""
    if _is_model(kind):
        for name, field in kind.model_fields.items():
            if part in (name, field.alias):
                # Metadata such as a discriminator does not change what is inside.
                return field.annotation
        return None
    arguments = typing.get_args(kind)
    return arguments[-1 if arguments[-1:] != (Ellipsis,) else 0] if arguments else None


def _plain(kind: Any) -> Any:
    """`kind` without Annotated, TypeAlias and `| None`."""
    while True:
        origin = typing.get_origin(kind)
        if origin is typing.Annotated:
            kind = typing.get_args(kind)[0]
        elif origin in (typing.Union, types.UnionType):
            rest = [a for a in typing.get_args(kind) if a is not type(None)]
            if len(rest) != 1:
                return kind
            kind = rest[0]
        else:
            return kind


def _members(kind: Any) -> tuple[type[BaseModel], ...]:
    if typing.get_origin(kind) not in (typing.Union, types.UnionType):
        return ()
    return tuple(m for m in typing.get_args(kind) if _is_model(m))


def _tag(model: type[BaseModel]) -> str | None:
    """The value of a union member's `method`."""
    field = model.model_fields.get("method")
    return typing.get_args(field.annotation)[0] if field else None


def _is_model(kind: Any) -> bool:
    return isinstance(kind, type) and issubclass(kind, BaseModel)
