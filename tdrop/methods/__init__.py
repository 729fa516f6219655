"""The methods, one file per method: this folder is the registry, so a new file adds a method.

The name of a file is the name of its method, and its `METHOD` is the frozen dataclass of the settings. `parts` has what
methods share. torch and scikit-learn are imported only when a method that needs them is built.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Mapping
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from pkgutil import iter_modules
from typing import TYPE_CHECKING, Any

from tdrop.base import PARSING, FitError, UsageError, did_you_mean

if TYPE_CHECKING:
    from tdrop.base import Fitted, Method

__all__ = [
    "COMMITTEE",
    "SITE_INPUT",
    "build",
    "describe_method",
    "have_samples",
    "label",
    "load",
    "method_class",
    "method_names",
    "rebuild",
    "require_methods",
]

#: Several methods' fits used together: not a method to tune or ask for, but shown and served like one.
COMMITTEE = "committee"
#: The setting of any method that gives it the site of the pooled sources as an input.
SITE_INPUT = "site_input"

#: The order of the paper's table; other methods follow by name.
_ORDER = (
    "mlp",
    "mc_dropout",
    "concrete_dropout",
    "ensemble",
    "mixmatch",
    "last_layer",
    "tdnr",
    "transductive_dropout",
    "transductive_ensemble",
    "logistic_regression",
    "gradient_boosting",
)


@cache
def method_names() -> tuple[str, ...]:
    """Returns the names of all methods, in the paper's order."""
    names = {module.name for module in iter_modules(__path__) if not module.ispkg}
    return (*[name for name in _ORDER if name in names], *sorted(names - set(_ORDER)))


def require_methods(names: Iterable[str]) -> None:
    """Raises a UsageError for a name of no method, and for the committee, which tuning forms from other methods."""
    for name in names:
        if name == COMMITTEE:
            raise UsageError(
                f"'{COMMITTEE}' is made of other methods' fits and has no settings: name two methods or none, and "
                "it is formed where source patients cannot tell them apart"
            )
        if name not in method_names():
            raise UsageError(f"unknown method '{name}'{did_you_mean(name, method_names())}")


def method_class(name: str) -> Any:
    """Returns the settings class of a method."""
    return import_module(_module_of(name)).METHOD


def have_samples(names: Iterable[str]) -> dict[str, bool]:
    """Returns for each method whether its samples spread."""
    return {name: method_class(name).has_samples for name in names}


def build(name: str, **settings: Any) -> Method:
    """Builds a method by name; settings left out keep their defaults."""
    method: Method = method_class(name)().with_settings(**settings)
    return method


def label(name: str) -> str:
    """Returns the name that a reader sees."""
    return _class_text(name, "label")


def describe_method(name: str) -> str:
    """Returns one sentence about a method for the report."""
    return _class_text(name, "summary")


def load(folder: Path | str) -> Fitted:
    """Loads a saved model; a changed, cut-off or missing file is a FitError."""
    from tdrop.methods.parts.fitted import read_model

    try:
        return rebuild(*read_model(Path(folder)))
    except (UsageError, KeyError) as error:
        raise FitError(f"model in '{Path(folder).name}' cannot be rebuilt: {error}") from None


def rebuild(record: Mapping[str, Any], files: Mapping[str, bytes]) -> Fitted:
    """Returns the model of a saved record and of the files that it names."""
    method: Any = build(record["method"], **record["settings"])
    if record["settings"].get(SITE_INPUT):
        from tdrop.methods.parts.site_input import restore_with_sites

        return restore_with_sites(method, record, files)
    fitted: Fitted = method.restore(record, files)
    return fitted


def _module_of(name: str) -> str:
    if name == COMMITTEE:
        return f"{__name__}.parts.committee"
    if name not in method_names():
        raise UsageError(f"there is no method '{name}'{did_you_mean(name, method_names())}")
    return f"{__name__}.{name}"


@cache
def _class_text(name: str, attribute: str) -> str:
    """Returns a text of a method's class. It is read from the file without an import: a report fits no method."""
    spec = find_spec(_module_of(name))
    if spec is not None and spec.origin is not None:
        with PARSING:
            tree = ast.parse(Path(spec.origin).read_bytes())
        for node in ast.walk(tree):
            match node:
                case ast.AnnAssign(target=ast.Name(id=target), value=ast.Constant(value=str(text))):
                    if target == attribute:
                        return text
    return str(getattr(method_class(name), attribute))
