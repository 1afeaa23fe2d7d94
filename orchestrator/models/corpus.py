"""The target's own answers, from which a draft learns: a file that only grows."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Answer:
    """One prompt and what the target said, as token ids.

    `prompt` is the whole rendered chat up to the assistant's turn; `answer` ends with
    the end-of-turn token unless the target was cut off.
    """

    kind: str
    temperature: float
    prompt: list[int]
    answer: list[int]


def held_out(number: int) -> bool:
    """Whether the answer of this number, counted from 0, is never learned from.

    Those measure what was learned, so nothing made of them may be learned either.
    """
    return number % 30 == 7


def fingerprint(answers: Sequence[Answer]) -> str:
    """SHA-256 of answers: what was made of them belongs to no others."""
    digest = hashlib.sha256()
    for answer in answers:
        digest.update(json.dumps(asdict(answer)).encode())
    return digest.hexdigest()


def replace_text(file: Path, text: str) -> None:
    """Write a file so that it is there whole or not at all."""
    new = file.with_name(f"{file.name}.new")
    new.write_text(text, "utf-8")
    new.replace(file)


def append(file: Path, answers: Iterable[Answer]) -> None:
    """Add answers to the file, one JSON object per line; a line cut off goes."""
    with file.open("ab+") as out:
        out.seek(0)
        out.truncate(out.read().rfind(b"\n") + 1)
        out.writelines(
            json.dumps(asdict(answer)).encode() + b"\n" for answer in answers
        )


def read(file: Path) -> Iterator[Answer]:
    """The answers of the file in order; a last line that was cut off is left out."""
    if not file.exists():
        return
    with file.open(encoding="utf-8") as lines:
        for line in lines:
            if line.endswith("\n"):
                yield Answer(**json.loads(line))
