"""How different the patients of a target site are from those of its source, and which of several they resemble.

The shares of several sources, without any outcome: r_k(x) = P(site k | x) is a logistic regression between the sources,
a_k source k's share of the pool. The shares z of the target's patients are what expectation maximisation makes of them
(Saerens et al. 2002):

    z <- a;  repeat  z_k <- mean over target patients of (z_k / a_k) r_k(x) / sum_j (z_j / a_j) r_j(x)

A model that knows the site predicts with s = (z + a) / 2: z alone swings too far where sites hardly differ.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.special import expit
from sklearn.linear_model import LogisticRegression

from tdrop.base import Cohort, Count, DataError, Doubles, html_table, one_thread, three_decimals, written
from tdrop.shift.classifier import check_same_features, propensity
from tdrop.shift.differences import (
    Density,
    Driver,
    FeatureShift,
    PermutationTest,
    compare_features,
    permutation_test,
    rank_drivers,
)
from tdrop.shift.overlap import WEIGHT_CAP, DomainAuroc, Propensity, density_ratio_weights
from tdrop.shift.verdict import Ground, Verdict, judge_shift, worst_verdict

logger = logging.getLogger(__name__)

#: Bins of the propensity histograms.
PROPENSITY_BINS = 40
#: Rows behind the classifier of several sources, at most: a share needs no third digit.
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
    with one_thread():
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


@dataclass(frozen=True)
class Shift:
    """The difference between a target site and its source, measured without outcomes.

    Attributes:
        source: Name of the source site.
        target: Name of the target site.
        source_rows: Source patients.
        target_rows: Target patients.
        verdict: "go", "caution", "stop" or "too few to say".
        domain_auroc: The cross-fitted AUROC of the propensity; None when none can be fitted.
        aurocs: Those of all classifiers that were compared, simplest first.
        permutation: Two-sample test; it informs and never decides.
        weights_effective_n: Effective size of the source under density-ratio weights; small without overlap.
        weights_capped_share: Share of source rows whose weight reached the cap.
        outside_overlap: Share of target patients with hardly any source patient like them.
        propensity: Histogram of P(target | x) with the sites weighted alike, on common edges.
        features: One record per feature.
        drivers: Columns by their part in the difference, largest first.
        grounds: What else speaks in the verdict; see `judged`.
        shares: Whom the target's patients resemble among several sources; None where there is one.
    """

    source: str
    target: str
    source_rows: Count
    target_rows: Count
    verdict: Verdict
    domain_auroc: DomainAuroc | None
    aurocs: tuple[DomainAuroc, ...]
    permutation: PermutationTest | None
    weights_effective_n: float | None
    weights_capped_share: float | None
    outside_overlap: float | None
    propensity: Density | None
    features: tuple[FeatureShift, ...]
    drivers: tuple[Driver, ...]
    grounds: tuple[Ground, ...] = ()
    shares: Shares | None = None

    def __repr__(self) -> str:
        """The answer; the records behind it are attributes."""
        auroc = "" if self.domain_auroc is None else f", domain AUROC {self.domain_auroc.value:.2f}"
        rows = f"{written(self.source_rows)} and {written(self.target_rows)} patients"
        return f"Shift({self.source!r} to {self.target!r}: {self.verdict}{auroc}; {rows})"

    def _repr_html_(self) -> str:
        """The features that differ most, for a notebook."""
        rows = [
            (feature.feature, *map(three_decimals, (feature.source_mean, feature.target_mean, feature.smd)))
            for feature in self.by_difference[:10]
        ]
        return html_table(repr(self), ("feature", f"mean at {self.source}", f"mean at {self.target}", "SMD"), rows)

    @property
    def by_difference(self) -> list[FeatureShift]:
        """The features, ordered by the difference of their means, largest first."""
        return sorted(self.features, key=lambda feature: -abs(feature.smd or 0.0))

    @property
    def serves(self) -> bool:
        """Whether a model may be offered for use: not after a stop, nor where the source has too few outcomes."""
        taught = all(ground.verdict == "go" for ground in self.grounds if ground.kind == "source_outcomes")
        return taught and self.verdict != "stop"

    def overruled(self, support: Ground) -> Shift:
        """Returns the shift under "caution", where it was stopped because patients differ and outcomes show a benefit.

        Any other ground for a stop stays one.
        """
        if self.verdict != "stop" or any(ground.verdict == "stop" for ground in self.grounds):
            return self
        return replace(self, grounds=(*self.grounds, support), verdict=worst_verdict("caution", *self.grounds))

    def judged(self, *grounds: Ground | None) -> Shift:
        """Returns the shift with further grounds, under the worst verdict of all; grounds that are None are ignored."""
        known = tuple(ground for ground in grounds if ground is not None)
        return replace(self, grounds=(*self.grounds, *known), verdict=worst_verdict(self.verdict, *known))


def estimate_shift(source: Cohort, target: Cohort, *, seed: int = 0, fitted: Propensity | None = None) -> Shift:
    """Measures how different the target's patients are, feature by feature and jointly.

    Outcomes are not read. Large sites are thinned where it is costly; the records say to how many rows.

    Args:
        source: The labelled site.
        target: The site to compare with it.
        seed: Decides folds, subsamples and shuffles.
        fitted: The pair's propensity where it was fitted before; fitted here otherwise.
    """
    check_same_features(source, target)
    if min(len(source), len(target)) < 1:
        raise DataError(
            f"sites '{source.site}' and '{target.site}': a shift needs patients in both, came "
            f"{len(source):,} and {len(target):,} rows; check the extracts"
        )
    features = compare_features(source, target)
    if fitted is None and min(len(source), len(target)) >= 2:
        fitted = propensity(source, target, seed=seed)
    test = None if fitted is None else permutation_test(source, target, seed=seed)
    auroc, outside = (None, None) if fitted is None else (fitted.auroc, fitted.outside)
    weights = None if fitted is None else density_ratio_weights(fitted)
    verdict = judge_shift(auroc, outside)
    logger.info("site '%s' against '%s': %s", target.site, source.site, verdict)
    return Shift(
        source=source.site,
        target=target.site,
        source_rows=len(source),
        target_rows=len(target),
        verdict=verdict,
        domain_auroc=auroc,
        aurocs=() if fitted is None else fitted.candidates,
        permutation=test,
        weights_effective_n=None if fitted is None else fitted.effective_n,
        weights_capped_share=None if weights is None else float((weights >= 0.999 * WEIGHT_CAP).mean()),
        outside_overlap=outside,
        propensity=None if fitted is None else _histogram(fitted),
        features=features,
        drivers=() if fitted is None else rank_drivers(source, target, features, kind=fitted.kind, seed=seed),
        shares=None if source.origins is None else estimate_shares(source, target, seed=seed),
    )


def _histogram(fitted: Propensity) -> Density:
    """Counts P(target | x) as if both sites were equally large, so that .5 means "no idea"."""
    prior = np.log(len(fitted.source) / len(fitted.target))
    edges = np.linspace(0, 1, PROPENSITY_BINS + 1)
    counts = []
    for logits in fitted.logits():
        balanced: Doubles = expit(logits + prior)
        counts.append(tuple(np.histogram(balanced, edges)[0].tolist()))
    return Density(tuple(float(edge) for edge in np.round(edges, 6)), counts[0], counts[1])
