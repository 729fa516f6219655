"""What the two scikit-learn references share: bootstrap refits as samples, and their fitted half.

Each of K refits sees the source rows drawn with replacement; the samples are the refits,
so that the references have a spread and intervals like every other method, and may win.

They are saved in skops' format, without pickle. Nothing is loaded but what skops itself trusts and the types that a
method names in `trusted`.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar
from warnings import catch_warnings, simplefilter
from zipfile import ZIP_DEFLATED, BadZipFile

import numpy as np
from numpy.typing import NDArray
from pydantic import Field
from pydantic.dataclasses import dataclass
from sklearn.exceptions import ConvergenceWarning

from tdrop.base import (
    PARSING,
    Cohort,
    Doubles,
    FitError,
    Floats,
    Indices,
    Predictive,
    StepCallback,
    Task,
    draw_persons,
    one_thread,
)
from tdrop.methods.parts import MethodSettings, check_passes, outcomes_of
from tdrop.methods.parts.fitted import (
    Facts,
    FittedMethod,
    coarse_rows,
    learn_scaling,
    read_facts,
    write_model,
)

_ESTIMATORS = "estimators.skops"


@dataclass(frozen=True)
class ReferenceMethod(MethodSettings):
    """Settings that both references have, and the fit."""

    #: Types that a saved model of this method may hold besides those that skops trusts; each stores arrays and numbers.
    trusted: ClassVar[tuple[str, ...]] = ()

    refits: int = Field(20, ge=1, description="Bootstrap refits K: the samples.")
    steps: int = Field(1, ge=1, description="Most iterations of an estimator.")

    def inputs(self, standardised: Floats) -> Doubles:
        """What an estimator sees of standardised rows (rows, features)."""
        return standardised.astype(np.float64)

    @abstractmethod
    def estimator(self, task: Task, seed: int) -> Any:
        """An unfitted scikit-learn model that takes `steps` iterations."""

    def fit_estimator(self, fresh: Any, X: Doubles, y: Floats, weight: Doubles | None, seed: int) -> Any:
        """Fits one estimator to X (rows, features) and y (rows,), each outcome counted `weight` (rows,) times."""
        return fresh.fit(X, y) if weight is None else fresh.fit(X, y, sample_weight=weight / weight.mean())

    def forget_patients(self, fitted: Any) -> Any:
        """The model without exact counts of patients, which predict nothing: a saved model may be published."""
        return fitted

    def fit_checked(
        self, source: Cohort, target: Cohort, validation: Cohort | None, seed: int, progress: StepCallback | None
    ) -> FittedReference:
        """Fits K models on bootstrap samples of the source rows; validation rows change nothing."""
        scaling = learn_scaling(source)
        X, y = self.inputs(scaling.inputs(source.X.astype(np.float64))), scaling.outcomes(outcomes_of(source))
        estimators = []
        with one_thread(), catch_warnings():
            # A solver that stops at `steps` did what it was asked to.
            simplefilter("ignore", ConvergenceWarning)
            for place, drawn in enumerate(_bootstrap(y, source, self.refits, seed)):
                fresh = self.estimator(source.task, seed + place)
                weight = None if source.weight is None else source.weight[drawn].astype(np.float64)
                fitted = self.fit_estimator(fresh, X[drawn], y[drawn], weight, seed + place)
                estimators.append(self.forget_patients(fitted))
                if progress is not None:
                    truth = y if source.task != "classes" else np.eye(len(source.classes))[y.astype(int)]
                    squared_error = float(np.mean((_predict(fresh, X, source.task, len(source.classes)) - truth) ** 2))
                    progress(place + 1, self.refits, squared_error, None)
        count = coarse_rows(len(source))
        facts = Facts(source.features, source.task, self.steps, (), count, scaling, source.classes)
        return FittedReference(self, estimators, facts)

    def restore(self, record: Mapping[str, Any], files: Mapping[str, bytes]) -> FittedReference:
        """Rebuilds the fitted half from a saved record and its files."""
        return FittedReference(self, load_estimators(files[_ESTIMATORS], self.name, self.trusted), read_facts(record))


class FittedReference(FittedMethod):
    """K fitted models with everything needed to predict; see `tdrop.base.Fitted`."""

    method: ReferenceMethod

    def __init__(self, method: ReferenceMethod, estimators: list[Any], facts: Facts) -> None:
        super().__init__(method, facts)
        self._estimators = estimators

    def sample(self, X: NDArray[Any], n: int, *, seed: int) -> Predictive:
        """The K refits' predictions (K, rows) for X (rows, features); n and seed change nothing."""
        check_passes(n, self.method.name)
        inputs = self.method.inputs(self.inputs(X))
        if len(inputs) == 0:
            classes_axis = (len(self.classes),) if self.classes else ()
            return Predictive(np.empty((len(self._estimators), 0, *classes_axis), np.float32))
        with one_thread():
            parts = [_predict(estimator, inputs, self.task, len(self.classes)) for estimator in self._estimators]
        return Predictive(self.facts.scaling.predictions(np.stack(parts)))

    def save(self, folder: Path) -> None:
        """Writes the models to `folder`, without pickle."""
        write_model(Path(folder), self.record(), {_ESTIMATORS: dump_estimators(self._estimators)})


def _predict(estimator: Any, inputs: Doubles, task: Task, classes: int) -> Doubles:
    """One model's risk or value (rows,), or its probabilities (rows, K); a class that a refit did not see has none."""
    if task == "classes":
        probabilities = np.zeros((len(inputs), classes))
        probabilities[:, estimator.classes_.astype(int)] = estimator.predict_proba(inputs)
        return probabilities
    predicted: Doubles = estimator.predict_proba(inputs)[:, 1] if task == "binary" else estimator.predict(inputs)
    return predicted


def _bootstrap(y: Floats, source: Cohort, refits: int, seed: int) -> Iterator[Indices]:
    """Rows drawn with replacement for every refit, a person's together; a draw of one class alone is drawn again.

    Rows are repeated rather than weighted: with weights, boosting spends ten times the fit on binning.
    """
    generator = np.random.default_rng(seed)
    made = 0
    while made < refits:
        if source.persons is None:
            drawn = np.sort(generator.integers(len(y), size=len(y)))
        else:
            drawn = np.repeat(np.arange(len(y)), draw_persons(source.persons, generator)[0])
        if source.task == "regression" or len(np.unique(y[drawn])) >= 2:
            made += 1
            yield drawn


def dump_estimators(estimators: list[Any]) -> bytes:
    """Returns fitted scikit-learn models as bytes."""
    import skops.io  # loads all of scikit-learn, and PyTorch: only for whoever saves or loads

    # Level 1: higher ones cost seconds and save little.
    content: bytes = skops.io.dumps(estimators, compression=ZIP_DEFLATED, compresslevel=1)
    return content


def load_estimators(content: bytes, method: str, trusted: Sequence[str] = ()) -> list[Any]:
    """Loads models from bytes, refusing every type that is not trusted."""
    import skops.io
    from skops.io.exceptions import UntrustedTypesFoundException

    try:
        with PARSING:
            estimators = skops.io.loads(content, trusted=list(trusted))
    except UntrustedTypesFoundException as error:
        raise FitError(f"method '{method}': the saved model holds types that are not trusted ({error})") from None
    except (BadZipFile, KeyError, ValueError, TypeError, AttributeError, ImportError) as error:
        raise FitError(
            f"method '{method}': the saved model cannot be read ({type(error).__name__}); fit again"
        ) from None
    return list(estimators)
