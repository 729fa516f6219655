"""Reads a YAML file and remembers the line of everything in it, so that errors can name it."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from tdrop.errors import ContractError

#: No contract comes near it; a larger file is not a contract.
LARGEST_BYTES = 1_000_000

Place = tuple[str | int, ...]


class _Loader(yaml.SafeLoader):
    """Leaves yes, no, on, off and dates as the words they are: they are categories and codes here."""


_Loader.yaml_implicit_resolvers = {
    first: [
        (tag, pattern)
        for tag, pattern in resolvers
        if tag not in ("tag:yaml.org,2002:bool", "tag:yaml.org,2002:timestamp")
    ]
    for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
}
_Loader.add_implicit_resolver("tag:yaml.org,2002:bool", re.compile(r"^(?:true|false|True|False)$"), list("tTfF"))


@dataclass(frozen=True)
class Document:
    """A parsed file: its data and the line of every key and item."""

    path: Path
    data: Any
    lines: dict[Place, int] = field(default_factory=dict)

    def where(self, place: Place) -> str:
        """Returns `path:line` of the nearest thing that is in the file."""
        while place and place not in self.lines:
            place = place[:-1]
        return f"{self.path}:{self.lines.get(place, 1)}"


def read_yaml(path: Path) -> Document:
    """Reads one file; a ContractError names the line of what is wrong."""
    try:
        if path.stat().st_size > LARGEST_BYTES:
            raise ContractError(f"{path}: larger than {LARGEST_BYTES:,} bytes; a contract is a short YAML file")
        text = path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError:
        raise ContractError(f"{path}: not UTF-8 text; save the file as UTF-8") from None
    except OSError as error:
        raise ContractError(f"{path}: cannot be read ({error.strerror}); check the path and its permissions") from None
    return parse_yaml(text, path)


def parse_yaml(text: str, path: Path) -> Document:
    """Parses YAML text as if it were the file at `path`."""
    try:
        loader = _Loader(text)
        node = loader.get_single_node()
        lines: dict[Place, int] = {}
        if node is not None:
            _collect(node, (), lines, path)
        data = loader.construct_document(node) if node is not None else None
    except yaml.MarkedYAMLError as error:
        # What is never closed is found at the end of the file and must be looked for where it was opened.
        unclosed = "end of stream" in str(error.problem) and error.context_mark is not None
        mark = error.context_mark if unclosed else error.problem_mark or error.context_mark
        line = mark.line + 1 if mark is not None else 1
        raise ContractError(f"{path}:{line}: not valid YAML ({error.problem}); check indentation and quotes") from None
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise ContractError(f"{path}: not valid YAML ({str(error).splitlines()[0]})") from None
    if not isinstance(data, dict):
        raise ContractError(f"{path}:1: expected `key: value` lines, got {_kind(data)}; see docs/CONTRACTS.md")
    return Document(path, data, lines)


def _kind(data: Any) -> str:
    return "nothing" if data is None else "a list" if isinstance(data, list) else "a single value"


def _collect(node: yaml.Node, place: Place, lines: dict[Place, int], path: Path) -> None:
    lines.setdefault(place, node.start_mark.line + 1)
    if isinstance(node, yaml.MappingNode):
        seen: set[str] = set()
        for key, value in node.value:
            name = str(key.value)
            if name in seen:
                raise ContractError(f"{path}:{key.start_mark.line + 1}: key '{name}' is given twice; keep one")
            seen.add(name)
            lines[(*place, name)] = key.start_mark.line + 1
            _collect(value, (*place, name), lines, path)
    elif isinstance(node, yaml.SequenceNode):
        for index, value in enumerate(node.value):
            _collect(value, (*place, index), lines, path)
