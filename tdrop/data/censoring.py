"""Weights known outcomes so that they also represent the patients who left before the horizon.

Leaving these patients out would keep every event and lose patients without one. Instead each known outcome gets the
weight 1 / G: G is the chance, given the patient's features, of still being followed when the outcome became known
(inverse probability of censoring weights; Robins and Rotnitzky 1992, Graf et al. 1999, Uno et al. 2007). G comes from a
cross-fitted pooled logistic hazard of leaving; if few patients left, from the Kaplan-Meier curve of leaving.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from tdrop.base import Amount, Count, DataError, Doubles, Hidden, Indices, Mask, counted, deal_persons

Handling = Literal["ipcw", "drop"]

#: If at least this share of patients left before the horizon, outcomes are weighted by default.
WORTH_WEIGHTING = 0.02
#: Equal intervals of the time to the horizon, each with its own hazard of leaving.
INTERVALS = 12
#: If fewer patients left, the hazard does not depend on their features.
FEWEST_CENSORED = 30
#: The smallest chance, so that no weight exceeds 20.
SMALLEST_CHANCE = 0.05
#: The smallest effective number of patients to learn from.
FEWEST_EFFECTIVE = 50
#: Folds of the hazard, as in tuning, and the largest number of patients it is fitted to.
_FOLDS, _MOST_ROWS = 3, 20_000


@dataclass(frozen=True)
class FollowUp:
    """How long patients were followed, and how it ended.

    Attributes:
        time: Time of follow-up (rows,); NaN where it, or how it ended, is not known.
        event: Whether it ended with the event (rows,).
        competing: Whether it ended with another event that rules this one out (rows,).
        horizon: Within what time the event is predicted, in the same unit.
    """

    time: Doubles
    event: Mask
    competing: Mask
    horizon: float

    @property
    def ended(self) -> Mask:
        """Patients with an event of either kind by the horizon (rows,)."""
        return np.asarray((self.event | self.competing) & (self.time <= self.horizon), dtype=np.bool_)

    @property
    def reached(self) -> Mask:
        """Patients who were followed to the horizon or beyond (rows,)."""
        return np.asarray(~self.ended & (self.time >= self.horizon), dtype=np.bool_)

    @property
    def censored(self) -> Mask:
        """Patients who left before the horizon without any event (rows,)."""
        return np.asarray(np.isfinite(self.time) & ~self.ended & ~self.reached, dtype=np.bool_)

    @property
    def y(self) -> Doubles:
        """The outcome at the horizon (rows,): 0 after a competing event, NaN where unknown."""
        happened = np.where(self.event & self.ended, 1.0, 0.0)
        return np.where(self.ended | self.reached, happened, np.nan)

    def take(self, rows: Indices | Mask) -> FollowUp:
        """The follow-up of some patients."""
        return replace(self, time=self.time[rows], event=self.event[rows], competing=self.competing[rows])


@dataclass(frozen=True)
class CensoringSummary:
    """How patients who left before the horizon were handled.

    Attributes:
        handling: "ipcw" weights the outcomes of the others; "drop" leaves these patients out.
        censored: Patients who left before the horizon without an event.
        known: Patients whose outcome at the horizon is known.
        effective_n: The effective number of patients with these weights.
        largest_weight: The largest weight.
    """

    handling: Handling
    censored: Count
    known: Count
    effective_n: Amount
    largest_weight: float | None


def weigh_outcomes(
    follow_up: FollowUp,
    X: NDArray[Any],
    where: str,
    *,
    asked: Handling | None = None,
    persons: Indices | None = None,
    fewest: int = FEWEST_EFFECTIVE,
) -> tuple[Doubles | None, CensoringSummary]:
    """Returns the weight of each outcome (rows,), 0 where it is unknown, or None without weights; and a summary.

    Args:
        follow_up: Of a site's patients (rows,).
        X: Their encoded features (rows, features).
        where: The site, for error messages.
        asked: The handling in the table; by default it depends on the share of patients who left.
        persons: Whose row it is (rows,), if a person has several.
        fewest: The effective number of patients needed.
    """
    known, censored = np.isfinite(follow_up.y), follow_up.censored
    many_left = censored.sum() >= WORTH_WEIGHTING * max(1, int(censored.sum() + known.sum()))
    handling: Handling = asked or ("ipcw" if many_left else "drop")
    summary = CensoringSummary(handling, int(censored.sum()), int(known.sum()), float(known.sum()), 1.0)
    if handling == "drop" or not censored.any():
        return None, summary
    if not follow_up.reached.any():
        raise DataError(
            f"{where}: none of {counted(int((known | censored).sum()), 'patient')} was followed to the horizon, so the "
            "outcome at the horizon cannot be estimated; set a shorter `horizon` in the table, or wait"
        )
    weight = CensoringModel(follow_up, X, persons).weights()[0]
    size = float(weight.sum() ** 2 / (weight**2).sum())
    if size < fewest:
        raise DataError(
            f"{where}: with {counted(int(censored.sum()), 'patient')} who left before the horizon, the "
            f"{int(known.sum()):,} known outcomes are worth only {size:.0f} effective patients, and {fewest} are "
            "needed; set a shorter `horizon` in the table"
        )
    return weight, replace(summary, effective_n=size, largest_weight=float(weight.max()))


@dataclass(frozen=True)
class CensoringModel:
    """The model behind the weights; it also gives the weights of a resample of the patients.

    Attributes:
        follow_up: Of a site's patients (rows,).
        X: Their encoded features (rows, features).
        persons: Whose row it is (rows,), if a person has several.
    """

    follow_up: FollowUp
    X: NDArray[Any]
    persons: Indices | None = None

    @cached_property
    def by_features(self) -> bool:
        """Whether enough patients left for a hazard that depends on their features."""
        return int(self.follow_up.censored.sum()) >= FEWEST_CENSORED

    @cached_property
    def _place(self) -> tuple[Indices, Doubles]:
        return _place_in_intervals(self.follow_up)

    @cached_property
    def _features(self) -> Doubles:
        features = np.asarray(self.X, dtype=np.float64)
        spread = features.std(axis=0)
        return np.asarray((features - features.mean(axis=0)) / np.where(spread > 0, spread, 1.0), dtype=np.float64)

    @cached_property
    def _fits(self) -> list[tuple[Indices, _HazardFit]]:
        """Per fold, the patients left out (held,), and the hazard fitted to the others."""
        usable = np.flatnonzero(np.isfinite(self.follow_up.time))
        generator = np.random.default_rng(17)
        if self.persons is None:
            fold = generator.permutation(np.arange(len(usable)) % _FOLDS)
        else:
            left = self.follow_up.censored[usable].astype(np.float64)
            fold = deal_persons(self.persons[usable], _FOLDS, generator, left)
        fits = []
        for number in range(_FOLDS):
            held_out, others = usable[fold == number], usable[fold != number]
            if len(others) > _MOST_ROWS:
                others = generator.choice(others, _MOST_ROWS, replace=False)
            fits.append((held_out, _fit_hazards(self._features, self.follow_up, *self._place, others)))
        return fits

    def chance(self, counts: NDArray[Any] | None = None) -> Doubles:
        """The chance of still being followed when the outcome became known (draws, rows).

        Args:
            counts: How often each patient was drawn (draws, rows); without, one draw of everybody.
        """
        if not self.by_features:
            return chance_still_followed(self.follow_up)[None]
        (interval, elapsed), features = self._place, self._features
        chance = np.ones((1 if counts is None else len(counts), len(self.follow_up.time)))
        for rows, fit in self._fits:
            coefficients = fit.coefficients[None] if counts is None else fit.step(counts)
            base = coefficients[:, : features.shape[1]] @ features[rows].T + coefficients[:, -1:]
            log_chance = np.zeros_like(base)
            for place, number in enumerate(fit.active):
                share = np.where(interval[rows] > number, 1.0, np.where(interval[rows] == number, elapsed[rows], 0.0))
                # log(1 - hazard) of a logistic hazard.
                log_chance -= share * np.logaddexp(0.0, base + coefficients[:, [features.shape[1] + place]])
            chance[:, rows] = np.exp(log_chance)
        return chance

    def weights(self, counts: NDArray[Any] | None = None) -> Doubles:
        """The weight of each outcome (draws, rows), 0 where it is unknown; `counts` as in `chance`."""
        return np.where(np.isfinite(self.follow_up.y), 1 / np.maximum(self.chance(counts), SMALLEST_CHANCE), 0.0)


def join_summaries(parts: Sequence[CensoringSummary]) -> CensoringSummary:
    """Joins the summaries of several sites."""
    return CensoringSummary(
        handling="ipcw" if any(part.handling == "ipcw" for part in parts) else "drop",
        censored=sum(part.censored for part in parts if not isinstance(part.censored, Hidden)),
        known=sum(part.known for part in parts if not isinstance(part.known, Hidden)),
        effective_n=sum(part.effective_n for part in parts if not isinstance(part.effective_n, Hidden)),
        largest_weight=max(part.largest_weight or 1.0 for part in parts),
    )


def chance_still_followed(follow_up: FollowUp, at: Doubles | None = None) -> Doubles:
    """The Kaplan-Meier chance of not having left before times (times,).

    At equal times events come before leaving: a patient with an event can no longer leave.

    Args:
        follow_up: Of some patients (rows,).
        at: The times; by default each patient's end of follow-up, or the horizon (rows,).
    """
    times, hazards = _hazards_of_leaving(follow_up)
    chance = np.concatenate([[1.0], np.cumprod(1 - hazards)])
    return chance[np.searchsorted(times, _stop(follow_up) if at is None else at, side="left")]


def observed_share(follow_up: FollowUp) -> float | None:
    """The share with the event by the horizon, by Kaplan-Meier or, with competing events, Aalen-Johansen.

    Both are the mean over patients of the event divided by the Kaplan-Meier chance of still being followed at it. None
    if it cannot be estimated.
    """
    rows = np.isfinite(follow_up.time)
    if not rows.any():
        return None
    known = follow_up.take(rows)
    if not (known.reached | known.ended).any() or (known.censored.any() and not known.reached.any()):
        return None
    return float(np.sum((known.event & known.ended) / chance_still_followed(known)) / rows.sum())


def observed_to_horizon(follow_up: FollowUp, uniform: Doubles) -> Mask:
    """Selects patients as if only those followed to the horizon were observed (rows,).

    Without the event, many patients with an early event would have left before the horizon. So such a patient is
    selected with the chance of being followed from the event to the horizon: selection then does not depend on the
    outcome.

    Args:
        follow_up: Of the patients.
        uniform: A number between 0 and 1 per patient, the same each time that outcomes are read (rows,).
    """
    if not follow_up.reached.any():
        return np.zeros(len(follow_up.time), dtype=np.bool_)
    chance = chance_still_followed(follow_up)
    last = float(chance[follow_up.reached][0])
    return np.asarray(follow_up.reached | (follow_up.ended & (uniform * chance <= last)), dtype=np.bool_)


def _stop(follow_up: FollowUp) -> Doubles:
    return np.minimum(np.nan_to_num(follow_up.time, nan=0.0), follow_up.horizon)


def _hazards_of_leaving(follow_up: FollowUp) -> tuple[Doubles, Doubles]:
    """The times at which patients left, ascending (times,), and the share of those at risk who left then (times,)."""
    usable = np.isfinite(follow_up.time)
    stop, ended = np.sort(follow_up.time[usable]), np.sort(follow_up.time[follow_up.ended])
    times, left = np.unique(follow_up.time[follow_up.censored], return_counts=True)
    followed = len(stop) - np.searchsorted(stop, times, side="left")
    events_then = np.searchsorted(ended, times, side="right") - np.searchsorted(ended, times, side="left")
    return times, left / (followed - events_then)


def _place_in_intervals(follow_up: FollowUp) -> tuple[Indices, Doubles]:
    """The interval in which each patient's follow-up stops (rows,), and the elapsed part of it, 0 to 1 (rows,).

    The part is measured by the hazard of leaving: in a study many patients leave on the same day.
    """
    stop = _stop(follow_up)
    edges = np.linspace(0.0, follow_up.horizon, INTERVALS + 1)
    interval = np.clip(np.searchsorted(edges, stop, side="left") - 1, 0, INTERVALS - 1)
    times, hazards = _hazards_of_leaving(follow_up)
    total = np.concatenate([[0.0], np.cumsum(hazards)])
    before = total[np.searchsorted(times, stop, side="left")]
    start = total[np.searchsorted(times, edges[:-1], side="right")]
    end = total[np.searchsorted(times, edges[1:], side="right")]
    # Leaving at time 0 belongs to the first interval.
    start[0] = 0.0
    width = (end - start)[interval]
    elapsed = np.divide(before - start[interval], width, out=np.zeros(len(stop)), where=width > 0)
    return interval.astype(np.int64), np.clip(elapsed, 0.0, 1.0)


@dataclass(frozen=True)
class _HazardFit:
    """A logistic hazard of leaving.

    Attributes:
        active: The intervals in which anybody leaves (active,).
        coefficients: Of the features, of these intervals, and the constant (features + active + 1,).
        curvature: Hessian of the penalised negative log likelihood at these coefficients.
        gradients: Each patient's part of the gradient there (rows, features + active + 1).
    """

    active: Indices
    coefficients: Doubles
    curvature: Doubles
    gradients: Doubles

    def step(self, counts: NDArray[Any]) -> Doubles:
        """Coefficients of resamples (draws, features + active + 1): one Newton step, exact to first order."""
        gradient = (np.asarray(counts, dtype=np.float64) - 1) @ self.gradients
        return np.asarray(self.coefficients + np.linalg.solve(self.curvature, gradient.T).T, dtype=np.float64)


def _fit_hazards(X: Doubles, follow_up: FollowUp, interval: Indices, elapsed: Doubles, rows: Indices) -> _HazardFit:
    """Fits the hazard of leaving to some patients."""
    from sklearn.linear_model import LogisticRegression

    active = np.unique(interval[rows][follow_up.censored[rows]])
    if not len(active):
        size = X.shape[1] + 1
        return _HazardFit(active, np.zeros(size), np.eye(size), np.zeros((len(X), size)))
    # One line per patient and active interval; a patient with an event counts for a part of the last interval.
    members = [rows[interval[rows] >= number] for number in active]
    patient = np.concatenate(members)
    place = np.repeat(np.arange(len(active)), [len(patients) for patients in members])
    last = interval[patient] == active[place]
    leaves = follow_up.censored[patient] & last
    weight = np.where(last & ~leaves, elapsed[patient], 1.0)
    used = weight > 0
    patient, leaves, weight = patient[used], leaves[used], weight[used]
    design = np.column_stack([X[patient], np.eye(len(active))[place[used]]])
    model = LogisticRegression(C=1.0, solver="newton-cholesky", max_iter=100)
    model.fit(design, leaves, sample_weight=weight)
    coefficients = np.append(model.coef_[0], model.intercept_[0])
    design = np.column_stack([design, np.ones(len(design))])
    hazard = 1 / (1 + np.exp(-(design @ coefficients)))
    curvature = design.T @ (design * (weight * hazard * (1 - hazard))[:, None])
    # The penalty does not apply to the constant.
    curvature += np.diag([*np.ones(len(coefficients) - 1), 0.0])
    gradients = np.zeros((len(X), len(coefficients)))
    np.add.at(gradients, patient, design * (weight * (leaves - hazard))[:, None])
    return _HazardFit(active, coefficients, curvature, gradients)
