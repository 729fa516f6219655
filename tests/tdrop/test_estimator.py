"""The estimator keeps scikit-learn's rules, and the target's rows reach the method."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import scenarios
from sklearn.base import clone
from sklearn.datasets import load_diabetes, load_wine
from sklearn.metrics import roc_auc_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

from tdrop import TransferClassifier, TransferRegressor

#: A refit draws rows by chance, and rows that stand twice are drawn otherwise than one that counts twice.
BY_CHANCE = {"check_sample_weight_equivalence_on_dense_data": "refits draw rows, not weights"}


@parametrize_with_checks(
    [TransferClassifier(), TransferRegressor()], expected_failed_checks=lambda estimator: BY_CHANCE
)
def test_scikit_learns_own_checks(estimator: Any, check: Any) -> None:
    check(estimator)


def test_two_hospitals_as_data_frames() -> None:
    source, target = scenarios.prostate("moderate", 300, seed=0, source_rows=600)
    X, there = (pd.DataFrame(side.X, columns=list(side.features)) for side in (source, target))
    model = TransferClassifier("transductive_dropout", settings={"steps": 40, "hidden": (8,)}, passes=20)
    fitted = clone(model).fit(X, source.y, X_target=there)
    risk, sd = fitted.predict_proba(there)[:, 1], fitted.predict_uncertainty(there)
    assert roc_auc_score(target.y, risk) > 0.6
    assert sd.shape == (300,)
    assert (sd > 0).all()
    alone = clone(model).fit(X, source.y).predict_proba(there)[:, 1]
    assert not np.allclose(alone, risk)
    assert make_pipeline(StandardScaler(), TransferClassifier()).fit(X, source.y).score(there, target.y) > 0.5


def test_the_columns_of_a_data_frame_are_the_features_of_the_fitted_method() -> None:
    X = pd.DataFrame({"age": [50.0, 60, 70, 80] * 5, "psa": np.arange(20.0)})
    assert TransferClassifier().fit(X, X["age"] > 65).fitted_.features == ("age", "psa")
    assert TransferClassifier().fit(X.to_numpy(), X["age"] > 65).fitted_.features == ("x0", "x1")
    with pytest.raises(ValueError, match="feature names"):
        TransferClassifier().fit(X, X["age"] > 65, X_target=X[["psa", "age"]])


def test_by_default_the_targets_rows_change_nothing() -> None:
    X, y = load_wine(return_X_y=True)
    alone, beside = (TransferClassifier().fit(X[:130], y[:130], there).predict_proba(X) for there in (None, X[130:]))
    assert np.array_equal(alone, beside)


def test_three_classes_and_a_continuous_outcome() -> None:
    X, y = load_wine(return_X_y=True, as_frame=True)
    names = np.array(["barolo", "grignolino", "barbera"])[y]
    fitted = TransferClassifier().fit(X[::2], names[::2])
    assert fitted.predict_proba(X).shape == (len(X), 3)
    assert fitted.score(X[1::2], names[1::2]) > 0.9
    X, y = load_diabetes(return_X_y=True)
    model = TransferRegressor("gradient_boosting").fit(X[::2], y[::2], X_target=X[1::2])
    assert model.score(X[1::2], y[1::2]) > 0.3
    low, high = model.predict_interval(X, 0.5)
    assert ((low <= high) & (high - low < 100)).all()


def test_the_notebook_runs_from_the_first_cell_to_the_last(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MPLBACKEND", "Agg")
    notebook = json.loads((Path(__file__).parents[2] / "docs" / "five_minutes.ipynb").read_text(encoding="utf-8"))
    cells = ["".join(cell["source"]) for cell in notebook["cells"] if cell["cell_type"] == "code"]
    assert len(cells) > 4
    names: dict[str, Any] = {}
    for cell in cells:
        exec(cell, names)
    assert names["shift"].verdict in {"go", "caution", "stop"}
