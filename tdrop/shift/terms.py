"""What a logistic propensity is made of: every feature, its square, and its product with every other.

Means alone do not tell sites apart whose patients have another spread, or whose features go together in another way:
the log ratio of two normal densities is a quadratic, so squares and products say all there is to say about those.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import numpy as np

from tdrop.base import Doubles, Indices

#: Standardised values beyond this are held there before they are multiplied: one patient's square must not decide.
FURTHEST = 5.0
#: More terms than this are not made; then squares alone, and no products, stand beside the features.
MOST_TERMS = 1_000
#: Prior standard deviation of a square's or product's coefficient: all of them together may move the logit by about
#: TOGETHER, none by more than ALONE for a standard deviation. The ridge of a feature itself is 1.
ALONE = 0.5
TOGETHER = 1.5


@dataclass(frozen=True)
class Terms:
    """Which products are taken, and how each is scaled.

    Attributes:
        first: Feature of each product (terms,).
        second: The feature it is multiplied with; the same one for a square (terms,).
        mean: What is subtracted from a product (terms,).
        scale: What it is then multiplied by: small scales are penalised more by one and the same ridge (terms,).
    """

    first: Indices
    second: Indices
    mean: Doubles
    scale: Doubles

    @classmethod
    def learn(cls, X: Doubles) -> Self:
        """Picks the products of standardised features X (rows, features) that say more than the features do."""
        first, second = _pairs(X)
        products = _multiply(X, first, second)
        mean, sd = products.mean(axis=0), products.std(axis=0)
        telling = sd > 1e-9
        first, second, mean, sd = first[telling], second[telling], mean[telling], sd[telling]
        return cls(first, second, mean, min(ALONE, TOGETHER / max(1.0, np.sqrt(len(sd)))) / sd)

    def __len__(self) -> int:
        return len(self.first)

    def expand(self, X: Doubles) -> Doubles:
        """Returns the features with their scaled products beside them (rows, features + terms)."""
        products = _multiply(X, self.first, self.second)
        products -= self.mean
        products *= self.scale
        return np.concatenate([X, products], axis=1)


def _pairs(X: Doubles) -> tuple[Indices, Indices]:
    features = X.shape[1]
    first, second = np.triu_indices(features)
    if features + len(first) > MOST_TERMS:
        first = second = np.arange(features)
    # The square of a feature with two values is that feature again.
    many = np.array([np.any((column != column.min()) & (column != column.max())) for column in X.T], dtype=np.bool_)
    kept = (first != second) | many[first]
    return first[kept].astype(np.int64), second[kept].astype(np.int64)


def _multiply(X: Doubles, first: Indices, second: Indices) -> Doubles:
    held = np.clip(X, -FURTHEST, FURTHEST)
    product: Doubles = held[:, first] * held[:, second]
    return product
