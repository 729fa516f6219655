"""Source patients who play the target: what a rule may be settled on, because no target's outcome is involved.

Of every transfer's source the patients most like its target are set aside with their labels; the others are the
labelled ones.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial

import numpy as np

from flows.benchmarks.problems import Sides
from flows.benchmarks.transfers import collection
from tdrop.base import Cohort, Doubles, ascending
from tdrop.data import SHAPES, extrapolation, shaped
from tdrop.shift import propensity

#: Draws of the simulated families; no other measurement uses their seeds.
DRAWS = range(900, 904)
#: Share of the source that plays the target, and how strongly the most target-like patients are preferred.
SHARE, PREFERENCE = 0.25, 6
#: Of each outcome among the patients set aside, at least.
FEWEST_OUTCOMES = 10
REAL, SIMULATED = "real", "simulated"
#: Whose sources are used; their targets' outcomes are not.
COLLECTIONS = ("settling", "judging", "first", "second", "third", "fourth")


def _sources() -> Mapping[str, Mapping[str, Callable[[], Sides]]]:
    draws: dict[str, Callable[..., Sides]] = {shape: partial(shaped, shape) for shape in SHAPES}
    draws["extrapolation"] = partial(extrapolation, 1_000)
    return {
        REAL: {title: each.sides for name in COLLECTIONS for title, each in collection(name).items()},
        SIMULATED: {f"{name} {seed}": partial(draw, seed=seed) for name, draw in draws.items() for seed in DRAWS},
    }


#: By family and name, what gives a source and a target, of which the target's outcomes are not used.
SOURCES = _sources()


def play_target(source: Cohort, target: Cohort) -> Sides:
    """The source in two: those most like the target's unlabelled patients play it."""
    return take_apart(source, np.asarray(propensity(source, target.unlabelled(), seed=0).source))


def take_apart(source: Cohort, closeness: Doubles) -> Sides:
    """Draws the patients who play the target, the closest most often: neither side is without the other's kind."""
    generator = np.random.default_rng(0)
    rank = np.argsort(ascending(closeness)) / len(source)
    weight = rank**PREFERENCE
    drawn = generator.choice(len(source), int(SHARE * len(source)), replace=False, p=weight / weight.sum())
    away = np.zeros(len(source), dtype=bool)
    away[drawn] = True
    return source.take(np.flatnonzero(~away)), source.take(np.flatnonzero(away))


def enough(aside: Cohort) -> bool:
    """Whether the patients set aside have enough of either outcome to be ranked."""
    assert aside.y is not None
    return bool(min(aside.y.sum(), len(aside) - aside.y.sum()) >= FEWEST_OUTCOMES)


def problems_of(quick: bool) -> list[dict[str, str]]:
    """Family and name of every problem, or of two simulated ones to see that something works."""
    return [
        {"family": family, "name": name}
        for family, names in SOURCES.items()
        for name in (list(names)[:2] if quick else names)
        if not (quick and family == REAL)
    ]
