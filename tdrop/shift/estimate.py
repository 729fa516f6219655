"""How different the patients of a target site are from those of its source."""

from __future__ import annotations

import logging
from dataclasses import dataclass, replace

import numpy as np
from scipy.special import expit

from tdrop.base import Cohort, Count, DataError, Doubles, html_table, three_decimals, written
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
from tdrop.shift.shares import Shares, estimate_shares
from tdrop.shift.verdict import Ground, Verdict, judge_shift, worst_verdict

logger = logging.getLogger(__name__)

#: Bins of the propensity histograms.
PROPENSITY_BINS = 40


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
