"""Patients who leave before the horizon: dropping them beside weighting the others.

Four simulated designs, in which everybody's outcome is known to the judge: leaving that depends on nothing, light and
heavy, and leaving by the sicker or the healthier. The numbers judged are those of the true risks, which are right: an
error is what censoring adds. And one real pair of cohorts, Rotterdam to GBSG.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache

import numpy as np

from benchmarks.results import Results, Row, Table
from benchmarks.units import Options, run_units
from tdrop.base import Doubles, Summary
from tdrop.contracts import Decision
from tdrop.data import FollowUp, weigh_outcomes
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
    for each in (weight, None):
        own = None if each is None else each[known]
        seen = (
            float(np.average(y[known], weights=own)) - rate,
            (auroc(y[known], drawn.risk[known], own) or np.nan) - ranking,
            calibration_intercept(y[known], drawn.risk[known], own) or 0.0,
        )
        errors.append(seen)
    return np.asarray(errors, dtype=np.float64)


def measure_draw(design: str, seed: int) -> list[float]:
    """Share who left; errors of rate, AUROC and intercept, weighted and dropped; whether intervals held the rate."""
    drawn = draw_followed(design, PATIENTS, seed)
    y, risk = drawn.follow_up.y, drawn.risk.astype(np.float32)
    weight, summary = weigh_outcomes(drawn.follow_up, drawn.X, "simulated patients", asked="ipcw")
    told = Summary(risk, np.zeros_like(risk), (0.95,), risk[None], risk[None], 1)
    held = []
    for each in (weight, None):
        found = evaluate_methods(
            "here", {"m": [told]}, y, Decision(), seeds=[0], bootstrap=RESAMPLES, seed=seed, weight=each
        ).row("m", "outcome_rate")
        assert found is not None
        assert found.low is not None
        assert found.high is not None
        held.append(float(found.low <= truth()[0] <= found.high))
    effective = float(summary.effective_n) if isinstance(summary.effective_n, float) else np.nan
    return [
        float(drawn.follow_up.censored.mean()),
        *errors_of(drawn).ravel().tolist(),
        *held,
        effective,
        summary.largest_weight or 1.0,
    ]


def run(options: Options) -> Results:
    """Judges both ways in the four designs."""
    draws = options.seeds_or(DRAWS, quick=4)
    units = [{"design": design, "seed": seed} for design in DESIGNS for seed in range(draws)]
    measured = iter(run_units(options, "censoring", measure_draw, units))
    rows: list[Row] = []
    for design in DESIGNS:
        mean = np.mean([next(measured) for _ in range(draws)], axis=0)
        for way, start, held in (("dropped", 4, 8), ("weighted", 1, 7)):
            rate, ranking, intercept = (float(value) for value in mean[start : start + 3])
            rows.append({
                "censoring": design, "left before the horizon": f"{mean[0]:.0%}", "way": way,
                "error of the rate": rate, "of the AUROC": ranking, "of the intercept": intercept,
                "coverage of the rate's interval": f"{mean[held]:.1%}",
                "effective n": f"{mean[9]:.0f}" if way == "weighted" else f"{PATIENTS * (1 - mean[0]):.0f}",
                "largest weight": f"{mean[10]:.1f}" if way == "weighted" else "1",
            })  # fmt: skip
    caption = (
        f"Simulated: {PATIENTS} patients, {draws} draws; the numbers are those of the true risks "
        f"(rate {truth()[0]:.3f}, AUROC {truth()[1]:.3f}), so that every error is what censoring adds."
    )
    about = "An error is what censoring adds to numbers of risks that are right."
    return Results("Patients who leave before the horizon", about, [Table("designs", caption, rows)])
