"""What all configuration models share: strictness, scalars, and how they report."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from typing import Annotated, NamedTuple

from pydantic import BaseModel, ConfigDict, Field, Strict

from orchestrator.config.yaml import Path

Flag = Annotated[bool, Strict()]
Whole = Annotated[int, Strict()]
Count = Annotated[int, Strict(), Field(ge=1)]
Number = Annotated[float, Strict(), Field(allow_inf_nan=False)]
Positive = Annotated[float, Strict(), Field(gt=0, allow_inf_nan=False)]
Text = Annotated[str, Field(min_length=1)]


class StrictModel(BaseModel):
    """A frozen model that refuses fields it does not know."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    @classmethod
    def field_names(cls) -> list[str]:
        """The names as they stand in a file, in the order of the model."""
        return [f.alias or name for name, f in cls.model_fields.items()]

    @classmethod
    def unknown_field(cls, name: str) -> tuple[str, str]:
        """Message and hint for a field that this model does not have."""
        return f"unknown field `{name}`", suggest(name, cls.field_names())


class Mistake(NamedTuple):
    """One mistake that a validator found, placed relative to what it validates."""

    message: str
    at: Path = ()
    hint: str = ""
    #: The mistake is the field's name, not its value.
    name: bool = False


class Mistakes(ValueError):
    """Raised by validators: pydantic hands it on, `Document.parse` places each."""

    def __init__(self, *mistakes: Mistake) -> None:
        """Takes all that the validator found."""
        super().__init__("; ".join(m.message for m in mistakes))
        self.mistakes = mistakes


#: More names than this are not listed where one of them is likely meant.
_MANY = 20


def suggest(name: str, allowed: Iterable[str]) -> str:
    """The likely spelling among `allowed`, and all of them unless they are many."""
    allowed = list(allowed)
    lower = {a.lower().replace("-", "_"): a for a in allowed}
    wanted = str(name).lower().replace("-", "_")
    close = difflib.get_close_matches(wanted, lower, n=1, cutoff=0.6)
    hint = f"did you mean `{lower[close[0]]}`?" if close else ""
    if close and len(allowed) > _MANY:
        return hint
    return f"{hint} allowed: {', '.join(allowed)}".strip()
