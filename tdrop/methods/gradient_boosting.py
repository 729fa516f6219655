"""Gradient boosting: histogram trees, the reference that wins on most tables without a shift.

Formula: f = sum over iterations of learning_rate * tree, each tree fitted to the loss's gradient; the samples are
K bootstrap refits, each grown to the end.
Source: scikit-learn's HistGradientBoostingClassifier and -Regressor. Not in the paper.
Departures from the textbook: the risk is the mean of the refits, so that risk, sd and interval come from
the same samples. An outcome that counts w times is a row that is repeated w times, rounded at random.
"""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
from pydantic import Field
from pydantic.dataclasses import dataclass
from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor

from tdrop.base import Doubles, Floats, Task
from tdrop.methods.parts.reference_method import ReferenceMethod


@dataclass(frozen=True)
class GradientBoosting(ReferenceMethod):
    """Bootstrap refits of boosted trees."""

    name: ClassVar[str] = "gradient_boosting"
    label: ClassVar[str] = "Gradient boosting"
    summary: ClassVar[str] = "Boosted decision trees refitted on resampled patients."

    trusted: ClassVar[tuple[str, ...]] = ("sklearn.ensemble._hist_gradient_boosting.predictor.TreePredictor",)

    refits: int = Field(10, ge=1, description="Bootstrap refits K: the samples.")
    learning_rate: float = Field(0.1, ge=0.0001, le=1, description="Shrinkage of every tree.")
    leaves: int = Field(8, ge=2, description="Most leaves of a tree.")
    smallest_leaf: int = Field(20, ge=1, description="Fewest rows of a leaf.")
    l2: float = Field(1.0, ge=0, description="Penalty on the leaves' values.")
    steps: int = Field(80, ge=1, description="Boosting iterations.")

    def search_space(self) -> dict[str, tuple[Any, ...]]:
        """The documented values that tuning may try, by setting."""
        return {
            "learning_rate": (0.05, 0.1, 0.2),
            "leaves": (4, 8, 16),
            "l2": (0.0, 1.0, 10.0),
            "steps": (40, 80, 160),
        }

    def estimator(self, task: Task, seed: int) -> Any:
        """An unfitted model that grows exactly `steps` trees."""
        kind = HistGradientBoostingRegressor if task == "regression" else HistGradientBoostingClassifier
        return kind(
            max_iter=self.steps,
            learning_rate=self.learning_rate,
            max_leaf_nodes=self.leaves,
            min_samples_leaf=self.smallest_leaf,
            l2_regularization=self.l2,
            early_stopping=False,
            random_state=seed,
        )

    def fit_estimator(self, fresh: Any, X: Doubles, y: Floats, weight: Doubles | None, seed: int) -> Any:
        """Repeats rows as often as they count, rounded by chance: with weights, binning takes most of the time."""
        if weight is None:
            return fresh.fit(X, y)
        uniform = np.random.default_rng([seed, 5]).random(len(weight))
        rows = np.repeat(np.arange(len(y)), np.floor(weight / weight.mean() + uniform).astype(np.int64))
        # Rows that hardly count may all be left out, and with them an outcome.
        if len(np.unique(y[rows])) < min(2, len(np.unique(y))):
            return super().fit_estimator(fresh, X, y, weight, seed)
        return fresh.fit(X[rows], y[rows])

    def forget_patients(self, fitted: Any) -> Any:
        """The model without counts of patients: no rows per node, and the baseline, an exact share, to three digits."""
        fitted._baseline_prediction = np.round(fitted._baseline_prediction, 3)
        for trees in fitted._predictors:
            for tree in trees:
                tree.nodes["count"] = 0
        return fitted


METHOD = GradientBoosting
