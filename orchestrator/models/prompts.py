"""Writes the prompts whose answers a draft learns from: every class, by seed."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

#: The classes of prompts and how often each is written; structured and code answers
#: are short and regular, so what they teach is learned from fewer tokens.
WEIGHTS = {
    "structured": 3,
    "constrained": 2,
    "code": 5,
    "translation": 2,
    "reasoning": 3,
    "creative": 4,
    "open": 5,
}
#: Of these, the prompt holds a passage; it is taken from answers that came before.
PASSAGE_WEIGHTS = {"grounded": 5, "edit": 2, "translate": 1, "extract": 1}

#: What some of them ask for.
_CLASS_OF = {
    "edit": "grounded",
    "translate": "translation",
    "extract": "structured",
}

#: A JSON schema that the answer must follow.
Schema = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Prompt:
    """One user message; with a `schema`, the answer is JSON that fits it."""

    kind: str
    text: str
    schema: Schema | None = None


_WORDS: dict[str, Any] = yaml.safe_load(
    Path(__file__).with_suffix(".yaml").read_text("utf-8")
)


def write_prompts(count: int, seed: int) -> list[Prompt]:
    """`count` different prompts that need no passage; the same for the same seed."""
    rng = random.Random(seed)
    seen: dict[str, Prompt] = {}
    kinds, shares = list(WEIGHTS), list(WEIGHTS.values())
    # Some kinds have few prompts, so many are drawn twice: at some time it is enough.
    for _ in range(20 * count):
        prompt = _ask(rng.choices(kinds, shares)[0], rng)
        seen.setdefault(prompt.text, prompt)
        if len(seen) == count:
            break
    return list(seen.values())


def write_about(passages: Sequence[str], count: int, seed: int) -> list[Prompt]:
    """Up to `count` prompts, each about a passage of its own; by seed."""
    rng = random.Random(seed)
    kinds = rng.choices(
        list(PASSAGE_WEIGHTS), list(PASSAGE_WEIGHTS.values()), k=len(passages)
    )
    return [
        Prompt(
            _CLASS_OF.get(kind, kind),
            rng.choice(_WORDS["about"][kind]).format(passage=passage),
        )
        for kind, passage in zip(kinds, passages[:count], strict=False)
    ]


def _ask(kind: str, rng: random.Random) -> Prompt:
    match kind:
        case "structured":
            return Prompt(kind, _records(rng))
        case "constrained":
            return _tool(rng)
        case "code":
            return Prompt(kind, _code(rng))
        case "translation":
            return Prompt(kind, _translation(rng))
    return Prompt(kind, rng.choice(_WORDS[kind]).format(**_words(rng)))


def _words(rng: random.Random) -> dict[str, object]:
    person, other_person = rng.sample(_WORDS["people"], 2)
    city, other = rng.sample(_WORDS["cities"], 2)
    topic, other_topic = rng.sample(_WORDS["topics"], 2)
    return {
        "person": person,
        "other_person": other_person,
        "city": city,
        "other": other,
        "topic": topic,
        "other_topic": other_topic,
        "thing": rng.choice(_WORDS["things"]),
        "creature": rng.choice(_WORDS["creatures"]),
        "theme": rng.choice(_WORDS["themes"]),
        "product": rng.choice(_WORDS["products"]),
        "day": rng.choice(_WORDS["days"]),
        "place": rng.choice(_WORDS["places"]),
        "n": rng.randint(2, 12),
        "m": rng.randint(20, 95),
        "k": rng.randint(2, 19),
    }


def _records(rng: random.Random) -> str:
    fields = rng.sample(list(_WORDS["fields"]), rng.randint(3, 6))
    count, what = rng.randint(2, 8), rng.choice(_WORDS["records"])
    return rng.choice(
        (
            "Return a JSON array of {count} {what} with the fields {fields}.",
            "Give me {count} example {what} as JSON. Each has {fields}.",
            "Write a CSV file with {count} {what} and the columns {fields}.",
            "Make a Markdown table of {count} {what} with the columns {fields}.",
            "Write a YAML list of {count} {what}; keys: {fields}.",
            "Write a JSON schema for {what} with {fields}.",
        )
    ).format(count=count, what=what, fields=", ".join(fields))


def _tool(rng: random.Random) -> Prompt:
    if rng.random() < 0.3:
        names = rng.sample(list(_WORDS["fields"]), 4)
        what = rng.choice(_WORDS["records"])
        text = (
            f"Invent one of the {what} and describe it as JSON. Think of {_one(rng)}."
        )
        return Prompt(
            "constrained",
            text,
            _schema({name: _WORDS["fields"][name] for name in names}),
        )
    call = rng.choice(_WORDS["calls"])
    text = call["text"].format(**_words(rng))
    return Prompt("constrained", text, _schema(call["fields"]))


def _one(rng: random.Random) -> str:
    person, city, thing = (
        rng.choice(_WORDS[words]) for words in ("people", "cities", "things")
    )
    return f"{person}, {city} and a {thing}"


def _schema(fields: dict[str, str]) -> Schema:
    return {
        "type": "object",
        "properties": {name: {"type": kind} for name, kind in fields.items()},
        "required": list(fields),
        "additionalProperties": False,
    }


def _code(rng: random.Random) -> str:
    task, language = rng.choice(_WORDS["tasks"]), rng.choice(_WORDS["languages"])
    name = "_".join(task.replace("-", " ").lower().split()[:4])
    signature = rng.choice(("items", "text", "n", "a, b", "values: list[int]"))
    return rng.choice(
        (
            f"Write a {language} function that {task}.",
            f"Write a {language} program that {task}. Explain it briefly.",
            f"Implement a function in {language} that {task}, with comments.",
            f"Write unit tests in Python for a function that {task}.",
            f"Write a Python class with a method that {task} and a method that "
            f"{rng.choice(_WORDS['tasks'])}.",
            f'def {name}({signature}):\n    """A function that {task}."""\n',
            f'from typing import List\n\n\ndef {name}({signature}):\n    """ Write a '
            f"function that {task}.\n    >>> {name}({rng.randint(1, 99)})\n    "
            f'{rng.randint(1, 99)}\n    """\n',
            f"Complete this code:\n```python\ndef {name}({signature}):\n```",
            f"What does a function that {task} look like in {language}?",
            f"用{language}写一个函数: {task}.",
        )
    )


def _translation(rng: random.Random) -> str:
    language, parts = rng.choice(list(_WORDS["sentences"].items()))
    sentences = []
    for _ in range(rng.randint(1, 3)):
        who, does, when, what = (rng.choice(words) for words in parts)
        sentences.append(f"{who} {does} {when} {what}.")
    text = " ".join(sentences)
    return rng.choice(
        (
            f"Translate {language} to English: {text}",
            f"Translate the following {language} text into English.\n\n{text}",
            f"What does this mean in English? {text}",
        )
    )
