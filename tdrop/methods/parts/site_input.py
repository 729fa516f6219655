"""A method with the source of each patient as an input; for a new site it mixes the sources its patients resemble.

Formula: f(x) = sum_k s_k f(x, site k), where s are the shares of the target's patients among the sources
(`tdrop.shift.Shares`) and f(x, site k) is the method fitted on the pooled sources with the site as one more input:
one 0-or-1 column per source, penalised like any other weight.
Not in the paper. It departs from a method without the site in that a difference of level between sources does not
have to be explained by the patients' features. Any method takes the setting `site_input`.
In target rows that a fit reads, these columns hold the shares, because nobody knows which source they resemble.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tdrop.base import Cohort, Doubles, Fitted, Predictive, StepCallback
from tdrop.methods.parts import MethodSettings, check_rows
from tdrop.methods.parts.fitted import FittedOnFits, read_noise, restore_fits
from tdrop.shift import estimate_shares

#: The name of the fit itself among the files.
_INSIDE = "inside"


def fit_with_sites(
    method: MethodSettings,
    source: Cohort,
    target: Cohort,
    validation: Cohort | None,
    seed: int,
    progress: StepCallback | None,
) -> Fitted:
    """Fits with the site as an input; where all patients came from one site, the method as it is."""
    plain = replace(method, site_input=False)
    if source.origins is None or len(np.unique(source.origins)) < 2:
        return plain.fit(source, target, validation, seed=seed, progress=progress)
    shares = estimate_shares(source, target).weights
    sides = [_with_sites(cohort, shares) for cohort in (source, replace(target, origins=None))]
    beside = None if validation is None else _with_sites(validation, shares)
    return FittedWithSites(method, plain.fit(sides[0], sides[1], beside, seed=seed, progress=progress), shares)


def restore_with_sites(
    method: MethodSettings, record: Mapping[str, Any], files: Mapping[str, bytes]
) -> FittedWithSites:
    """Rebuilds the fitted half from a saved record and its files."""
    inside = restore_fits([_INSIDE], files)[_INSIDE]
    return FittedWithSites(method, inside, record["shares"]).with_noise(read_noise(record))


class FittedWithSites(FittedOnFits):
    """A fit that knows the site, and the shares by which it predicts for a new one.

    Attributes:
        shares: By source, its weight.
    """

    def __init__(self, method: MethodSettings, inside: Fitted, shares: Mapping[str, float]) -> None:
        super().__init__(method, {_INSIDE: inside})
        self.features = inside.features[: -len(shares)]
        self.history = inside.history
        self.shares = dict(shares)
        if hasattr(inside, "dropout_rates"):
            self.dropout_rates = lambda X: inside.dropout_rates(_beside(np.asarray(X), list(self.shares.values())))

    def with_shares(self, shares: Mapping[str, float]) -> FittedWithSites:
        """The same fit for patients of other shares among the same sources."""
        return FittedWithSites(self.method, self.fits[_INSIDE], {site: shares[site] for site in self.shares})

    def sample(self, X: NDArray[Any], n: int, *, seed: int) -> Predictive:
        """The sources' samples for X (rows, features), mixed by the shares; pass by pass the same weights."""
        rows = check_rows(X, self.features, self.method.name)
        mixed: Doubles | None = None
        for site, share in zip(np.eye(len(self.shares)), self.shares.values(), strict=True):
            if share > 0:
                drawn = self.fits[_INSIDE].sample(_beside(rows, site), n, seed=seed)
                samples = share * drawn.samples.astype(np.float64)
                mixed = samples if mixed is None else mixed + samples
        assert mixed is not None
        return Predictive(mixed.astype(np.float32))

    def record(self) -> dict[str, Any]:
        """What a saved model's record holds."""
        return {**super().record(), "shares": self.shares}


def _with_sites(cohort: Cohort, shares: Mapping[str, float]) -> Cohort:
    """The cohort with one column per source: 1 for the source of a row, or the shares where that is unknown."""
    columns: NDArray[Any] = np.tile(list(shares.values()), (len(cohort), 1))
    if cohort.origins is not None:
        columns = (cohort.origins[:, None] == np.array(list(shares))[None]).astype(np.float64)
    names = (*cohort.features, *(f"site={site}" for site in shares))
    return replace(cohort, features=names, X=np.hstack([cohort.X, columns]))


def _beside(rows: NDArray[Any], site: NDArray[Any] | Sequence[float]) -> NDArray[Any]:
    """Rows (rows, features) with the same site columns beside each."""
    return np.hstack([rows, np.tile(np.asarray(site), (len(rows), 1))])
