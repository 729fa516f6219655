"""Any method by name as a scikit-learn estimator: labelled source rows in, and the target's rows beside them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import (
    _check_sample_weight,
    check_consistent_length,
    check_is_fitted,
    column_or_1d,
    validate_data,
)

from tdrop.base import INTERVAL_LEVEL, Cohort, Doubles, Fitted, Floats, Task
from tdrop.choose import pick_site_input
from tdrop.methods import SITE_INPUT, build


class _TransferEstimator(BaseEstimator):  # type: ignore[misc]
    """What classifier and regressor share.

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

    def predict_uncertainty(self, X: ArrayLike) -> Floats:
        """Standard deviation (rows,) of the samples; of several classes the root of their mean variance."""
        return np.asarray(self._fitted().summarise(self._rows(X), self.passes, seed=self.seed).sd)

    def _fit(
        self,
        rows: Floats,
        y: NDArray[Any],
        X_target: ArrayLike | None,
        task: Task,
        classes: tuple[str, ...] = (),
        sample_weight: ArrayLike | None = None,
        groups: ArrayLike | None = None,
    ) -> Self:
        """Fits on source rows (rows, features) and y (rows,); without `X_target` the source stands for the target."""
        target = rows if X_target is None else validate_data(self, X_target, dtype=np.float32, reset=False)
        names = tuple(f"x{index}" for index in range(rows.shape[1]))
        weight = None
        if sample_weight is not None:
            weight = _check_sample_weight(sample_weight, rows, dtype=np.float32, ensure_non_negative=True)
            if task != "regression" and len(np.unique(y[weight > 0])) < 2:
                raise ValueError("Classifier can't train when only one class is present.")
        about: dict[str, Any] = {"task": task, "classes": classes}
        origins = None if groups is None else column_or_1d(groups).astype(str)
        check_consistent_length(rows, origins)
        about_source: dict[str, Any] = {"weight": weight, "origins": origins, **about}
        source = Cohort("source", np.arange(len(rows)), names, rows, y.astype(np.float32), **about_source)
        here = Cohort("target", np.arange(len(target)), names, target, **about)
        method = build(self.method, **(self.settings or {}))
        if pick_site_input(method, source, seed=self.seed):
            method = build(self.method, **{**method.settings(), SITE_INPUT: True})
        self.fitted_ = method.fit(source, here, None, seed=self.seed)
        return self

    def _mean(self, X: ArrayLike) -> Doubles:
        """The samples' mean, of the samples' shape without their first axis."""
        # In double precision: a row's mean may not depend on the rows beside it, as that of many floats does.
        samples = self._fitted().sample(self._rows(X), self.passes, seed=self.seed).samples
        mean: Doubles = samples.mean(axis=0, dtype=np.float64)
        return mean

    def _fitted(self) -> Fitted:
        check_is_fitted(self)
        fitted: Fitted = self.fitted_
        return fitted

    def _rows(self, X: ArrayLike) -> Floats:
        return np.asarray(validate_data(self, X, dtype=np.float32, reset=False))


class TransferClassifier(ClassifierMixin, _TransferEstimator):  # type: ignore[misc]
    """A method of tdrop for arrays and DataFrames of finite numbers and 2 to 20 classes.

    Args:
        method: Name of the method, one of `tdrop.method_names()`.
        settings: Settings of the method that differ from its own; None for none.
        passes: Samples behind a prediction.
        seed: Seed of the fit and of the samples.
    """

    def fit(
        self,
        X: ArrayLike,
        y: ArrayLike,
        X_target: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
        groups: ArrayLike | None = None,
    ) -> Self:
        """Fits on labelled source rows X (rows, features), y (rows,) and the target's rows without labels.

        Without `X_target` the source's own rows stand for the target: no transfer, for pipelines that know of none.
        With `groups` (rows,), the site of each row, of three sites or more and two classes, each site is left out once
        to see whether the method should know the site; it then predicts by whom the target's rows resemble.
        Each outcome counts `sample_weight` (rows,) times, such as 1 / G where others left before the horizon
        (`tdrop.data.weigh_outcomes`); rows of weight 0 teach nothing.
        """
        rows, labels = validate_data(self, X, y, dtype=np.float32)
        check_classification_targets(labels)
        self.classes_, outcome = np.unique(labels, return_inverse=True)
        if len(self.classes_) < 2:
            raise ValueError("Classifier can't train when only one class is present.")
        if len(self.classes_) == 2:
            return self._fit(rows, outcome, X_target, "binary", sample_weight=sample_weight, groups=groups)
        names = tuple(str(index) for index in range(len(self.classes_)))
        return self._fit(rows, outcome, X_target, "classes", names, sample_weight)

    def predict_proba(self, X: ArrayLike) -> Doubles:
        """Probabilities (rows, classes), in the order of `classes_`."""
        mean = self._mean(X)
        return np.column_stack([1.0 - mean, mean]) if mean.ndim == 1 else mean

    def predict(self, X: ArrayLike) -> NDArray[Any]:
        """The most likely class (rows,); of two equally likely ones the second."""
        probabilities = self.predict_proba(X)
        last = probabilities.shape[1] - 1
        return np.asarray(self.classes_[last - probabilities[:, ::-1].argmax(axis=1)])


class TransferRegressor(RegressorMixin, _TransferEstimator):  # type: ignore[misc]
    """A method of tdrop for arrays and DataFrames of finite numbers and a continuous outcome.

    Args:
        method: Name of the method, one of `tdrop.method_names()`.
        settings: Settings of the method that differ from its own; None for none.
        passes: Samples behind a prediction.
        seed: Seed of the fit and of the samples.
    """

    def fit(
        self,
        X: ArrayLike,
        y: ArrayLike,
        X_target: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
    ) -> Self:
        """Fits on source rows X (rows, features) with their outcomes y (rows,), and the target's rows without.

        Without `X_target` the source's own rows stand for the target: no transfer, for pipelines that know of none.
        Each outcome counts `sample_weight` (rows,) times, such as 1 / G where others left before the horizon
        (`tdrop.data.weigh_outcomes`); rows of weight 0 teach nothing.
        """
        rows, values = validate_data(self, X, y, dtype=np.float32, y_numeric=True)
        return self._fit(rows, values, X_target, "regression", sample_weight=sample_weight)

    def predict(self, X: ArrayLike) -> Doubles:
        """The samples' mean (rows,)."""
        return self._mean(X)

    def predict_interval(self, X: ArrayLike, level: float = INTERVAL_LEVEL) -> tuple[Floats, Floats]:
        """Lower and upper ends (rows,) of the samples' central interval: the model's doubt without the outcome's noise.

        The pipeline adds the noise that it estimates out of fold, and so covers outcomes; see docs/OUTCOMES.md.
        """
        summary = self._fitted().summarise(self._rows(X), self.passes, seed=self.seed, levels=(level,))
        return summary.interval(level)
