"""A method with the source of each patient as an input; for a new site it mixes the sources its patients resemble.

Formula: f(x) = sum_k s_k f(x, site k), where s are the shares of the target's patients among the sources
(`tdrop.shift.Shares`) and f(x, site k) is the method fitted on the pooled sources with the site as one more input:
one 0-or-1 column per source, penalised like any other weight.
Not in the paper. It departs from a method without the site in that a difference of level between sources does not
have to be explained by the patients' features. Any method takes the setting `site_input`; `build` wraps it.
In target rows that a fit reads, these columns hold the shares, because nobody knows which source they resemble.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tdrop.base import Cohort, Doubles, Fitted, Method, Predictive, StepCallback, plain, read
from tdrop.methods import SITE_INPUT, build
from tdrop.methods.parts import check_rows
from tdrop.methods.parts.fitted import FittedModel, Noise, load_nested, nest_files, write_model
from tdrop.shift import estimate_shares

#: Files of the fit itself start with this.
_INSIDE = "inside."


@dataclass(frozen=True)
class WithSiteInput:
    """A method with the site as an input; see `tdrop.base.Method`."""

    method: Method

    @property
    def name(self) -> str:
        """The method's own name."""
        return self.method.name

    @property
    def has_samples(self) -> bool:
        """Whether its samples spread."""
        return self.method.has_samples

    def settings(self) -> Mapping[str, Any]:
        """The method's settings with `site_input`."""
        return {**self.method.settings(), SITE_INPUT: True}

    def needs_target(self) -> bool:
        """The shares are those of the target's patients."""
        return True

    def with_settings(self, **settings: Any) -> Method:
        """A copy with some settings changed."""
        return build(self.name, **{**self.settings(), **settings})

    def search_space(self) -> dict[str, tuple[Any, ...]]:
        """What tuning may try of the method itself."""
        return self.method.search_space()

    def fit(
        self,
        source: Cohort,
        target: Cohort,
        validation: Cohort | None = None,
        *,
        seed: int,
        progress: StepCallback | None = None,
    ) -> Fitted:
        """Fits with the site as an input; where all patients came from one site, the method as it is."""
        if source.origins is None or len(np.unique(source.origins)) < 2:
            return self.method.fit(source, target, validation, seed=seed, progress=progress)
        shares = estimate_shares(source, target).weights
        sides = [_with_sites(cohort, shares) for cohort in (source, replace(target, origins=None))]
        beside = None if validation is None else _with_sites(validation, shares)
        inside = self.method.fit(sides[0], sides[1], beside, seed=seed, progress=progress)
        return FittedWithSites(self, inside, shares)

    def restore(self, record: Mapping[str, Any], files: Mapping[str, bytes]) -> FittedWithSites:
        """Rebuilds the fitted half from a saved record and its files."""
        noise = record.get("noise")
        fitted = FittedWithSites(self, load_nested(_INSIDE, files), record["shares"])
        return fitted.with_noise(None if noise is None else read(Noise, noise))


class FittedWithSites(FittedModel):
    """A fit that knows the site, and the shares by which it predicts for a new one.

    Attributes:
        shares: By source, its weight.
    """

    def __init__(self, method: WithSiteInput, inside: Fitted, shares: Mapping[str, float]) -> None:
        self.method = method
        self.features = inside.features[: -len(shares)]
        self.task = inside.task
        self.classes = inside.classes
        self.steps = inside.steps
        self.history = inside.history
        self.shares = dict(shares)
        self._inside = inside
        if hasattr(inside, "dropout_rates"):
            self.dropout_rates = lambda X: inside.dropout_rates(_beside(np.asarray(X), list(self.shares.values())))

    def with_shares(self, shares: Mapping[str, float]) -> FittedWithSites:
        """The same fit for patients of other shares among the same sources."""
        return FittedWithSites(self.method, self._inside, {site: shares[site] for site in self.shares})

    def sample(self, X: NDArray[Any], n: int, *, seed: int) -> Predictive:
        """The sources' samples for X (rows, features), mixed by the shares; pass by pass the same weights."""
        rows = check_rows(X, self.features, self.method.name)
        mixed: Doubles | None = None
        for place, share in enumerate(self.shares.values()):
            if share > 0:
                site = np.eye(len(self.shares))[place]
                samples = share * self._inside.sample(_beside(rows, site), n, seed=seed).samples.astype(np.float64)
                mixed = samples if mixed is None else mixed + samples
        assert mixed is not None
        return Predictive(mixed.astype(np.float32))

    def save(self, folder: Path) -> None:
        """Writes the fit's files and one record that seals them with the shares."""
        record = {"method": self.method.name, "settings": dict(self.method.settings()), "shares": self.shares}
        noise = {} if self.noise is None else {"noise": plain(self.noise)}
        write_model(Path(folder), {**record, **noise}, nest_files(_INSIDE, self._inside))


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
