"""Which settings a method tries: its defaults, the same trained longer, and an even draw from its search space."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, islice, product
from typing import Any

import numpy as np

from tdrop.base import Method, UsageError
from tdrop.methods import build

#: Trials a method gets.
BUDGET = 12
#: Draws of `budget` points each before a plan stays short; repeats are rare where the grid exceeds the budget.
MOST_DRAWS = 50


@dataclass(frozen=True)
class Planned:
    """A method's settings in plain values, so that planning and comparing fits need not import torch or scikit-learn.

    Attributes:
        name: Name of the method.
        values: All its settings.
        reads_target: Whether the fit reads the target's unlabelled patients.
    """

    name: str
    values: Mapping[str, Any]
    reads_target: bool

    def settings(self) -> Mapping[str, Any]:
        """Every setting as a plain JSON value."""
        return self.values


def describe_trials(name: str, *, budget: int, seed: int, base: Mapping[str, Any]) -> tuple[Planned, ...]:
    """The trials of `plan_trials`, in plain values."""
    return tuple(map(_in_plain_values, plan_trials(name, budget=budget, seed=seed, base=base)))


def describe_fit(name: str, settings: Mapping[str, Any]) -> Planned:
    """A method with these settings, in plain values."""
    return _in_plain_values(build(name, **settings))


def _in_plain_values(method: Method) -> Planned:
    return Planned(method.name, dict(method.settings()), method.needs_target())


def plan_trials(
    name: str, *, budget: int = BUDGET, seed: int = 0, base: Mapping[str, Any] | None = None
) -> tuple[Method, ...]:
    """Returns the methods to try: the defaults, third the same trained longer, else a draw from the search space.

    The draw is even: every value of a setting comes about equally often. A search space smaller than the budget is
    tried completely.

    Args:
        name: Name of the method.
        budget: Number of trials, the defaults included.
        seed: Decides the draw.
        base: Settings that every trial shares, such as fewer steps; they are not searched.
    """
    if budget < 1:
        raise UsageError(f"tuning '{name}' needs at least 1 trial, came {budget}")
    given, default = set(base or ()), build(name, **(base or {}))
    # A setting may be given without the underscore that keeps its name apart from Python's own words.
    fixed = tuple(key for key in default.settings() if {key, key.removesuffix("_")} & given)
    return plan_around(default, budget=budget, seed=seed, fixed=fixed)


def plan_around(default: Method, *, budget: int, seed: int, fixed: Sequence[str] = ()) -> tuple[Method, ...]:
    """Returns `default` and up to budget - 1 other points of its search space."""
    space = {key: tuple(values) for key, values in default.search_space().items() if key not in fixed}
    generator = np.random.default_rng([seed, 6])
    planned = [default]
    # Longer fits cost most, and gain where the truth is curved whatever the other settings are: not part of the draw,
    # and not tried where there are two trials.
    longer = [{"length": length} for length in space.get("length", ()) if length > 1]
    space |= {"length": tuple(length for length in space["length"] if length <= 1)} if longer else {}
    points = _points(space, budget, generator)
    for point in chain(islice(points, 1), longer, points):
        candidate = default.with_settings(**point)
        if candidate not in planned:
            planned.append(candidate)
        if len(planned) >= budget:
            break
    return tuple(planned[:budget])


def _points(
    space: Mapping[str, tuple[Any, ...]], budget: int, generator: np.random.Generator
) -> Iterator[Mapping[str, Any]]:
    """Yields the whole grid when it is small, else draws; more draws than trials make up for repeats."""
    if math.prod(len(values) for values in space.values()) <= budget:
        yield from (dict(zip(space, values, strict=True)) for values in product(*space.values()))
        return
    for _ in range(MOST_DRAWS):
        yield from _draw_evenly(space, budget, generator)


def _draw_evenly(
    space: Mapping[str, tuple[Any, ...]], count: int, generator: np.random.Generator
) -> list[Mapping[str, Any]]:
    """Draws `count` points in which the values of a setting occur equally often, give or take one."""
    columns = {}
    for key, values in space.items():
        repeats = -(-count // len(values))
        places = np.concatenate([generator.permutation(len(values)) for _ in range(repeats)])[:count]
        columns[key] = [values[place] for place in generator.permutation(places)]
    return [{key: column[index] for key, column in columns.items()} for index in range(count)]
