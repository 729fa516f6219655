"""How networks should train by default: settings compared on left-out patients of real sources, and simulated ones.

A source's persons are split in two thirds that train and one that judges; no target patient and no target outcome is
read. The defaults were settled on the collections `settling` and `first` and on simulated truths, because real tables
are noisy and a default has to serve both; `--only second` to `--only fifth` judge them on sources that settled nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from benchmarks.length import TRUTHS, above_oracle, draw_patients
from benchmarks.paired import mean_over_problems
from benchmarks.problems import draw, transfer_problems
from benchmarks.public_tables import COLLECTIONS
from benchmarks.results import Results, Row, Table
from benchmarks.training import steps_by_rows
from benchmarks.units import QUICK_NETWORK, Options, run_units
from tdrop.base import Cohort
from tdrop.methods import build, label
from tdrop.metrics import per_row_log_loss

#: By name, what a network of so many source rows trains with; the first is the default, which the others are held
#: against, the second the defaults before it, the third version 0.1's.
SETTINGS: Mapping[str, Callable[[int], Mapping[str, Any]]] = {
    "defaults": lambda rows: {},
    "16 rows / batch, decay 1e-3": lambda rows: {"steps": steps_by_rows(rows), "weight_decay": 1e-3},
    "160 steps, decay 1e-4": lambda rows: {"steps": 160, "weight_decay": 1e-4},
    "at least 240 steps, decay 1e-3": lambda rows: {"steps": max(240, steps_by_rows(rows)), "weight_decay": 1e-3},
    "64 rows / batch, decay 1e-3": lambda rows: {"steps": steps_by_rows(rows, 64), "weight_decay": 1e-3},
    "16 rows / batch, decay 1e-2": lambda rows: {"steps": steps_by_rows(rows), "weight_decay": 1e-2},
    "16 rows / batch, decay 3e-2": lambda rows: {"steps": steps_by_rows(rows), "weight_decay": 3e-2},
    "the same, linear term": lambda rows: {"steps": steps_by_rows(rows), "weight_decay": 3e-2, "linear": True},
}
METHODS, REFERENCES = ("mlp", "tdnr"), ("logistic_regression", "gradient_boosting")
SETTLED_ON = ("settling", "first")
SIMULATED_ROWS, JUDGED = (300, 1_000, 5_000), 6_000


@dataclass(frozen=True)
class Losses:
    """Of one source: rows that trained, features, and log loss by settings, above the oracle's where it is known."""

    rows: int
    features: int
    by_settings: Mapping[str, float]


def run(options: Options) -> Results:
    """Fits every setting to two thirds of every source."""
    problems = transfer_problems()
    cases = [(family, problem.name) for family in COLLECTIONS for problem in problems[family]]
    cases += [(f"{truth} (simulated)", str(rows)) for truth in TRUTHS for rows in SIMULATED_ROWS]
    asked = set(options.only) or {*SETTLED_ON, *(family for family, _ in cases if "simulated" in family)}
    cases = [case for case in cases if asked & set(case)][:: options.every]
    methods = options.methods_or(METHODS, METHODS[:1])
    if options.quick:
        cases = cases[-2:]
    units: list[dict[str, Any]] = [
        {"family": family, "name": name, "method": method, "seed": seed, "quick": options.quick}
        for method in methods
        for family, name in cases
        for seed in range(options.seeds_or(1))
    ]
    measured = run_units(options, "settings", measure_settings, units)
    rows: list[Row] = []
    for unit, losses in zip(units, measured, strict=True):
        facts: Row = {"method": label(unit["method"]), "family": unit["family"], "source": unit["name"]}
        rows.append({**facts, "rows": losses.rows, "features": losses.features, **losses.by_settings})
    caption = "Log loss of left-out source patients; simulated truths: above the oracle's."
    return Results(
        "Settings of networks, on source patients alone",
        f"{caption} {options.seeds_or(1)} split(s). No target patient is read.",
        [_mean_table(rows), Table("settings_sources", caption, rows)],
    )


def _mean_table(rows: list[Row]) -> Table:
    """By method and rows per feature, the mean loss over real sources and the paired difference to the defaults."""
    table = pd.DataFrame([row for row in rows if "simulated" not in str(row["family"])] or rows)
    per_feature = table["rows"] / table["features"]
    table["rows per feature"] = np.select([per_feature < 20, per_feature < 120], ["below 20", "20 to 120"], "120 on")
    lines: list[Row] = []
    for (method, wide), own in table.groupby(["method", "rows per feature"]):
        for name in (*SETTINGS, *map(label, REFERENCES)):
            difference = own[name] - own["defaults"]
            lines.append(
                {
                    "method": str(method),
                    "rows per feature": str(wide),
                    "settings": name,
                    "n": len(own),
                    "log loss": float(own[name].mean()),
                    "minus defaults": mean_over_problems(difference.tolist(), 4),
                    "median": float(difference.median()),
                    "worst": float(difference.max()),
                }
            )
    return Table("settings", "Mean over real sources, and paired differences to the defaults.", lines)


def measure_settings(family: str, name: str, method: str, seed: int, quick: bool) -> Losses:
    """Fits one method by every setting, and both references, to one source."""
    log_odds = None
    if family.endswith("(simulated)"):
        truth = family.removesuffix(" (simulated)")
        train, _ = draw_patients(truth, int(name), seed)
        test, log_odds = draw_patients(truth, JUDGED, 1_000 + seed)
    else:
        train, test = split_persons(draw(name, quick).source.known(), seed)
    base = QUICK_NETWORK if quick else {}
    fits = {title: build(method, **{**settings(len(train)), **base}) for title, settings in SETTINGS.items()}
    fits |= {label(reference): build(reference) for reference in REFERENCES}
    losses = {}
    for title, built in fits.items():
        risk = built.fit(train, test.unlabelled(), None, seed=seed).summarise(test.X, 50, seed=0).mean
        assert test.y is not None
        own = per_row_log_loss(test.y, risk).mean() if log_odds is None else above_oracle(risk, log_odds)
        losses[title] = float(own)
    return Losses(len(train), train.X.shape[1], losses)


def split_persons(source: Cohort, seed: int) -> tuple[Cohort, Cohort]:
    """Two thirds of the persons, and the others."""
    whose = np.arange(len(source)) if source.persons is None else source.persons
    persons = np.random.default_rng([seed, 79]).permutation(np.unique(whose))
    train = np.isin(whose, persons[: 2 * len(persons) // 3])
    return source.take(train), source.take(~train)
