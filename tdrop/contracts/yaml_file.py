"""Reads a YAML file as a table or a site; what is wrong becomes one sentence with file, line and a suggestion.

Every value is text here, or nothing: `yes`, `007`, `12:30` and `1e5` are categories and codes as they are written, and
the models make numbers of what must be one.
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

#: No contract comes near any of these: bytes, levels, and entries with every reference written out.
LARGEST_FILE, DEEPEST, MOST_NODES = 1_000_000, 40, 50_000
#: Characters of a name or value that a sentence repeats.
_LONGEST = 60
_TAG = "tag:yaml.org,2002:"
_KNOWN_TAGS = frozenset(f"{_TAG}{name}" for name in ("str", "int", "null", "seq", "map", "merge"))

_Model = TypeVar("_Model", bound=BaseModel)


class _Loader(yaml.CSafeLoader):
    """Tells nothing, merges and text apart."""


_Loader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in resolvers if tag in (f"{_TAG}null", f"{_TAG}merge")]
    for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
}


def _plain(text: str) -> str:
    return text.partition(".")[0].lower()


# Unless it is quoted, 1.0 is the label 1 and True is true: that is how data files hold them.
_Loader.add_implicit_resolver(f"{_TAG}int", re.compile(r"^(?:[-+]?\d+\.0*|True|False)$"), list("-+0123456789TF"))
_Loader.add_constructor(f"{_TAG}int", lambda _, node: _plain(node.value))


@dataclass(frozen=True)
class YamlDocument:
    """A parsed file: its data and the line of every key and item."""

    path: Path
    data: dict[str, Any]
    lines: dict[KeyPath, int] = field(default_factory=dict)

    def line(self, keys: KeyPath) -> int:
        """Line of the nearest thing that is in the file."""
        while keys and keys not in self.lines:
            keys = keys[:-1]
        return self.lines.get(keys, 1)


def read_yaml(path: Path) -> YamlDocument:
    """Reads one file; a ContractError names the line of what is wrong."""
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
        # What is never closed is noticed at the end of the file and must be looked for where it was opened.
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
    """Reads the text as a stream first: what is too deep or too much for a contract is never built."""
    depth = nodes = 0
    for event in yaml.parse(text, Loader=_Loader):
        depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
        nodes += isinstance(event, yaml.NodeEvent)
        if depth > DEEPEST or nodes > MOST_NODES:
            line = event.start_mark.line + 1 if event.start_mark is not None else 1
            what = f"more than {DEEPEST} levels deep" if depth > DEEPEST else f"more than {MOST_NODES:,} entries"
            raise ContractError(f"{path}:{line}: {what}; a contract is a short YAML file")


def _lines_of(root: yaml.Node, path: Path) -> dict[KeyPath, int]:
    """The line of every key and item; refuses keys given twice, tags, and references that unfold without an end."""
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
    """Validates a document against `model`; a ContractError tells the first thing that is wrong."""
    try:
        return model.model_validate(document.data)
    except ValidationError as error:
        raise refuse(document, [_explain(model, document, item) for item in error.errors()]) from None


def refuse(document: YamlDocument, problems: list[tuple[KeyPath, str]]) -> ContractError:
    """Returns the error that tells the first of `problems` and how many more there are."""
    # A misspelled key is also a missing one: the misspelling is what to tell first.
    problems = sorted(problems, key=lambda problem: (problem[1].startswith("needs"), document.line(problem[0])))
    keys, sentence = problems[0]
    more = f" (and {len(problems) - 1} more)" if len(problems) > 1 else ""
    return ContractError(f"{document.path}:{document.line(keys)}: {sentence}{more}")


def shorten(given: object) -> str:
    """What a file says, on one line and no longer than a line is read."""
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
        named = data.get("name") if isinstance(data, dict) else None
        words.append(shorten(named if isinstance(key, int) and named else key))
    return ".".join(words)


def _keys_at(model: type[BaseModel], keys: KeyPath) -> list[str]:
    """The keys that the model knows at a place, as they are written in YAML."""
    for key in keys:
        fields = {info.alias or name: info.annotation for name, info in model.model_fields.items()}
        model = _model_in(fields.get(str(key))) or model
    return [info.alias or name for name, info in model.model_fields.items()]


def _model_in(annotation: Any) -> type[BaseModel] | None:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    return next((model for inner in get_args(annotation) if (model := _model_in(inner)) is not None), None)
