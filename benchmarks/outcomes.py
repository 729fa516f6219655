"""Several classes and continuous outcomes on public tables, without a shift: is tuning sound, do intervals cover?

Class tables: iris, wine and digits of scikit-learn, and SUPPORT's disease class (four). A third of the rows is the test
set. The tuned reference (logistic regression and gradient boosting, the one that left-out training patients prefer) is
compared with scikit-learn's own two, each tuned by its grid search over the same kind of values.

Continuous tables: scikit-learn's diabetes progression and SUPPORT's physiology score. The share of test outcomes within
the 95% interval, with the noise that was estimated out of fold.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
import sklearn.datasets
from numpy.typing import NDArray
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from benchmarks.public_tables import load_survset
from benchmarks.results import Estimate, Results, Row, Table
from benchmarks.units import Options, run_grid
from tdrop.base import Cohort
from tdrop.choose import refit, tune
from tdrop.methods import label

CLASS_TABLES = ("iris", "wine", "digits", "SUPPORT, disease class")
CONTINUOUS_TABLES = ("diabetes, progression", "SUPPORT, physiology score")
REFERENCES = ("logistic_regression", "gradient_boosting")
COVERED = (*REFERENCES, "mc_dropout", "ensemble", "transductive_dropout")
#: Known later than the features, or made of the outcome.
NO_FEATURE = ("num_surv2m", "num_surv6m", "num_sps", "fac_dzgroup", "fac_dzclass", "fac_ca", "fac_sfdm2", "fac_dnr")
MOST_ROWS = 3000
SPLITS = 5


def run(options: Options) -> Results:
    """Tunes, fits and tests on every split of every table."""
    splits, trials = options.seeds_or(SPLITS), options.trials or (2 if options.quick else 12)
    references, covered = (REFERENCES[:1], REFERENCES[:1]) if options.quick else (REFERENCES, COVERED)
    by_kind = []
    for tables, methods, measure in (
        (CLASS_TABLES, references, measure_classes),
        (CONTINUOUS_TABLES, covered, measure_intervals),
    ):
        given: dict[str, Any] = {"split": range(splits), "trials": [trials], "methods": [methods]}
        by_kind.append(run_grid(options, "outcomes", measure, table=tables[: 1 if options.quick else None], **given))
    classes, continuous = by_kind
    classes["difference"] = classes["tuned reference"] - classes["scikit-learn"]
    return Results(
        title="Several classes and continuous outcomes",
        about=f"Public tables, random thirds as test sets, {splits} splits; {trials} trials per method.",
        tables=[
            Table(
                "outcomes_classes",
                "Log loss of the tuned reference and of scikit-learn's own tuned model, mean over splits.",
                _means(classes, ["table"], ["tuned reference", "scikit-learn", "difference"]),
            ),
            Table(
                "outcomes_continuous",
                "Share of test outcomes within the 95% interval, with the noise estimated out of fold and without.",
                _means(continuous, ["table", "method"], ["covered", "by the samples alone"]),
            ),
        ],
    )


def _means(measured: pd.DataFrame, by: list[str], columns: list[str]) -> list[Row]:
    rows: list[Row] = []
    for key, splits in measured.groupby(by, sort=False):
        means = {column: Estimate.mean(splits[column]) for column in columns}
        rows.append({**dict(zip(by, map(str, key), strict=True)), **means, "splits": len(splits)})
    return rows


def load(table: str) -> tuple[NDArray[Any], NDArray[Any]]:
    """Features (rows, features) and outcomes (rows,): places of classes, or numbers."""
    if not table.startswith("SUPPORT"):
        loader = getattr(sklearn.datasets, f"load_{table.split(',')[0]}")
        X, y = loader(return_X_y=True)
        return X.astype(np.float32), y.astype(np.float64)
    frame = load_survset("support2").sample(MOST_ROWS, random_state=0)
    numbers = [name for name in map(str, frame) if name.startswith("num_") and name not in NO_FEATURE]
    X = frame[numbers].fillna(frame[numbers].median()).to_numpy(np.float32)
    if "class" in table:
        return X, frame["fac_dzclass"].astype("category").cat.codes.to_numpy(np.float64)
    return X, frame["num_sps"].fillna(frame["num_sps"].median()).to_numpy(np.float64)


def _split(table: str, split: int) -> tuple[Cohort, Cohort, NDArray[Any]]:
    """The training rows, the test rows without outcomes, and these (rows,)."""
    X, y = load(table)
    test = np.random.default_rng([split, 12]).permutation(len(X)) < len(X) // 3
    names = tuple(f"x{place}" for place in range(X.shape[1]))
    classes = tuple(map(str, range(int(y.max()) + 1))) if table in CLASS_TABLES else ()
    kind: Any = {"task": "classes" if classes else "regression", "classes": classes}
    source = Cohort("training", np.flatnonzero(~test), names, X[~test], y[~test], **kind)
    return source, Cohort("test", np.flatnonzero(test), names, X[test], **kind), y[test]


def measure_classes(table: str, split: int, trials: int, methods: Sequence[str]) -> dict[str, float]:
    """Log loss of the tuned method that left-out training patients prefer, and of scikit-learn's."""
    source, target, y = _split(table, split)
    losses, left_out = {}, {}
    for name in methods:
        tuned = tune(name, source, target, np.arange(0), budget=trials)
        p = refit(name, tuned.picked, source, target, seed=0).summarise(target.X, 100, seed=0).mean.astype(np.float64)
        losses[name] = float(log_loss(y, p / p.sum(axis=1, keepdims=True), labels=np.arange(p.shape[1])))
        left_out[name] = tuned.picked.log_loss or np.inf
    tuned_loss = losses[min(left_out, key=left_out.__getitem__)]
    return {"tuned reference": tuned_loss, "scikit-learn": _scikit_learn(source, target.X, y, len(methods))}


def measure_intervals(table: str, split: int, trials: int, methods: Sequence[str]) -> list[dict[str, Any]]:
    """By method, shares of outcomes in their interval; the references are tuned."""
    source, target, y = _split(table, split)
    rows = []
    for name in methods:
        tuned = tune(name, source, target, np.arange(0), budget=trials if name in REFERENCES else 1)
        fitted: Any = refit(name, tuned.picked, source, target, seed=0)
        row: dict[str, Any] = {"method": label(name)}
        for way, model in (("covered", fitted.with_noise(tuned.picked.noise)), ("by the samples alone", fitted)):
            low, high = model.summarise(target.X, 200, seed=0).interval()
            row[way] = float(np.mean((low <= y) & (y <= high)))
        rows.append(row)
    return rows


def _scikit_learn(source: Cohort, X: NDArray[Any], y: NDArray[Any], models: int) -> float:
    line = make_pipeline(StandardScaler(), LogisticRegression(max_iter=2000))
    trees = HistGradientBoostingClassifier(early_stopping=False, random_state=0)
    steps = {"learning_rate": [0.05, 0.1], "max_leaf_nodes": [4, 8], "max_iter": [40, 80]}
    searches = [
        GridSearchCV(line, {"logisticregression__C": [0.01, 0.1, 1, 10]}, scoring="neg_log_loss"),
        GridSearchCV(trees, steps, scoring="neg_log_loss", cv=3),
    ]
    fitted = [search.fit(source.X, source.y) for search in searches[:models]]
    best = max(fitted, key=lambda search: search.best_score_)
    return float(log_loss(y, best.predict_proba(X), labels=best.classes_))
