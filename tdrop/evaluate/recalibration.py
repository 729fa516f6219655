"""Recalibration by known outcomes: move the risks (intercept), or move and stretch them (intercept and slope).

The lines have normal priors around "as it is", so that any number of outcomes is useful and few of them do not carry a
line away. The prior's width follows what is known without outcomes: where the verdict was stop, risks are further off.
How good a line is, is read off folds that did not fit it, so that "after" is not flattered by its own data.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize_scalar
from scipy.special import logsumexp
from scipy.stats import norm, t as student

from tdrop import metrics
from tdrop.base import INTERVAL_LEVEL, Doubles, Indices, Task
from tdrop.evaluate.revision import Revision, fit_revision

RECALIBRATION_FOLDS = 10
#: Prior standard deviations of intercept and slope at a site that was not stopped, and at one that was.
PRIORS = {False: (0.5, 0.3), True: (1.0, 0.3)}
#: Between these the prior of the intercept follows a rehearsal, of at least so many sites.
NARROWEST_PRIOR, WIDEST_PRIOR, FEWEST_REHEARSED = 0.2, 2.0, 3
#: Outcomes overrule a stop where intercept and net benefit are known at least this well (half of their intervals):
#: half a unit of log odds, five net true positives per 100 patients.
WIDEST_INTERCEPT, WIDEST_BENEFIT = 0.5, 0.05
AS_IT_IS, INTERCEPT, SLOPE, REVISED = "as it is", "intercept", "intercept and slope", "revised effects"
#: Of several classes, what divides the logarithms of their probabilities.
TEMPERATURE = "temperature"
#: Patients that stand for "as it is" where a temperature, an offset or a slope is fitted.
STANDING = 10.0
_TOO_FEW = "an outcome known of at least two patients is needed to suggest a recalibration"

#: Predictions of held-out patients by what was fitted with the outcomes of others: (fitted rows, held rows).
FitAndPredict = Callable[[Indices, Indices], Doubles]


@dataclass(frozen=True)
class Adjustment:
    """One way to recalibrate.

    Attributes:
        name: "as it is", "intercept" or "intercept and slope".
        intercept: Added to slope * logit of the risk.
        slope: Multiplies the logit of the risk.
        calibration_intercept: What is still left to add, out of fold; None where it has no value.
        calibration_slope: What is still left to stretch by, out of fold; None where it has no value.
        ece: Calibration error beyond chance, out of fold.
        ece_low: Lower end of its interval.
        ece_high: Upper end.
        log_loss: Out of fold.
        brier: Out of fold.
        gain: Log loss as it is minus log loss after, out of fold; None for "as it is" and with fewer than two outcomes.
        gain_low: Lower end of its interval over patients.
        gain_high: Upper end.
    """

    name: str
    intercept: float
    slope: float
    calibration_intercept: float | None = None
    calibration_slope: float | None = None
    ece: float | None = None
    ece_low: float | None = None
    ece_high: float | None = None
    log_loss: float | None = None
    brier: float | None = None
    gain: float | None = None
    gain_low: float | None = None
    gain_high: float | None = None


@dataclass(frozen=True)
class Recalibration:
    """Risks before and after recalibration.

    Attributes:
        n: Patients with a known outcome.
        events: Of these with the outcome.
        adjustments: Before, then the suggestions; only "before" without any known outcome.
        note: Why nothing is suggested, or "".
        helps: Name of the adjustment with the lowest log loss out of fold; None where none beats "as it is".
    """

    n: int
    events: int
    adjustments: tuple[Adjustment, ...]
    note: str = ""
    helps: str | None = None


@dataclass(frozen=True)
class KnownRisks:
    """Patients with a known outcome, and the risks that their outcomes may move.

    Attributes:
        rows: Their places among all patients (known,).
        y: Outcomes (known,).
        risk: Risks of the model as it is (known,).
        weight: For how many patients each stands (known,).
        prior: How far intercept and slope may move, as `choose_prior` has it.
        X: Standardised features (known, features), from which effects are revised, or None.
    """

    rows: Indices
    y: Doubles
    risk: Doubles
    weight: Doubles
    prior: tuple[float, float]
    X: Doubles | None = None

    @classmethod
    def take(
        cls,
        y: NDArray[Any],
        risk: NDArray[Any],
        weights: NDArray[Any] | None,
        prior: tuple[float, float],
        X: NDArray[Any] | None = None,
    ) -> Self:
        """Takes the patients whose outcome (rows,) is known; each stands for one unless `weights` (rows,) say more."""
        rows = np.flatnonzero(np.isfinite(y))
        weight = np.ones(len(y)) if weights is None else weights
        outcome, value, weight = (np.asarray(values, dtype=np.float64)[rows] for values in (y, risk, weight))
        return cls(rows, outcome, value, weight, prior, None if X is None else np.asarray(X, dtype=np.float64)[rows])

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def events(self) -> int:
        """How many had the outcome."""
        return int(self.y.sum())

    def fit(self, name: str, fitted: Indices | slice = slice(None)) -> Revision:
        """Fits one change of the risks on the outcomes of some, all unless given."""
        y, risk, weight = self.y[fitted], self.risk[fitted], self.weight[fitted]
        if name == REVISED and self.X is not None:
            return fit_revision(y, risk, self.X[fitted], weight, self.prior)
        line = metrics.weighted_lines(y, risk, weight[None], slope=name == SLOPE, prior=self.prior)[0]
        return Revision(float(line[0]), float(line[1]))

    def move(self, name: str, fitted: Indices, held: Indices) -> Doubles:
        """Returns risks (held,) under one change, fitted on the outcomes of others."""
        return self.fit(name, fitted).apply(self.risk[held], None if self.X is None else self.X[held])

    def cross_fit_line(self, name: str, fold: Indices) -> Doubles:
        """Returns risks (known,), each moved by a line that was fitted without the outcomes of its fold."""
        folds, place = np.unique(fold, return_inverse=True)
        # Without weight, an outcome has no say in its fold's line.
        others = np.where(fold[None] == folds[:, None], 0.0, self.weight[None])
        lines = metrics.weighted_lines(self.y, self.risk, others, slope=name == SLOPE, prior=self.prior)
        return np.asarray(metrics.apply_lines(self.risk, lines)[place, np.arange(len(self))], dtype=np.float64)


def choose_prior(stopped: bool, intercepts: Sequence[float] = ()) -> tuple[float, float]:
    """Returns prior standard deviations of intercept and slope, from what is known without an outcome of the site.

    Args:
        stopped: Whether the verdict was stop: risks are then further off, whatever other sites were like.
        intercepts: How far risks were off, in log odds, at the sites of a rehearsal.
    """
    usual, slope = PRIORS[stopped]
    if len(intercepts) < FEWEST_REHEARSED:
        return usual, slope
    spread = float(np.clip(np.sqrt(np.mean(np.square(intercepts))), NARROWEST_PRIOR, WIDEST_PRIOR))
    return (max(usual, spread) if stopped else spread), slope


def suggest_recalibration(
    y: NDArray[Any],
    risk: NDArray[Any],
    weights: NDArray[Any] | None = None,
    *,
    left_early: NDArray[Any] | None = None,
    prior: tuple[float, float] = PRIORS[False],
    seed: int = 0,
) -> Recalibration:
    """Fits both recalibrations of risk to known outcomes, as many or few as there are.

    Args:
        y: Outcomes (rows,), NaN where unknown.
        risk: Risks (rows,).
        weights: For how many patients each row stands (rows,), where some were likelier to be looked up; alike without.
        left_early: The part of `weights` that is due to patients who left before the horizon (rows,), if any.
        prior: How far intercept and slope may move, as `choose_prior` has it.
        seed: Decides the folds.
    """
    known = KnownRisks.take(y, risk, weights, prior)
    left = None if left_early is None else np.asarray(left_early, dtype=np.float64)[known.rows]
    before = _describe(AS_IT_IS, Revision(0.0, 1.0), known, known.risk, left)
    if len(known) < 2:
        return Recalibration(len(known), known.events, (before,), _TOO_FEW)
    fold = deal_at_random(len(known), RECALIBRATION_FOLDS, seed)
    lines = {name: known.cross_fit_line(name, fold) for name in (INTERCEPT, SLOPE)}
    after = [_describe(name, known.fit(name), known, moved, left) for name, moved in lines.items()]
    return _suggest_best(len(known), known.events, before, after)


def _suggest_best(n: int, events: int, before: Adjustment, after: Sequence[Adjustment]) -> Recalibration:
    """Returns all adjustments and the name of the best one.

    The priors are the caution: asking for a gain beyond its standard error too would leave half of the gain that 20
    outcomes can bring (docs/FORECAST.md).
    """
    adjustments = (before, *after)
    best = min(adjustments, key=lambda adjustment: np.inf if adjustment.log_loss is None else adjustment.log_loss)
    return Recalibration(n, events, adjustments, helps=None if best is before else best.name)


def suggest_for_kind(y: NDArray[Any], predicted: NDArray[Any], task: Task, *, seed: int = 0) -> Recalibration:
    """Fits what can be moved of several classes' probabilities, or of values, to known outcomes.

    Classes have a temperature: the logarithms of their probabilities times a slope. Values are moved by an offset, or
    by an offset and a slope. Both are drawn towards "as it is" as if so many patients (`STANDING`) had shown that.

    Args:
        y: Outcomes (rows,), NaN where unknown.
        predicted: Probabilities (rows, K) or values (rows,).
        task: "classes" or "regression".
        seed: Decides the folds.
    """
    known = np.isfinite(y)
    outcome, value = np.asarray(y, dtype=np.float64)[known], np.asarray(predicted, dtype=np.float64)[known]
    scale = float(outcome.std()) or 1.0 if task == "regression" and len(outcome) else 1.0

    def described(name: str, line: tuple[float, float], moved: Doubles) -> Adjustment:
        before, after = (metrics.per_row_loss(outcome, predictions, task, scale) for predictions in (value, moved))
        adjustment = Adjustment(name, *line, log_loss=float(after.mean()) if len(after) else None)
        if name == AS_IT_IS:
            return adjustment
        gain, low, high = gain_interval(before, after, np.ones(len(outcome)))
        return replace(adjustment, gain=gain, gain_low=low, gain_high=high)

    before = described(AS_IT_IS, (0.0, 1.0), value)
    if len(outcome) < 2:
        return Recalibration(len(outcome), 0, (before,), _TOO_FEW)
    fold = deal_at_random(len(outcome), RECALIBRATION_FOLDS, seed)

    def move(name: str, fitted: Indices, held: Indices) -> Doubles:
        return _move(value[held], _fit_kind(outcome[fitted], value[fitted], name), task)

    after = [
        described(name, _fit_kind(outcome, value, name), cross_fit(partial(move, name), fold))
        for name in ((TEMPERATURE,) if task == "classes" else (INTERCEPT, SLOPE))
    ]
    return _suggest_best(len(outcome), 0, before, after)


def _fit_kind(y: Doubles, predicted: Doubles, name: str) -> tuple[float, float]:
    """Intercept and slope of one adjustment."""
    if name == TEMPERATURE:
        logs = np.log(metrics.clip_risk(predicted))
        true_class = logs[np.arange(len(y)), y.astype(np.int64)]

        def loss(slope: float) -> float:
            return float(
                np.sum(logsumexp(slope * logs, axis=1) - slope * true_class) + 0.5 * STANDING * (slope - 1) ** 2
            )

        return 0.0, float(minimize_scalar(loss, bounds=(0.05, 20.0), method="bounded").x)
    rest = y - predicted
    centre = float(predicted.mean())
    offset = float(rest.sum()) / (len(y) + STANDING)
    if name == INTERCEPT:
        return offset, 1.0
    spread = predicted - centre
    square = float(spread @ spread)
    slope = 1.0 + float(spread @ rest) / (square * (1 + STANDING / len(y)) or 1.0)
    return centre + offset - slope * centre, slope


def _move(predicted: Doubles, line: tuple[float, float], task: Task) -> Doubles:
    """Probabilities or values moved by a line."""
    if task == "regression":
        return line[0] + line[1] * predicted
    powers = metrics.clip_risk(predicted) ** line[1]
    return np.asarray(powers / powers.sum(axis=1, keepdims=True), dtype=np.float64)


@dataclass(frozen=True)
class OutcomeSupport:
    """Whether known outcomes show that recalibrated risks are worth acting on.

    Attributes:
        n: Patients with a known outcome.
        events: Of these with the outcome.
        intercept_width: Half the interval of what is left to add to the log odds.
        benefit: Net benefit of acting on the recalibrated risks, above the better of acting on everybody and on nobody.
        benefit_low: Lower end of its interval over patients.
        benefit_high: Upper end.
    """

    n: int
    events: int
    intercept_width: float
    benefit: float
    benefit_low: float
    benefit_high: float

    @property
    def enough(self) -> bool:
        """Whether both intervals are narrow enough to know, and there is a benefit beyond chance."""
        narrow = self.benefit_high - self.benefit_low <= 2 * WIDEST_BENEFIT
        return narrow and self.intercept_width <= WIDEST_INTERCEPT and self.benefit_low > 0


def measure_support(
    y: NDArray[Any],
    risk: NDArray[Any],
    threshold: float,
    weights: NDArray[Any] | None = None,
    *,
    seed: int = 0,
) -> OutcomeSupport | None:
    """Measures on known outcomes what recalibrated risks are worth; None with fewer than two outcomes.

    Every risk is moved by a line that was fitted without its patient's outcome; the arguments are those of
    `suggest_recalibration`, with the site's decision level.
    """
    known = KnownRisks.take(y, risk, weights, PRIORS[True])
    outcome, weight = known.y, known.weight
    if len(known) < 2:
        return None
    fold = deal_at_random(len(known), RECALIBRATION_FOLDS, seed)
    moved = (known.cross_fit_line(name, fold) for name in (INTERCEPT, SLOPE))
    best = min((known.risk, *moved), key=lambda risks: metrics.log_loss(outcome, risks, weight) or 0.0)
    # Weighted rows are worth as many patients as their effective number.
    scaled = weight * weight.sum() / np.sum(weight**2)
    reach = float(norm.ppf(0.5 + INTERVAL_LEVEL / 2))
    width = reach / float(np.sqrt(scaled @ (best * (1 - best))))
    everybody = metrics.per_row_benefit(outcome, np.ones(len(known)), threshold)
    default = everybody if np.average(everybody, weights=weight) > 0 else np.zeros(len(known))
    gain, low, high = gain_interval(metrics.per_row_benefit(outcome, best, threshold), default, weight)
    assert low is not None
    assert high is not None
    return OutcomeSupport(len(known), known.events, width, gain, low, high)


def cross_fit(predict: FitAndPredict, fold: Indices) -> Doubles:
    """Returns predictions of all rows (rows,), or with classes behind each, all made without the rows' own fold."""
    held = [np.flatnonzero(fold == number) for number in np.unique(fold)]
    predicted = np.concatenate([predict(np.setdiff1d(np.arange(len(fold)), rows), rows) for rows in held])
    as_given: Doubles = np.empty_like(predicted)
    as_given[np.concatenate(held)] = predicted
    return as_given


def mean_and_error(values: Doubles, weights: Doubles) -> tuple[float, float | None]:
    """Returns the weighted mean of values (rows,) and its standard error; None for one row."""
    mean = float(np.average(values, weights=weights))
    rows = len(values)
    if rows < 2:
        return mean, None
    spread = np.sqrt(np.sum((weights * (values - mean)) ** 2) * rows / (rows - 1))
    return mean, float(spread / weights.sum())


def gain_interval(before: Doubles, after: Doubles, weights: Doubles) -> tuple[float, float | None, float | None]:
    """Returns the mean of losses before minus losses after (rows,), and the ends of its interval over patients."""
    gain, error = mean_and_error(before - after, weights)
    if error is None:
        return gain, None, None
    reach = float(student.ppf(0.5 + INTERVAL_LEVEL / 2, len(before) - 1)) * error
    return gain, gain - reach, gain + reach


def deal_at_random(rows: int, folds: int, seed: int) -> Indices:
    """Returns each patient's fold (rows,).

    Outcomes are not spread evenly on purpose: folds of one and the same rate would tell each other the intercept, and
    moving risks that are right would look like help.
    """
    fold: Indices = np.random.default_rng([seed, 11]).permutation(np.arange(rows) % min(folds, rows))
    return fold


def _describe(name: str, change: Revision, known: KnownRisks, after: Doubles, left_early: Doubles | None) -> Adjustment:
    """Scores are weighed; what compares outcomes with risks group by group is of the patients looked up."""
    slope = metrics.calibration_line(known.y, after, left_early)
    error = metrics.CalibrationError.measure(known.y, after, weights=left_early)
    gain: tuple[float | None, float | None, float | None] = (None, None, None)
    if name != AS_IT_IS:
        losses = [metrics.per_row_log_loss(known.y, risk) for risk in (known.risk, after)]
        gain = gain_interval(losses[0], losses[1], known.weight)
    return Adjustment(
        name=name,
        intercept=change.intercept,
        slope=change.slope,
        calibration_intercept=metrics.calibration_intercept(known.y, after, left_early),
        calibration_slope=None if slope is None else slope[1],
        ece=None if error is None else error.value,
        ece_low=None if error is None else error.low,
        ece_high=None if error is None else error.high,
        log_loss=metrics.log_loss(known.y, after, known.weight),
        brier=metrics.brier(known.y, after, known.weight),
        gain=gain[0],
        gain_low=gain[1],
        gain_high=gain[2],
    )
