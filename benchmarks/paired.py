"""Differences between two methods on the same problems or the same patients, with 95% intervals."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from benchmarks.results import Estimate, Row
from tdrop import metrics
from tdrop.base import Doubles, Summary
from tdrop.metrics import misclassified, per_row_log_loss, percentile_interval

RESAMPLES = 2000
#: The share of patients that clinicians look at.
REFERRED = 0.2
#: A ranking of fewer errors is mostly chance.
FEWEST_ERRORS = 10
#: Measures that are counted by problem too, and the smallest difference that counts.
COUNTED, SMALLEST = ("log loss", "calibration error"), 0.0005
MEASURES = (
    "errors in 1,000",
    "error AUROC by sd",
    "error AUROC by p(1-p)",
    "error left after 20% referred by sd",
    "AUROC",
    "log loss",
    "calibration error",
    "width of the intervals",
)

#: By measure, what a fit does on the target; None where a measure is not defined. And that by row of a table.
Values: TypeAlias = Mapping[str, float | None]
Rows: TypeAlias = Mapping[str, Values]


def mean_of(values: Sequence[float | None]) -> float | None:
    """The mean over refits; None where a refit has no value."""
    known = [value for value in values if value is not None]
    return float(np.mean(known)) if len(known) == len(values) else None


def error_auroc(y: NDArray[Any], summary: Summary, by: str = "sd") -> float | None:
    """AUROC of the sd, or of p(1-p), for "the class at 0.5 is wrong"; None where it does not exist."""
    if by == "sd" and summary.passes < 2:
        return None
    score = summary.sd if by == "sd" else summary.mean * (1 - summary.mean)
    return metrics.auroc(misclassified(y, summary.mean), score)


def error_left(y: NDArray[Any], summary: Summary) -> float | None:
    """Error rate among the rest when the patients with the largest sd are referred; None without spread."""
    if summary.passes < 2:
        return None
    referred = metrics.highest(summary.sd, metrics.capacity_count(len(y), REFERRED))
    return metrics.retained_error(y, summary.mean, referred, metrics.CLASS_THRESHOLD)


def stratified_auroc(pairs: NDArray[Any]) -> float | None:
    """AUROC from concordant pairs and pairs (splits, 2), both summed within splits: no pair crosses a split."""
    total = float(pairs[:, 1].sum())
    return float(pairs[:, 0].sum()) / total if total else None


def stratified_estimate(pairs: NDArray[Any], *, resamples: int = RESAMPLES) -> Estimate:
    """The stratified AUROC with a bootstrap over splits."""
    point = stratified_auroc(pairs)
    if point is None:
        return Estimate(None)
    generator = np.random.default_rng(0)
    drawn = [stratified_auroc(pairs[generator.integers(len(pairs), size=len(pairs))]) for _ in range(resamples)]
    low, high = percentile_interval(np.array([np.nan if value is None else value for value in drawn]))
    return Estimate(point, low, high)


def concordant_pairs(y: NDArray[Any], risk: NDArray[Any], score: NDArray[Any]) -> tuple[float, float]:
    """Concordant and all (wrong, right) pairs of one split, by a score for "the class at 0.5 is wrong"."""
    wrong = misclassified(y, risk)
    pairs = float(wrong.sum() * (~wrong).sum())
    return (metrics.auroc(wrong, score) or 0.0) * pairs, pairs


def measure_fit(outcomes: Doubles, summary: Summary) -> dict[str, float | None]:
    """By measure, what one fit does on the target's patients of known outcome."""
    known = np.isfinite(outcomes)
    y, summary = outcomes[known], summary.take(np.flatnonzero(known))
    wrong = misclassified(y, summary.mean)
    low, high = summary.interval()
    calibration = metrics.CalibrationError.measure(y, summary.mean)
    assert calibration is not None
    values = (
        1_000 * float(wrong.mean()),
        *(error_auroc(y, summary, by) if wrong.sum() >= FEWEST_ERRORS else None for by in ("sd", "p(1-p)")),
        error_left(y, summary),
        metrics.auroc(y, summary.mean),
        float(per_row_log_loss(y, summary.mean).mean()),
        calibration.value,
        float((high - low).mean()),
    )
    return dict(zip(MEASURES, values, strict=True))


def compare_rows(problems: Sequence[Rows], pairs: Sequence[tuple[str, str]]) -> list[Row]:
    """Means over problems of everything measured on them, and paired differences.

    The mean of a row is over the problems where the measure is defined for every row that has it at all.

    Args:
        problems: Of every problem, by row what was measured; all with the same rows.
        pairs: Rows to compare: the first minus the second.
    """
    measured = {
        m: pd.DataFrame([{row: values[m] for row, values in problem.items()} for problem in problems], dtype=float)
        for m in MEASURES
    }
    complete = {m: values.dropna(axis=1, how="all").dropna() for m, values in measured.items()}
    lines = [_line(name, {m: values.get(name, ()) for m, values in complete.items()}) for name in problems[0]]
    for first, second in pairs:
        differences = {m: (values[first] - values[second]).dropna() for m, values in measured.items()}
        counts = {
            f"{m}, lower / higher": f"{(differences[m] <= -SMALLEST).sum()} / {(differences[m] >= SMALLEST).sum()}"
            for m in COUNTED
        }
        lines.append({**_line(f"{first} minus {second}", differences), **counts})
    return [{**line, "n": len(problems)} for line in lines]


def _line(name: str, values: Mapping[str, Iterable[float]]) -> Row:
    means = {m: Estimate.mean(numbers, 1 if m == MEASURES[0] else 3) for m, numbers in values.items()}
    return {"row": name, **means, **{f"{m}, lower / higher": None for m in COUNTED}}
