"""A room is entered by its front door: its `__init__.pyi` names what others may use, each loaded when it is used."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules

import pytest
from conftest import PROJECT

DOORS = sorted(PROJECT.glob("tdrop/*/__init__.pyi"))
ROOMS = {door.parent.name for door in DOORS}
PROGRAM = sorted(file for top in ("tdrop", "tasks", "flows", "benchmarks") for file in (PROJECT / top).rglob("*.py"))


def modules_imported(file: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(file.read_bytes())):
        if isinstance(node, ast.ImportFrom):
            yield node.module or ""
        elif isinstance(node, ast.Import):
            yield from (each.name for each in node.names)


def test_no_package_has_the_name_of_something_it_exports():
    assert {room for room in ROOMS if room in import_module(f"tdrop.{room}").__all__} == set()


def test_no_module_of_another_room_is_imported_past_its_front_door():
    past = {
        f"{file.relative_to(PROJECT)}: {module}"
        for file in PROGRAM
        for module in modules_imported(file)
        if module.startswith("tdrop.")
        and module.count(".") > 1
        and (room := module.split(".")[1]) in ROOMS
        and not file.is_relative_to(PROJECT / "tdrop" / room)
    }
    assert not past


@pytest.mark.parametrize("room", sorted(ROOMS))
def test_everything_that_a_front_door_names_is_there(room):
    door = import_module(f"tdrop.{room}")
    assert door.__all__
    for name in door.__all__:
        assert getattr(door, name) is not None
    # Python would put the module in the place of what the door names.
    modules = {module.name for module in iter_modules(door.__path__)}
    named = {name for name in door.__all__ if name in modules}
    assert all(getattr(door, name).__name__ == f"tdrop.{room}.{name}" for name in named)
