"""tdrop moves a clinical prediction model to a new site and says for whom it should not be trusted.

Everything below is imported when it is first asked for: `import tdrop` costs nothing.
"""

from __future__ import annotations

from importlib import import_module
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tdrop.errors import TdropError
    from tdrop.estimator import TransferClassifier
    from tdrop.evaluate import evaluate
    from tdrop.matching import match
    from tdrop.methods import build, load, method_names
    from tdrop.shift import estimate_shift
    from tdrop.types import Cohort, Predictive, Summary

__all__ = [
    "Cohort",
    "Predictive",
    "Summary",
    "TdropError",
    "TransferClassifier",
    "build",
    "estimate_shift",
    "evaluate",
    "load",
    "match",
    "method_names",
]

_ROOMS = {
    "Cohort": "tdrop.types",
    "Predictive": "tdrop.types",
    "Summary": "tdrop.types",
    "TdropError": "tdrop.errors",
    "TransferClassifier": "tdrop.estimator",
    "build": "tdrop.methods",
    "load": "tdrop.methods",
    "method_names": "tdrop.methods",
    "estimate_shift": "tdrop.shift",
    "match": "tdrop.matching",
    "evaluate": "tdrop.evaluate",
}


def __getattr__(name: str) -> Any:
    if name == "__version__":
        return version("tdrop")
    if name not in _ROOMS:
        raise AttributeError(f"module 'tdrop' has no attribute '{name}'")
    return getattr(import_module(_ROOMS[name]), name)


def __dir__() -> list[str]:
    return sorted(__all__)
