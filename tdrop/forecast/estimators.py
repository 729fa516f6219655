"""What each method will do at a site, estimated from source outcomes and the target's risks alone.

- **importance_weighted**: what the method did on source patients it had not seen, weighted to look like the target.
- **confidence**: the target's own risks, recalibrated on the weighted source rows, taken at their word (the idea of
  CBPE and M-CBPE, NannyML 2024).
- **peers**: the mean risk of the methods that source patients cannot tell from the best, taken at its word.
- **blend**: the mean of these two risks, taken at its word.
- **pessimistic**: the worse of confidence and peers, number by number; for the share of outcomes, the one further
  from what the method itself expects.

None of them can see that the same patients fare differently here: that takes outcomes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np

from tdrop.base import DataError, Doubles
from tdrop.choose import ALIKE
from tdrop.forecast.masses import QUANTITIES, WORSE, Ranked
from tdrop.methods import COMMITTEE
from tdrop.metrics import apply_lines, log_loss, weighted_lines

Estimator = Literal["importance_weighted", "confidence", "peers", "blend", "pessimistic"]
ESTIMATORS: tuple[Estimator, ...] = get_args(Estimator)
#: The one that was best on the pairs rules were settled on: docs/FORECAST.md.
DEFAULT_ESTIMATOR: Estimator = "blend"


@dataclass(frozen=True)
class Evidence:
    """All that a forecast of one method may look at; there is no place for a target outcome.

    Attributes:
        method: Name of the method.
        source: Risks of source rows, each by a fit that did not see it (source rows,).
        y: Their outcomes (source rows,).
        weights: What makes them look like the target (source rows,).
        target: Risks of the target's patients (target rows,).
    """

    method: str
    source: Doubles
    y: Doubles
    weights: Doubles
    target: Doubles

    def __post_init__(self) -> None:
        for name in ("source", "y", "weights", "target"):
            object.__setattr__(self, name, np.asarray(getattr(self, name), dtype=np.float64))
        if not self.source.shape == self.y.shape == self.weights.shape or self.source.ndim != 1:
            shapes = f"{self.source.shape}, {self.y.shape} and {self.weights.shape}"
            raise DataError(f"method '{self.method}': risks, outcomes and weights of {shapes}; give one a source row")
        if not self.weights.sum() > 0:
            raise DataError(f"method '{self.method}': no source row has any weight; there is nothing to forecast from")


def peers_risk(evidence: Sequence[Evidence]) -> Doubles:
    """The mean risk of the methods within `ALIKE` of the lowest weighted log loss (target rows,).

    A method that left-out source patients know to be worse has nothing to say about the truth, and a committee nothing
    that its members do not say.
    """
    evidence = [one for one in evidence if one.method != COMMITTEE] or evidence
    lengths = {len(one.target) for one in evidence}
    if len(lengths) != 1:
        raise DataError(f"the methods' risks cover {sorted(lengths)} patients; give the same patients to all")
    losses = [log_loss(one.y, one.source, one.weights) or 0.0 for one in evidence]
    alike = [one.target for one, loss in zip(evidence, losses, strict=True) if loss <= min(losses) + ALIKE]
    return np.asarray(np.mean(alike, axis=0), dtype=np.float64)


def estimate(
    one: Evidence, peers: Doubles, threshold: float, source_counts: Doubles, target_counts: Doubles
) -> dict[Estimator, Doubles]:
    """Every estimator's five numbers (5, resamples) of one method.

    Args:
        one: The method's evidence.
        peers: The peers' risks (target rows,).
        threshold: The decision level.
        source_counts: How often each source row was drawn (resamples, source rows); ones for the point estimate.
        target_counts: How often each target row was drawn (resamples, target rows).
    """
    weights = one.weights * source_counts
    source = Ranked.of(one.source, threshold).quantities(weights * one.y, weights * (1 - one.y))
    recalibrated = apply_lines(one.target, weighted_lines(one.y, one.source, weights, start=_point(one)))
    target = Ranked.of(one.target, threshold)
    confidence = target.quantities(target_counts * recalibrated, target_counts * (1 - recalibrated))
    together = target.quantities(target_counts * peers, target_counts * (1 - peers))
    middle = (recalibrated + peers) / 2
    blend = target.quantities(target_counts * middle, target_counts * (1 - middle))
    own = target_counts @ one.target / target_counts.sum(axis=1)
    return {
        "importance_weighted": source,
        "confidence": confidence,
        "peers": together,
        "blend": blend,
        "pessimistic": more_pessimistic(confidence, together, own),
    }


def more_pessimistic(first: Doubles, second: Doubles, expected: Doubles) -> Doubles:
    """The worse of two estimates, number by number (5, resamples).

    Args:
        first: Numbers (5, resamples).
        second: Numbers (5, resamples).
        expected: The share of outcomes that the method itself expects (resamples,).
    """
    found = np.where(np.abs(first - expected) >= np.abs(second - expected), first, second)
    for row, name in enumerate(QUANTITIES):
        if WORSE[name]:
            worse = np.fmax if WORSE[name] > 0 else np.fmin
            found[row] = worse(first[row], second[row])
    return found


def true_risk(one: Evidence, peers: Doubles) -> Doubles:
    """The risks behind the default estimate (target rows,)."""
    return np.asarray((apply_lines(one.target, _point(one)[None])[0] + peers) / 2, dtype=np.float64)


def _point(one: Evidence) -> Doubles:
    return np.asarray(weighted_lines(one.y, one.source, one.weights[None])[0], dtype=np.float64)
