"""How different the patients of a target site are from those of its source."""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Self

import numpy as np

from tdrop.errors import DataError
from tdrop.shift.classifier import (
    WEIGHT_CAP,
    Propensity,
    check_same_features,
    density_ratio_weights,
    effective_n,
    propensity,
)
from tdrop.shift.joint import (
    DomainAuroc,
    Driver,
    PermutationTest,
    domain_auroc,
    permutation_test,
    rank_drivers,
    share_outside_overlap,
)
from tdrop.shift.marginal import Density, FeatureShift, compare_features
from tdrop.shift.verdict import Verdict, judge
from tdrop.types import Cohort, Doubles

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
        reason: Why, in a sentence.
        domain_auroc: The better classifier's cross-fitted AUROC; None when it cannot be fitted.
        aurocs: Those of all classifiers, logistic first.
        permutation: Two-sample test; it informs and never decides.
        weights_effective_n: Kish's effective size of the source under density-ratio weights, which come
            from the logistic classifier: a boosted one invents weights where there is no shift.
        weights_capped_share: Share of source rows whose weight reached the cap.
        outside_overlap: Share of target patients with hardly any source patient like them.
        propensity: Histogram of P(target | x) with the sites weighted alike, on common edges.
        features: One record a feature.
        drivers: Columns by their part in the difference, largest first.
        notes: What could not be estimated, and which rows stand behind what.
    """

    source: str
    target: str
    source_rows: int
    target_rows: int
    verdict: Verdict
    reason: str
    domain_auroc: DomainAuroc | None
    aurocs: tuple[DomainAuroc, ...]
    permutation: PermutationTest | None
    weights_effective_n: float | None
    weights_capped_share: float | None
    outside_overlap: float | None
    propensity: Density | None
    features: tuple[FeatureShift, ...]
    drivers: tuple[Driver, ...]
    notes: tuple[str, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """Returns plain JSON types."""
        data: dict[str, Any] = json.loads(json.dumps(asdict(self), allow_nan=False))
        return data

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Self:
        """Reads what `to_dict` wrote."""
        auroc, test, histogram = data["domain_auroc"], data["permutation"], data["propensity"]
        read: dict[str, Any] = {
            **data,
            "domain_auroc": None if auroc is None else DomainAuroc.from_dict(auroc),
            "aurocs": tuple(DomainAuroc.from_dict(item) for item in data["aurocs"]),
            "permutation": None if test is None else PermutationTest.from_dict(test),
            "propensity": None if histogram is None else Density.from_dict(histogram),
            "features": tuple(FeatureShift.from_dict(item) for item in data["features"]),
            "drivers": tuple(Driver.from_dict(item) for item in data["drivers"]),
            "notes": tuple(data["notes"]),
        }
        return cls(**read)


@dataclass(frozen=True)
class _Joint:
    """What rests on a classifier; empty when none can be fitted."""

    aurocs: tuple[DomainAuroc, ...] = ()
    logistic: Propensity | None = None
    best: Propensity | None = None
    permutation: PermutationTest | None = None
    drivers: tuple[Driver, ...] = ()


def estimate_shift(source: Cohort, target: Cohort, *, seed: int = 0) -> Shift:
    """Measures how different the target's patients are, feature by feature and jointly.

    Outcomes are not read. Large sites are thinned where it is costly; `notes` says where.
    """
    check_same_features(source, target)
    if min(len(source), len(target)) < 1:
        raise DataError(
            f"sites '{source.site}' and '{target.site}': a shift needs patients in both, came "
            f"{len(source):,} and {len(target):,} rows; check the extracts"
        )
    features = compare_features(source, target)
    joint = _compare_jointly(source, target, features, seed)
    best = max(joint.aurocs, key=lambda auroc: auroc.value, default=None)
    weights = None if joint.logistic is None else density_ratio_weights(joint.logistic)
    outside = None if joint.best is None else share_outside_overlap(joint.best)
    verdict, reason = judge(best, outside, (len(source), len(target)))
    logger.info("site '%s' against '%s': %s", target.site, source.site, verdict)
    return Shift(
        source=source.site,
        target=target.site,
        source_rows=len(source),
        target_rows=len(target),
        verdict=verdict,
        reason=reason,
        domain_auroc=best,
        aurocs=joint.aurocs,
        permutation=joint.permutation,
        weights_effective_n=None if weights is None else effective_n(weights),
        weights_capped_share=None if weights is None else float((weights >= 0.999 * WEIGHT_CAP).mean()),
        outside_overlap=outside,
        propensity=None if joint.best is None else _histogram(joint.best),
        features=features,
        drivers=joint.drivers,
        notes=_notes(features, joint),
    )


def _compare_jointly(source: Cohort, target: Cohort, features: tuple[FeatureShift, ...], seed: int) -> _Joint:
    if min(len(source), len(target)) < 2:
        return _Joint()
    fitted = [propensity(source, target, seed=seed, kind=kind) for kind in ("logistic", "boosting")]
    aurocs = tuple(domain_auroc(one) for one in fitted)
    best = fitted[int(np.argmax([auroc.value for auroc in aurocs]))]
    return _Joint(
        aurocs=aurocs,
        logistic=fitted[0],
        best=best,
        permutation=permutation_test(source, target, seed=seed),
        drivers=rank_drivers(source, target, features, kind=best.kind, seed=seed),
    )


def _histogram(fitted: Propensity) -> Density:
    """Counts P(target | x) as if both sites were equally large, so that .5 means "no idea"."""
    prior = np.log(len(fitted.source) / len(fitted.target))
    edges = np.linspace(0, 1, PROPENSITY_BINS + 1)
    counts = []
    for logits in fitted.logits():
        balanced: Doubles = 1 / (1 + np.exp(-(logits + prior)))
        counts.append(tuple(int(count) for count in np.histogram(balanced, edges)[0]))
    return Density(tuple(float(edge) for edge in np.round(edges, 6)), counts[0], counts[1])


def _notes(features: tuple[FeatureShift, ...], joint: _Joint) -> tuple[str, ...]:
    notes = [f"{feature.feature} is {feature.note}." for feature in features if feature.note]
    for auroc in joint.aurocs:
        notes.append(f"Each {auroc.kind} classifier was fitted on at most {auroc.rows_fitted:,} rows.")
    if joint.permutation is not None:
        test = joint.permutation
        notes.append(
            f"The permutation test used {test.source_rows:,} source and {test.target_rows:,} target rows "
            f"and {test.permutations} permutations."
        )
    return tuple(notes)
