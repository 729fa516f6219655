"""The propensity of a pair of sites, fitted once and used by shift, matching, weights, choosing and referral alike."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.neighbors import NearestNeighbors

from tdrop.base import Cohort, Count, Doubles, Mask, plain, read, read_arrays

Kind = Literal["logistic", "quadratic", "boosting"]

#: Logits are kept within this: a density ratio beyond e^30 says "no overlap" and nothing more.
LARGEST_LOGIT = 30.0
#: No source row counts for more than this many average ones in an importance-weighted mean.
WEIGHT_CAP = 20.0
#: A target patient has overlap when at least this many source patients look as much like the target,
#: or this share of a source of fewer than 500: ten of 100 would put a tenth of every site outside.
FEWEST_NEIGHBOURS = 10
FEWEST_SHARE = 0.02
#: Somebody has the highest propensity also where nothing differs: only who is this many times as frequent at the
#: target as at the source can be unlike anyone there.
UNLIKE_RATIO = 5.0
#: Who sits in the middle of the source is like many there, however much the target gathers in that place: to be
#: unlike anyone a patient must also be further from the nearest source patients than this share of those are.
UNLIKE_QUANTILE = 0.75
#: A value this share of the source's whole range outside of it is like nobody's there, whatever the target is like.
BEYOND = 0.25
#: Source rows among which the nearest are looked for, and of these how many say what is far.
NEAREST_ROWS = 20_000
OWN_ROWS = 1_000


@dataclass(frozen=True)
class DomainAuroc:
    """How well one classifier tells target from source, on rows it did not see.

    Attributes:
        value: Area under the ROC curve; .5 is chance, 1 is perfect separation.
        low: Lower end of its 95% interval.
        high: Upper end.
        kind: "logistic", "quadratic" (with squares and products) or "boosting".
        rows_fitted: Rows behind one fit.
        log_loss: Of its calibrated probabilities.
    """

    value: float
    low: float
    high: float
    kind: Kind
    rows_fitted: Count
    log_loss: float | None = None


@dataclass(frozen=True)
class Propensity:
    """Cross-fitted, calibrated probabilities of being a target patient.

    Attributes:
        source: P(target | x) of the source rows (source rows,).
        target: P(target | x) of the target rows (target rows,).
        kind: The classifier behind it.
        candidates: Every classifier that was compared, simplest first.
        unlike: Which target patients are unlike anyone the model learned from (target rows,); see `find_unlike`.
        line: Intercept and slope that turned the classifier's log odds into these probabilities'.
    """

    source: Doubles
    target: Doubles
    kind: Kind = "logistic"
    candidates: tuple[DomainAuroc, ...] = ()
    unlike: Mask = field(default_factory=lambda: np.zeros(0, dtype=np.bool_))
    line: tuple[float, float] = (0.0, 1.0)

    def logits(self) -> tuple[Doubles, Doubles]:
        """Log odds of source and target rows, within +-LARGEST_LOGIT."""
        return _logit(self.source), _logit(self.target)

    def ratios(self) -> tuple[Doubles, Doubles]:
        """Target density over source density at the source rows and at the target rows."""
        return self.ratio_at(self.source), self.ratio_at(self.target)

    def ratio_at(self, probability: Doubles) -> Doubles:
        """Target density over source density where P(target | x) is this (rows,)."""
        prior = np.log(len(self.source) / len(self.target))
        ratio: Doubles = np.exp(np.clip(_logit(probability) + prior, None, LARGEST_LOGIT))
        return ratio

    @property
    def auroc(self) -> DomainAuroc | None:
        """How well the classifier of this propensity separates the sites."""
        return next((candidate for candidate in self.candidates if candidate.kind == self.kind), None)

    @property
    def outside(self) -> float:
        """Share of the target's patients who are unlike anyone at the source."""
        return float(self.unlike.mean())

    @property
    def coverage(self) -> float:
        """Share of the target that the source's patients can stand for.

        The mean of the density ratio over the source is the target's mass where the source has any: 1 under
        full overlap, near 0 for sites that share nobody.
        """
        return float(min(1.0, self.ratios()[0].mean()))

    @property
    def effective_n(self) -> float:
        """Equally weighted source rows that say as much about the target; small without overlap.

        Kish's size of the weights, times coverage: weights that are alike because nobody is like the target
        are worth nothing.
        """
        return effective_n(density_ratio_weights(self)) * self.coverage

    def save(self, path: Path) -> None:
        """Writes it as npz, without pickle."""
        facts = {name: plain(getattr(self, name)) for name in ("kind", "line")}
        facts["candidates"] = [plain(candidate) for candidate in self.candidates]
        np.savez(path, facts=np.array(json.dumps(facts)), source=self.source, target=self.target, unlike=self.unlike)

    @classmethod
    def load(cls, path: Path) -> Self:
        """Reads what `save` wrote."""
        arrays = read_arrays(path)
        facts = json.loads(str(arrays["facts"]))
        candidates = read(tuple[DomainAuroc, ...], facts["candidates"])
        line = tuple(facts["line"])
        return cls(arrays["source"], arrays["target"], facts["kind"], candidates, arrays["unlike"], line)


def find_unlike(source: Cohort, patients: Cohort, likeness: Doubles, fitted: Propensity, *, seed: int = 0) -> Mask:
    """Finds the patients who are unlike anyone the model learned from (patients,).

    They are so rare at the source, or have a value so far beyond all of its, that nobody there can stand for them, and
    the source patients nearest to them are further away than is usual among source patients. Rare are those as much
    like the target as fewer than `neighbours_needed` source patients (the odds rise with the ratio of the densities)
    who are UNLIKE_RATIO times as frequent at the target.

    Args:
        source: Whom the model learned from.
        patients: The target's, or new ones.
        likeness: P(target | x) of these patients, from classifiers that did not see them (patients,).
        fitted: The propensity of source and target.
        seed: Decides which source patients say what is far.
    """
    needed = neighbours_needed(len(source))
    bar = np.partition(fitted.source, len(source) - needed)[len(source) - needed]
    unlike: Mask = (likeness > bar) & (fitted.ratio_at(likeness) >= UNLIKE_RATIO)
    unlike |= _beyond(source, patients)
    if unlike.any() and len(source) > 1:
        unlike[unlike] = _far_from(source, patients.take(unlike), needed, np.random.default_rng([seed, 9]))
    return unlike


def _beyond(source: Cohort, patients: Cohort) -> Mask:
    """Whether a value lies outside the source's range by more than BEYOND times the length of that range (patients,).

    A feature that is the same for all of the source says nothing: no model learned from it.
    """
    low, high = source.X.min(axis=0).astype(np.float64), source.X.max(axis=0).astype(np.float64)
    room = np.where(high > low, BEYOND * (high - low), np.inf)
    outside = np.maximum(low - patients.X, patients.X - high)
    return np.asarray((outside > room).any(axis=1), dtype=np.bool_)


def _far_from(source: Cohort, patients: Cohort, needed: int, generator: np.random.Generator) -> Mask:
    """Whether the nearest source patients are further away than is usual among source patients (patients,)."""
    rows = np.sort(generator.permutation(len(source))[:NEAREST_ROWS])
    nearest = min(max(1, round(needed * len(rows) / len(source))), len(rows) - 1)
    scale = source.X.std(axis=0, dtype=np.float64)
    scale = np.where(scale > 0, scale, 1.0)
    here = source.X[rows] / scale
    search = NearestNeighbors(algorithm="brute").fit(here)
    # A source patient is the nearest to itself, so one more is looked at.
    among_source = search.kneighbors(here[generator.permutation(len(here))[:OWN_ROWS]], nearest + 1)[0][:, -1]
    to_patients = search.kneighbors(patients.X / scale, nearest)[0][:, -1]
    return np.asarray(to_patients > np.quantile(among_source, UNLIKE_QUANTILE), dtype=np.bool_)


def neighbours_needed(source_rows: int) -> int:
    """Returns how many source patients must be as target-like for overlap."""
    return max(1, min(FEWEST_NEIGHBOURS, int(FEWEST_SHARE * source_rows)))


def density_ratio_weights(fitted: Propensity, cap: float | None = WEIGHT_CAP) -> Doubles:
    """Weights (source rows,) that make the source look like the target; mean 1.

    The ratio of densities is the odds times source rows / target rows. `cap` bounds a weight in
    units of the mean weight: it buys a smaller variance with a little bias. None does not bound.
    """
    logits, _ = fitted.logits()
    # Subtracting the largest logit first keeps exp() finite; the mean is taken out anyway.
    weights: Doubles = np.exp(logits - logits.max())
    weights /= weights.mean()
    if cap is None:
        return weights
    # Capping lowers the mean, so the bound is approached in a few rounds.
    for _ in range(20):
        weights = np.minimum(weights, cap)
        weights /= weights.mean()
        if weights.max() <= cap * 1.001:
            break
    return weights


def effective_n(weights: NDArray[Any]) -> float:
    """Kish's effective sample size: the number of equally weighted rows with the same variance."""
    weights = np.asarray(weights, dtype=np.float64)
    squares = float((weights**2).sum())
    return float(weights.sum()) ** 2 / squares if squares > 0 else 0.0


def _logit(probability: Doubles) -> Doubles:
    with np.errstate(divide="ignore"):
        logits: Doubles = np.log(probability) - np.log1p(-probability)
    return np.clip(logits, -LARGEST_LOGIT, LARGEST_LOGIT)
