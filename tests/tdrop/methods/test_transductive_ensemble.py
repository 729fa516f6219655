"""The transductive ensemble: its relation to the ensemble, and what its regulariser does."""

from __future__ import annotations

import numpy as np
import pytest
import scenarios
import scipy.special
from method_cases import quick, small_cohorts

from tdrop.base import UsageError
from tdrop.methods import build


@pytest.mark.parametrize("settings", [{}, {"linear": True, "contrast": 10.0}, {"form": "joint"}])
def test_lambda_0_is_the_ensemble_to_the_last_bit(settings):
    source, target, validation = small_cohorts()
    shared = {name: value for name, value in settings.items() if name != "form"}
    plain = quick("ensemble", **shared).fit(source, target, validation, seed=1)
    zero = quick("transductive_ensemble", **{"lambda": 0.0}, **settings).fit(source, target, validation, seed=1)
    assert np.array_equal(plain.sample(target.X, 9, seed=0).samples, zero.sample(target.X, 9, seed=0).samples)
    assert plain.history == zero.history


@pytest.mark.parametrize("form", ["separate", "joint"])
def test_the_targets_rows_change_the_fit_unless_lambda_is_0(form):
    source, target, _ = small_cohorts()
    elsewhere = small_cohorts(seed=9)[1]

    def samples(rows, lambda_: float):
        method = quick("transductive_ensemble", lambda_=lambda_, form=form)
        return method.fit(source, rows, seed=1).sample(target.X, 1, seed=0)

    assert np.array_equal(samples(target, 0.0).samples, samples(elsewhere, 0.0).samples)
    assert not np.array_equal(samples(target, 0.1).samples, samples(elsewhere, 0.1).samples)


def test_the_risk_is_the_ensembles_and_doubt_only_draws_it_towards_one_half():
    source, target = scenarios.extrapolation(400, seed=0)
    settings = {"members": 4, "hidden": (32, 32), "steps": 120}
    plain = build("ensemble", **settings).fit(source, target.unlabelled(), seed=0)
    fitted = build("transductive_ensemble", doubters=2, **settings).fit(source, target.unlabelled(), seed=0)
    risks = plain.sample(target.X, 1, seed=0).samples
    around = fitted.sample(target.X, 1, seed=0).samples.reshape(4, 2, 2, -1)
    middle = scipy.special.expit(scipy.special.logit(around).mean(axis=(1, 2)))
    assert np.allclose(middle, risks, atol=1e-4), "doubt goes both ways around each member"
    moved = around.mean(axis=(1, 2)) - risks
    assert (moved * (0.5 - risks) >= -1e-6).all(), "towards one half, never across"
    reach = np.abs(scipy.special.logit(around) - scipy.special.logit(risks)[:, None, None])
    assert 0.2 < reach.max() <= 1 + 1e-3


def test_what_tunes_and_chooses_is_the_ensembles_risk():
    separate, joint = (build("transductive_ensemble", form=form) for form in ("separate", "joint"))
    assert not separate.risk_alone().needs_target()
    assert joint.risk_alone() == joint
    assert "lambda_" not in separate.search_space()
    assert "lambda_" in joint.search_space()


@pytest.mark.parametrize(("name", "rival"), [("transductive_ensemble", "ensemble"), ("transductive_dropout", "tdnr")])
def test_a_fit_gives_away_its_risk_which_is_the_rivals_own_fit(name, rival):
    source, target, _ = small_cohorts()
    alone = quick(name).fit(source, target, seed=1).risk_alone()
    plain = quick(rival).fit(source, target, seed=1)
    assert alone.method == plain.method
    assert np.array_equal(alone.sample(target.X, 9, seed=0).samples, plain.sample(target.X, 9, seed=0).samples)
    assert plain.risk_alone() is plain


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
