"""The versions that are installed by, the limits that are declared and what packages ask of each other agree."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, requires

from conftest import PROJECT
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

PINS = {
    canonicalize_name(name): version
    for name, _, version in (line.partition("==") for line in (PROJECT / "constraints.txt").read_text().split())
}
DECLARED = tomllib.loads((PROJECT / "pyproject.toml").read_text())["project"]
#: Extras that a hospital installs; the others are for developers.
FOR_USERS = ("cluster", "omop", "postgres", "s3")
#: Installs the others, and is required by none of them.
INSTALLER = "uv"


def declared(*extras: str) -> list[Requirement]:
    lists = [DECLARED["dependencies"], *(DECLARED["optional-dependencies"][extra] for extra in extras)]
    return [Requirement(line) for lines in lists for line in lines if not line.startswith("tdrop[")]


def required(requirements: list[Requirement]) -> Iterator[Requirement]:
    """Every requirement on this machine, and those of what is installed for it, each once."""
    seen: set[tuple[str, frozenset[str]]] = set()
    while requirements:
        requirement = requirements.pop()
        key = canonicalize_name(requirement.name), frozenset(requirement.extras)
        yield requirement
        if key in seen:
            continue
        seen.add(key)
        try:
            lines = requires(requirement.name) or ()
        except PackageNotFoundError:  # an extra that these tests do without
            continue
        for line in lines:
            inner = Requirement(line)
            extras = requirement.extras or {""}
            if inner.marker is None or any(inner.marker.evaluate({"extra": extra}) for extra in extras):
                requirements.append(inner)


def test_every_package_has_one_version_and_it_is_within_all_limits():
    problems = []
    for requirement in required(declared(*DECLARED["optional-dependencies"])):
        pin = PINS.get(canonicalize_name(requirement.name))
        if pin is None or not requirement.specifier.contains(pin, prereleases=True):
            problems.append(f"{requirement} is required, and {pin} in constraints.txt")
    assert problems == []


def test_every_dependency_of_a_user_has_a_cap():
    uncapped = [str(requirement) for requirement in declared(*FOR_USERS) if "<" not in str(requirement.specifier)]
    assert uncapped == []


def test_pip_is_not_held_back_and_the_installer_has_a_version():
    assert "pip" not in PINS
    assert INSTALLER in PINS
    assert "pip install --quiet -c constraints.txt uv" in (PROJECT / "Makefile").read_text()


def test_whether_the_versions_still_resolve_is_one_command():
    """It asks an index, so no test runs it; each kind of machine that is promised is asked for."""
    recipe = (PROJECT / "Makefile").read_text().partition("\nresolve:")[2].partition("\n\n")[0]
    assert "-c constraints.txt" in recipe
    assert {"x86_64-unknown-linux-gnu", "aarch64-apple-darwin"} <= set(recipe.replace(";", " ").split())
