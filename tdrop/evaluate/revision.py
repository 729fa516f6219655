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

#: Widths of intercept and slope as parts of the line's own prior, and spreads of effects, each with how common it is.
#: Settled on simulated sites (docs/LABELS.md).
PARTS = ((1 / 3, 0.4), (1.0, 0.6))
SPREADS = ((0.02, 0.6), (0.5, 0.2), (1.0, 0.2))
#: Standard deviations beyond which a feature tells nothing more.
FURTHEST = 5.0
_STEPS, _TOLERANCE = 40, 1e-7


@dataclass(frozen=True)
class Revision:
    """What was added to the log odds of risks.

    Attributes:
        intercept: For everybody.
        slope: Multiplies the log odds.
        effects: Per standardised feature (features,).
    """

    intercept: float
    slope: float
    effects: Doubles

    def apply(self, risk: NDArray[Any], X: NDArray[Any]) -> Doubles:
        """Returns revised risks (rows,) of patients with these risks (rows,) and standardised features."""
        moved = self.intercept + self.slope * logit(risk) + np.asarray(X, dtype=np.float64) @ self.effects
        return np.asarray(expit(moved), dtype=np.float64)


def scale_by_source(source: Cohort, target: Cohort) -> Doubles:
    """Returns the target's features (rows, features) in standard deviations from the source's means."""
    spread = source.X.std(axis=0, dtype=np.float64)
    centred = target.X.astype(np.float64) - source.X.mean(axis=0, dtype=np.float64)
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
    for (first, own), (second, other), (spread, common) in product(PARTS, PARTS, SPREADS):
        widths = np.full(design.shape[1], spread)
        widths[:2] = first * prior[0], second * prior[1]
        fit, said = _fit(y, design, scaled, centre, 1 / widths**2)
        fits.append(fit)
        evidence.append(said + np.log(own * other * common))
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
