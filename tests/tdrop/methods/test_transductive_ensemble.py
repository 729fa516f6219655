"""The transductive ensemble: its relation to the ensemble, and what its regulariser does."""

from __future__ import annotations

import numpy as np
import pytest
import scenarios
from method_cases import quick, small_cohorts

from tdrop.base import UsageError
from tdrop.methods import build


@pytest.mark.parametrize("settings", [{}, {"linear": True}])
def test_lambda_0_is_the_ensemble_to_the_last_bit(settings):
    source, target, validation = small_cohorts()
    plain = quick("ensemble", **settings).fit(source, target, validation, seed=1)
    zero = quick("transductive_ensemble", **{"lambda": 0.0}, **settings).fit(source, target, validation, seed=1)
    assert np.array_equal(plain.sample(target.X, 9, seed=0).samples, zero.sample(target.X, 9, seed=0).samples)
    assert plain.history == zero.history


def test_the_targets_rows_change_the_fit_unless_lambda_is_0():
    source, target, _ = small_cohorts()
    elsewhere = small_cohorts(seed=9)[1]

    def samples(rows, lambda_: float):
        method = quick("transductive_ensemble", lambda_=lambda_)
        return method.fit(source, rows, seed=1).sample(target.X, 1, seed=0)

    assert np.array_equal(samples(target, 0.0).samples, samples(elsewhere, 0.0).samples)
    assert not np.array_equal(samples(target, 0.1).samples, samples(elsewhere, 0.1).samples)


def test_members_differ_more_on_the_target_and_no_more_on_the_source():
    source, target = scenarios.extrapolation(400, seed=0)

    def spread(lambda_: float) -> tuple[float, float]:
        method = build("transductive_ensemble", lambda_=lambda_, members=4, hidden=(32, 32), steps=120)
        fitted = method.fit(source, target.unlabelled(), seed=0)
        return tuple(float(fitted.summarise(each.X, 1, seed=0).sd.mean()) for each in (source, target))

    (plain_here, plain_there), (here, there) = spread(0.0), spread(0.1)
    assert there > 1.5 * plain_there
    assert there / here > 1.2 * plain_there / plain_here


def test_a_single_member_is_refused_in_one_sentence():
    with pytest.raises(UsageError, match=r"'members' of method 'transductive_ensemble' is 1; it should"):
        build("transductive_ensemble", members=1)
