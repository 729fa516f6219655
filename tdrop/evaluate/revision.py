"""A model's risks, revised by a site's own outcomes: intercept, slope and the effect of every feature, all shrunken.

Formula: logit of the revised risk = a + b logit(risk) + x e, with normal priors a ~ N(0, sa^2), b ~ N(1, sb^2) and
e ~ N(0, t^2 / features) over standardised features x, so that t is how far patients' log odds may move apart from each
other. How far each may go is not set but weighed: fits over a small grid of widths are averaged by their evidence
(Laplace's approximation) times how common such sites are. Risks that are right keep most of the weight on narrow
priors; risks that are far off, or of another kind of patient, move it to wide ones as outcomes come in.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

from tdrop.base import Cohort, Doubles
from tdrop.metrics import logit

#: Widths of intercept and slope as parts of the line's own prior, each as common as the other; and spreads of effects
#: with how common each is. Settled on simulated sites (docs/LABELS.md).
PARTS = (0.1, 1.0)
SPREADS = ((0.02, 0.6), (0.5, 0.2), (1.0, 0.2))
#: Standard deviations beyond which a feature tells nothing more.
FURTHEST = 5.0
_STEPS, _TOLERANCE = 40, 1e-7


@dataclass(frozen=True)
class Revision:
    """A change of risks on the scale of log odds.

    Attributes:
        intercept: For everybody.
        slope: Multiplies the log odds.
        effects: Per standardised feature (features,); None where these stay as they are.
    """

    intercept: float
    slope: float
    effects: Doubles | None = None

    def apply(self, risk: NDArray[Any], X: NDArray[Any] | None = None) -> Doubles:
        """Returns revised risks (rows,) of patients with these risks (rows,) and standardised features."""
        added = 0.0 if self.effects is None or X is None else np.asarray(X, dtype=np.float64) @ self.effects
        return np.asarray(expit(self.intercept + added + self.slope * logit(risk)), dtype=np.float64)


@dataclass(frozen=True)
class FeatureScale:
    """Features in standard deviations from the source's means, coarse enough to leave with a model.

    A spread has one significant digit, and a mean is a multiple of half of it: neither tells how many source patients
    have a category.

    Attributes:
        centre: Per feature.
        spread: Per feature; 0 for one that is constant at the source, which tells nothing.
    """

    centre: tuple[float, ...]
    spread: tuple[float, ...]

    @classmethod
    def from_source(cls, source: Cohort) -> FeatureScale:
        """Measures the scale of a source's features."""
        spreads = source.X.std(axis=0, dtype=np.float64)
        # A category is worth no more than FURTHEST, however rare it is.
        only_0_and_1 = ((source.X == 0) | (source.X == 1)).all(axis=0)
        spreads = np.where(only_0_and_1 & (spreads > 0), np.maximum(spreads, 1 / FURTHEST), spreads)
        spread = [float(f"{value:.0e}") for value in spreads]
        means = source.X.mean(axis=0, dtype=np.float64)
        centre = [round(2 * mean / sd) * sd / 2 if sd else 0.0 for mean, sd in zip(means, spread, strict=True)]
        return cls(tuple(map(float, centre)), tuple(spread))

    def apply(self, X: NDArray[Any]) -> Doubles:
        """Returns features (rows, features) on this scale, none further than FURTHEST from 0."""
        spread = np.asarray(self.spread)
        centred = np.asarray(X, dtype=np.float64) - np.asarray(self.centre)
        return np.asarray(np.clip(centred / np.where(spread > 0, spread, np.inf), -FURTHEST, FURTHEST))


def fit_revision(y: Doubles, risk: Doubles, X: NDArray[Any], weights: Doubles, prior: tuple[float, float]) -> Revision:
    """Fits the revision to known outcomes.

    Args:
        y: Outcomes (rows,).
        risk: Risks (rows,).
        X: Standardised features (rows, features).
        weights: For how many patients each row stands (rows,); scaled to add up to the effective n.
        prior: Standard deviations of intercept and slope, around 0 and 1.
    """
    features = np.asarray(X, dtype=np.float64)
    count = max(1, features.shape[1])
    design = np.column_stack([np.ones(len(y)), logit(risk), features / np.sqrt(count)])
    scaled = weights * weights.sum() / max(float(np.sum(weights**2)), 1e-300)
    centre = np.zeros(design.shape[1])
    centre[1] = 1.0
    fits, evidence = [], []
    for first, second, (spread, common) in product(PARTS, PARTS, SPREADS):
        widths = np.full(design.shape[1], spread)
        widths[:2] = first * prior[0], second * prior[1]
        fit, log_evidence = _fit(y, design, scaled, centre, 1 / widths**2)
        fits.append(fit)
        evidence.append(log_evidence + np.log(common))
    share = np.exp(np.asarray(evidence) - max(evidence))
    mean = (share / share.sum()) @ np.asarray(fits)
    return Revision(float(mean[0]), float(mean[1]), mean[2:] / np.sqrt(count))


def _fit(y: Doubles, design: Doubles, weights: Doubles, centre: Doubles, precision: Doubles) -> tuple[Doubles, float]:
    """Returns the coefficients (coefficients,) of highest posterior density, and the log evidence of their prior."""
    beta = centre.copy()
    for _ in range(_STEPS):
        p = expit(design @ beta)
        curvature = (design * (weights * p * (1 - p))[:, None]).T @ design + np.diag(precision)
        step = np.linalg.solve(curvature, design.T @ (weights * (y - p)) - precision * (beta - centre))
        # A step longer than 1 overshoots where the curve is flat.
        beta = beta + step / max(1.0, float(np.abs(step).max()))
        if np.abs(step).max() < _TOLERANCE:
            break
    score = design @ beta
    likelihood = float(weights @ (y * score - np.logaddexp(0.0, score)))
    penalty = float(precision @ (beta - centre) ** 2)
    volume = float(np.log(precision).sum() - np.linalg.slogdet(curvature)[1])
    return beta, likelihood - penalty / 2 + volume / 2
