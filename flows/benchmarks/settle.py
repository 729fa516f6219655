"""Which defaults should a method have? Each is settled by its own log loss on source patients left out of the fits.

One setting at a time is changed, on the labelled sources of several pairs of sites; a target lends its rows, never an
outcome. A change wins when it lowers a method's log loss by at least LEAST on average with an interval below 0; run
again with the winners as defaults, the command says whether anything is left to win. docs/METHODS.md reports a run.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from flows.benchmarks.paired import mean_over_problems
from flows.benchmarks.real_pairs import SUPPORT_TARGETS, rotterdam_to_gbsg, support_to
from flows.benchmarks.results import Estimate, Results, Row, Scale, Table
from flows.benchmarks.units import run_units
from tdrop.base import Cohort
from tdrop.choose import TUNING_FOLDS, run_trial
from tdrop.data import Support, extrapolation, shaped, simulated_cohort
from tdrop.home import Place
from tdrop.methods import build, label, method_names

#: Log loss that a change must gain on average: what is less is not worth another default.
LEAST = 0.002
#: Source patients behind a problem, at most.
MOST_ROWS = 2_000
#: Draws of the simulated sources; no other measurement uses these seeds.
SEED = 7_000

#: A setting and what it is changed to.
Change = tuple[str, Any]

NETWORK_CHANGES: Mapping[str, tuple[Any, ...]] = {
    "steps": (80, 320),
    "learning_rate": (0.005, 0.02),
    "hidden": ((64, 64),),
    "weight_decay": (1e-4, 1e-3, 1e-2),
}
#: What is tried instead of the networks' changes.
CHANGES: Mapping[str, Mapping[str, tuple[Any, ...]]] = {
    "logistic_regression": {"C": (0.1, 10.0)},
    "gradient_boosting": {"steps": (40, 160), "learning_rate": (0.05, 0.2), "leaves": (4, 16)},
}


def _simulated(support: Support) -> tuple[Cohort, Cohort]:
    source = simulated_cohort("source", MOST_ROWS, seed=SEED, support=support)
    return source, simulated_cohort("moderate", MOST_ROWS, seed=SEED + 1)


#: By name, what draws the labelled source and a target that lends its rows.
PROBLEMS: Mapping[str, Callable[[], tuple[Cohort, Cohort]]] = {
    "Rotterdam": rotterdam_to_gbsg,
    "SUPPORT's sepsis patients": lambda: support_to(next(iter(SUPPORT_TARGETS))),
    "prostate registry (simulated)": lambda: _simulated("full"),
    "truncated registry (simulated)": lambda: _simulated("truncated"),
    "extrapolation family (simulated)": lambda: extrapolation(1_000, seed=SEED),
    "curved family (simulated)": lambda: shaped("curved", seed=SEED),
    "interacting family (simulated)": lambda: shaped("interacting", seed=SEED),
}


def run(place: Place, scale: Scale) -> Results:
    """Every change of every method on every problem, one unit each; `seeds` is how many folds are left out in turn."""
    folds = min(scale.seeds_or(TUNING_FOLDS), TUNING_FOLDS)
    problems = list(PROBLEMS)[-1:] if scale.quick else list(PROBLEMS)
    methods = ("mlp", "logistic_regression") if scale.quick else method_names()
    base = {"steps": 2} if scale.quick else {}
    units = [
        {"problem": problem, "method": method, "changes": changes_of(method), "base": base, "folds": folds}
        for method in methods
        for problem in problems
    ]
    found = iter(run_units(place, "settle", measure, units))
    rows = [row for method in methods for row in change_rows(method, [next(found) for _ in problems])]
    return Results(
        title="Defaults, settled on source patients",
        about=f"{len(problems)} sources, {folds} of {TUNING_FOLDS} folds left out; simulated ones are named so.",
        tables=[Table("settled_defaults", _CAPTION, rows)],
        metrics={"changes that win": float(sum(row["wins"] is True for row in rows))},
        params={"folds": folds, "problems": len(problems), "least": LEAST},
    )


_CAPTION = (
    "Out-of-fold log loss of source patients, real and simulated: one setting changed, minus the defaults, mean over "
    "sources with Student's 95% interval."
)


def changes_of(method: str) -> list[Change]:
    """The settings that are tried beside a method's defaults, one at a time and as plain values."""
    tried, defaults = CHANGES.get(method, NETWORK_CHANGES), build(method).settings()
    plain = [(name, list(value) if isinstance(value, tuple) else value) for name in tried for value in tried[name]]
    return [(name, value) for name, value in plain if defaults[name] != value]


@dataclass(frozen=True)
class Tried:
    """Log loss of source patients whom the fits did not see.

    Attributes:
        default: At the defaults; None where it could not be measured.
        changed: With every change, in the order in which they were given.
    """

    default: float | None
    changed: tuple[float | None, ...]


def measure(problem: str, method: str, changes: Sequence[Change], base: Mapping[str, Any], folds: int) -> Tried:
    """Log loss of source patients whom the fits did not see: at the defaults, and with every change."""
    source, target = PROBLEMS[problem]()

    def loss(*change: Change) -> float | None:
        tried = build(method, **{**base, **dict(change)})
        rows, held = np.arange(0), tuple(range(folds))
        trial, _ = run_trial(tried, source, target, rows, seed=SEED, held=held, most_rows=MOST_ROWS)
        return trial.log_loss

    return Tried(loss(), tuple(loss((name, value)) for name, value in changes))


def change_rows(method: str, units: Sequence[Tried]) -> list[Row]:
    """One row a change: what it costs or gains over the problems, and whether it wins."""
    rows: list[Row] = []
    for place, (name, value) in enumerate(changes_of(method)):
        pairs = [(unit.changed[place], unit.default) for unit in units]
        known = [changed - default for changed, default in pairs if changed is not None and default is not None]
        difference = mean_over_problems(known, digits=4)
        rows.append(
            {
                "method": label(method),
                "setting": name,
                "default": str(build(method).settings()[name]),
                "changed to": str(value),
                "log loss": difference,
                "sources": len(known),
                "worst": max(known, default=None),
                "wins": wins(difference),
            }
        )
    return rows


def wins(difference: Estimate) -> bool:
    """Whether a change should become the default."""
    return difference.value is not None and difference.value <= -LEAST and (difference.high or 0.0) < 0
