"""YAML with the place of every node, so that mistakes are told by line and column."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import yaml

from orchestrator.errors import ConfigError, Problem

Path = tuple[str | int, ...]

#: Nodes that a file may have, aliases counted each time they are used: a few nested
#: aliases can otherwise stand for billions of nodes.
MAX_NODES = 50_000
MAX_DEPTH = 60


@dataclass(frozen=True, slots=True)
class Mark:
    """Where a node stands; both count from 1. A mapping's entry has two places."""

    #: Line and column of the entry's key, or of the item itself in a list.
    key: tuple[int, int]
    value: tuple[int, int]


class _Loader(yaml.SafeLoader):
    """PyYAML's safe loader, with bounded merges (`<<`)."""

    def flatten_mapping(self, node: yaml.MappingNode) -> None:
        super().flatten_mapping(node)
        # Merged entries come first, so that the mapping's own ones win.
        last: dict[Any, tuple[yaml.Node, yaml.Node]] = {}
        for key, value in node.value:
            last[key.value if isinstance(key, yaml.ScalarNode) else id(key)] = (
                key,
                value,
            )
        node.value = list(last.values())


class _Builder:
    """Turns the nodes of one text into plain data, noting places and mistakes."""

    def __init__(self, loader: _Loader) -> None:
        self.loader = loader
        self.marks: dict[Path, Mark] = {}
        self.problems: list[Problem] = []
        self.nodes = 0
        self.open: set[int] = set()

    def fail(self, node: yaml.Node, path: Path, message: str, hint: str = "") -> None:
        line, column = _place(node)
        self.problems.append(Problem(message, show_path(path), line, column, hint))

    def build(self, node: yaml.Node, path: Path, key: yaml.Node | None = None) -> Any:
        self.nodes += 1
        self.marks[path] = Mark(_place(key or node), _place(node))
        if self.nodes > MAX_NODES:
            if self.nodes == MAX_NODES + 1:
                self.fail(node, path, f"the file has more than {MAX_NODES} values")
            return None
        if id(node) in self.open:
            self.fail(node, path, "this alias refers to itself")
            return None
        if len(path) > MAX_DEPTH:
            self.fail(node, path, f"nested deeper than {MAX_DEPTH} levels")
            return None
        self.open.add(id(node))
        try:
            if isinstance(node, yaml.MappingNode):
                return dict(self._entries(node, path))
            if isinstance(node, yaml.SequenceNode):
                return [
                    self.build(item, (*path, i)) for i, item in enumerate(node.value)
                ]
            return self._scalar(node, path)
        finally:
            self.open.discard(id(node))

    def _entries(self, node: yaml.MappingNode, path: Path) -> Iterator[tuple[str, Any]]:
        first: dict[str, int] = {}
        for key, _ in node.value:
            if not isinstance(key, yaml.ScalarNode) or key.tag.endswith(":merge"):
                continue
            if key.value in first:
                self.fail(
                    key,
                    (*path, key.value),
                    f"the key `{key.value}` stands twice",
                    f"first on line {first[key.value]}",
                )
            else:
                first[key.value] = _place(key)[0]
        self.loader.flatten_mapping(node)
        for key, value in node.value:
            if not isinstance(key, yaml.ScalarNode):
                self.fail(key, path, "a key must be text, not a list or mapping")
            elif key.tag != "tag:yaml.org,2002:str":
                hint = f'in quotes it is text: "{key.value}"'
                self.fail(key, path, f"the key {key.value} is read as no text", hint)
            else:
                yield key.value, self.build(value, (*path, key.value), key)

    def _scalar(self, node: yaml.Node, path: Path) -> Any:
        if node.tag == "tag:yaml.org,2002:timestamp":
            return node.value  # a date is text here, as in JSON
        try:
            value = self.loader.construct_object(node, deep=True)
        except (yaml.YAMLError, ValueError, LookupError, AttributeError):
            value = NotImplemented
        if value is None or isinstance(value, str | int | float):
            return value
        self.fail(node, path, f"`{node.value}` can't be read as {node.tag}")
        return None


def _place(node: yaml.Node) -> tuple[int, int]:
    return node.start_mark.line + 1, node.start_mark.column + 1


def read_yaml(text: str, source: str) -> tuple[Any, dict[Path, Mark]]:
    """The one document in `text` as dicts, lists, and scalars, and every node's place.

    All keys are text. Raises ConfigError for broken YAML, keys that stand twice, and
    values that YAML has but JSON does not.
    """
    try:
        loader = _Loader(text)
        node = loader.get_single_node()
        builder = _Builder(loader)
        data = None if node is None else builder.build(node, ())
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        raise ConfigError(
            source,
            [
                Problem(
                    f"this is not YAML: {error.problem or error.context}",
                    line=mark.line + 1 if mark else None,
                    column=mark.column + 1 if mark else None,
                )
            ],
        ) from None
    except yaml.YAMLError as error:
        message = str(error).splitlines()[0]
        raise ConfigError(source, [Problem(f"this is not YAML: {message}")]) from None
    except RecursionError:
        problem = Problem(f"nested deeper than {MAX_DEPTH} levels")
        raise ConfigError(source, [problem]) from None
    if builder.problems:
        raise ConfigError(source, builder.problems)
    return data, builder.marks


def show_path(path: Path) -> str:
    """`("rules", 2, "when")` as people write it: `rules[2].when`."""
    shown = ""
    for part in path:
        if isinstance(part, int):
            shown += f"[{part}]"
        else:
            shown += f".{part}" if shown else part
    return shown
