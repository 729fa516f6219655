"""What a site's unlabelled patients changed in the risks: a method that used them beside its ablation without them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tdrop.base import Count, Doubles, ascending
from tdrop.metrics import CalibrationError, CalibrationTable, log_loss

#: Groups of patients by how unlike the source they are, fewer where a group would be smaller than the second number.
GROUPS_OF_LIKENESS = 5
SMALLEST_GROUP = 20


@dataclass(frozen=True)
class MovedGroup:
    """Patients who are about as unlike the source.

    Attributes:
        n: How many.
        likeness: Their mean chance of being this site's patient rather than the source's.
        before: Mean risk without the unlabelled patients.
        after: Mean risk with them.
        moved: Mean distance between a patient's two risks.
    """

    n: Count
    likeness: float
    before: float
    after: float
    moved: float


@dataclass(frozen=True)
class Reliability:
    """Whether risks are right, by known outcomes.

    Attributes:
        risk: Mean risk of each group of patients of like risk.
        rate: Share with the outcome in each.
        n: Patients behind all of it.
        log_loss: Mean log loss.
        calibration_error: Calibration error without what chance adds.
    """

    risk: tuple[float, ...]
    rate: tuple[float, ...]
    n: int
    log_loss: float
    calibration_error: float


@dataclass(frozen=True)
class Moved:
    """One method's risks with a site's unlabelled patients and without; first seed.

    Attributes:
        method: Name of the method.
        lambda_: Weight that was picked for them.
        groups: Patients from most to least like the source; none where they are too few for a group.
        reliability: Without and with them, where outcomes are known.
    """

    method: str
    lambda_: float
    groups: tuple[MovedGroup, ...]
    reliability: tuple[Reliability, Reliability] | None = None


def compare_risks(
    method: str,
    lambda_: float,
    without: NDArray[Any],
    used: NDArray[Any],
    likeness: NDArray[Any],
    y: NDArray[Any] | None = None,
) -> Moved:
    """Compares the risks (rows,) of a method with those of its ablation, `without` the unlabelled patients.

    Args:
        method: Name of the method.
        lambda_: Weight that was picked.
        without: Risks at lambda 0.
        used: Risks at the picked lambda.
        likeness: Each patient's chance of being a target patient, by the propensity.
        y: Outcomes, NaN where unknown, or None.
    """
    before, after, like = (np.asarray(values, dtype=np.float64) for values in (without, used, likeness))
    count = min(GROUPS_OF_LIKENESS, len(before) // SMALLEST_GROUP)
    order = ascending(like)
    groups = tuple(_group(rows, like, before, after) for rows in np.array_split(order, count)) if count else ()
    return Moved(method, lambda_, groups, _both(before, after, y))


def _group(rows: NDArray[Any], like: Doubles, before: Doubles, after: Doubles) -> MovedGroup:
    means = [float(values[rows].mean()) for values in (like, before, after, np.abs(after - before))]
    return MovedGroup(len(rows), *means)


def _both(before: Doubles, after: Doubles, y: NDArray[Any] | None) -> tuple[Reliability, Reliability] | None:
    known = np.zeros(len(before), dtype=np.bool_) if y is None else np.isfinite(y)
    if y is None or known.sum() < SMALLEST_GROUP or len(np.unique(y[known])) < 2:
        return None
    return _reliability(y[known], before[known]), _reliability(y[known], after[known])


def _reliability(y: NDArray[Any], risk: Doubles) -> Reliability:
    table, error, loss = (
        CalibrationTable.group(y, risk, GROUPS_OF_LIKENESS),
        CalibrationError.measure(y, risk),
        log_loss(y, risk),
    )
    assert error is not None
    assert loss is not None
    return Reliability(tuple(table.risk.tolist()), tuple(table.rate.tolist()), len(y), loss, error.value)
