"""The paper's appendix: breast cancer, iris and wine, one class against the rest, test sets drawn along a component.

The 20% test set is drawn without replacement with weights along the first principal component of the standardised
features: "linear" is the score above its smallest (hardly a shift on wine), "softmax" is exp(score / its sd). The
positive class is the largest one; iris has a three-way tie, where versicolor is used because setosa leaves no errors
to predict. Iris and wine are also run as they come, with three classes: AUROC is then the mean over classes, an error a
wrong likeliest class, and p(1-p) one minus its probability. All methods run at settings fixed in advance. With 1 to 4
errors per split an error AUROC is defined by little: pairs are counted within splits and summed (a stratified AUROC),
and undefined splits are counted.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd
import sklearn.datasets
from numpy.typing import NDArray

from benchmarks.paired import concordant_pairs, stratified_estimate
from benchmarks.results import Estimate, Results, Row, Table, printed
from benchmarks.units import Options, run_grid
from tdrop import metrics
from tdrop.base import Cohort, Method
from tdrop.methods import build, label, method_names

#: In place of one class: the data set with all of them.
ALL_CLASSES = -1
#: Data set -> its scikit-learn loader and, where the largest class is a tie, which is meant.
DATASETS: Mapping[str, tuple[str, int | None]] = {
    "breast cancer": ("load_breast_cancer", None),
    "iris": ("load_iris", 1),
    "wine": ("load_wine", None),
    "iris, three classes": ("load_iris", ALL_CLASSES),
    "wine, three classes": ("load_wine", ALL_CLASSES),
}
WEIGHTS = ("linear", "softmax")
#: The paper's 32-64 networks; full batches, as all training sets are below 512 rows, and the length and decay that
#: left-out training rows of the three data sets prefer.
NETWORK: Mapping[str, Any] = {"hidden": [32, 64], "batch": 512, "length": 4}
QUICK: Mapping[str, Any] = {"hidden": [8], "steps": 3}
TEST_SHARE = 0.2
SPLITS, PASSES = 20, 200


def run(options: Options) -> Results:
    """Fits every method to every split of the ten problems."""
    splits = options.seeds_or(SPLITS, quick=2)
    methods = options.methods_or(method_names(), ("mlp", "tdnr", "transductive_dropout", "logistic_regression"))
    tests = run_grid(options, "uci", measure_split, method=methods, split=range(splits), quick=[options.quick])
    return Results(
        title="The paper's appendix: breast cancer, iris, wine",
        about=(
            f"Public data from scikit-learn with a shift made by sampling; {splits} splits; settings fixed in advance, "
            "nothing tuned. The paper prints one number per cell and not how many splits it rests on."
        ),
        tables=[
            _table(dataset, weights, tests[(tests["dataset"] == dataset) & (tests["weights"] == weights)])
            for dataset in DATASETS
            for weights in WEIGHTS
        ],
    )


def measure_split(method: str, split: int, quick: bool) -> list[dict[str, Any]]:
    """Fits one method to one split of all ten problems.

    By problem, its AUROC (None where one class only was drawn), concordant pairs and pairs of (wrong, right) patients
    by sd (None without spread) and by p(1-p), patients whose class is wrong, and patients.
    """
    passes, settings = (10, QUICK) if quick else (PASSES, NETWORK)
    if method in ("logistic_regression", "gradient_boosting"):
        settings = {"refits": 5} if quick else {}
    return [
        {"dataset": dataset, "weights": weights, **_measure(build(method, **settings), dataset, weights, split, passes)}
        for dataset in DATASETS
        for weights in WEIGHTS
    ]


def _measure(method: Method, dataset: str, weights: str, split: int, passes: int) -> dict[str, Any]:
    X, y = load(dataset)
    test = draw_test(X, weights, split)
    names = tuple(f"x{i}" for i in range(X.shape[1]))
    several = DATASETS[dataset][1] == ALL_CLASSES
    kind: dict[str, Any] = {"task": "classes", "classes": ("0", "1", "2")} if several else {}
    source = Cohort("training", np.flatnonzero(~test), names, X[~test], y[~test], **kind)
    target = Cohort("test", np.flatnonzero(test), names, X[test], **kind)
    summary = method.fit(source, target, None, seed=split).summarise(target.X, passes, seed=split)
    outcome, risk = y[test], summary.mean
    return {
        "auroc": metrics.macro_auroc(outcome, risk) if several else metrics.auroc(outcome, risk),
        "by sd": concordant_pairs(outcome, risk, summary.sd) if summary.passes > 1 else None,
        "by risk": concordant_pairs(outcome, risk, 1 - risk.max(axis=1) if several else risk * (1 - risk)),
        "errors": int(metrics.misclassified(outcome, risk).sum()),
        "rows": int(test.sum()),
    }


def load(dataset: str) -> tuple[NDArray[Any], NDArray[Any]]:
    """Features (rows, features), and 1 for the largest class (rows,), or the class where all are meant."""
    loader, tied = DATASETS[dataset]
    X, classes = getattr(sklearn.datasets, loader)(return_X_y=True)
    if tied == ALL_CLASSES:
        return X.astype(np.float32), classes.astype(np.float32)
    positive = int(np.argmax(np.bincount(classes))) if tied is None else tied
    return X.astype(np.float32), (classes == positive).astype(np.float32)


def draw_test(X: NDArray[Any], weights: str, split: int) -> NDArray[np.bool_]:
    """Which rows are in the test set (rows,), drawn with weights along the first principal component."""
    standard = (X - X.mean(axis=0)) / X.std(axis=0)
    direction = np.linalg.svd(standard.astype(np.float64), full_matrices=False)[2][0]
    # The sign of a component is arbitrary: its largest loading is taken as positive.
    score = standard @ (direction * np.sign(direction[np.argmax(np.abs(direction))]))
    weight = score - score.min() if weights == "linear" else np.exp((score - score.max()) / score.std())
    generator = np.random.default_rng([split, 11])
    chosen = generator.choice(
        len(X), size=round(TEST_SHARE * len(X)), replace=False, p=(weight + 1e-12) / (weight + 1e-12).sum()
    )
    test = np.zeros(len(X), dtype=bool)
    test[chosen] = True
    return test


def _table(dataset: str, weights: str, tests: pd.DataFrame) -> Table:
    rows: list[Row] = []
    for name, splits in tests.groupby("method", sort=False):
        by_sd, by_risk = (splits[score].tolist() for score in ("by sd", "by risk"))
        paper = printed("uci").get(dataset, {}).get(name) or ("not printed", "not printed")
        rows.append(
            {
                "method": label(str(name)),
                "test AUROC": Estimate.mean(splits["auroc"].dropna()),
                "error AUROC by sd": Estimate(None) if by_sd[0] is None else stratified_estimate(np.array(by_sd)),
                "error AUROC by p(1-p)": stratified_estimate(np.array(by_risk)),
                "errors a split": round(float(splits["errors"].mean()), 1),
                "splits undefined": sum(pairs == 0 for _, pairs in by_risk),
                "splits": len(splits),
                "test rows": int(splits["rows"].iloc[0]),
                "paper: test": paper[0],
                "paper: error": paper[1],
            }
        )
    caption = (
        f"{dataset.capitalize()}, {weights} weights: mean test AUROC (Student's interval over splits); stratified "
        "error AUROC (bootstrap over splits); splits without an error leave it undefined."
    )
    return Table(f"uci_{dataset.replace(',', '').replace(' ', '_')}_{weights}", caption, rows)
