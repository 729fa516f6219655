"""What each source contributes to a site's risks: a logistic regression on the pool, with and without it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tdrop.base import Cohort, Count, Doubles
from tdrop.methods import build

#: Refits behind a risk: their mean is what moves.
REFITS = 5
#: Rows behind a fit, at most.
MOST_ROWS = 20_000


@dataclass(frozen=True)
class Influence:
    """What a site's risks would be without one source.

    Attributes:
        site: Name of the source.
        patients: Of it.
        mean_risk: Of the target's patients, by all sources.
        mean_risk_without: The same without this one.
        moved: Mean absolute difference of a patient's risk.
    """

    site: str
    patients: Count
    mean_risk: float
    mean_risk_without: float
    moved: float


def measure_influence(source: Cohort, target: Cohort) -> tuple[Influence, ...]:
    """Leaves each source out in turn; empty with one source, or where the others have one kind of outcome only.

    Args:
        source: Labelled patients of several sites, with `origins`.
        target: The site in question; its outcomes are not read.
    """
    if source.origins is None or source.y is None or source.task != "binary" or not len(target):
        return ()
    sites, counts = np.unique(source.origins, return_counts=True)
    if len(sites) < 2:
        return ()
    remaining = source
    if len(source) > MOST_ROWS:
        rows = np.random.default_rng([0, 12]).choice(len(source), MOST_ROWS, replace=False)
        remaining = source.take(np.sort(rows))
    whole = _risks(remaining, target)
    results = []
    for site, count in zip(sites, counts, strict=True):
        assert remaining.origins is not None
        rest = remaining.take(remaining.origins != site)
        if rest.y is None or len(np.unique(rest.y)) < 2:
            continue
        risks = _risks(rest, target)
        moved = float(np.abs(risks - whole).mean())
        results.append(Influence(str(site), int(count), float(whole.mean()), float(risks.mean()), moved))
    return tuple(results)


def _risks(source: Cohort, target: Cohort) -> Doubles:
    fitted = build("logistic_regression", refits=REFITS).fit(source, target.unlabelled(), seed=0)
    return np.asarray(fitted.summarise(target.X, REFITS, seed=0).mean, dtype=np.float64)
