"""Several classes and continuous outcomes on public tables, without a shift: is tuning sound, do intervals cover?

Class tables: iris, wine and digits of scikit-learn, and SUPPORT's disease class (four). A third of the rows is the test
set. The tuned reference (logistic regression and gradient boosting, the one that left-out training patients prefer) is
compared with scikit-learn's own two, each tuned by its grid search over the same kind of values.

Continuous tables: scikit-learn's diabetes progression and SUPPORT's physiology score. The share of test outcomes within
the 95% interval, with the noise that was estimated out of fold.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import sklearn.datasets
from numpy.typing import NDArray
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from benchmarks.paired import mean_over_problems
from benchmarks.public_tables import load_survset
from benchmarks.results import Estimate, Results, Row, Table
from benchmarks.units import Options, run_units
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
    splits = options.seeds_or(SPLITS)
    trials, tables = (2, ("iris", "diabetes, progression")) if options.quick else (12, CLASS_TABLES + CONTINUOUS_TABLES)
    methods = {"references": list(REFERENCES[: 1 if options.quick else None])}
    methods["covered"] = methods["references"] if options.quick else list(COVERED)
    units = [
        {"table": table, "split": split, "trials": trials, **methods} for table in tables for split in range(splits)
    ]
    measured = iter(run_units(options, "outcomes", measure_split, units))
    by_table = {table: [next(measured) for _ in range(splits)] for table in tables}
    return Results(
        title="Several classes and continuous outcomes",
        about=f"Public tables, random thirds as test sets, {splits} splits; {trials} trials per method.",
        tables=[
            _class_table({name: by_table[name] for name in tables if name in CLASS_TABLES}),
            _continuous_table({name: by_table[name] for name in tables if name in CONTINUOUS_TABLES}),
        ],
    )


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


def measure_split(
    table: str, split: int, trials: int, references: Sequence[str], covered: Sequence[str]
) -> dict[str, float]:
    """Log losses, or shares of outcomes in their interval and widths, of one split."""
    X, y = load(table)
    test = np.random.default_rng([split, 12]).permutation(len(X)) < len(X) // 3
    names = tuple(f"x{place}" for place in range(X.shape[1]))
    classes = tuple(map(str, range(int(y.max()) + 1))) if table in CLASS_TABLES else ()
    kind: Any = "classes" if classes else "regression"
    source = Cohort("training", np.flatnonzero(~test), names, X[~test], y[~test], kind, classes=classes)
    target = Cohort("test", np.flatnonzero(test), names, X[test], task=kind, classes=classes)
    if classes:
        tuned = _tuned(source, target, y[test], trials, references)
        return {**tuned, **_scikit_learn(X[~test], y[~test], X[test], y[test], len(references))}
    return _covered(source, target, y[test], trials, covered)


def _tuned(source: Cohort, target: Cohort, y: NDArray[Any], trials: int, references: Sequence[str]) -> dict[str, float]:
    losses, left_out = {}, {}
    for name in references:
        tuned = tune(name, source, target, np.arange(0), budget=trials)
        p = refit(name, tuned.picked, source, target, seed=0).summarise(target.X, 100, seed=0).mean.astype(np.float64)
        losses[name] = float(log_loss(y, p / p.sum(axis=1, keepdims=True), labels=np.arange(p.shape[1])))
        left_out[name] = tuned.picked.log_loss or np.inf
    return {**losses, "tuned": losses[min(left_out, key=left_out.__getitem__)]}


def _scikit_learn(
    X: NDArray[Any], y: NDArray[Any], X_test: NDArray[Any], y_test: NDArray[Any], models: int
) -> dict[str, float]:
    line = make_pipeline(StandardScaler(), LogisticRegression(max_iter=2000))
    trees = HistGradientBoostingClassifier(early_stopping=False, random_state=0)
    searches = {
        "sklearn logistic": GridSearchCV(line, {"logisticregression__C": [0.01, 0.1, 1, 10]}, scoring="neg_log_loss"),
        "sklearn boosting": GridSearchCV(
            trees,
            {"learning_rate": [0.05, 0.1], "max_leaf_nodes": [4, 8], "max_iter": [40, 80]},
            scoring="neg_log_loss",
            cv=3,
        ),
    }
    losses, best = {}, {}
    for name, search in list(searches.items())[:models]:
        search.fit(X, y)
        losses[name] = float(log_loss(y_test, search.predict_proba(X_test), labels=search.classes_))
        best[name] = search.best_score_
    return {**losses, "sklearn": losses[max(best, key=best.__getitem__)]}


def _covered(source: Cohort, target: Cohort, y: NDArray[Any], trials: int, covered: Sequence[str]) -> dict[str, float]:
    measured: dict[str, float] = {}
    for name in covered:
        tuned = tune(name, source, target, np.arange(0), budget=trials if name in REFERENCES else 1)
        fitted: Any = refit(name, tuned.picked, source, target, seed=0)
        for way, model in (("", fitted.with_noise(tuned.picked.noise)), (" samples", fitted)):
            low, high = model.summarise(target.X, 200, seed=0).interval()
            measured[f"{name}{way}"] = float(np.mean((low <= y) & (y <= high)))
    return measured


def _mean(splits: Sequence[Mapping[str, float]], name: str) -> Estimate:
    return mean_over_problems([split[name] for split in splits])


def _class_table(by_table: Mapping[str, Sequence[Mapping[str, float]]]) -> Table:
    rows: list[Row] = [
        {
            "table": name,
            "tuned reference": _mean(splits, "tuned"),
            "scikit-learn": _mean(splits, "sklearn"),
            "difference": mean_over_problems([split["tuned"] - split["sklearn"] for split in splits]),
            "splits": len(splits),
        }
        for name, splits in by_table.items()
    ]
    caption = "Log loss of the tuned reference and of scikit-learn's own tuned model, mean over splits."
    return Table("outcomes_classes", caption, rows)


def _continuous_table(by_table: Mapping[str, Sequence[Mapping[str, float]]]) -> Table:
    rows: list[Row] = [
        {
            "table": name,
            "method": label(method),
            "covered": _mean(splits, method),
            "by the samples alone": _mean(splits, f"{method} samples"),
            "splits": len(splits),
        }
        for name, splits in by_table.items()
        for method in COVERED
        if method in splits[0]
    ]
    caption = "Share of test outcomes within the 95% interval, with the noise estimated out of fold and without."
    return Table("outcomes_continuous", caption, rows)
