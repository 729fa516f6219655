"""Great Expectations, loaded in about half the time: the one place that imports it.

Importing it makes half a million objects, which the garbage collector would visit again and again, and loads
packages for expectations and stores that no contract asks for. Those are loaded when somebody does ask.
"""

from __future__ import annotations

import gc
import importlib
import importlib.util
import os
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from functools import cache
from threading import Lock
from types import ModuleType
from typing import Any

#: What Great Expectations imports for a drawing of divergence, for tests of distributions, and for files in S3.
SELDOM_USED = ("altair", "scipy.stats", "boto3")
_LOADING = Lock()


def great_expectations() -> Any:
    """The package, with its telemetry off."""
    with _LOADING:
        return _load()


@cache
def _load() -> ModuleType:
    os.environ.setdefault("GX_ANALYTICS_ENABLED", "false")
    with _without_collecting(), _deferred(SELDOM_USED):
        return importlib.import_module("great_expectations")


@contextmanager
def _without_collecting() -> Iterator[None]:
    collects = gc.isenabled()
    gc.disable()
    try:
        yield
        # What was imported stays to the end: no later collection need visit it.
        gc.freeze()
    finally:
        if collects:
            gc.enable()


@contextmanager
def _deferred(names: Iterable[str]) -> Iterator[None]:
    """Gives who imports one of the modules in the block a stand-in, which loads the real one when it is used."""
    stand_ins = {name: _stand_in(name) for name in names if name not in sys.modules and _installed(name)}
    sys.modules.update(stand_ins)
    try:
        yield
    finally:
        for name, stand_in in stand_ins.items():
            _leave(name, stand_in)


def _installed(name: str) -> bool:
    return importlib.util.find_spec(name.partition(".")[0]) is not None


def _stand_in(name: str) -> ModuleType:
    module = ModuleType(name)

    def attribute(wanted: str) -> Any:
        _leave(name, module)
        return getattr(importlib.import_module(name), wanted)

    module.__dict__["__getattr__"] = attribute
    return module


def _leave(name: str, stand_in: ModuleType) -> None:
    """Lets the next import of a module find the real one."""
    if sys.modules.get(name) is stand_in:
        del sys.modules[name]
    package, _, child = name.rpartition(".")
    if package in sys.modules and vars(sys.modules[package]).get(child) is stand_in:
        delattr(sys.modules[package], child)
