"""Can a served model tell whether a patient was among those who taught it? An attack with shadow models, simulated.

The attacker has the whole population that the source was drawn from, outcomes included, and fits shadow models with the
same settings on other halves of it. A patient on whom the model does better than the shadows that did not see the
patient, and as well as those that did, is called a member (the likelihood ratio of Carlini et al., 2022). The placebo
is the same attack with membership dealt anew: it shows what chance gives.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import logit
from scipy.stats import norm
from sklearn.metrics import roc_auc_score, roc_curve

from benchmarks.results import Estimate, Results, Row, Table
from benchmarks.units import QUICK_NETWORK, Options, run_grid
from tdrop.data import simulated_cohort
from tdrop.methods import build, method_names

SIZES, QUICK_SIZES = (500, 1_500, 5_000), (60,)
MODELS, QUICK_MODELS = 16, 4
QUICK = ("mlp", "logistic_regression")
TARGET_ROWS, PASSES = 500, 50
#: The share of patients wrongly called members at which the share of members found is reported.
FALSE_ALARMS = 0.01


def run(options: Options) -> Results:
    """Attacks every method at every size of the source."""
    sizes, models = (QUICK_SIZES, QUICK_MODELS) if options.quick else (SIZES, options.seeds_or(MODELS))
    methods = options.methods_or(method_names(), QUICK)
    given: dict[str, Any] = {"patients": sizes, "method": methods, "models": [models], "quick": [options.quick]}
    attacks = run_grid(options, "membership", attack_method, **given)
    rows: Any = (
        attacks.drop(columns=["models", "quick"]).rename(columns={"patients": "source patients"}).to_dict("records")
    )
    about = (
        f"Simulated patients. {models} models per line, each fitted with the method's defaults on a random half of "
        "twice as many patients; each is attacked with the others as shadows. An AUROC of .5 and 1% found are "
        "chance; the placebo deals membership anew."
    )
    return Results("Membership of a served model's patients", about, [Table("membership", "Simulated", rows)])


def attack_method(patients: int, method: str, models: int, quick: bool) -> Row:
    """Fits models on halves of twice as many patients and attacks each with the others; means over the models.

    The advantage is the largest share of members found less the share of the others called members.
    """
    everybody = simulated_cohort("source", 2 * patients, seed=11)
    target = simulated_cohort("moderate", TARGET_ROWS, seed=12).unlabelled()
    random = np.random.default_rng([patients, 13])
    settings = QUICK_NETWORK if quick and hasattr(build(method), "hidden") else {}
    assert everybody.y is not None
    y = everybody.y.astype(bool)
    members, confidence = [], []
    for seed in range(models):
        inside = np.isin(np.arange(2 * patients), random.permutation(2 * patients)[:patients])
        fitted = build(method, **settings).fit(everybody.take(np.flatnonzero(inside)), target, None, seed=seed)
        risk = fitted.summarise(everybody.X, PASSES, seed=0).mean.astype(np.float64).clip(1e-6, 1 - 1e-6)
        members.append(inside)
        confidence.append(logit(np.where(y, risk, 1 - risk)))
    inside, scores = np.array(members), _likelihood_ratios(np.array(members), np.array(confidence))
    dealt = np.array([random.permutation(row) for row in inside])
    real, placebo = (
        np.mean([_measure(*pair) for pair in zip(members, scores, strict=True)], axis=0) for members in (inside, dealt)
    )
    names = ("AUROC", "advantage", "found at 1% false alarms", "placebo: AUROC", "placebo: advantage")
    return {name: Estimate(float(value)) for name, value in zip(names, (*real, *placebo[:2]), strict=True)}


def _likelihood_ratios(inside: NDArray[np.bool_], confidence: NDArray[np.float64]) -> NDArray[np.float64]:
    """How much likelier each model's confidence (models, patients) is with the patient than without."""
    scores = np.zeros_like(confidence)
    for model in range(len(confidence)):
        others = np.arange(len(confidence)) != model
        means = [_mean_where(confidence[others], inside[others] == side) for side in (True, False)]
        # One spread for all patients: few shadows know no patient's own.
        spread = max(float(confidence[others].std(axis=0).mean()), 1e-3)
        densities = [norm.logpdf(confidence[model], mean, spread) for mean in means]
        scores[model] = densities[0] - densities[1]
    return scores


def _mean_where(values: NDArray[np.float64], where: NDArray[np.bool_]) -> NDArray[np.float64]:
    """Means (patients,) over the models where a condition holds, or over all where it never does."""
    count = where.sum(axis=0)
    mean: NDArray[np.float64] = np.where(
        count, (values * where).sum(axis=0) / np.maximum(count, 1), values.mean(axis=0)
    )
    return mean


def _measure(inside: NDArray[np.bool_], score: NDArray[np.float64]) -> tuple[float, float, float]:
    false, true, _ = roc_curve(inside, score)
    return (
        float(roc_auc_score(inside, score)),
        float((true - false).max()),
        float(true[false <= FALSE_ALARMS].max()),
    )
