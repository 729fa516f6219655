"""How much sites differ by, beyond what patients' sampling shows: fitted on other pairs of sites.

An interval is value +- z sqrt(sampling^2 + tau^2). tau comes from `tdrop benchmark forecast`, which fits it on all
pairs but the one that is judged; docs/FORECAST.md has the measurement. It is never fitted at the site in question.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from scipy.stats import norm

from tdrop.base import Doubles
from tdrop.forecast.masses import Quantity

#: Below this share of the source that counts after weighting, a site is far away.
FAR = 0.08
#: tau of an ordinary site and of one that is far away, by number.
TAU: dict[Quantity, tuple[float, float]] = {
    "auroc": (0.055, 0.08),
    "error_rate": (0.095, 0.12),
    "net_benefit": (0.14, 0.16),
    "brier": (0.06, 0.08),
    "outcomes": (0.14, 0.16),
}


def tau_of(quantity: Quantity, effective_share: float) -> float:
    """The standard deviation between sites of one number.

    Args:
        quantity: Which number.
        effective_share: Effective n over n of the weighted source.
    """
    ordinary, far = TAU[quantity]
    return far if effective_share < FAR else ordinary


def fit_tau(
    errors: Sequence[NDArray[np.float64]], sampling: Sequence[NDArray[np.float64]], level: float = 0.95
) -> float:
    """The smallest tau whose intervals cover a share `level` of what was observed; every pair counts alike.

    Args:
        errors: For each pair, observed minus forecast of its methods (methods,).
        sampling: The standard deviations behind them (methods,).
        level: Of the intervals.
    """
    reach = float(norm.ppf((1 + level) / 2))
    flat = np.concatenate([np.asarray(one, dtype=np.float64) for one in errors])
    spread = np.concatenate([np.asarray(one, dtype=np.float64) for one in sampling])
    share: Doubles = np.concatenate([np.full(len(one), 1 / len(one)) for one in errors]) / len(errors)
    needed = np.sqrt(np.maximum(0.0, (flat / reach) ** 2 - spread**2))
    order = np.argsort(needed)
    place = int(np.searchsorted(np.cumsum(share[order]), level - 1e-9))
    return float(needed[order][min(place, len(order) - 1)])
