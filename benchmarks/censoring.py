"""Patients who leave before the horizon: dropping them beside weighting the others.

Four simulated designs, in which everybody's outcome is known to the judge: leaving that depends on nothing, light and
heavy, and leaving by the sicker or the healthier. The numbers judged are those of the true risks, which are right: an
error is what censoring adds.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

from benchmarks.results import Results, Row, Table
from benchmarks.units import Options, run_grid
from tdrop.base import Doubles, Summary
from tdrop.contracts import Decision
from tdrop.data import CensoringModel, FollowUp, weigh_outcomes
from tdrop.evaluate import evaluate_methods
from tdrop.metrics import auroc, calibration_intercept

HORIZON = 1.0
#: By design, how fast patients leave, and how that follows the log hazard of the event: above 0 the sicker leave.
DESIGNS: Mapping[str, tuple[float, float]] = {
    "light, independent": (0.25, 0.0),
    "heavy, independent": (0.60, 0.0),
    "heavy, sicker leave": (0.58, 0.8),
    "heavy, healthier leave": (0.58, -0.8),
}
#: Effects of the four features on the log hazard, and the log hazard of a patient with all of them at 0.
EFFECTS, BASELINE = np.array([0.8, 0.5, -0.4, 0.0]), -1.445
PATIENTS, DRAWS, RESAMPLES = 800, 200, 300
#: What is judged.
ERRORS = ("error of the rate", "of the AUROC", "of the intercept")


@dataclass(frozen=True)
class Drawn:
    """Simulated patients: their features (rows, features), follow-up, outcome if nobody had left, and true risk."""

    X: Doubles
    follow_up: FollowUp
    happened: Doubles
    risk: Doubles


def draw_followed(design: str, rows: int, seed: int) -> Drawn:
    """Draws patients of one design."""
    pace, sicker = DESIGNS[design]
    random = np.random.default_rng([seed, 32])
    X = random.standard_normal((rows, len(EFFECTS)))
    hazard = X @ EFFECTS + BASELINE
    time = random.exponential(1 / np.exp(hazard))
    left = random.exponential(1 / (pace * np.exp(sicker * (hazard - BASELINE))))
    follow_up = FollowUp(np.minimum(time, left), time <= left, np.zeros(rows, dtype=np.bool_), HORIZON)
    return Drawn(X, follow_up, (time <= HORIZON).astype(np.float64), 1 - np.exp(-np.exp(hazard) * HORIZON))


@cache
def truth() -> tuple[float, float]:
    """The outcome rate and the AUROC of the true risks, of very many patients."""
    everybody = draw_followed("light, independent", 1_000_000, 0)
    ranking = auroc(everybody.happened, everybody.risk)
    assert ranking is not None
    return float(everybody.risk.mean()), ranking


def errors_of(drawn: Drawn) -> Doubles:
    """Errors of rate, AUROC and intercept of the true risks (2, 3): weighted, then dropped."""
    y = drawn.follow_up.y
    known = np.isfinite(y)
    weight, _ = weigh_outcomes(drawn.follow_up, drawn.X, "simulated patients", asked="ipcw")
    rate, ranking = truth()
    errors = []
    for weights in (weight, None):
        known_weights = None if weights is None else weights[known]
        seen = (
            float(np.average(y[known], weights=known_weights)) - rate,
            (auroc(y[known], drawn.risk[known], known_weights) or np.nan) - ranking,
            calibration_intercept(y[known], drawn.risk[known], known_weights) or 0.0,
        )
        errors.append(seen)
    return np.asarray(errors, dtype=np.float64)


def measure_draw(design: str, seed: int) -> list[dict[str, Any]]:
    """Both ways: the share who left, the errors, whether the interval held the rate, effective n and largest weight."""
    drawn = draw_followed(design, PATIENTS, seed)
    y, risk = drawn.follow_up.y, drawn.risk.astype(np.float32)
    weight, weights = weigh_outcomes(drawn.follow_up, drawn.X, "simulated patients", asked="ipcw")
    summary = Summary(risk, np.zeros_like(risk), (0.95,), risk[None], risk[None], 1)
    model = CensoringModel(drawn.follow_up, drawn.X)
    settings: dict[str, Any] = {"seeds": [0], "bootstrap": RESAMPLES, "seed": seed, "censoring": model}
    left = float(drawn.follow_up.censored.mean())
    weighted, dropped = (dict(zip(ERRORS, errors, strict=True)) for errors in errors_of(drawn).tolist())
    weighted |= {"effective n": float(str(weights.effective_n)), "largest weight": weights.largest_weight or 1.0}
    dropped |= {"effective n": PATIENTS * (1 - left), "largest weight": 1.0}
    rows = []
    for way, weights_used, numbers in (("dropped", None, dropped), ("weighted", weight, weighted)):
        evaluation = evaluate_methods("here", {"m": [summary]}, y, Decision(), weight=weights_used, **settings)
        rate = evaluation.row("m", "outcome_rate")
        assert rate is not None
        assert rate.low is not None
        assert rate.high is not None
        rows.append({"way": way, "left": left, "held": rate.low <= truth()[0] <= rate.high, **numbers})
    return rows


def run(options: Options) -> Results:
    """Judges both ways in the four designs."""
    draws = options.seeds_or(DRAWS, quick=4)
    measured = run_grid(options, "censoring", measure_draw, design=list(DESIGNS), seed=range(draws))
    means = measured.groupby(["design", "way"], sort=False).mean(numeric_only=True).reset_index()
    rows: list[Row] = [
        {
            "censoring": mean["design"],
            "left before the horizon": f"{mean['left']:.0%}",
            "way": mean["way"],
            **{name: float(mean[name]) for name in ERRORS},
            "coverage of the rate's interval": f"{mean['held']:.1%}",
            "effective n": f"{mean['effective n']:.0f}",
            "largest weight": f"{mean['largest weight']:.1f}",
        }
        for mean in means.to_dict("records")
    ]
    caption = (
        f"Simulated: {PATIENTS} patients, {draws} draws; the numbers are those of the true risks "
        f"(rate {truth()[0]:.3f}, AUROC {truth()[1]:.3f}), so that every error is what censoring adds."
    )
    about = "An error is what censoring adds to numbers of risks that are right."
    return Results("Patients who leave before the horizon", about, [Table("designs", caption, rows)])
