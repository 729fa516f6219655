"""Tests know what the program shows: a private name may change without a test."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from conftest import PROJECT

#: What notebooks call is public in spite of its name.
PRIVATE = re.compile(r"_(?!repr_html_$)[A-Za-z]\w*")
PACKAGES = ("tdrop", "tasks", "flows", "benchmarks")
OURS = re.compile(r"(tdrop|tasks|flows|benchmarks)(\.\w+)*\._[A-Za-z]\w*")
#: Their own, and Python's `os._exit`, `sys._getframe`.
NOT_OURS = {"self", "cls", "os", "sys"}


def private_names(tree: ast.AST) -> Iterator[str]:
    """Private names of the program that a file imports, reads or replaces."""
    for node in ast.walk(tree):
        match node:
            case ast.ImportFrom(module=str(module)) if module.split(".")[0] in PACKAGES:
                yield from (name.name for name in node.names if PRIVATE.fullmatch(name.name))
            case ast.Attribute(value=ast.Name(id=owner)) if owner in NOT_OURS:
                continue
            case ast.Attribute(attr=name) if PRIVATE.fullmatch(name):
                yield name
            case ast.Constant(value=str(text)) if OURS.fullmatch(text):
                yield text
            case ast.Call(func=ast.Attribute(attr="setattr"), args=[_, ast.Constant(value=str(name)), *_]):
                yield from [name] if PRIVATE.fullmatch(name) else []


def test_no_test_uses_a_private_name() -> None:
    files = sorted((PROJECT / "tests").rglob("*.py"))
    used = {file: list(private_names(ast.parse(file.read_text(encoding="utf-8")))) for file in files}
    assert len(used) > 100
    assert {file.name: names for file, names in used.items() if names} == {}


def test_every_way_to_a_private_name_is_seen() -> None:
    name, path = "_seal", ".".join(("tdrop.home.store", "_seal"))
    ways = (
        f"from tdrop.home.store import {name}",
        f"store.{name}()",
        f"patch.setattr(store, '{name}', None)",
        f"patch.setattr('{path}', None)",
    )
    assert [list(private_names(ast.parse(way))) for way in ways] == [[name], [name], [name], [path]]
