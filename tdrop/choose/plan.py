"""Which settings a method tries: its defaults, the most restrained ones, their hedge, then an even draw."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, product
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
    """A method's settings to fit, in plain values: who hands out fits and compares them need not load what fits.

    Attributes:
        name: Name of the method.
        values: All its settings.
        reads_target: Whether the fit reads the target's unlabelled patients.
        holds_back: How much the settings hold the method back, the most important part first.
        hedged: Whether some of its members are held back and others are not.
        risk: What gives its risk, where that is another fit.
    """

    name: str
    values: Mapping[str, Any]
    reads_target: bool
    holds_back: tuple[float, ...]
    hedged: bool = False
    risk: Planned | None = None

    def settings(self) -> Mapping[str, Any]:
        """Every setting as a plain JSON value."""
        return self.values

    def restraint(self) -> tuple[float, ...]:
        """How much the settings hold the method back."""
        return self.holds_back

    def risk_alone(self) -> Planned:
        """What tuning fits."""
        return self.risk or self


def describe_trials(name: str, *, budget: int, seed: int, base: Mapping[str, Any]) -> tuple[Planned, ...]:
    """What `plan_trials` plans, in plain values."""
    return tuple(map(_in_plain_values, plan_trials(name, budget=budget, seed=seed, base=base)))


def describe_fit(name: str, settings: Mapping[str, Any]) -> Planned:
    """A method with these settings, in plain values."""
    return _in_plain_values(build(name, **settings))


def _in_plain_values(method: Method) -> Planned:
    alone = method.risk_alone()
    risk = None if alone == method else _in_plain_values(alone)
    return Planned(method.name, dict(method.settings()), method.needs_target(), method.restraint(), method.hedged, risk)


def plan_trials(
    name: str, *, budget: int = BUDGET, seed: int = 0, base: Mapping[str, Any] | None = None
) -> tuple[Method, ...]:
    """Returns the methods to try: the defaults, the most restrained settings, their hedge, then a seeded draw.

    Few trials thus still learn whether restraint costs anything. The draw from the search space is even: every value of
    a setting comes about equally often. A search space smaller than the budget is tried completely.

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
    """Returns `default` and up to budget - 1 others: the most restrained, its hedge, and points of the search space."""
    space = {key: tuple(values) for key, values in default.search_space().items() if key not in fixed}
    generator = np.random.default_rng([seed, 6])
    planned = [default]
    restrained = default.with_settings(**_restrained(default, space))
    drawn = (default.with_settings(**point) for point in _points(space, budget, generator))
    for candidate in chain([restrained, *_hedges(restrained, default, fixed)], drawn):
        if candidate not in planned:
            planned.append(candidate)
        if len(planned) >= budget:
            break
    return tuple(planned[:budget])


def _hedges(restrained: Method, default: Method, fixed: Sequence[str]) -> list[Method]:
    """The hedge of settings that hold back more than the defaults, unless it would change what is fixed."""
    hedge = restrained.hedge()
    kept = all(hedge.settings()[key] == default.settings()[key] for key in fixed)
    return [hedge] if kept and restrained.restraint() > default.restraint() else []


def _restrained(default: Method, space: Mapping[str, tuple[Any, ...]]) -> Mapping[str, Any]:
    """The values that hold the method back most; what holds nothing back stays at its default."""
    now = default.settings()
    choices = {key: (now[key], *values) for key, values in space.items()}
    grid = [dict(zip(choices, values, strict=True)) for values in product(*choices.values())]

    def holds_back(point: Mapping[str, Any]) -> tuple[tuple[float, ...], int]:
        return default.with_settings(**point).restraint(), -sum(value != now[key] for key, value in point.items())

    return max(grid, key=holds_back)


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
    """Draws `count` points; each value of each setting comes up equally often, give or take one."""
    columns = {}
    for key, values in space.items():
        repeats = -(-count // len(values))
        places = np.concatenate([generator.permutation(len(values)) for _ in range(repeats)])[:count]
        columns[key] = [values[place] for place in generator.permutation(places)]
    return [{key: column[index] for key, column in columns.items()} for index in range(count)]
