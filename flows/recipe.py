"""A recipe: a Prefect flow where a server is at hand, the same function as a plain call where none is."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, ParamSpec, TypeVar

if TYPE_CHECKING:
    from prefect import Flow

P = ParamSpec("P")
R = TypeVar("R")


@dataclass(frozen=True)
class Failed:
    """What a recipe returns of a part of it that failed while the others went on: why, in a sentence."""

    sentence: str

    def answer(self) -> dict[str, object]:
        """What `--json` prints of it."""
        return {"failed": self.sentence}


class Recipe(Generic[P, R]):
    """What `recipe` makes of a function."""

    def __init__(self, name: str, run_name: str, function: Callable[P, R]) -> None:
        functools.update_wrapper(self, function)
        self.name, self.run_name, self.plainly = name, run_name, function

    def __call__(self, *given: P.args, **named: P.kwargs) -> R:
        return self.on(None)(*given, **named)

    def on(self, task_runner: Any) -> Callable[P, R]:
        """The recipe with its tasks on one of Prefect's runners, or on Prefect's own choice."""
        if not os.environ.get("PREFECT_API_URL"):
            return self.plainly
        return self.flow if task_runner is None else self.flow.with_options(task_runner=task_runner)

    @functools.cached_property
    def flow(self) -> Flow[P, R]:
        """The recipe as Prefect knows it."""
        from flows.prefect_flow import as_flow

        return as_flow(self.name, self.run_name, self.plainly)


def recipe(name: str, run_name: str) -> Callable[[Callable[P, R]], Recipe[P, R]]:
    """Declares a recipe.

    Args:
        name: What the flow is called.
        run_name: What one run is called; may name the recipe's arguments in braces.
    """
    return lambda function: Recipe(name, run_name, function)
