"""Cohorts at the edge of what can be learnt from: a sound model or one sentence, never a silent NaN."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from method_cases import QUICK, quick, small_cohorts
from sklearn.datasets import load_iris

from tdrop.base import Cohort, TdropError, UsageError
from tdrop.choose import tune
from tdrop.methods import build, method_names

every_method = pytest.mark.parametrize("name", method_names())


def shrink(cohort: Cohort, features: int) -> Cohort:
    return replace(cohort, X=cohort.X[:, :features], features=cohort.features[:features])


def cases() -> dict[str, tuple[Cohort, Cohort]]:
    source, target, _ = small_cohorts()
    return {
        "fewer source rows than a batch": (source.take(np.arange(9)), target),
        "one feature": (shrink(source, 1), shrink(target, 1)),
        "constant target": (source, replace(target, X=np.full_like(target.X, 4.0))),
        "a target of zeros": (source, replace(target, X=np.zeros_like(target.X))),
        "all target rows one patient's": (source, target.take(np.zeros(60, dtype=np.int64))),
        "one target patient": (source, target.take(np.arange(1))),
        "the target is the source": (source, source.unlabelled()),
        "the target of the other sign": (source, replace(target, X=-target.X)),
        "a far target": (source, replace(target, X=target.X * 1e6)),
    }


@every_method
@pytest.mark.parametrize("case", list(cases()))
def test_a_sound_model_comes_of_it(name, case):
    source, target = cases()[case]
    fitted = quick(name, batch=256) if "hidden" in build(name).settings() else quick(name)
    samples = fitted.fit(source, target, seed=0).sample(target.X, 7, seed=0).samples
    assert np.isfinite(samples).all()
    assert ((samples >= 0) & (samples <= 1)).all()


LAMBDAS = [name for name in method_names() if "lambda_" in build(name).settings()]


@pytest.mark.parametrize("name", LAMBDAS)
def test_a_lambda_of_a_thousand_gives_a_sound_model_or_one_sentence(name):
    source, target, _ = small_cohorts()
    method = quick(name, lambda_=1_000.0, steps=60)
    try:
        samples = method.fit(source, target, seed=0).sample(target.X, 7, seed=0).samples
    except TdropError as error:
        assert "lower" in str(error)  # noqa: PT017
        return
    assert np.isfinite(samples).all()


@pytest.mark.parametrize("name", LAMBDAS)
@pytest.mark.parametrize("case", list(cases()))
def test_no_lambda_makes_an_odd_target_a_silent_failure(name, case):
    source, target = cases()[case]
    try:
        samples = quick(name, lambda_=1_000.0).fit(source, target, seed=0).sample(target.X, 7, seed=0).samples
    except TdropError as error:
        assert "lower" in str(error)  # noqa: PT017
        return
    assert np.isfinite(samples).all()
    assert ((samples >= 0) & (samples <= 1)).all()


@every_method
def test_a_single_sample_is_a_sound_model_or_refused_in_one_sentence(name):
    single = {"members": 1, "refits": 1, "passes": 1}
    settings = {key: value for key, value in single.items() if key in build(name).settings()}
    source, target, _ = small_cohorts()
    try:
        summary = quick(name, **settings).fit(source, target, seed=0).summarise(target.X, 1, seed=0)
    except UsageError as error:
        assert "greater than or equal to 2" in str(error)  # noqa: PT017
        return
    assert np.isfinite(summary.mean).all()
    assert np.array_equal(summary.sd, np.zeros(len(target)))


@every_method
@pytest.mark.parametrize("case", ["one feature", "one target patient"])
def test_tuning_and_its_refit_are_sound_too(name, case):
    source, target = cases()[case]
    base = {key: value for key, value in quick(name).settings().items() if key in QUICK}
    tuned = tune(name, source, target, np.arange(5), budget=2, base=base, passes=5)
    assert np.isfinite(tuned.out_of_fold.risk).all()
    assert np.isfinite([trial.log_loss for trial in tuned.trials]).all()
    fitted = build(name, **tuned.picked.settings).fit(source, target.unlabelled(), None, seed=0)
    risk = fitted.summarise(target.X, 7, seed=0).mean
    assert np.isfinite(risk).all()


@pytest.mark.parametrize("name", ["mlp", "transductive_dropout", "transductive_ensemble", "gradient_boosting"])
def test_a_source_of_300_rows_with_three_outcomes_per_fold_is_tuned_soundly(name):
    """At the methods' own lengths: a network that learns nine patients by heart would be far from their share."""
    generator = np.random.default_rng(0)
    X = generator.normal(size=(300, 4))
    y = np.zeros(300)
    y[generator.choice(300, 9, replace=False)] = 1
    source = Cohort("rare", np.arange(300), tuple("abcd"), X, y)
    tuned = tune(name, source, source.unlabelled(), np.arange(5), budget=3)
    share = 9 / 300
    entropy = -share * np.log(share) - (1 - share) * np.log(1 - share)
    assert tuned.picked.log_loss < entropy + 0.1
    fitted = build(name, **tuned.picked.settings).fit(source, source.unlabelled(), None, seed=0)
    risk = fitted.summarise(X, 20, seed=0).mean
    assert risk.mean() == pytest.approx(share, abs=0.03)


@pytest.mark.parametrize("name", ["mlp", "tdnr"])
def test_tuning_learns_the_curved_truth_of_a_small_table(name):
    X, classes = load_iris(return_X_y=True)
    source = Cohort("iris", np.arange(len(X)), tuple("abcd"), X, (classes == 1).astype(float))
    tuned = tune(name, source, source.unlabelled(), np.arange(5), budget=3)
    # The defaults have .51, and the longer fit .47 where it keeps their decay.
    assert tuned.picked.log_loss < 0.3


@pytest.mark.parametrize("name", ["mlp", "tdnr", "ensemble"])
def test_a_few_hundred_patients_with_many_features_are_not_learnt_by_heart(name):
    generator = np.random.default_rng(1)
    X = generator.normal(size=(1_300, 30))
    y = (generator.random(1_300) < 1 / (1 + np.exp(-X[:, 0]))).astype(float)
    cohort = Cohort("wide", np.arange(1_300), tuple(f"x{place}" for place in range(30)), X, y)
    source, others = cohort.take(np.arange(300)), cohort.take(np.arange(300, 1_300))
    risk = build(name).fit(source, others.unlabelled(), seed=0).summarise(others.X, 50, seed=0).mean.astype(float)
    loss = -np.mean(np.where(others.y == 1, np.log(risk), np.log(1 - risk)))
    assert loss < 0.75, "160 steps lose 1.1 here, and half each .69"
