"""An upper bound on the error rate here, by disagreement (Dis2; Rosenfeld and Garg 2023).

A critic is trained to give the model's class on source rows and the other class on target rows. How much more it
disagrees on held-out target rows than on held-out source rows bounds how much worse the model can be:

    error_T(h) <= error_S(h) + [disagree_T(h, h') - disagree_S(h, h')] + sqrt((n_S + 4 n_T) log(1/delta) / (2 n_S n_T))

It holds while some critic of its kind is at least as far from the model as the truth is. Outcomes that changed for
the same patients (a concept shift) can break it, and only outcomes can show that.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from tdrop.base import Doubles
from tdrop.metrics import logit, misclassified

#: The bound may fail this often by chance.
DELTA = 0.05
#: Rows of a side behind one critic, at most.
MOST_ROWS = 5_000


@dataclass(frozen=True)
class Bound:
    """How high a method's error rate can be at a site.

    Attributes:
        method: Name of the method.
        value: The bound, at most 1.
        source_error: Out-of-fold error rate on held-out source rows.
        disagreement: How much more the critic disagrees on the target than on the source.
        slack: What chance is allowed for.
        source_rows: Held-out source rows.
        target_rows: Held-out target rows.
    """

    method: str
    value: float
    source_error: float
    disagreement: float
    slack: float
    source_rows: int
    target_rows: int


def bound_error(
    method: str,
    X: tuple[NDArray[Any], NDArray[Any]],
    risk: tuple[NDArray[Any], NDArray[Any]],
    y: NDArray[Any],
    threshold: float,
    *,
    delta: float = DELTA,
    seed: int = 0,
) -> Bound:
    """Trains a critic on half of the rows and reads the bound off the other half.

    Args:
        method: Name of the method.
        X: Features of source and target rows, each (rows, features).
        risk: The method's risks of them, out of fold at the source, each (rows,).
        y: Outcomes of the source rows.
        threshold: The decision level.
        delta: How often the bound may fail by chance.
        seed: Decides the halves.
    """
    generator = np.random.default_rng([seed, 21])
    halves = [_halve(len(one), generator) for one in risk]
    classes = [np.asarray(one) >= threshold for one in risk]
    inputs = _inputs(X, risk)
    critic = _train([inputs[s][halves[s][0]] for s in (0, 1)], [classes[s][halves[s][0]] for s in (0, 1)])
    apart = []
    for side in (0, 1):
        held = halves[side][1]
        apart.append(float(np.mean(critic.predict(inputs[side][held]) != classes[side][held])))
    held = halves[0][1]
    error = float(misclassified(np.asarray(y)[held], np.asarray(risk[0])[held], threshold).mean())
    n, m = len(held), len(halves[1][1])
    slack = float(np.sqrt((n + 4 * m) * np.log(1 / delta) / (2 * n * m)))
    gap = apart[1] - apart[0]
    return Bound(method, min(1.0, error + gap + slack), error, gap, slack, n, m)


def _halve(rows: int, generator: np.random.Generator) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    order = generator.permutation(rows)
    middle = rows // 2
    return order[: min(middle, MOST_ROWS)], order[middle:]


def _inputs(X: tuple[NDArray[Any], NDArray[Any]], risk: tuple[NDArray[Any], NDArray[Any]]) -> list[Doubles]:
    """What a critic sees: the features and the model's own log odds, standardised over both sites."""
    whole = np.concatenate([np.column_stack([one, logit(p)]) for one, p in zip(X, risk, strict=True)])
    scale = whole.std(axis=0)
    whole = (whole - whole.mean(axis=0)) / np.where(scale > 0, scale, 1.0)
    return [whole[: len(risk[0])], whole[len(risk[0]) :]]


def _train(inputs: list[Doubles], classes: list[NDArray[np.bool_]]) -> Any:
    """A logistic critic; both sites count alike, however many rows they have."""
    # Here, because every command that discloses a number reads this room, and most train no critic.
    from sklearn.linear_model import LogisticRegression

    wanted = np.concatenate([classes[0], ~classes[1]])
    if len(np.unique(wanted)) < 2:
        return _Constant(bool(wanted[0]))
    weights = np.concatenate([np.full(len(one), 1 / len(one)) for one in classes]) * len(wanted) / 2
    with threadpool_limits(1):
        return LogisticRegression(C=1.0, solver="newton-cholesky", max_iter=100).fit(
            np.concatenate(inputs), wanted, sample_weight=weights
        )


@dataclass(frozen=True)
class _Constant:
    value: bool

    def predict(self, X: Doubles) -> NDArray[np.bool_]:
        return np.full(len(X), self.value)
