"""What refits do on a target whose outcomes are known, beside the plain ensemble's refits on the same patients."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.stats import norm

from flows.benchmarks.paired import REFERRED
from flows.benchmarks.results import Estimate
from tdrop.base import INTERVAL_LEVEL, Doubles, Floats
from tdrop.metrics import (
    CLASS_THRESHOLD,
    CalibrationError,
    auroc,
    capacity_count,
    count_blocks,
    expected_loss,
    highest,
    over_fits,
    per_row_log_loss,
    percentile_interval,
    ranking_statistic,
    retained_error,
)

MEASURES = ("AUROC", "log loss", "calibration error", "retained error")
RESAMPLES = 400
_NORMAL = float(norm.ppf(0.5 + INTERVAL_LEVEL / 2))


@dataclass(frozen=True)
class Judged:
    """One setting on one target.

    Attributes:
        value: By measure, the mean over refits.
        difference: The same minus the plain ensemble's.
        log_loss: Difference in log loss with an interval over patients and refits.
        auroc: Difference in AUROC with such an interval.
        n: Patients.
        events: Of these with the outcome.
    """

    value: dict[str, float]
    difference: dict[str, float]
    log_loss: Estimate
    auroc: Estimate
    n: int
    events: int


def judge(y: Floats, risks: Doubles, plain: Doubles) -> Judged:
    """Compares risks (refits, rows) with the plain ensemble's for outcomes y (rows,)."""
    value, rival = measures(y, risks), measures(y, plain)
    difference = {name: value[name] - rival[name] for name in MEASURES}
    return Judged(
        value, difference, log_loss_difference(y, risks, plain), auroc_difference(y, risks, plain), len(y), int(y.sum())
    )


def measures(y: Floats, risks: Doubles) -> dict[str, float]:
    """By measure, the mean over refits."""
    each = [_measure(y, risk) for risk in risks]
    return {name: float(np.mean(column)) for name, column in zip(MEASURES, zip(*each, strict=True), strict=True)}


def _measure(y: Floats, risk: Doubles) -> tuple[float, ...]:
    calibration = CalibrationError.measure(y, risk)
    referred = highest(expected_loss(risk, CLASS_THRESHOLD), capacity_count(len(y), REFERRED))
    left = retained_error(y, risk, referred, CLASS_THRESHOLD)
    assert calibration is not None
    return auroc(y, risk) or 0.5, float(per_row_log_loss(y, risk).mean()), calibration.value, left or 0.0


def log_loss_difference(y: Floats, risks: Doubles, plain: Doubles) -> Estimate:
    """Difference in log loss with an interval over patients and refits."""
    each = np.array([per_row_log_loss(y, a) - per_row_log_loss(y, b) for a, b in zip(risks, plain, strict=True)])
    per_patient = each.mean(axis=0)
    value = float(per_patient.mean())
    reach = _NORMAL * float(per_patient.std(ddof=1)) / np.sqrt(len(y))
    low, high = over_fits(value, (value - reach, value + reach), [each.mean(axis=1).tolist()])
    return Estimate(value, low, high)


def auroc_difference(y: Floats, risks: Doubles, plain: Doubles) -> Estimate:
    """Difference in AUROC with an interval over patients and refits."""
    plans = [[ranking_statistic(y, risk) for risk in side] for side in (risks, plain)]

    def difference(counts: Floats | Doubles) -> Doubles:
        """Of every refit and resample (refits, resamples)."""
        first, second = (np.stack([plan.resampled(counts)[0] for plan in side]) for side in plans)
        return np.asarray(first - second, dtype=np.float64)

    each = difference(np.ones((1, len(y))))[:, 0]
    draws = np.concatenate([difference(counts).mean(axis=0) for counts in count_blocks(len(y), RESAMPLES, 0)])
    low, high = over_fits(float(each.mean()), percentile_interval(draws), [each.tolist()])
    return Estimate(float(each.mean()), low, high)


def pooled(estimates: Sequence[Estimate]) -> Estimate:
    """The mean over these very problems, with an interval over their patients and refits."""
    values = [each.value or 0.0 for each in estimates]
    reaches = [((each.high or 0.0) - (each.low or 0.0)) / 2 for each in estimates]
    value, reach = float(np.mean(values)), float(np.sqrt(np.sum(np.square(reaches)))) / len(reaches)
    return Estimate(value, value - reach, value + reach)
