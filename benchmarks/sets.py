"""Do 90% prediction sets hold what they promise, for every method? Simulated draws with a covariate shift.

Per draw a method's source risks are out of fold, its target risks those of its fit, and weights come from the fitted
propensity, as in a transfer. Coverage is that of each class; the promise is 90%, the bar 88 to 92% on average.
"""

from __future__ import annotations

import numpy as np

from benchmarks.paired import mean_over_problems
from benchmarks.results import Results, Row, Table
from benchmarks.units import QUICK_NETWORK, Options, run_units
from tdrop.base import Cohort, Doubles
from tdrop.choose import deal_folds, predict_folds
from tdrop.forecast import summarise_sets
from tdrop.methods import build, label, method_names
from tdrop.shift import density_ratio_weights, propensity

DRAWS, ROWS, FEATURES, SHIFT = 200, 1_000, 4, 0.5


def run(options: Options) -> Results:
    """Every method on the same draws."""
    draws, methods = options.seeds_or(DRAWS), options.methods_or(method_names(), ("logistic_regression", "mlp"))
    units = [{"methods": list(methods), "seed": seed, "quick": options.quick} for seed in range(draws)]
    measured = run_units(options, "sets", measure_sets, units)
    rows: list[Row] = []
    for name in methods:
        without, outcome = zip(*(draw[name] for draw in measured if name in draw), strict=True)
        means = {"without the outcome": mean_over_problems(without), "with it": mean_over_problems(outcome)}
        rows.append({"method": label(name), **means, "draws": len(without)})
    caption = f"Simulated, {ROWS:,} patients per site: share of each class inside its 90% set, mean over draws."
    return Results("Coverage of 90% prediction sets (simulated)", caption, [Table("sets", caption, rows)])


def measure_sets(methods: list[str], seed: int, quick: bool) -> dict[str, tuple[float, float]]:
    """By method, the share of patients without and with the outcome whose set holds it; none where sets are refused."""
    source, _ = draw_site(0.0, [seed, 81])
    target, outcomes = draw_site(SHIFT, [seed, 82])
    assert source.y is not None
    fitted = propensity(source, target.unlabelled(), seed=seed)
    weights = density_ratio_weights(fitted)
    source_odds, target_odds = map(np.exp, fitted.logits())
    own = np.minimum(target_odds / source_odds.mean(), weights.max())
    covered = {}
    for name in methods:
        method = build(name, **(QUICK_NETWORK if quick and hasattr(build(name), "hidden") else {}))
        dealt = deal_folds(source, seed=seed)
        folds = predict_folds(method, source, target.unlabelled(), dealt, tuple(np.unique(dealt[1])), seed=seed)
        risk = method.fit(source, target.unlabelled(), None, seed=seed).summarise(target.X, 50, seed=seed).mean
        evidence = (folds.risk, source.y[folds.rows], weights[folds.rows], risk, own)
        sets = summarise_sets(name, evidence, outcomes=outcomes)
        if sets.covered_without is not None and sets.covered_outcome is not None:
            covered[name] = (sets.covered_without, sets.covered_outcome)
    return covered


def draw_site(shift: float, seed: list[int]) -> tuple[Cohort, Doubles]:
    """Patients whose first feature is shifted, with outcomes that a curved risk decides."""
    generator = np.random.default_rng(seed)
    X = generator.normal(size=(ROWS, FEATURES))
    X[:, 0] += shift
    risk = 1 / (1 + np.exp(-(X[:, 0] + np.sin(2 * X[:, 1]) - 0.5 * X[:, 2])))
    y = (generator.random(ROWS) < risk).astype(np.float64)
    names = tuple(f"x{place}" for place in range(FEATURES))
    return Cohort("sets", np.arange(ROWS), names, X.astype(np.float32), y.astype(np.float32)), y
