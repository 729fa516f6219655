"""Patients who leave before the horizon: dropping them beside weighting the others.

Four simulated designs, in which everybody's outcome is known to the judge: leaving that depends on nothing, light and
heavy, and leaving by the sicker or the healthier. The numbers judged are those of the true risks, which are right: an
error is what censoring adds. And one real pair of cohorts, Rotterdam to GBSG.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import numpy as np

from benchmarks.results import Results, Row, Table
from benchmarks.site_pairs import OUTCOME, extract_of, network_of_sites
from benchmarks.units import Options, run_units
from tdrop.base import Cohort, Doubles, Summary
from tdrop.contracts import Decision
from tdrop.data import (
    CensoringModel,
    FollowUp,
    follow_up_of,
    learn_encoder,
    not_recorded,
    observed_share,
    prepare_frame,
    weigh_outcomes,
)
from tdrop.evaluate import evaluate_methods
from tdrop.methods import build, label
from tdrop.metrics import auroc, calibration_intercept, log_loss

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
#: Within what time the real cohorts are compared, and by which methods.
REAL_HORIZON = "5 years"
REAL_METHODS = ("logistic_regression", "gradient_boosting", "ensemble", "transductive_dropout")


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


def measure_draw(design: str, seed: int) -> dict[str, tuple[float, ...]]:
    """By way: the share who left, the errors, whether the interval held the rate, effective n and largest weight."""
    drawn = draw_followed(design, PATIENTS, seed)
    y, risk = drawn.follow_up.y, drawn.risk.astype(np.float32)
    weight, weights = weigh_outcomes(drawn.follow_up, drawn.X, "simulated patients", asked="ipcw")
    summary = Summary(risk, np.zeros_like(risk), (0.95,), risk[None], risk[None], 1)
    model = CensoringModel(drawn.follow_up, drawn.X)
    settings: dict[str, Any] = {"seeds": [0], "bootstrap": RESAMPLES, "seed": seed, "censoring": model}
    left = float(drawn.follow_up.censored.mean())
    effective = float(weights.effective_n) if isinstance(weights.effective_n, float) else np.nan
    sizes = {"weighted": (effective, weights.largest_weight or 1.0), "dropped": (PATIENTS * (1 - left), 1.0)}
    numbers = {}
    for way, weights_used, errors in zip(sizes, (weight, None), errors_of(drawn), strict=True):
        evaluation = evaluate_methods("here", {"m": [summary]}, y, Decision(), weight=weights_used, **settings)
        rate = evaluation.row("m", "outcome_rate")
        assert rate is not None
        assert rate.low is not None
        assert rate.high is not None
        held = float(rate.low <= truth()[0] <= rate.high)
        numbers[way] = (left, *errors.tolist(), held, *sizes[way])
    return numbers


def run(options: Options) -> Results:
    """Judges both ways in the four designs, and on real patients."""
    about = "An error is what censoring adds to numbers of risks that are right."
    tables = [_designs(options), _real(options)]
    return Results("Patients who leave before the horizon", about, tables)


def _designs(options: Options) -> Table:
    draws = options.seeds_or(DRAWS, quick=4)
    units = [{"design": design, "seed": seed} for design in DESIGNS for seed in range(draws)]
    measured = iter(run_units(options, "censoring", measure_draw, units))
    rows: list[Row] = []
    for design in DESIGNS:
        measured_draws = [next(measured) for _ in range(draws)]
        for way in ("dropped", "weighted"):
            means = np.mean([draw[way] for draw in measured_draws], axis=0)
            left, rate, ranking, intercept, held, effective, largest = means
            rows.append({
                "censoring": design, "left before the horizon": f"{left:.0%}", "way": way,
                "error of the rate": float(rate), "of the AUROC": float(ranking), "of the intercept": float(intercept),
                "coverage of the rate's interval": f"{held:.1%}", "effective n": f"{effective:.0f}",
                "largest weight": f"{largest:.1f}" if way == "weighted" else "1",
            })  # fmt: skip
    caption = (
        f"Simulated: {PATIENTS} patients, {draws} draws; the numbers are those of the true risks "
        f"(rate {truth()[0]:.3f}, AUROC {truth()[1]:.3f}), so that every error is what censoring adds."
    )
    return Table("designs", caption, rows)


@cache
def rotterdam_to_gbsg() -> tuple[Cohort, FollowUp, Cohort, FollowUp]:
    """Both cohorts checked and encoded, without outcomes, and how long each followed its patients."""
    network = network_of_sites()
    contract = network.contract_of(network.site("gbsg"))
    outcome = contract.outcome.model_copy(update={"horizon": REAL_HORIZON, "censoring": "ipcw"})
    contract = contract.model_copy(update={"outcome": outcome})
    extract = extract_of("gbsg")
    source_frame = prepare_frame(extract_of("rotterdam"), contract, network.site("rotterdam")).frame
    target_frame = prepare_frame(extract.drop(columns=OUTCOME), contract, network.site("gbsg")).frame
    encoder = learn_encoder(source_frame, contract, not_recorded(target_frame, contract))
    patients = target_frame[contract.id_column].astype(str).tolist()
    seen = extract.set_index(extract["pid"].astype(str))[OUTCOME].reindex(patients).reset_index(drop=True)
    source_follow_up, target_follow_up = (follow_up_of(frame, contract) for frame in (source_frame, seen))
    assert source_follow_up is not None
    assert target_follow_up is not None
    source, target = encoder.encode(source_frame, "rotterdam"), encoder.encode(target_frame, "gbsg")
    return source, source_follow_up, target, target_follow_up


def measure_real(method: str, way: str) -> list[float]:
    """Mean risk at GBSG, its outcome rate, AUROC, log loss and calibration intercept, all one way.

    `way` is "dropped" or "weighted", for the fit at Rotterdam and the judgement at GBSG alike.
    """
    source, followed, target, seen = rotterdam_to_gbsg()
    weights = [
        weigh_outcomes(follow_up, cohort.X, cohort.site, asked="ipcw" if way == "weighted" else "drop")[0]
        for follow_up, cohort in ((followed, source), (seen, target))
    ]
    known = np.isfinite(followed.y)
    source_weight = known if weights[0] is None else weights[0]
    labelled = replace(source, y=followed.y.astype(np.float32), weight=source_weight.astype(np.float32)).known()
    fitted = build(method).fit(labelled, target, None, seed=0)
    rows = np.flatnonzero(np.isfinite(seen.y))
    risk = fitted.summarise(target.X, 100, seed=0).mean.astype(np.float64)
    given = (seen.y[rows], risk[rows], None if weights[1] is None else weights[1][rows])
    rate = float(np.average(given[0], weights=given[2]))
    numbers = (float(risk.mean()), rate, auroc(*given), log_loss(*given), calibration_intercept(*given))
    return [float("nan") if number is None else number for number in numbers]


def _real(options: Options) -> Table:
    methods = REAL_METHODS[:1] if options.quick else REAL_METHODS
    units = [{"method": method, "way": way} for method in methods for way in ("dropped", "weighted")]
    measured = run_units(options, "censoring", measure_real, units)
    rows: list[Row] = [
        {
            "method": label(unit["method"]), "way": unit["way"], "mean risk at GBSG": f"{numbers[0]:.3f}",
            "outcome rate at GBSG": f"{numbers[1]:.3f}", "AUROC": f"{numbers[2]:.3f}", "log loss": f"{numbers[3]:.3f}",
            "calibration intercept": f"{numbers[4]:.2f}",
        }
        for unit, numbers in zip(units, measured, strict=True)
    ]  # fmt: skip
    _, source, _, target = rotterdam_to_gbsg()
    left = [f"{int(follow_up.censored.sum()):,} of {len(follow_up.time):,}" for follow_up in (source, target)]
    caption = (
        f"Real patients: Rotterdam (death) to GBSG (recurrence or death) within {REAL_HORIZON}, default settings, one "
        f"fit. {left[0]} women left Rotterdam's follow-up earlier, {left[1]} GBSG's; the Kaplan-Meier estimate of the "
        f"rate at GBSG is {observed_share(target):.3f}. Each line fits and judges one way."
    )
    return Table("rotterdam_gbsg", caption, rows)
