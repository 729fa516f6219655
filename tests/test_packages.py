"""A package of tdrop is used by its public API: its `__init__.pyi` names it, each name loaded when it is used."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules

import pytest
from conftest import PROJECT

APIS = sorted(PROJECT.glob("tdrop/*/__init__.pyi"))
PACKAGES = {api.parent.name for api in APIS}
PROGRAM = sorted(file for top in ("tdrop", "tasks", "flows", "benchmarks") for file in (PROJECT / top).rglob("*.py"))


def modules_imported(file: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(file.read_bytes())):
        if isinstance(node, ast.ImportFrom):
            yield node.module or ""
        elif isinstance(node, ast.Import):
            yield from (each.name for each in node.names)


def test_no_package_has_the_name_of_something_it_exports():
    assert {package for package in PACKAGES if package in import_module(f"tdrop.{package}").__all__} == set()


def test_no_module_of_another_package_is_imported_past_its_public_api():
    past = {
        f"{file.relative_to(PROJECT)}: {module}"
        for file in PROGRAM
        for module in modules_imported(file)
        if module.startswith("tdrop.")
        and module.count(".") > 1
        and (package := module.split(".")[1]) in PACKAGES
        and not file.is_relative_to(PROJECT / "tdrop" / package)
    }
    assert not past


@pytest.mark.parametrize("package", sorted(PACKAGES))
def test_everything_that_a_public_api_names_is_there(package):
    api = import_module(f"tdrop.{package}")
    assert api.__all__
    for name in api.__all__:
        assert getattr(api, name) is not None
    # Python would put the module in the place of what the api names.
    modules = {module.name for module in iter_modules(api.__path__)}
    named = {name for name in api.__all__ if name in modules}
    assert all(getattr(api, name).__name__ == f"tdrop.{package}.{name}" for name in named)
