"""Five numbers of a set of risks, when an outcome need not be a whole one.

Each patient carries a mass of outcome u and a mass of none v. On source rows with weight w these are w y and
w (1 - y); on target rows nobody has labelled they are r and 1 - r, with r an estimate of the true risk; where some
labels came back they are mended by those. Every estimate of this room is the same five formulas over other masses:

    auroc        sum_ij u_i v_j (1[p_i > p_j] + 1[p_i = p_j] / 2) / (U V), in O(n log n) by sorting
    error_rate   sum(u where p < t, v where p >= t) / (U + V)
    net_benefit  sum(u - v t / (1 - t) where p >= t) / (U + V)
    brier        sum(u (1 - p)^2 + v p^2) / (U + V)
    outcomes     U / (U + V), the share of patients with the outcome: calibration in the large
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, Self, get_args

import numpy as np
from numpy.typing import NDArray

from tdrop.base import DataError, Doubles, Indices
from tdrop.metrics import divide

Quantity = Literal["auroc", "error_rate", "net_benefit", "brier", "outcomes"]
QUANTITIES: tuple[Quantity, ...] = get_args(Quantity)

#: Which way is worse: the sign of a change that a patient would not want. A share of outcomes is neither.
WORSE = {"auroc": -1, "error_rate": 1, "net_benefit": -1, "brier": 1, "outcomes": 0}


@dataclass(frozen=True)
class Ranked:
    """Risks, sorted once, ready for any number of masses.

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
    def of(cls, risk: NDArray[Any], threshold: float) -> Self:
        """Sorts risks (rows,)."""
        value = np.asarray(risk, dtype=np.float64)
        if value.ndim != 1 or not len(value) or not np.isfinite(value).all():
            raise DataError(f"a forecast needs one finite risk a patient; got shape {value.shape}")
        order = np.argsort(value, kind="stable")
        ordered = value[order]
        below, not_above = (np.searchsorted(ordered, ordered, side=side) for side in ("left", "right"))
        return cls(ordered, order, below, not_above, threshold)

    def quantities(self, outcome: NDArray[Any], other: NDArray[Any]) -> Doubles:
        """The five numbers of each resample (5, resamples); NaN where a class has no mass.

        Args:
            outcome: Masses u (resamples, rows), in the order the risks came in.
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
        return divide(tops, bottoms)

    def slopes(self, outcome: NDArray[Any]) -> Doubles:
        """How each number moves when one patient's mass goes from none to outcome (5, rows), rows as they came.

        With v = 1 - u; the first-order change of every number under any change of the outcomes.
        """
        u = np.asarray(outcome, dtype=np.float64)[self.order][None]
        v, rows = 1 - u, len(self.order)
        U, V = float(u.sum()), float(v.sum())
        lost = 1 - self._beaten(u)[0] / U
        auroc = float(np.vecdot(u, self._beaten(v))[0]) / (U * V)
        rise = (self._beaten(v)[0] / V - auroc) / U - (lost - auroc) / V
        acted = self.risk >= self.threshold
        found = [
            rise,
            np.where(acted, -1.0, 1.0) / rows,
            acted / (1 - self.threshold) / rows,
            (1 - 2 * self.risk) / rows,
            np.full(rows, 1.0 / rows),
        ]
        back = np.empty((len(found), rows))
        back[:, self.order] = np.stack(found)
        return back

    def _beaten(self, masses: Doubles) -> Doubles:
        """The mass below each risk, half of what is level with it (resamples, rows)."""
        running = np.zeros((len(masses), masses.shape[1] + 1))
        np.cumsum(masses, axis=1, out=running[:, 1:])
        both = np.take(running, self.below, axis=1) + np.take(running, self.not_above, axis=1)
        return np.asarray(0.5 * both, dtype=np.float64)
