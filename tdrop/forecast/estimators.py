"""What each method will do at a site, estimated from source outcomes and the target's risks alone.

Five numbers describe a set of risks. Each patient carries a mass of outcome u and a mass of no outcome v: w y and
w (1 - y) for source rows of weight w; r and 1 - r for target rows without labels, r being an estimate of the true risk;
corrected masses where some labels came back. Every estimate is the same five formulas over different masses:

    auroc        sum_ij u_i v_j (1[p_i > p_j] + 1[p_i = p_j] / 2) / (U V), in O(n log n) by sorting
    error_rate   sum(u where p < t, v where p >= t) / (U + V)
    net_benefit  sum(u - v t / (1 - t) where p >= t) / (U + V)
    brier        sum(u (1 - p)^2 + v p^2) / (U + V)
    outcomes     U / (U + V), the share of patients with the outcome: calibration in the large

The estimators:

- **importance_weighted**: what the method did on source patients it had not seen, weighted to look like the target.
- **confidence**: the target's own risks, recalibrated on the weighted source rows and taken as true (the idea of CBPE
  and M-CBPE, NannyML 2024).
- **reference_methods**: the mean risk of the methods that source patients cannot tell from the best, taken as true.
- **blend**: the mean of these two risks, taken as true.

None of them can see that the same patients fare differently here: that takes outcomes.

Several classes: what the method did on source patients it had not seen, weighted to look like the target. A continuous
outcome: a model of the loss (the distance of prediction and outcome, and its square) is fitted on those patients and
applied to the target's, as NannyML's direct loss estimation does; the weighted loss stands beside it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal, Self, TypeAlias, get_args

import numpy as np
from numpy.typing import NDArray

from tdrop import metrics
from tdrop.base import DataError, Doubles, Indices, Task, one_thread
from tdrop.choose import ALIKE
from tdrop.methods import COMMITTEE
from tdrop.shift import effective_n

#: The last three are of several classes or of a continuous outcome: see `estimate_kind`.
Quantity = Literal["auroc", "error_rate", "net_benefit", "brier", "outcomes", "log_loss", "mae", "rmse"]
QUANTITIES: tuple[Quantity, ...] = ("auroc", "error_rate", "net_benefit", "brier", "outcomes")

Estimator = Literal["importance_weighted", "confidence", "reference_methods", "blend"]
ESTIMATORS: tuple[Estimator, ...] = get_args(Estimator)
#: The best one on the pairs of sites on which the rules were settled: docs/FORECAST.md.
DEFAULT_ESTIMATOR: Estimator = "blend"

#: By number, its value by every estimator, and the standard deviation of the estimate that counts.
Estimates: TypeAlias = dict[Quantity, tuple[dict[str, float | None], float]]


@dataclass(frozen=True)
class Ranked:
    """Risks, sorted once and used for many resamples.

    Attributes:
        risk: Risks in ascending order (rows,).
        order: Which row each came from (rows,).
        below: How many rows lie strictly below each (rows,).
        not_above: How many lie below or level with it (rows,).
        threshold: The decision level t.
    """

    risk: Doubles
    order: Indices
    below: Indices
    not_above: Indices
    threshold: float

    @classmethod
    def sort(cls, risk: NDArray[Any], threshold: float) -> Self:
        """Sorts risks (rows,)."""
        value = np.asarray(risk, dtype=np.float64)
        if value.ndim != 1 or not len(value) or not np.isfinite(value).all():
            raise DataError(f"a forecast needs one finite risk per patient; got shape {value.shape}")
        order = np.argsort(value, kind="stable")
        ordered = value[order]
        below, not_above = (np.searchsorted(ordered, ordered, side=side) for side in ("left", "right"))
        return cls(ordered, order, below, not_above, threshold)

    def quantities(self, outcome: NDArray[Any], other: NDArray[Any]) -> Doubles:
        """The five numbers of each resample (5, resamples); NaN where a class has no mass.

        Args:
            outcome: Masses u (resamples, rows), in the order in which the risks were given.
            other: Masses v, same shape.
        """
        u, v = np.take(outcome, self.order, axis=1), np.take(other, self.order, axis=1)
        U, V = u.sum(axis=1), v.sum(axis=1)
        acted = self.risk >= self.threshold
        odds = self.threshold / (1 - self.threshold)
        hit, harm = u[:, acted].sum(axis=1), v[:, acted].sum(axis=1)
        squares = u @ (1 - self.risk) ** 2 + v @ self.risk**2
        concordant = np.vecdot(u, self._beaten(v))
        tops = np.stack([concordant, U - hit + harm, hit - odds * harm, squares, U])
        bottoms = np.stack([U * V, *[U + V] * 4])
        divided: Doubles = np.divide(tops, bottoms, out=np.full(tops.shape, np.nan), where=bottoms > 0)
        return divided

    def slopes(self, outcome: NDArray[Any]) -> Doubles:
        """How each number moves when one patient's mass goes from v to u (5, rows), rows as they were given.

        With v = 1 - u; the first-order change of every number under any change of the outcomes.
        """
        u = np.asarray(outcome, dtype=np.float64)[self.order][None]
        v, rows = 1 - u, len(self.order)
        U, V = float(u.sum()), float(v.sum())
        lost = 1 - self._beaten(u)[0] / U
        auroc = float(np.vecdot(u, self._beaten(v))[0]) / (U * V)
        acted = self.risk >= self.threshold
        slopes = [
            (self._beaten(v)[0] / V - auroc) / U - (lost - auroc) / V,
            np.where(acted, -1.0, 1.0) / rows,
            acted / (1 - self.threshold) / rows,
            (1 - 2 * self.risk) / rows,
            np.full(rows, 1.0 / rows),
        ]
        as_given = np.empty((len(slopes), rows))
        as_given[:, self.order] = np.stack(slopes)
        return as_given

    def _beaten(self, masses: Doubles) -> Doubles:
        """The mass at lower risks than each, plus half the mass at equal risks (resamples, rows)."""
        running = np.zeros((len(masses), masses.shape[1] + 1))
        np.cumsum(masses, axis=1, out=running[:, 1:])
        both = np.take(running, self.below, axis=1) + np.take(running, self.not_above, axis=1)
        return np.asarray(0.5 * both, dtype=np.float64)


@dataclass(frozen=True)
class Evidence:
    """All that a forecast of one method may read; it has no field for a target outcome.

    Attributes:
        method: Name of the method.
        source: Risks, values or class probabilities of source rows (source rows,) or (source rows, K), each by a fit
            that did not see the row.
        y: Their outcomes (source rows,).
        weights: What makes them look like the target (source rows,), times for how many patients each outcome stands.
        target: The same of the target's patients (target rows,) or (target rows, K), by the same kind of fit.
        persons: Whose source row it is (source rows,); None where no person has two rows.
        target_persons: Whose target row it is (target rows,); None where no person has two rows.
        origins: Site of each source row where whole sites were left out (source rows,); else None.
        stands_for: For how many source patients each outcome stands (source rows,); None where for one.
        features: Of a continuous outcome, the features of the source rows (source rows, features) and of the target's
            (target rows, features), for the model of the loss.
    """

    method: str
    source: Doubles
    y: Doubles
    weights: Doubles
    target: Doubles
    persons: Indices | None = None
    target_persons: Indices | None = None
    origins: NDArray[Any] | None = None
    stands_for: Doubles | None = None
    features: tuple[NDArray[Any], NDArray[Any]] | None = None

    def __post_init__(self) -> None:
        for name in ("source", "y", "weights", "target"):
            object.__setattr__(self, name, np.asarray(getattr(self, name), dtype=np.float64))
        if not self.source.shape[:1] == self.y.shape == self.weights.shape:
            shapes = f"{self.source.shape}, {self.y.shape} and {self.weights.shape}"
            raise DataError(f"method '{self.method}': risks, outcomes and weights of {shapes}; give one per source row")
        if not self.weights.sum() > 0:
            raise DataError(f"method '{self.method}': no source row has any weight; there is nothing to forecast from")

    @cached_property
    def line(self) -> Doubles:
        """Intercept and slope that recalibrate the risks on the weighted source rows (2,)."""
        return np.asarray(metrics.weighted_lines(self.y, self.source, self.weights[None])[0], dtype=np.float64)


def reference_risk(evidence: Sequence[Evidence]) -> Doubles:
    """The mean risk of the methods within `ALIKE` of the lowest weighted log loss (target rows,).

    A method that left-out source patients know to be worse is left out, and so is a committee, which only repeats its
    members.
    """
    evidence = [entry for entry in evidence if entry.method != COMMITTEE] or evidence
    lengths = {len(entry.target) for entry in evidence}
    if len(lengths) != 1:
        raise DataError(f"the methods' risks cover {sorted(lengths)} patients; give the same patients to all")
    losses = [metrics.log_loss(entry.y, entry.source, entry.weights) or 0.0 for entry in evidence]
    alike = [entry.target for entry, loss in zip(evidence, losses, strict=True) if loss <= min(losses) + ALIKE]
    return np.asarray(np.mean(alike, axis=0), dtype=np.float64)


def estimate(
    evidence: Evidence, reference: Doubles, threshold: float, source_counts: Doubles, target_counts: Doubles
) -> dict[Estimator, Doubles]:
    """Every estimator's five numbers (5, resamples) of one method.

    Args:
        evidence: The method's evidence.
        reference: The risks of `reference_risk` (target rows,).
        threshold: The decision level.
        source_counts: How often each source row was drawn (resamples, source rows); ones for the point estimate.
        target_counts: How often each target row was drawn (resamples, target rows).
    """
    weights = evidence.weights * source_counts
    lines = metrics.weighted_lines(evidence.y, evidence.source, weights, start=evidence.line)
    recalibrated = metrics.apply_lines(evidence.target, lines)
    target = Ranked.sort(evidence.target, threshold)

    def taken_as_true(risk: Doubles) -> Doubles:
        return target.quantities(target_counts * risk, target_counts * (1 - risk))

    source = Ranked.sort(evidence.source, threshold)
    return {
        "importance_weighted": source.quantities(weights * evidence.y, weights * (1 - evidence.y)),
        "confidence": taken_as_true(recalibrated),
        "reference_methods": taken_as_true(reference),
        "blend": taken_as_true((recalibrated + reference) / 2),
    }


def true_risk(evidence: Evidence, reference: Doubles) -> Doubles:
    """The risks behind the default estimate (target rows,)."""
    recalibrated = metrics.apply_lines(evidence.target, evidence.line[None])[0]
    return np.asarray((recalibrated + reference) / 2, dtype=np.float64)


def estimate_risks(evidence: Evidence, reference: Doubles, threshold: float, resamples: int, seed: int) -> Estimates:
    """The five numbers of a method that gives risks, with their standard deviations.

    These are over source and target patients (bootstrap) and over how outcomes will fall. The second part is exact to
    first order: patients with risk r move a number by slope * (y - r), of variance r (1 - r). The draws are the same
    for every method; the rows of one person are drawn together.
    """
    points = estimate(evidence, reference, threshold, np.ones((1, len(evidence.y))), np.ones((1, len(reference))))
    sources = metrics.count_blocks(len(evidence.y), resamples, seed, evidence.persons)
    targets = metrics.count_blocks(len(reference), resamples, seed + 1, evidence.target_persons)
    draws = [
        estimate(evidence, reference, threshold, source.astype(np.float64), target.astype(np.float64))
        for source, target in zip(sources, targets, strict=True)
    ]
    drawn = np.concatenate([draw[DEFAULT_ESTIMATOR] for draw in draws], axis=1)
    risk = true_risk(evidence, reference)
    chance = Ranked.sort(evidence.target, threshold).slopes(risk) ** 2 @ (risk * (1 - risk))
    spread = np.sqrt(np.nanvar(drawn, axis=1) + chance)
    return {
        name: ({by: value if np.isfinite(value) else None for by, value in values.items()}, float(spread[row]))
        for row, name in enumerate(QUANTITIES)
        for values in [{by: float(point[row, 0]) for by, point in points.items()}]
    }


def estimate_kind(evidence: Evidence, task: Task, resamples: int, seed: int) -> Estimates:
    """Every number of a method that gives classes or values, with its standard deviation.

    That is over source patients (bootstrap) and over which outcomes the target's patients will have.
    """
    losses = _losses(evidence, task)
    draws = np.concatenate(list(metrics.count_blocks(len(evidence.y), resamples, seed, evidence.persons)))
    counted = draws.astype(np.float64) * evidence.weights
    # As many target patients as there are will show the number: their outcomes vary as the source's do.
    widen = float(np.sqrt(1 + effective_n(evidence.weights) / max(1, len(evidence.target))))
    estimates: Estimates = {}
    for name, values in losses.items():
        by: dict[str, float | None] = {
            "importance_weighted": _shown(name, _weighted(values, evidence.weights[None])[0])
        }
        sampling = float(np.std(_weighted(values, counted))) * widen
        if task == "regression":
            by["loss_model"] = _shown(name, _model_loss(evidence, values, seed))
        if name == "rmse":
            sampling /= 2 * max(by["loss_model"] or 0.0, 1e-12)
        estimates[name] = by, sampling
    if task == "classes":
        # A few of the draws are enough for a standard deviation.
        some = [metrics.macro_auroc(evidence.y, evidence.source, weights) for weights in counted[:50]]
        error = float(np.std([value for value in some if value is not None] or [0.0]))
        value = metrics.macro_auroc(evidence.y, evidence.source, evidence.weights)
        estimates["auroc"] = {"importance_weighted": value}, error * widen
    return estimates


def _losses(evidence: Evidence, task: Task) -> dict[Quantity, Doubles]:
    """What is averaged over patients (source rows,), by number; the square of the root mean squared error."""
    y, predicted = evidence.y, evidence.source
    if task == "regression":
        distance = np.abs(predicted - y)
        return {"mae": distance, "rmse": distance**2}
    return {
        "error_rate": metrics.misclassified(y, predicted).astype(np.float64),
        "log_loss": metrics.per_row_loss(y, predicted, task),
        "brier": metrics.class_brier(y, predicted),
    }


def _weighted(losses: Doubles, weights: Doubles) -> Doubles:
    """Weighted means (draws,) of losses (rows,) under weights (draws, rows)."""
    means: Doubles = weights @ losses / weights.sum(axis=1)
    return means


def _shown(name: Quantity, value: float) -> float:
    return float(np.sqrt(max(0.0, value))) if name == "rmse" else float(value)


def _model_loss(evidence: Evidence, losses: Doubles, seed: int) -> float:
    """The mean loss of the target's patients by a model of the loss given the features."""
    from sklearn.ensemble import HistGradientBoostingRegressor  # slow to load, and only needed here

    assert evidence.features is not None
    X, target_X = evidence.features
    model = HistGradientBoostingRegressor(
        max_iter=60, max_leaf_nodes=8, min_samples_leaf=20, l2_regularization=1.0, random_state=seed
    )
    with one_thread():
        model.fit(X, losses, sample_weight=evidence.weights)
        # No patient is expected to be nearer or further than any that was seen.
        predicted = np.clip(model.predict(target_X), losses.min(), losses.max())
    return float(predicted.mean())
