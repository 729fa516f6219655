"""Any method by name as a scikit-learn classifier: labelled source rows in, and the target's rows beside them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.multiclass import check_classification_targets, type_of_target
from sklearn.utils.validation import check_is_fitted, validate_data

from tdrop.base import Cohort, Doubles, Fitted, Floats
from tdrop.methods import build


class TransferClassifier(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """A method of tdrop for arrays and DataFrames of finite numbers and two classes.

    Args:
        method: Name of the method, one of `tdrop.method_names()`.
        settings: Settings of the method that differ from its own; None for none.
        passes: Samples behind a prediction.
        seed: Seed of the fit and of the samples.
    """

    def __init__(
        self,
        method: str = "logistic_regression",
        *,
        settings: Mapping[str, Any] | None = None,
        passes: int = 100,
        seed: int = 0,
    ) -> None:
        self.method = method
        self.settings = settings
        self.passes = passes
        self.seed = seed

    def __sklearn_tags__(self) -> Any:
        """Two classes only."""
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = False
        return tags

    def fit(self, X: ArrayLike, y: ArrayLike, X_target: ArrayLike | None = None) -> TransferClassifier:
        """Fits on labelled source rows X (rows, features), y (rows,) and the target's rows without labels.

        Without `X_target` the source's own rows stand for the target: no transfer, for pipelines that know of none.
        """
        rows, labels = validate_data(self, X, y, dtype=np.float32)
        check_classification_targets(labels)
        kind = type_of_target(labels, input_name="y")
        if kind != "binary":
            raise ValueError(f"Only binary classification is supported. The type of the target is {kind}.")
        self.classes_, outcome = np.unique(labels, return_inverse=True)
        if len(self.classes_) < 2:
            raise ValueError("Classifier can't train when only one class is present.")
        target = rows if X_target is None else validate_data(self, X_target, dtype=np.float32, reset=False)
        names = tuple(f"x{index}" for index in range(rows.shape[1]))
        source = Cohort("source", np.arange(len(rows)), names, rows, outcome.astype(np.float32))
        here = Cohort("target", np.arange(len(target)), names, target)
        self.fitted_ = build(self.method).with_settings(**(self.settings or {})).fit(source, here, None, seed=self.seed)
        return self

    def predict_proba(self, X: ArrayLike) -> Doubles:
        """Probabilities (rows, 2) of the two classes, in the order of `classes_`."""
        # In double precision: a row's mean may not depend on the rows beside it, as that of many floats does.
        risk = self._fitted().sample(self._rows(X), self.passes, seed=self.seed).samples.mean(axis=0, dtype=np.float64)
        return np.column_stack([1.0 - risk, risk])

    def predict_uncertainty(self, X: ArrayLike) -> Floats:
        """Standard deviation (rows,) of the samples of the second class's probability."""
        return np.asarray(self._fitted().summarise(self._rows(X), self.passes, seed=self.seed).sd)

    def predict(self, X: ArrayLike) -> NDArray[Any]:
        """The more likely class (rows,)."""
        chosen = (self.predict_proba(X)[:, 1] >= 0.5).astype(int)
        return np.asarray(self.classes_[chosen])

    def _fitted(self) -> Fitted:
        check_is_fitted(self)
        fitted: Fitted = self.fitted_
        return fitted

    def _rows(self, X: ArrayLike) -> Floats:
        return np.asarray(validate_data(self, X, dtype=np.float32, reset=False))
