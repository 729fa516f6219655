"""A stage: a function that writes files into a folder, kept in the store by exactly what it was given.

`@stage("shift")` over `def shift(folder, encoded, seed)` is all that a stage needs: its arguments are its key, and
calling it with a place before them returns the finished stage, made now or found.
"""

from __future__ import annotations

import functools
import inspect
import json
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Concatenate, Generic, ParamSpec

from tdrop.base import plain, write_json
from tdrop.home.place import Place
from tdrop.home.pool import compute
from tdrop.home.store import TIMES, Ref, Store

P = ParamSpec("P")


class Stage(Generic[P]):
    """What `stage` makes of a function."""

    def __init__(self, name: str, build: Callable[Concatenate[Path, P], None], in_worker: bool) -> None:
        functools.update_wrapper(self, build)
        self.name, self.build, self.in_worker = name, build, in_worker
        self.signature = inspect.signature(build)

    def __call__(self, place: Place, *given: P.args, **named: P.kwargs) -> Ref:
        """Returns the stage for these inputs, making it only when the store does not have it."""

        def make(folder: Path) -> None:
            if self.in_worker:
                compute(self.make_in, folder, *given, **named)
            else:
                self.build(folder, *given, **named)

        return Store(place.root).make(self.name, self.inputs(*given, **named), make)

    def make_in(self, folder: Path, *given: P.args, **named: P.kwargs) -> None:
        """Writes the stage's files and how long that took; a worker process finds it by its name.

        A stage that continues another has brought that one's time.
        """
        started = time.perf_counter()
        self.build(folder, *given, **named)
        seconds, times = time.perf_counter() - started, folder / TIMES
        before = json.loads(times.read_text(encoding="utf-8"))["seconds"] if times.is_file() else 0.0
        write_json(times, {"seconds": before + seconds})

    def inputs(self, *given: P.args, **named: P.kwargs) -> Mapping[str, Any]:
        """What decides the stage's contents, by argument: the digest of what has one, else its plain value."""
        bound = self.signature.bind(None, *given, **named)
        bound.apply_defaults()
        _, *rest = bound.arguments.items()
        return {name: _key(value) for name, value in rest}

    def __reduce__(self) -> str:
        # A worker process imports the module and finds the stage there.
        return str(self.__name__)  # type: ignore[attr-defined]


def stage(name: str, *, in_worker: bool = False) -> Callable[[Callable[Concatenate[Path, P], None]], Stage[P]]:
    """Declares a stage.

    Args:
        name: Its folder below the store.
        in_worker: Whether it is work for a worker process: fitting, sampling, comparing patients.
    """
    return lambda build: Stage(name, build, in_worker)


def _key(value: Any) -> Any:
    """A value as it enters a stage's key."""
    digest = getattr(value, "digest", None)
    if digest is not None:
        return digest
    if isinstance(value, Mapping):
        return {str(name): _key(each) for name, each in value.items()}
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [_key(each) for each in value]
    return value if value is None or isinstance(value, str | int | float | bool) else plain(value)
