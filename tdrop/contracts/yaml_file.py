"""Reads a YAML file and remembers the line of everything in it, so that errors can name it."""

from __future__ import annotations

import re
import stat
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from tdrop.base import ContractError

#: No contract comes near it; a larger file is not a contract.
LARGEST_BYTES = 1_000_000
#: Nor these: levels, and entries with every reference written out.
DEEPEST, MOST_NODES = 40, 50_000
_TAGS = frozenset(
    f"tag:yaml.org,2002:{name}" for name in ("str", "int", "float", "bool", "null", "seq", "map", "merge")
)

Place = tuple[str | int, ...]


class _Loader(yaml.SafeLoader):
    """Leaves yes, no, on, off and dates as the words they are: they are categories and codes here."""


_PLAIN = ("tag:yaml.org,2002:bool", "tag:yaml.org,2002:timestamp", "tag:yaml.org,2002:int", "tag:yaml.org,2002:float")
_Loader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in resolvers if tag not in _PLAIN]
    for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
}
_Loader.add_implicit_resolver("tag:yaml.org,2002:bool", re.compile(r"^(?:true|false|True|False)$"), list("tTfF"))
# A code such as 007, 0x1F, 1_000 or 12:30 is what it looks like, not the number that YAML 1.1 makes of it.
_Loader.add_implicit_resolver(
    "tag:yaml.org,2002:int", re.compile(r"^[-+]?(?:0|[1-9][0-9]{0,17})$"), list("-+0123456789")
)
_FLOAT = re.compile(
    r"^[-+]?(?:(?:0|[1-9][0-9]*)\.[0-9]*|\.[0-9]+)(?:[eE][-+]?[0-9]{1,3})?$|^[-+]?\.(?:inf|Inf|INF)$|^\.(?:nan|NaN|NAN)$"
)
_Loader.add_implicit_resolver("tag:yaml.org,2002:float", _FLOAT, list("-+0123456789."))


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
        if not stat.S_ISREG(path.stat().st_mode):
            raise ContractError(f"{path}: a folder, a pipe or a device, not a YAML file; remove or rename it")
        with path.open("rb") as stream:
            content = stream.read(LARGEST_BYTES + 1)
        if len(content) > LARGEST_BYTES:
            raise ContractError(f"{path}: larger than {LARGEST_BYTES:,} bytes; a contract is a short YAML file")
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise ContractError(f"{path}: not UTF-8 text; save the file as UTF-8") from None
    except OSError as error:
        raise ContractError(f"{path}: cannot be read ({error.strerror}); check the path and its permissions") from None
    return parse_yaml(text, path)


def parse_yaml(text: str, path: Path) -> Document:
    """Parses YAML text as if it were the file at `path`."""
    try:
        _refuse_deep(text, path)
        loader = _Loader(text)
        node = loader.get_single_node()
        lines: dict[Place, int] = {}
        if node is not None:
            _refuse_bombs(node, path)
            _collect(node, (), lines, path)
        data = loader.construct_document(node) if node is not None else None
    except yaml.MarkedYAMLError as error:
        # What is never closed is found at the end of the file and must be looked for where it was opened.
        unclosed = "end of stream" in str(error.problem) and error.context_mark is not None
        mark = error.context_mark if unclosed else error.problem_mark or error.context_mark
        line = mark.line + 1 if mark is not None else 1
        raise ContractError(f"{path}:{line}: not valid YAML ({error.problem}); check indentation and quotes") from None
    except (yaml.YAMLError, ValueError, OverflowError, RecursionError) as error:
        raise ContractError(f"{path}: not valid YAML ({str(error).splitlines()[0]})") from None
    if not isinstance(data, dict):
        raise ContractError(f"{path}:1: expected `key: value` lines, got {_kind(data)}; see docs/CONTRACTS.md")
    return Document(path, data, lines)


def _refuse_deep(text: str, path: Path) -> None:
    """Reads the text as a stream first: what is too deep or too much for a contract is never built."""
    depth = nodes = 0
    for event in yaml.parse(text, Loader=_Loader):
        depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
        nodes += isinstance(event, yaml.NodeEvent)
        if depth > DEEPEST or nodes > MOST_NODES:
            line = event.start_mark.line + 1 if event.start_mark is not None else 1
            what = f"more than {DEEPEST} levels deep" if depth > DEEPEST else f"more than {MOST_NODES:,} entries"
            raise ContractError(f"{path}:{line}: {what}; a contract is a short YAML file")


def _refuse_bombs(node: yaml.Node, path: Path) -> None:
    """Refuses tags, and references that would unfold to far more than is written."""
    sizes: dict[int, int] = {}
    under_way: set[int] = set()

    def size(node: yaml.Node) -> int:
        if id(node) in sizes:
            return sizes[id(node)]
        line = node.start_mark.line + 1
        if id(node) in under_way:
            raise ContractError(f"{path}:{line}: refers to itself; write the values out")
        if node.tag not in _TAGS:
            tag = node.tag.replace("tag:yaml.org,2002:", "!!")[:40]
            raise ContractError(f"{path}:{line}: a tag such as `{tag}` has no meaning here; leave it out")
        under_way.add(id(node))
        children = node.value if isinstance(node, yaml.CollectionNode) else ()
        inner = [part for child in children for part in (child if isinstance(child, tuple) else (child,))]
        sizes[id(node)] = 1 + sum(size(part) for part in inner)
        under_way.remove(id(node))
        if sizes[id(node)] > MOST_NODES:
            raise ContractError(f"{path}:{line}: unfolds to more than {MOST_NODES:,} entries; write the values out")
        return sizes[id(node)]

    size(node)


def _kind(data: Any) -> str:
    return "nothing" if data is None else "a list" if isinstance(data, list) else "a single value"


def _meant(key: yaml.Node) -> str | float:
    """What a key is to a map that is built of it: 1, 1.0 and true are the same one, and the last would win."""
    kind, text = key.tag.rpartition(":")[2], str(key.value)
    if kind == "bool":
        return float(text.lower() == "true")
    try:
        return float(text) if kind in ("int", "float") else text
    except ValueError:
        return text


def _collect(node: yaml.Node, place: Place, lines: dict[Place, int], path: Path) -> None:
    lines.setdefault(place, node.start_mark.line + 1)
    if isinstance(node, yaml.MappingNode):
        seen: set[str | float] = set()
        for key, value in node.value:
            name, meant = str(key.value), _meant(key)
            if meant in seen or name in seen:
                raise ContractError(f"{path}:{key.start_mark.line + 1}: key '{name}' is given twice; keep one")
            seen |= {name, meant}
            lines[(*place, name)] = key.start_mark.line + 1
            _collect(value, (*place, name), lines, path)
    elif isinstance(node, yaml.SequenceNode):
        for index, value in enumerate(node.value):
            _collect(value, (*place, index), lines, path)
