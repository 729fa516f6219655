"""How far from the source a patient is, on a scale that is frozen when a model is promoted.

A classifier between source and target is fitted on one half of the target's patients; the other half is the reference.
A new patient's place u is the share of the reference that is nearer to the source (ties count half): "this patient is
further from the source than 63% of those the model was made for". Outcomes are not read.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from tdrop.base import Cohort, Doubles, Floats, Numbers, deal_persons, one_thread
from tdrop.shift import FURTHEST_VALUE, Kind, fit_classifier, stack, thin

#: Rows behind the fit, at most: twenty coefficients are known to three digits from this many.
MOST_FITTED = 50_000
#: A reference of fewer patients than this says nothing.
FEWEST_REFERENCE = 20
#: A mean place up to this far above one half is no reason to retrain.
TOLERATED_PLACE = 0.03
#: Two-sided 95% of a normal distribution, and the standard deviation of places that are spread evenly.
NORMAL, EVEN_SD = 1.96, 0.289
#: Scores that differ by less are ties: a patient scored alone differs from the same one in a list in the last bits.
DECIMALS = 6


@dataclass(frozen=True)
class DistanceScale:
    """A frozen classifier's log odds of "not of the source", and the reference's.

    Attributes:
        features: Names of the columns it reads.
        centre, spread: What a feature is standardised by (features,).
        first, second: Features of each product (products,); none for a plain logistic regression.
        product_mean, product_scale: What a product is centred and scaled by (products,).
        weights: One per feature and product (features + products,).
        scores: The reference's log odds, ascending (patients,).
    """

    features: tuple[str, ...]
    centre: Numbers
    spread: Numbers
    first: Numbers
    second: Numbers
    product_mean: Numbers
    product_scale: Numbers
    weights: Numbers
    scores: Numbers

    @property
    def limit(self) -> float:
        """The largest mean place that is no reason for an alarm, with what the reference's size leaves open."""
        return 0.5 + TOLERATED_PLACE + NORMAL * EVEN_SD / float(np.sqrt(len(self.scores)))

    def log_odds(self, X: Floats) -> Doubles:
        """Log odds of "not of the source" (rows,), without a constant that places do not depend on."""
        table = (np.asarray(X, dtype=np.float64) - self.centre) / self.spread
        if len(self.first):
            held = np.clip(table, -FURTHEST_VALUE, FURTHEST_VALUE)
            products = held[:, self.first.astype(int)] * held[:, self.second.astype(int)]
            table = np.concatenate([table, (products - self.product_mean) * self.product_scale], axis=1)
        return np.round(table @ self.weights, DECIMALS)

    def place(self, X: Floats) -> Doubles:
        """The share of the reference that is nearer to the source (rows,); ties count half."""
        score = self.log_odds(X)
        below = np.searchsorted(self.scores, score, "left") + np.searchsorted(self.scores, score, "right")
        return np.asarray(below / (2 * len(self.scores)), dtype=np.float64)


def freeze_scale(source: Cohort, target: Cohort, kind: Kind, *, seed: int = 0) -> DistanceScale | None:
    """Fits the classifier on one half of the target and keeps the other as the reference; None with too few patients.

    Args:
        source: Whom the model learned from; outcomes are not read.
        target: Whom it was made for.
        kind: What tells the two apart best; boosting is replaced by squares and products, which can be written down.
        seed: Decides the halves.
    """
    if min(len(source), len(target) // 2) < FEWEST_REFERENCE:
        return None
    generator = np.random.default_rng([seed, 35])
    persons = np.arange(len(target)) if target.persons is None else target.persons
    half = deal_persons(persons, 2, generator)
    fitted, reference = target.take(np.flatnonzero(half == 0)), target.take(np.flatnonzero(half == 1))
    if min(len(fitted), len(reference)) < FEWEST_REFERENCE:
        return None
    scale = _fit("logistic" if kind == "logistic" else "quadratic", source, fitted, generator)
    return replace(scale, scores=np.sort(scale.log_odds(reference.X)))


def _fit(kind: Kind, source: Cohort, target: Cohort, generator: np.random.Generator) -> DistanceScale:
    """The classifier as numbers, without a reference."""
    X, is_target = stack(source, target)
    rows = thin(is_target, np.arange(len(X)), MOST_FITTED, generator)
    with one_thread():
        classifier = fit_classifier(kind, X[rows], is_target[rows], seed=0)
    both = np.concatenate([source.X, target.X]).astype(np.float64)
    spread, terms, nothing = both.std(axis=0), classifier.terms, np.zeros(0)
    return DistanceScale(
        features=source.features,
        centre=both.mean(axis=0),
        spread=np.where(spread > 0, spread, 1.0),
        first=nothing if terms is None else terms.first,
        second=nothing if terms is None else terms.second,
        product_mean=nothing if terms is None else terms.mean,
        product_scale=nothing if terms is None else terms.scale,
        weights=classifier.model.coef_[0],
        scores=nothing,
    )
