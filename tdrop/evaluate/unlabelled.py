"""How a site's unlabelled patients changed the risks: a method that used them beside its ablation without them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

from tdrop.base import Count, Doubles, Mask, ascending
from tdrop.evaluate.recalibration import gain_interval
from tdrop.metrics import CalibrationError, log_loss, logit, per_row_log_loss

#: Groups of patients by how unlike the source they are, fewer where a group would be smaller than the second number.
GROUPS_OF_LIKENESS = 5
SMALLEST_GROUP = 20
#: Ways to deal the remainders of a change to other patients.
PLACEBO_DRAWS = 50


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
        n: Patients with a known outcome.
        log_loss: Mean log loss.
        calibration_error: Calibration error beyond chance.
    """

    n: int
    log_loss: float
    calibration_error: float


@dataclass(frozen=True)
class Placebo:
    """How a site's unlabelled patients changed risks beyond one shrinkage for everybody.

    The change is split on the log odds: a line, the same for all (shrinkage), and what remains patient by patient. The
    placebo is the same line with the remainders dealt to other patients at random.

    Attributes:
        slope: Of the line; below 1 it draws every risk towards the middle.
        explained: Share of the change's variance, beyond its mean, that the line explains.
        remaining: Mean distance between a patient's risk and the line's.
        gain: Log loss without them minus with them; None without known outcomes.
        placebo_gain: The same for the placebo, the mean over its draws.
        beyond: gain minus placebo_gain: what it mattered whose risk was changed.
        beyond_low: Lower end of its interval over patients.
        beyond_high: Upper end.
        n: Known outcomes behind these.
    """

    slope: float
    explained: float
    remaining: float
    gain: float | None = None
    placebo_gain: float | None = None
    beyond: float | None = None
    beyond_low: float | None = None
    beyond_high: float | None = None
    n: Count = 0


@dataclass(frozen=True)
class Moved:
    """One method's risks with a site's unlabelled patients and without; first seed.

    Attributes:
        method: Name of the method.
        lambda_: Weight that was picked for them.
        groups: Patients from most to least like the source; none where they are too few for a group.
        reliability: Without and with them, where outcomes are known.
        placebo: What they changed beyond one shrinkage for everybody; None where they are too few to say.
    """

    method: str
    lambda_: float
    groups: tuple[MovedGroup, ...]
    reliability: tuple[Reliability, Reliability] | None = None
    placebo: Placebo | None = None


def compare_risks(
    method: str,
    lambda_: float,
    without: NDArray[Any],
    used: NDArray[Any],
    likeness: NDArray[Any],
    y: NDArray[Any] | None = None,
    weight: NDArray[Any] | None = None,
) -> Moved:
    """Compares the risks (rows,) of a method with those of its ablation, `without` the unlabelled patients.

    Args:
        method: Name of the method.
        lambda_: Weight that was picked.
        without: Risks at lambda 0.
        used: Risks at the picked lambda.
        likeness: Each patient's chance of being a target patient, by the propensity.
        y: Outcomes, NaN where unknown, or None.
        weight: For how many patients each outcome stands (rows,); one unless given.
    """
    before, after, like = (np.asarray(values, dtype=np.float64) for values in (without, used, likeness))
    count = min(GROUPS_OF_LIKENESS, len(before) // SMALLEST_GROUP)
    if not count:
        return Moved(method, lambda_, ())
    groups = []
    for rows in np.array_split(ascending(like), count):
        means = (float(values[rows].mean()) for values in (like, before, after, np.abs(after - before)))
        groups.append(MovedGroup(len(rows), *means))
    known = _find_known(y, len(before))
    reliability = None
    if y is not None and known.sum() >= SMALLEST_GROUP and len(np.unique(y[known])) > 1:
        known_weight = None if weight is None else weight[known]
        sides = [_measure_reliability(y[known], risk[known], known_weight) for risk in (before, after)]
        reliability = (sides[0], sides[1])
    return Moved(method, lambda_, tuple(groups), reliability, compare_with_placebo(before, after, y, weight))


def compare_with_placebo(
    without: NDArray[Any],
    used: NDArray[Any],
    y: NDArray[Any] | None = None,
    weight: NDArray[Any] | None = None,
    *,
    seed: int = 0,
) -> Placebo:
    """Measures how unlabelled patients changed risks beyond one shrinkage for everybody.

    Args:
        without: Risks of the ablation (rows,).
        used: Risks of the method (rows,).
        y: Outcomes (rows,), NaN where unknown, or None.
        weight: For how many patients each outcome stands (rows,); one unless given.
        seed: Decides who gets whose remainder in the placebo.
    """
    start, end = logit(without), logit(used)
    change = end - start
    design = np.column_stack([np.ones(len(start)), start])
    line = np.linalg.lstsq(design, change, rcond=None)[0]
    shrunk = start + design @ line
    rest = end - shrunk
    spread = float(change.var())
    explained = 1.0 - float(rest.var()) / spread if spread > 0 else 1.0
    remaining = float(np.abs(expit(end) - expit(shrunk)).mean())
    known = _find_known(y, len(start))
    if y is None or known.sum() < SMALLEST_GROUP:
        return Placebo(1.0 + float(line[1]), explained, remaining)
    generator = np.random.default_rng([seed, 13])
    draws = [expit(shrunk + generator.permutation(rest)) for _ in range(PLACEBO_DRAWS)]
    losses = [per_row_log_loss(y[known], risk[known]) for risk in (np.asarray(without), np.asarray(used))]
    placebo = np.mean([per_row_log_loss(y[known], risk[known]) for risk in draws], axis=0)
    weights = np.ones(int(known.sum())) if weight is None else np.asarray(weight, dtype=np.float64)[known]
    beyond, low, high = gain_interval(placebo, losses[1], weights)
    gain, placebo_gain = (float(np.average(losses[0] - after, weights=weights)) for after in (losses[1], placebo))
    return Placebo(1.0 + float(line[1]), explained, remaining, gain, placebo_gain, beyond, low, high, int(known.sum()))


def _find_known(y: NDArray[Any] | None, rows: int) -> Mask:
    """Whose outcome is known (rows,)."""
    return np.zeros(rows, dtype=np.bool_) if y is None else np.isfinite(y)


def _measure_reliability(y: NDArray[Any], risk: Doubles, weight: NDArray[Any] | None) -> Reliability:
    error, loss = CalibrationError.measure(y, risk, weights=weight), log_loss(y, risk, weight)
    assert error is not None
    assert loss is not None
    return Reliability(len(y), loss, error.value)
