"""What the rules for lambda pick, and how a pick is judged beside the ensemble."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import expit

from flows.benchmarks.results import Estimate
from flows.benchmarks.transductive import ENSEMBLE, RULE, RULES
from flows.benchmarks.transductive_judge import auroc_difference, judge, log_loss_difference, pooled
from flows.benchmarks.transductive_problems import JUDGING_DRAWS, PROBLEMS, SETTLING_DRAWS, Tried
from tdrop.choose import Losses, Trial


def trial(decay, lambda_, losses, folds=3):
    collected = Losses.collect(np.asarray(losses, dtype=np.float64))
    settings = {"weight_decay": decay, "lambda_": lambda_}
    own = {"log_loss": collected.mean, "losses": collected, "restraint": (decay, 0.0, lambda_)}
    return Trial("transductive_ensemble", settings, folds=folds, n=len(losses), **own)


@pytest.fixture
def tried():
    """Lambda .1 costs .002 on every patient, more decay costs .1; a third setting was left after one fold."""
    base = np.linspace(0.2, 0.8, 200)
    trials = (
        trial(1e-3, 0.0, base),
        trial(1e-3, 0.1, base + 0.002),
        trial(1e-2, 0.0, base + 0.1),
        trial(3e-2, 0.1, base - 0.1, folds=1),
    )
    return Tried(1e-3, trials, {"0": 0.5, "0.03": 0.4, "0.1": 0.6}, {"0": 0.1, "0.03": 0.2, "0.1": 0.05})


def test_every_rule_picks_what_its_name_says(tried):
    picked = {rule: pick(tried) for rule, pick in RULES.items()}
    assert picked[ENSEMBLE] == (1e-3, 0.0)
    assert picked[RULE] == (1e-3, 0.1)
    # Every patient pays the same, so that the difference has no error of its own and counts.
    assert picked["restraint within one paired standard error"] == (1e-3, 0.0)
    assert picked["lowest log loss"] == (1e-3, 0.0)
    assert picked["rehearsal"] == (1e-3, 0.03)
    assert picked["risk-coverage of matched patients"] == (1e-3, 0.1)
    assert (picked["lambda .03"], picked["lambda .1"]) == ((1e-3, 0.03), (1e-3, 0.1))


def test_no_problem_both_settles_and_judges():
    assert not set(SETTLING_DRAWS) & set(JUDGING_DRAWS)
    for family, names in PROBLEMS["settling"].items():
        assert names
        assert not set(names) & set(PROBLEMS["judging"][family])


@pytest.fixture
def target():
    generator = np.random.default_rng(0)
    score = generator.normal(size=800)
    y = (generator.random(800) < expit(score)).astype(np.float32)
    noise = generator.normal(size=(3, 800))
    return y, expit(score + 0.1 * noise), expit(3 * score + noise)


def test_a_better_setting_is_better_in_every_measure_and_by_more_than_chance(target):
    y, right, overconfident = target
    judged = judge(y, right, overconfident)
    assert judged.difference["log loss"] < 0
    assert judged.difference["calibration error"] < 0
    assert judged.difference["AUROC"] > 0
    assert judged.log_loss.value == pytest.approx(judged.difference["log loss"])
    assert judged.auroc.value == pytest.approx(judged.difference["AUROC"], abs=1e-6)
    assert judged.log_loss.high < 0 < judged.auroc.low
    assert (judged.n, judged.events) == (800, int(y.sum()))


def test_the_same_setting_differs_by_nothing(target):
    y, right, _ = target
    assert log_loss_difference(y, right, right) == Estimate(0.0, 0.0, 0.0)
    assert auroc_difference(y, right, right).value == 0.0


def test_refits_that_disagree_widen_the_interval(target):
    y, right, overconfident = target
    alike = log_loss_difference(y, np.stack([right[0]] * 3), np.stack([overconfident[0]] * 3))
    apart = log_loss_difference(y, np.stack([right[0], overconfident[0], right[0]]), np.stack([overconfident[0]] * 3))
    assert apart.high - apart.low > alike.high - alike.low


def test_pooling_problems_shrinks_the_interval_by_their_number():
    found = pooled([Estimate(0.1, 0.0, 0.2)] * 4)
    assert (found.value, found.low, found.high) == pytest.approx((0.1, 0.05, 0.15))
