"""Every method as a scikit-learn estimator: `fit` takes labelled source rows and, beside them, the target's rows."""

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
    """The parameters, the fit and the predictions that classifier and regressor share."""

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
        """Standard deviation (rows,) of the samples; with several classes the root of their mean variance."""
        return np.asarray(self._fitted().summarise(self._rows(X), self.passes, seed=self.seed).sd)

    def _fit(
        self,
        X: Floats,
        y: NDArray[Any],
        X_target: ArrayLike | None,
        sample_weight: ArrayLike | None,
        *,
        task: Task,
        classes: tuple[str, ...] = (),
        groups: ArrayLike | None = None,
    ) -> Self:
        """Fits on checked source rows X (rows, features) and y (rows,), the place of each row's class or its value."""
        target_X = X if X_target is None else self._rows(X_target)
        weight = None
        if sample_weight is not None:
            weight = _check_sample_weight(sample_weight, X, dtype=np.float32, ensure_non_negative=True)
        if task != "regression" and len(np.unique(y if weight is None else y[weight > 0])) < 2:
            raise ValueError("Classifier can't train when only one class is present.")
        origins = None if groups is None else column_or_1d(groups).astype(str)
        check_consistent_length(X, origins)
        names = tuple(getattr(self, "feature_names_in_", [f"x{place}" for place in range(X.shape[1])]))
        outcome: dict[str, Any] = {"task": task, "classes": classes}
        source = Cohort("source", np.arange(len(X)), names, X, y, weight=weight, origins=origins, **outcome)
        target = Cohort("target", np.arange(len(target_X)), names, target_X, **outcome)
        method = build(self.method, **(self.settings or {}))
        if pick_site_input(method, source, seed=self.seed):
            method = build(self.method, **{**method.settings(), SITE_INPUT: True})
        self.fitted_ = method.fit(source, target, None, seed=self.seed)
        return self

    def _mean(self, X: ArrayLike) -> Doubles:
        """The mean of the samples: (rows,), or (rows, classes) of several classes."""
        # In double precision: a row's mean may not depend on the rows beside it, as that of many floats does.
        samples = self._fitted().sample(self._rows(X), self.passes, seed=self.seed).samples
        mean: Doubles = samples.mean(axis=0, dtype=np.float64)
        return mean

    def _fitted(self) -> Fitted:
        check_is_fitted(self)
        fitted: Fitted = self.fitted_
        return fitted

    def _rows(self, X: ArrayLike) -> Floats:
        """Rows (rows, features) with the features that `fit` saw."""
        return np.asarray(validate_data(self, X, dtype=np.float32, reset=False))


class TransferClassifier(ClassifierMixin, _TransferEstimator):  # type: ignore[misc]
    """Any method of tdrop as a scikit-learn classifier for 2 to 20 classes.

    The default method, logistic regression, does not learn from the target's rows. `transductive_dropout`,
    `transductive_ensemble` and `mixmatch` do: `TransferClassifier("transductive_dropout").fit(X, y, X_target=X_new)`.
    docs/UNLABELLED.md says how little that gained on real patients.

    Args:
        method: Name of the method, one of `tdrop.method_names()`.
        settings: Settings that differ from the method's defaults, such as `{"steps": 200}`.
        passes: Samples behind each prediction, for the methods that draw samples.
        seed: Seed of the fit and of the samples.

    Attributes:
        classes_: Class labels (classes,), ascending.
        fitted_: The fitted method; see `tdrop.base.Fitted`.
        n_features_in_: Number of features.
        feature_names_in_: Names of the features, where X was a DataFrame.
    """

    def fit(
        self,
        X: ArrayLike,
        y: ArrayLike,
        X_target: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
        groups: ArrayLike | None = None,
    ) -> Self:
        """Fits on labelled source rows and on the target's rows, which have no labels.

        Args:
            X: Source rows (rows, features), finite numbers.
            y: Their classes (rows,).
            X_target: The target's rows (target rows, features). Without them the source's own rows take their place:
                no transfer, for pipelines that know of none.
            sample_weight: How often each outcome counts (rows,), such as 1 / G where others left before the horizon
                (`tdrop.data.weigh_outcomes`). Rows of weight 0 teach nothing.
            groups: The site of each source row (rows,). With three sites or more and two classes, each site is left out
                once to see whether the method predicts better when it knows the site; a new row's prediction is then
                the mean over sites, weighted by how far the target's rows resemble each. Else they change nothing.
        """
        rows, labels = validate_data(self, X, y, dtype=np.float32)
        check_classification_targets(labels)
        self.classes_, places = np.unique(labels, return_inverse=True)
        if len(self.classes_) <= 2:
            return self._fit(rows, places, X_target, sample_weight, task="binary", groups=groups)
        names = tuple(str(place) for place in range(len(self.classes_)))
        return self._fit(rows, places, X_target, sample_weight, task="classes", classes=names)

    def predict_proba(self, X: ArrayLike) -> Doubles:
        """Probabilities (rows, classes), in the order of `classes_`."""
        mean = self._mean(X)
        return np.column_stack([1.0 - mean, mean]) if mean.ndim == 1 else mean

    def predict(self, X: ArrayLike) -> NDArray[Any]:
        """The most likely class (rows,); where several are equally likely, the last of them in `classes_`."""
        probabilities = self.predict_proba(X)
        last = probabilities.shape[1] - 1
        return np.asarray(self.classes_[last - probabilities[:, ::-1].argmax(axis=1)])


class TransferRegressor(RegressorMixin, _TransferEstimator):  # type: ignore[misc]
    """Any method of tdrop as a scikit-learn regressor; see `TransferClassifier` for the default method.

    Args:
        method: Name of the method, one of `tdrop.method_names()`.
        settings: Settings that differ from the method's defaults, such as `{"steps": 200}`.
        passes: Samples behind each prediction, for the methods that draw samples.
        seed: Seed of the fit and of the samples.

    Attributes:
        fitted_: The fitted method; see `tdrop.base.Fitted`.
        n_features_in_: Number of features.
        feature_names_in_: Names of the features, where X was a DataFrame.
    """

    def fit(
        self,
        X: ArrayLike,
        y: ArrayLike,
        X_target: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
    ) -> Self:
        """Fits on source rows X (rows, features), their outcomes y (rows,) and the target's rows without outcomes.

        `X_target` and `sample_weight` are as in `TransferClassifier.fit`.
        """
        rows, values = validate_data(self, X, y, dtype=np.float32, y_numeric=True)
        return self._fit(rows, values, X_target, sample_weight, task="regression")

    def predict(self, X: ArrayLike) -> Doubles:
        """The mean of the samples (rows,)."""
        return self._mean(X)

    def predict_interval(self, X: ArrayLike, level: float = INTERVAL_LEVEL) -> tuple[Floats, Floats]:
        """Lower and upper ends (rows,) of the central interval of the samples.

        It shows how sure the model is of the mean and leaves out how far single outcomes lie from it. The pipeline adds
        that noise, estimated out of fold, and so covers outcomes; see docs/OUTCOMES.md.
        """
        summary = self._fitted().summarise(self._rows(X), self.passes, seed=self.seed, levels=(level,))
        return summary.interval(level)
