"""Whom a site's patients resemble: their shares among several sources, without any outcome.

r_k(x) = P(site k | x) is a logistic regression between the sources, a_k source k's share of the pool. The shares z of
the target's patients are what expectation maximisation makes of them (Saerens et al. 2002):

    z <- a;  repeat  z_k <- mean over target patients of (z_k / a_k) r_k(x) / sum_j (z_j / a_j) r_j(x)

A model that knows the site predicts with s = (z + a) / 2: z alone swings too far where sites hardly differ.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.linear_model import LogisticRegression
from threadpoolctl import threadpool_limits

from tdrop.base import Cohort, DataError, Doubles
from tdrop.shift.classifier import check_same_features

#: Rows behind the classifier, at most: a share needs no third digit.
MOST_ROWS = 20_000
#: Rounds of expectation maximisation, at most, and the change of a share that ends them.
MOST_ROUNDS, SETTLED = 500, 1e-6
#: A share is known, and shown, to so many digits.
DIGITS = 2


@dataclass(frozen=True)
class Shares:
    """How much a site's patients resemble those of each source.

    Attributes:
        sites: Names of the sources, in alphabetical order.
        pool: Each source's share of the pooled patients.
        resembled: Each source's share of the site's patients, by resemblance.
    """

    sites: tuple[str, ...]
    pool: tuple[float, ...]
    resembled: tuple[float, ...]

    @property
    def weights(self) -> dict[str, float]:
        """By source, the weight of its prediction: the mean of both shares; they add up to 1."""
        means = np.round((np.asarray(self.pool) + np.asarray(self.resembled)) / 2, DIGITS)
        return dict(zip(self.sites, (means / means.sum()).tolist(), strict=True))


def estimate_shares(source: Cohort, target: Cohort, *, seed: int = 0) -> Shares:
    """Estimates the shares of the target's patients among the sites of a pooled source.

    Args:
        source: Patients of several sites, with `origins`; outcomes are not read.
        target: The site in question.
        seed: Decides which rows are kept of a large pool.
    """
    check_same_features(source, target)
    if source.origins is None or not len(target):
        raise DataError(f"sites '{source.site}' and '{target.site}': shares need patients of both, and their origins")
    sites, places, counts = np.unique(source.origins, return_inverse=True, return_counts=True)
    pool = counts / counts.sum()
    if len(sites) == 1:
        return Shares((str(sites[0]),), (1.0,), (1.0,))
    rows = np.arange(len(source))
    if len(rows) > MOST_ROWS:
        rows = np.sort(np.random.default_rng([seed, 11]).choice(rows, MOST_ROWS, replace=False))
    X = source.X.astype(np.float64)
    centre, spread = X.mean(axis=0), np.where(X.std(axis=0) > 0, X.std(axis=0), 1.0)
    model: Any = LogisticRegression(C=1.0, max_iter=200, tol=1e-3)
    with threadpool_limits(1):
        model.fit((X[rows] - centre) / spread, places[rows])
        likely = model.predict_proba((target.X.astype(np.float64) - centre) / spread)
    full = np.full((len(target), len(sites)), 1e-12)
    full[:, model.classes_] = likely
    resembled = _settle(full, pool)
    return Shares(tuple(map(str, sites)), tuple(pool.tolist()), tuple(resembled.tolist()))


def _settle(likely: Doubles, pool: Doubles) -> Doubles:
    """Shares (sites,) from the probabilities of each site (target rows, sites) and the shares of the pool (sites,)."""
    shares = pool.copy()
    for _ in range(MOST_ROUNDS):
        weighed = likely * (shares / pool)
        updated = (weighed / weighed.sum(axis=1, keepdims=True)).mean(axis=0)
        change = float(np.abs(updated - shares).max())
        shares = updated
        if change < SETTLED:
            break
    return np.asarray(shares, dtype=np.float64)
