"""Reads a YAML file as a table or a site; an error is one sentence with file, line and a suggestion.

Every value is text or None here: `yes`, `007`, `12:30` and `1e5` may be categories or codes and stay as they are
written. The pydantic models convert what must be a number.
"""

from __future__ import annotations

import re
import stat
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar, get_args

import yaml
from pydantic import BaseModel, ValidationError

from tdrop.base import ContractError, did_you_mean
from tdrop.contracts.record import KeyPath

#: Limits far above any real contract: bytes, levels, and entries once every reference is written out.
LARGEST_FILE, DEEPEST, MOST_NODES = 1_000_000, 40, 50_000
#: A sentence quotes at most this many characters of a name or value.
_LONGEST = 60
_TAG = "tag:yaml.org,2002:"
_KNOWN_TAGS = frozenset(f"{_TAG}{name}" for name in ("str", "int", "null", "seq", "map", "merge"))

_Model = TypeVar("_Model", bound=BaseModel)


class _Loader(yaml.CSafeLoader):
    """Reads every value as text, except null and merges (`<<`)."""


_Loader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in resolvers if tag in (f"{_TAG}null", f"{_TAG}merge")]
    for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
}


def _plain(text: str) -> str:
    return text.partition(".")[0].lower()


# Unless they are quoted, 1.0 is read as 1 and True as true, as data files write these labels.
_Loader.add_implicit_resolver(f"{_TAG}int", re.compile(r"^(?:[-+]?\d+\.0*|True|False)$"), list("-+0123456789TF"))
_Loader.add_constructor(f"{_TAG}int", lambda _, node: _plain(node.value))


@dataclass(frozen=True)
class YamlDocument:
    """A parsed file: its data and the line of every key and item."""

    path: Path
    data: dict[str, Any]
    lines: dict[KeyPath, int] = field(default_factory=dict)

    def line(self, keys: KeyPath) -> int:
        """Line of a key, or of the nearest key above it that is in the file."""
        while keys and keys not in self.lines:
            keys = keys[:-1]
        return self.lines.get(keys, 1)


def read_yaml(path: Path) -> YamlDocument:
    """Reads one file; a ContractError names the line of the error."""
    try:
        if not stat.S_ISREG(path.stat().st_mode):
            raise ContractError(f"{path}: a folder, a pipe or a device, not a YAML file; remove or rename it")
        with path.open("rb") as stream:
            content = stream.read(LARGEST_FILE + 1)
        if len(content) > LARGEST_FILE:
            raise ContractError(f"{path}: larger than {LARGEST_FILE:,} bytes; a contract is a short YAML file")
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise ContractError(f"{path}: not UTF-8 text; save the file as UTF-8") from None
    except OSError as error:
        raise ContractError(f"{path}: cannot be read ({error.strerror}); check the path and its permissions") from None
    return parse_yaml(text, path)


def parse_yaml(text: str, path: Path) -> YamlDocument:
    """Parses YAML text as if it were the file at `path`."""
    try:
        _refuse_large(text, path)
        loader = _Loader(text)
        node = loader.get_single_node()
        lines = _lines_of(node, path) if node is not None else {}
        data = loader.construct_document(node) if node is not None else None
    except yaml.MarkedYAMLError as error:
        # A bracket or quote that is never closed is noticed at the end of the file: name the line that opens it.
        unclosed = "end of stream" in str(error.problem) and error.context_mark is not None
        mark = error.context_mark if unclosed else error.problem_mark or error.context_mark
        line = mark.line + 1 if mark is not None else 1
        raise ContractError(f"{path}:{line}: not valid YAML ({error.problem}); check indentation and quotes") from None
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise ContractError(f"{path}: not valid YAML ({str(error).splitlines()[0]})") from None
    if not isinstance(data, dict):
        kind = "nothing" if data is None else "a list" if isinstance(data, list) else "a single value"
        raise ContractError(f"{path}:1: expected `key: value` lines, got {kind}; see docs/CONTRACTS.md")
    return YamlDocument(path, data, lines)


def _refuse_large(text: str, path: Path) -> None:
    """Refuses text that is too deep or too long for a contract, by its stream of events, before anything is built."""
    depth = nodes = 0
    for event in yaml.parse(text, Loader=_Loader):
        depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
        nodes += isinstance(event, yaml.NodeEvent)
        if depth > DEEPEST or nodes > MOST_NODES:
            line = event.start_mark.line + 1 if event.start_mark is not None else 1
            what = f"more than {DEEPEST} levels deep" if depth > DEEPEST else f"more than {MOST_NODES:,} entries"
            raise ContractError(f"{path}:{line}: {what}; a contract is a short YAML file")


def _lines_of(root: yaml.Node, path: Path) -> dict[KeyPath, int]:
    """The line of every key and item; refuses repeated keys, tags, and references that expand without end."""
    lines: dict[KeyPath, int] = {}
    visited = 0

    def visit(node: yaml.Node, keys: KeyPath, above: frozenset[int]) -> None:
        nonlocal visited
        visited += 1
        line = node.start_mark.line + 1
        if id(node) in above:
            raise ContractError(f"{path}:{line}: refers to itself; write the values out")
        if visited > MOST_NODES:
            raise ContractError(f"{path}:{line}: unfolds to more than {MOST_NODES:,} entries; write the values out")
        if node.tag not in _KNOWN_TAGS:
            tag = node.tag.replace(_TAG, "!!")[:40]
            raise ContractError(f"{path}:{line}: a tag such as `{tag}` has no meaning here; leave it out")
        lines.setdefault(keys, line)
        above |= {id(node)}
        if isinstance(node, yaml.SequenceNode):
            for position, item in enumerate(node.value):
                visit(item, (*keys, position), above)
        elif isinstance(node, yaml.MappingNode):
            names: set[str] = set()
            for key, value in node.value:
                name = _plain(key.value) if key.tag == f"{_TAG}int" else str(key.value)
                if name in names:
                    raise ContractError(f"{path}:{key.start_mark.line + 1}: key '{key.value}' is given twice; keep one")
                names.add(name)
                lines[(*keys, name)] = key.start_mark.line + 1
                visit(value, (*keys, name), above)

    visit(root, (), frozenset())
    return lines


def parse(model: type[_Model], document: YamlDocument) -> _Model:
    """Validates a document against `model`; a ContractError states the first problem."""
    try:
        return model.model_validate(document.data)
    except ValidationError as error:
        raise refuse(document, [_explain(model, document, item) for item in error.errors()]) from None


def refuse(document: YamlDocument, problems: list[tuple[KeyPath, str]]) -> ContractError:
    """Returns the error that states the first of `problems` and how many more there are."""
    # A misspelled key is also a missing key: state the misspelling first.
    problems = sorted(problems, key=lambda problem: (problem[1].startswith("needs"), document.line(problem[0])))
    keys, sentence = problems[0]
    more = f" (and {len(problems) - 1} more)" if len(problems) > 1 else ""
    return ContractError(f"{document.path}:{document.line(keys)}: {sentence}{more}")


def shorten(given: object) -> str:
    """Returns a value from a file on one line, of at most 60 characters."""
    text = " ".join(str(given).split())
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}..."


def _explain(model: type[BaseModel], document: YamlDocument, item: Any) -> tuple[KeyPath, str]:
    keys: KeyPath = tuple(item["loc"])
    kind, given, name = item["type"], shorten(item["input"]), _dotted(document, keys)
    if kind == "incoherent":
        return tuple(item["ctx"]["keys"]), str(item["ctx"]["sentence"])
    if kind == "extra_forbidden":
        sentence = f"unknown key '{shorten(keys[-1])}'{did_you_mean(str(keys[-1]), _keys_at(model, keys[:-1]))}"
    elif kind == "missing":
        sentence = f"needs the key '{name}'"
    elif kind == "literal_error":
        words = item["ctx"]["expected"]
        hint = did_you_mean(given, [word.strip("'") for word in words.replace(" or ", ", ").split(", ")])
        sentence = f"{name} is '{given}', expected {words}{hint if 'did you mean' in hint else ''}"
    elif kind == "string_pattern_mismatch":
        sentence = f"{name} is '{given}': use letters, digits and underscores, starting with a letter"
    elif kind in ("float_parsing", "int_parsing"):
        number = "a number" if kind == "float_parsing" else "a whole number"
        sentence = f"{name}: expected {number}, got '{given}'"
    else:
        message = item["msg"].removeprefix("Value error, ")
        sentence = f"{name}: {message[:1].lower()}{message[1:]}" if name else message
    return keys, sentence


def _dotted(document: YamlDocument, keys: KeyPath) -> str:
    """Writes a place as `columns.psa.unit`: list items by their name where they have one."""
    data: Any = document.data
    words: list[str] = []
    for key in keys:
        try:
            data = data[key]
        except (KeyError, IndexError, TypeError):
            data = None
        name = data.get("name") if isinstance(key, int) and isinstance(data, dict) else None
        words.append(shorten(name or key))
    return ".".join(words)


def _keys_at(model: type[BaseModel], keys: KeyPath) -> list[str]:
    """The keys that the model allows at a place, as they are written in YAML."""
    for key in keys:
        fields = {info.alias or name: info.annotation for name, info in model.model_fields.items()}
        model = _model_in(fields.get(str(key))) or model
    return [info.alias or name for name, info in model.model_fields.items()]


def _model_in(annotation: Any) -> type[BaseModel] | None:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    return next((model for inner in get_args(annotation) if (model := _model_in(inner)) is not None), None)
