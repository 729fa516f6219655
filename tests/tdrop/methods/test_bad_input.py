"""Cohorts at the edge of what can be learnt from: a sound model or one sentence, never a silent NaN."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from method_cases import quick, small_cohorts

from tdrop.errors import TdropError
from tdrop.methods import build, method_names
from tdrop.types import Cohort

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


LAMBDAS = [
    (name, settings)
    for name in method_names()
    if "lambda_" in build(name).settings() and name != "tdnr"
    for settings in ({}, {"objective": "reference"}, {"g": "exponential"}, {"variance_of": "probability"})
    if set(settings) <= set(build(name).settings())
]


@pytest.mark.parametrize(("name", "settings"), LAMBDAS)
def test_a_lambda_of_a_thousand_gives_a_sound_model_or_one_sentence(name, settings):
    source, target, _ = small_cohorts()
    method = quick(name, lambda_=1_000.0, steps=60, **settings)
    try:
        samples = method.fit(source, target, seed=0).sample(target.X, 7, seed=0).samples
    except TdropError as error:
        assert "lower" in str(error)  # noqa: PT017
        return
    assert np.isfinite(samples).all()
