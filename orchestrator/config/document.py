"""Data that people wrote, which can tell where each part of it stands."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path as FilePath
from typing import Any, TypeVar

import pydantic
from pydantic import BaseModel

from orchestrator.config.base import Mistake
from orchestrator.config.messages import mistakes_of
from orchestrator.config.yaml import Mark, Path, read_yaml, show_path
from orchestrator.errors import ConfigError, Problem

M = TypeVar("M", bound=BaseModel)


def read_text(path: FilePath) -> str:
    """The text of a file; raises ConfigError when it is not there or not text."""
    try:
        return path.read_text("utf-8")
    except UnicodeDecodeError:
        problem = Problem("the file is no UTF-8 text")
    except OSError as error:
        problem = Problem(f"can't be read: {error.strerror or error}")
    raise ConfigError(str(path), [problem])


class Document:
    """Data that people wrote, with the places of its nodes where a file holds it."""

    def __init__(
        self,
        data: Any,
        source: str,
        marks: Mapping[Path, Mark] | None = None,
        root: Path = (),
    ) -> None:
        """`marks` are those of the whole file, of which `data` stands at `root`."""
        self.data = data
        self.source = source
        self._marks = marks or {}
        self._root = root

    @classmethod
    def of_text(cls, text: str, source: str) -> Document:
        """Read YAML; raises ConfigError with lines."""
        data, marks = read_yaml(text, source)
        return cls(data, source, marks)

    @classmethod
    def of_file(cls, path: FilePath) -> Document:
        """Read a YAML file; raises ConfigError when it is not there or not text."""
        return cls.of_text(read_text(path), str(path))

    def at(self, *path: str | int) -> Document:
        """The part at `path`; its mistakes still tell the file's lines."""
        data = self.data
        for part in path:
            data = data[part]
        return Document(data, self.source, self._marks, self._root + path)

    def problem(
        self, at: Path, message: str, hint: str = "", *, name: bool = False
    ) -> Problem:
        """A mistake at `at`; the nearest place above it where the field is absent."""
        path = self._root + at
        present = path
        while present and present not in self._marks:
            present = present[:-1]
        mark = self._marks.get(present)
        if mark is None:
            return Problem(message, show_path(path), hint=hint)
        line, column = mark.key if name or present != path else mark.value
        return Problem(message, show_path(path), line, column, hint)

    def error(self, *mistakes: Mistake) -> ConfigError:
        """These mistakes, placed, as the error to raise."""
        problems = [
            self.problem(m.at, m.message, m.hint, name=m.name) for m in mistakes
        ]
        problems.sort(key=lambda p: (p.line or 0, p.column or 0))
        return ConfigError(self.source, problems)

    def parse(
        self,
        model: type[M],
        context: Mapping[str, Any] | None = None,
        found: Sequence[Mistake] = (),
    ) -> M:
        """Validate against `model`; raises one ConfigError with every mistake.

        `context` is for the model's validators; `found` are mistakes that the caller
        knows already.
        """
        try:
            parsed = model.model_validate(self.data, context=context)
        except pydantic.ValidationError as error:
            mistakes = mistakes_of(error, model, self.data)
            raise self.error(*found, *mistakes) from None
        if found:
            raise self.error(*found)
        return parsed
