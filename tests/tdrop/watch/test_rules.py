"""E-processes: false alarms at most as promised over any number of looks, and true ones found after few patients."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import expit, logit, softmax

from tdrop.watch import CAUTION_LINE, LINE, Bet, RiskTest, RunningMean, new_test

HISTORIES, PATIENTS = 150, 3_000


def places(generator, mean, rows=PATIENTS):
    """Numbers in [0, 1] with a mean."""
    return generator.beta(mean / (1 - mean), 1.0, rows)


def first_crossing(path, line):
    over = np.flatnonzero(path >= np.log(line))
    return int(over[0]) + 1 if len(over) else None


def test_a_bet_raises_no_false_alarm_over_three_thousand_looks():
    generator = np.random.default_rng(0)
    peaks = [Bet(0.55).add(places(generator, 0.55)).peak for _ in range(HISTORIES)]
    assert np.mean(np.array(peaks) >= np.log(20)) <= 0.05
    assert np.mean(np.array(peaks) >= np.log(LINE)) <= 0.025


@pytest.mark.parametrize(("mean", "within"), [(0.65, 100), (0.70, 60), (0.80, 35)])
def test_a_mean_above_the_limit_is_found_soon(mean, within):
    generator = np.random.default_rng(1)
    found = [first_crossing(Bet(0.555).path(places(generator, mean)), LINE) for _ in range(HISTORIES)]
    assert all(found)
    assert np.median(found) <= within


def test_patients_one_by_one_count_as_in_one_batch():
    values = places(np.random.default_rng(2), 0.6, 60)
    together, alone = Bet(0.55).add(values), Bet(0.55)
    mean_together, mean_alone = RunningMean().add(values), RunningMean()
    for value in values:
        alone, mean_alone = alone.add(np.array([value])), mean_alone.add(np.array([value]))
    assert vars(alone) == pytest.approx(vars(together))
    assert vars(mean_alone) == pytest.approx(vars(mean_together))
    assert Bet(0.55).add(np.zeros(0)) == Bet(0.55)


def test_an_alarm_stays_when_later_patients_are_as_agreed():
    bet = Bet(0.55).add(np.full(60, 0.9)).add(np.full(500, 0.3))
    assert bet.log_wealth < np.log(LINE) <= bet.peak


@pytest.mark.parametrize("offset", [-0.1, 0.0, 0.1])
def test_outcomes_that_the_risks_allow_raise_at_most_five_in_a_hundred(offset):
    generator = np.random.default_rng(3)
    peaks = []
    for _ in range(HISTORIES):
        risk = expit(generator.normal(-1.6, 1.0, 2_400))
        y = generator.random(2_400) < expit(logit(risk) + offset)
        peaks.append(RiskTest().add(y, risk).peak)
    assert np.mean(np.array(peaks) >= np.log(CAUTION_LINE)) <= 0.05


@pytest.mark.parametrize(("offset", "direction"), [(0.5, "too low"), (-0.5, "too high")])
def test_risks_off_by_a_half_are_found_with_their_direction(offset, direction):
    generator = np.random.default_rng(4)
    risk = expit(generator.normal(-1.6, 1.0, 1_500))
    y = generator.random(1_500) < expit(logit(risk) + offset)
    test = RiskTest().add(y, risk)
    assert test.peak >= np.log(CAUTION_LINE)
    assert test.direction == direction
    assert test.events == y.sum()


def simulate_events(generator, task, off, rows=2_400):
    """Chances as promised and whether outcomes came otherwise; `off` is how wrong the promises are, in log odds."""
    chance = np.full(rows, 0.05)
    if task == "classes":
        chance = 1 - softmax(1.5 * generator.standard_normal((rows, 4)), axis=1).max(axis=1)
    return (generator.random(rows) < expit(logit(chance) + off)).astype(float), chance


@pytest.mark.parametrize(
    ("task", "off"), [("classes", 0.0), ("classes", 0.1), ("regression", 0.0), ("regression", 0.36)]
)
def test_classes_and_numbers_as_promised_raise_at_most_five_in_a_hundred_over_24_looks(task, off):
    generator = np.random.default_rng(7)
    alarms = 0
    for _ in range(HISTORIES):
        test = new_test(task)
        event, chance = simulate_events(generator, task, off)
        for month in np.split(np.arange(len(event)), 24):
            test = test.add(event[month], chance[month])
        alarms += test.peak >= np.log(CAUTION_LINE)
    assert alarms / HISTORIES <= 0.05


@pytest.mark.parametrize(("task", "off", "patients"), [("classes", 0.5, 300), ("regression", 1.2, 150)])
def test_classes_and_numbers_that_contradict_what_was_told_are_found(task, off, patients):
    generator = np.random.default_rng(8)
    runs = [simulate_events(generator, task, off, patients) for _ in range(50)]
    found = [new_test(task).add(event, chance) for event, chance in runs]
    assert np.mean([test.peak >= np.log(CAUTION_LINE) for test in found]) > 0.5
    assert {test.direction for test in found} == {"too low"}


def test_outcomes_count_the_same_in_any_order():
    generator = np.random.default_rng(5)
    risk, order = generator.uniform(0.05, 0.6, 200), generator.permutation(200)
    y = (generator.random(200) < risk).astype(float)
    assert RiskTest().add(y, risk).log_wealth == pytest.approx(RiskTest().add(y[order], risk[order]).log_wealth)


def test_a_risk_of_exactly_nought_or_one_is_no_end():
    assert np.isfinite(RiskTest().add(np.array([1.0, 0.0]), np.array([0.0, 1.0])).log_wealth)


def test_a_confidence_sequence_holds_at_all_times_and_narrows():
    generator = np.random.default_rng(6)
    missed = 0
    for _ in range(HISTORIES):
        mean, outside = RunningMean(), False
        for batch in np.split(places(generator, 0.3, 1_000), 40):
            mean = mean.add(batch)
            outside |= not mean.interval[0] <= 0.3 <= mean.interval[1]
        missed += outside
    assert missed / HISTORIES <= 0.05
    assert mean.interval[1] - mean.interval[0] < 0.15
    assert RunningMean().interval == (0.0, 1.0)
