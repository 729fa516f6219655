"""Patients who left before the horizon: for how many patients each known outcome stands in their place.

Leaving them out keeps every event and loses those who would have had none. Each known outcome counts 1 / G instead: G
is the chance, given the patient's features, of still being followed when the outcome became known (inverse probability
of censoring weights; Robins and Rotnitzky 1992, Graf et al. 1999, Uno et al. 2007). G is a pooled logistic hazard of
leaving, cross-fitted; with few who left it is the Kaplan-Meier curve of leaving.
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

#: From this share of patients on who left before the horizon, outcomes are weighted unless the table says otherwise.
WORTH_WEIGHTING = 0.02
#: Equal intervals of the time to the horizon, each with its own hazard of leaving.
INTERVALS = 12
#: With fewer patients who left, the hazard does not depend on their features.
FEWEST_CENSORED = 30
#: Nobody counts for more than 20 patients.
SMALLEST_CHANCE = 0.05
#: Fewer effective patients teach nothing.
FEWEST_EFFECTIVE = 50
#: Folds of the hazard, as of tuning, and patients it is fitted to, at most.
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
        """Whose follow-up ended with an event of either kind by the horizon (rows,)."""
        return np.asarray((self.event | self.competing) & (self.time <= self.horizon), dtype=np.bool_)

    @property
    def reached(self) -> Mask:
        """Who was followed to the horizon or beyond (rows,)."""
        return np.asarray(~self.ended & (self.time >= self.horizon), dtype=np.bool_)

    @property
    def censored(self) -> Mask:
        """Who left before the horizon without any event (rows,)."""
        return np.asarray(np.isfinite(self.time) & ~self.ended & ~self.reached, dtype=np.bool_)

    @property
    def y(self) -> Doubles:
        """The outcome at the horizon (rows,): a competing event makes it 0; NaN where it is not known."""
        happened = np.where(self.event & self.ended, 1.0, 0.0)
        return np.where(self.ended | self.reached, happened, np.nan)

    def take(self, rows: Indices | Mask) -> FollowUp:
        """The follow-up of some patients."""
        return replace(self, time=self.time[rows], event=self.event[rows], competing=self.competing[rows])


@dataclass(frozen=True)
class CensoringSummary:
    """What was done about patients who left before the horizon.

    Attributes:
        handling: "ipcw" weighs the outcomes of the others; "drop" leaves them out.
        censored: Patients who left before the horizon without an event.
        known: Patients whose outcome at the horizon is known.
        effective_n: Equally weighted patients who say as much as these with their weights.
        largest_weight: For how many patients one counts, at most.
        by_features: Whether the chance of leaving follows the patient's features.
    """

    handling: Handling
    censored: Count
    known: Count
    effective_n: Amount
    largest_weight: float | None
    by_features: bool = False


def choose_handling(asked: Handling | None, follow_up: FollowUp) -> Handling:
    """What is done about patients who left: what the table asks for, else weights where they are not few."""
    censored, known = int(follow_up.censored.sum()), int(np.isfinite(follow_up.y).sum())
    if asked is not None:
        return asked
    return "ipcw" if censored >= WORTH_WEIGHTING * max(1, censored + known) else "drop"


def weigh_outcomes(
    follow_up: FollowUp,
    X: NDArray[Any],
    where: str,
    *,
    asked: Handling | None = None,
    persons: Indices | None = None,
    fewest: int = FEWEST_EFFECTIVE,
) -> tuple[Doubles | None, CensoringSummary]:
    """For how many patients each outcome stands (rows,), 0 where it is not known; None where all count alike.

    Args:
        follow_up: Of one site's patients (rows,).
        X: Their encoded features (rows, features).
        where: Whose they are, for a sentence.
        asked: What the table says; None for what their share suggests.
        persons: Whose row it is (rows,), where a person has several.
        fewest: Effective patients needed.
    """
    known, censored = np.isfinite(follow_up.y), follow_up.censored
    handling = choose_handling(asked, follow_up)
    summary = CensoringSummary(handling, int(censored.sum()), int(known.sum()), float(known.sum()), 1.0)
    if handling == "drop" or not censored.any():
        return None, summary
    if not follow_up.reached.any():
        raise DataError(
            f"{where}: nobody of {counted(int((known | censored).sum()), 'patient')} was followed to the horizon, and "
            "without them no outcome at it can be told; name a shorter `horizon` in the table, or wait"
        )
    model = CensoringModel(follow_up, X, persons)
    weight = model.weights()[0]
    size = float(weight.sum() ** 2 / (weight**2).sum())
    if size < fewest:
        raise DataError(
            f"{where}: with {counted(int(censored.sum()), 'patient')} who left before the horizon, the "
            f"{int(known.sum()):,} known outcomes say as much as {size:.0f} would, and {fewest} are needed; name a "
            "shorter `horizon` in the table"
        )
    return weight, replace(summary, effective_n=size, largest_weight=float(weight.max()), by_features=model.by_features)


@dataclass(frozen=True)
class CensoringModel:
    """What weights are made from, so that a resample of the patients has weights of its own.

    Attributes:
        follow_up: Of one site's patients (rows,).
        X: Their encoded features (rows, features).
        persons: Whose row it is (rows,), where a person has several.
    """

    follow_up: FollowUp
    X: NDArray[Any]
    persons: Indices | None = None

    @cached_property
    def by_features(self) -> bool:
        """Whether enough patients left for a hazard that follows their features."""
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
        """Patients left out (held,), and the hazard fitted to others, of each fold."""
        usable = np.flatnonzero(np.isfinite(self.follow_up.time))
        generator = np.random.default_rng(17)
        if self.persons is None:
            fold = generator.permutation(np.arange(len(usable)) % _FOLDS)
        else:
            left = self.follow_up.censored[usable].astype(np.float64)
            fold = deal_persons(self.persons[usable], _FOLDS, generator, left)
        fits = []
        for number in range(_FOLDS):
            held, others = usable[fold == number], usable[fold != number]
            if len(others) > _MOST_ROWS:
                others = generator.choice(others, _MOST_ROWS, replace=False)
            fits.append((held, _fit_hazards(self._features, self.follow_up, *self._place, others)))
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
        for held, fit in self._fits:
            lines = fit.coefficients[None] if counts is None else fit.step(counts)
            base = lines[:, : features.shape[1]] @ features[held].T + lines[:, -1:]
            stayed = np.zeros_like(base)
            for place, own in enumerate(fit.active):
                share = np.where(interval[held] > own, 1.0, np.where(interval[held] == own, elapsed[held], 0.0))
                # log(1 - hazard) of a logistic hazard.
                stayed -= share * np.logaddexp(0.0, base + lines[:, [features.shape[1] + place]])
            chance[:, held] = np.exp(stayed)
        return chance

    def weights(self, counts: NDArray[Any] | None = None) -> Doubles:
        """For how many patients each outcome stands (draws, rows), 0 where it is not known; `counts` as of `chance`."""
        return np.where(np.isfinite(self.follow_up.y), 1 / np.maximum(self.chance(counts), SMALLEST_CHANCE), 0.0)


def join_summaries(parts: Sequence[CensoringSummary]) -> CensoringSummary:
    """What was done at several sites, as one."""
    return CensoringSummary(
        handling="ipcw" if any(part.handling == "ipcw" for part in parts) else "drop",
        censored=sum(part.censored for part in parts if not isinstance(part.censored, Hidden)),
        known=sum(part.known for part in parts if not isinstance(part.known, Hidden)),
        effective_n=sum(part.effective_n for part in parts if not isinstance(part.effective_n, Hidden)),
        largest_weight=max(part.largest_weight or 1.0 for part in parts),
        by_features=any(part.by_features for part in parts),
    )


def chance_still_followed(follow_up: FollowUp, at: Doubles | None = None) -> Doubles:
    """The Kaplan-Meier chance of not having left before times (times,).

    Where events and leaving fall on one time, events come first: who had one could not leave at it any more.

    Args:
        follow_up: Of some patients (rows,).
        at: The times; by default each patient's end of follow-up, or the horizon (rows,).
    """
    times, hazards = _hazards_of_leaving(follow_up)
    chance = np.concatenate([[1.0], np.cumprod(1 - hazards)])
    return chance[np.searchsorted(times, _stop(follow_up) if at is None else at, side="left")]


def observed_share(follow_up: FollowUp) -> float | None:
    """The share with the event by the horizon: Kaplan-Meier's, with competing events Aalen-Johansen's; None without.

    Both are the mean over patients of the event over the Kaplan-Meier chance of still being followed at it.
    """
    rows = np.isfinite(follow_up.time)
    if not rows.any():
        return None
    some = follow_up.take(rows)
    if not (some.reached | some.ended).any() or (some.censored.any() and not some.reached.any()):
        return None
    return float(np.sum((some.event & some.ended) / chance_still_followed(some)) / rows.sum())


def observed_to_horizon(follow_up: FollowUp, uniform: Doubles) -> Mask:
    """Whose outcome counts as if only patients followed to the horizon were looked at (rows,).

    Somebody with an early event would often have left before the horizon otherwise. Such a patient is kept with the
    chance of being followed from the event to the horizon, so that being counted says nothing about the outcome.

    Args:
        follow_up: Of the patients.
        uniform: A number between 0 and 1 of each patient, the same whenever outcomes are read (rows,).
    """
    if not follow_up.reached.any():
        return np.zeros(len(follow_up.time), dtype=np.bool_)
    chance = chance_still_followed(follow_up)
    last = float(chance[follow_up.reached][0])
    return np.asarray(follow_up.reached | (follow_up.ended & (uniform * chance <= last)), dtype=np.bool_)


def _stop(follow_up: FollowUp) -> Doubles:
    return np.minimum(np.nan_to_num(follow_up.time, nan=0.0), follow_up.horizon)


def _hazards_of_leaving(follow_up: FollowUp) -> tuple[Doubles, Doubles]:
    """The times at which patients left, ascending (times,), and the share of those still there who did (times,)."""
    usable = np.isfinite(follow_up.time)
    stop, ended = np.sort(follow_up.time[usable]), np.sort(follow_up.time[follow_up.ended])
    times, left = np.unique(follow_up.time[follow_up.censored], return_counts=True)
    there = len(stop) - np.searchsorted(stop, times, side="left")
    at_once = np.searchsorted(ended, times, side="right") - np.searchsorted(ended, times, side="left")
    return times, left / (there - at_once)


def _place_in_intervals(follow_up: FollowUp) -> tuple[Indices, Doubles]:
    """The interval in which each patient's follow-up stops (rows,), and how far into it, 0 to 1 (rows,).

    How far is counted in the interval's leaving: many leave on the same day of a study, and few between.
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
        curvature: Of the log likelihood with its penalty at them.
        pull: Each patient's part of the gradient there (rows, features + active + 1).
    """

    active: Indices
    coefficients: Doubles
    curvature: Doubles
    pull: Doubles

    def step(self, counts: NDArray[Any]) -> Doubles:
        """Coefficients of resamples (draws, features + active + 1): one Newton step, exact to first order."""
        away = (np.asarray(counts, dtype=np.float64) - 1) @ self.pull
        return np.asarray(self.coefficients + np.linalg.solve(self.curvature, away.T).T, dtype=np.float64)


def _fit_hazards(X: Doubles, follow_up: FollowUp, interval: Indices, elapsed: Doubles, rows: Indices) -> _HazardFit:
    """Fits the hazard of leaving to some patients."""
    from sklearn.linear_model import LogisticRegression

    active = np.unique(interval[rows][follow_up.censored[rows]])
    if not len(active):
        size = X.shape[1] + 1
        return _HazardFit(active, np.zeros(size), np.eye(size), np.zeros((len(X), size)))
    # One line per patient and interval in which anybody leaves; who had an event was there for a part of the last.
    lines = [(rows[interval[rows] >= number], place) for place, number in enumerate(active)]
    patient = np.concatenate([members for members, _ in lines])
    place = np.concatenate([np.full(len(members), place) for members, place in lines])
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
    # The penalty holds all but the constant.
    curvature += np.diag([*np.ones(len(coefficients) - 1), 0.0])
    pull = np.zeros((len(X), len(coefficients)))
    np.add.at(pull, patient, design * (weight * (leaves - hazard))[:, None])
    return _HazardFit(active, coefficients, curvature, pull)
