"""Which defaults should a method have? Each is settled by its own log loss on source patients left out of the fits.

One setting at a time is changed, on the labelled sources of several pairs of sites; a target lends its rows, never an
outcome. A change wins when it lowers a method's log loss by at least LEAST on average with an interval below 0; run
again with the winners as defaults, the command says whether anything is left to win. docs/METHODS.md reports a run.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from flows.benchmarks.paired import mean_over_problems
from flows.benchmarks.real_pairs import SUPPORT_TARGETS, rotterdam_to_gbsg, support_to
from flows.benchmarks.results import Estimate, Results, Scale, Table
from flows.benchmarks.units import run_units
from tasks.place import Place
from tdrop.data.families import extrapolation, shaped
from tdrop.data.simulate import Support, simulated_cohort
from tdrop.methods import build, label, method_names
from tdrop.tune import FOLDS, run_trial
from tdrop.types import Cohort

#: Log loss that a change must gain on average: what is less is not worth another default.
LEAST = 0.002
#: Source patients behind a problem, at most.
MOST_ROWS = 2_000
#: Draws of the simulated sources; no other measurement uses these seeds.
SEED = 7_000

NETWORK_CHANGES: Mapping[str, tuple[Any, ...]] = {
    "steps": (80, 320),
    "learning_rate": (0.005, 0.02),
    "hidden": ((64, 64),),
    "weight_decay": (1e-3, 1e-2),
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
    folds = min(scale.seeds_or(FOLDS), FOLDS)
    problems = list(PROBLEMS)[-1:] if scale.quick else list(PROBLEMS)
    methods = ("mlp", "logistic_regression") if scale.quick else method_names()
    base: Mapping[str, Any] = {"steps": 2} if scale.quick else {}
    units = [
        {"problem": problem, "method": method, "changes": changes_of(method), "base": dict(base), "folds": folds}
        for problem in problems
        for method in methods
    ]
    found = run_units(place, "settle", measure, units)
    rows = [row for method in methods for row in _rows(method, [unit for unit in found if unit["method"] == method])]
    return Results(
        title="Defaults, settled on source patients",
        about=f"{len(problems)} sources, {folds} of {FOLDS} folds left out in turn; simulated ones are named so.",
        tables=[Table("settled_defaults", _CAPTION, rows)],
        metrics={"changes that win": float(sum(row["wins"] for row in rows))},
        params={"folds": folds, "problems": len(problems), "least": LEAST},
    )


_CAPTION = (
    "Out-of-fold log loss of source patients, real and simulated: one setting changed, minus the defaults, mean over "
    "sources with Student's 95% interval."
)


def changes_of(method: str) -> list[dict[str, Any]]:
    """The settings that are tried beside a method's defaults, one at a time and as plain values."""
    defaults: Any = build(method)
    tried = CHANGES.get(method, NETWORK_CHANGES)
    settings = defaults.settings()
    plain = [(name, list(value) if isinstance(value, tuple) else value) for name in tried for value in tried[name]]
    return [{name: value} for name, value in plain if settings[name] != value]


def measure(
    problem: str, method: str, changes: Sequence[Mapping[str, Any]], base: Mapping[str, Any], folds: int
) -> dict[str, Any]:
    """Log loss of source patients whom the fits did not see: at the defaults, and with every change."""
    source, target = PROBLEMS[problem]()

    def loss(change: Mapping[str, Any]) -> float | None:
        tried = build(method, **{**base, **change})
        rows = np.arange(0)
        held = tuple(range(folds))
        trial, _ = run_trial(tried, source, target, rows, seed=SEED, held=held, most_rows=MOST_ROWS)
        return trial.log_loss

    return {
        "problem": problem,
        "method": method,
        "default": loss({}),
        "changed": [{"change": dict(change), "log_loss": loss(change)} for change in changes],
    }


def _rows(method: str, units: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """One row a change: what it costs or gains over the problems, and whether it wins."""
    settings: Any = build(method)
    rows = []
    for place, first in enumerate(units[0]["changed"]):
        ((name, value),) = first["change"].items()
        pairs = [(unit["changed"][place]["log_loss"], unit["default"]) for unit in units]
        known = [changed - default for changed, default in pairs if changed is not None and default is not None]
        difference = mean_over_problems(known, digits=4)
        rows.append(
            {
                "method": label(method),
                "setting": name,
                "default": str(settings.settings()[name]),
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
