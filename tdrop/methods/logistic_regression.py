"""Logistic regression: the reference that clinicians already trust.

Multinomial for K classes; ridge regression for a continuous outcome.

Formula: minimise sum of cross entropy + |w|^2 / (2 C) over standardised features and, as `terms` says, their
squares and pairwise products; the samples are K bootstrap refits.
Source: scikit-learn's LogisticRegression (lbfgs) and Ridge (alpha = 1 / C). Not in the paper: it is what users
would pick instead, and near the best possible on smooth risks.
Departures from the textbook: the risk is the mean of the refits, not the fit on all rows, so that risk, sd
and interval come from the same samples.
"""

from __future__ import annotations

from typing import Any, ClassVar, Literal

import numpy as np
from pydantic import Field
from pydantic.dataclasses import dataclass
from sklearn.linear_model import LogisticRegression as SklearnLogistic, Ridge

from tdrop.base import Doubles, Floats, Task
from tdrop.methods.parts.reference_method import ReferenceMethod


@dataclass(frozen=True)
class LogisticRegression(ReferenceMethod):
    """Bootstrap refits of a linear model."""

    name: ClassVar[str] = "logistic_regression"
    label: ClassVar[str] = "Logistic regression"
    summary: ClassVar[str] = "Logistic regression refitted on resampled patients, the usual clinical model."

    refits: int = Field(50, ge=1, description="Bootstrap refits K: the samples.")
    C: float = Field(1.0, ge=1e-06, description="Inverse strength of the penalty on the weights.")
    terms: Literal["linear", "squares", "products"] = Field(
        "linear", description="Features alone, with their squares, or with squares and products."
    )
    steps: int = Field(200, ge=1, description="Most iterations of the solver.")

    def search_space(self) -> dict[str, tuple[Any, ...]]:
        """The documented values that tuning may try, by setting."""
        return {"C": (0.01, 0.1, 1.0, 10.0), "terms": ("linear", "squares", "products")}

    def inputs(self, standardised: Floats) -> Doubles:
        """Features (rows, features) with the terms that are asked for."""
        X = standardised.astype(np.float64)
        if self.terms == "linear":
            return X
        if self.terms == "squares":
            return np.hstack([X, X**2])
        first, second = np.triu_indices(X.shape[1])
        return np.hstack([X, X[:, first] * X[:, second]])

    def estimator(self, task: Task, seed: int) -> Any:
        """An unfitted linear model."""
        if task == "regression":
            return Ridge(alpha=1 / self.C)
        return SklearnLogistic(C=self.C, max_iter=self.steps)


METHOD = LogisticRegression
