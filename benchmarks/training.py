"""Trains methods on one problem as a transfer does: tuned out of fold on source patients, or at given settings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import numpy as np

from benchmarks.problems import draw
from benchmarks.public_tables import Sides
from benchmarks.units import Options, run_units
from tdrop.base import INTERVAL_LEVEL, Indices, Numbers, Summary
from tdrop.choose import Score, Trial, pick_members, tune
from tdrop.methods import COMMITTEE, build, label, method_names
from tdrop.methods.parts.committee import Committee
from tdrop.methods.parts.fitted import coarse_rows
from tdrop.shift import match, propensity

MAIN = "transductive_dropout"
#: What reads the unlabelled patients, and the same networks without them.
RIVALS: Mapping[str, str] = {MAIN: "tdnr", "transductive_ensemble": "ensemble"}
REFERENCES = ("logistic_regression", "gradient_boosting")
NEURAL = tuple(name for name in method_names() if name not in REFERENCES)
ORACLE = "oracle"


def steps_by_rows(rows: int, epochs: int = 16) -> int:
    """Steps that see every source row `epochs` times, between 40 and 1,600, whatever the number of features."""
    return round(min(max(epochs * coarse_rows(rows) / 256, 40), 1_600))


@dataclass(frozen=True)
class Plan:
    """How a problem's methods are trained; every method alike.

    Attributes:
        methods: Their names.
        seeds: Refits per method.
        trials: Tuning trials per method.
        passes: Samples behind each patient's interval.
        bootstrap: Resamples of patients.
        settings: By method, settings other than its defaults.
        committee: Whether methods that source patients cannot tell apart are also used together.
    """

    methods: tuple[str, ...] = method_names()
    seeds: int = 10
    trials: int = 12
    passes: int = 200
    bootstrap: int = 1000
    settings: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    committee: bool = True


@dataclass(frozen=True)
class Predicted:
    """One fit's predictions of the target's patients: mean, sd and the ends of the 95% interval (rows,)."""

    mean: Numbers
    sd: Numbers
    low: Numbers
    high: Numbers
    passes: int

    @classmethod
    def of_summary(cls, summary: Summary) -> Predicted:
        """Keeps the interval at the usual level."""
        return cls(summary.mean, summary.sd, *summary.interval(), summary.passes)

    def summary(self) -> Summary:
        """The same as the library's record."""
        mean, sd, low, high = (np.asarray(part, np.float32) for part in (self.mean, self.sd, self.low, self.high))
        return Summary(mean, sd, (INTERVAL_LEVEL,), low[None], high[None], self.passes)


@dataclass(frozen=True)
class Trained:
    """By method, the trial that tuning picked, and one summary of the target's patients per seed."""

    picked: Mapping[str, Trial]
    predictions: Mapping[str, Sequence[Summary]]


def tune_and_fit(options: Options, problem: str, plan: Plan) -> Trained:
    """Tunes every method out of fold on source patients and refits it per seed, as a transfer does."""
    tuning = [
        {
            "problem": problem,
            "quick": options.quick,
            "method": method,
            "trials": plan.trials,
            "settings": dict(plan.settings.get(method, {})),
        }
        for method in plan.methods
    ]
    trials = run_units(options, f"tune {problem}", tune_method, tuning)
    picked = dict(zip(plan.methods, trials, strict=True))
    scores = [Score(name, build(name).has_samples, trial) for name, trial in picked.items()]
    members = pick_members(scores, criterion="matched_validation") if plan.committee else ()
    settings = {name: trial.settings for name, trial in picked.items()}
    fits = fit_fixed(options, problem, settings, seeds=plan.seeds, passes=plan.passes, members=members)
    return Trained(picked, fits)


@lru_cache(maxsize=1)
def _with_matched(problem: str, quick: bool) -> tuple[Sides, Indices]:
    """Both sites, and the places of the matched validation rows; drawn once per worker process."""
    sides = draw(problem, quick)
    fitted = propensity(sides.source, sides.target, seed=0)
    return sides, np.asarray(match(sides.source, sides.target, seed=0, fitted=fitted).rows)


def tune_method(problem: str, quick: bool, method: str, trials: int, settings: Mapping[str, Any]) -> Trial:
    """The trial that tuning picks for one method."""
    sides, matched = _with_matched(problem, quick)
    return tune(method, sides.source, sides.target, matched, budget=trials, seed=0, base=settings).picked


def fit_fixed(
    options: Options,
    problem: str,
    methods: Mapping[str, Mapping[str, Any]],
    *,
    seeds: int,
    passes: int,
    members: Sequence[str] = (),
) -> dict[str, list[Summary]]:
    """Fits methods at given settings; by method, one summary per seed. `members` are also used as a committee."""
    units = [
        {
            "problem": problem,
            "quick": options.quick,
            "methods": {name: dict(settings) for name, settings in methods.items()},
            "members": list(members),
            "seed": seed,
            "passes": passes,
        }
        for seed in range(seeds)
    ]
    fits = run_units(options, f"fit {problem}", fit_methods, units)
    return {name: [fit[name].summary() for fit in fits] for name in fits[0]}


def fit_methods(
    problem: str, quick: bool, methods: Mapping[str, Mapping[str, Any]], members: Sequence[str], seed: int, passes: int
) -> dict[str, Predicted]:
    """Fits every method once, and predicts the target's patients."""
    sides = draw(problem, quick)
    fits: dict[str, Any] = {
        name: build(name, **settings).fit(sides.source, sides.target, None, seed=seed)
        for name, settings in methods.items()
    }
    if members:
        fits[COMMITTEE] = Committee(tuple(members)).from_fits([fits[name] for name in members])
    return {
        name: Predicted.of_summary(fitted.summarise(sides.target.X, passes, seed=seed)) for name, fitted in fits.items()
    }


def oracle_summary(sides: Sides) -> Summary | None:
    """The risks that outcomes were drawn from, as a method without spread; None for real patients."""
    if sides.risk is None:
        return None
    risk = sides.risk.astype(np.float32)
    return Summary(risk, np.zeros_like(risk), (INTERVAL_LEVEL,), risk[None], risk[None], passes=1)


def naming(method: str) -> str:
    """The name that a reader sees."""
    return "Oracle (true risk)" if method == ORACLE else label(method)
