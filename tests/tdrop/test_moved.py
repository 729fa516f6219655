"""What unlabelled patients did to risks, in groups of many patients."""

from __future__ import annotations

import numpy as np
import pytest

from tdrop.base import plain, read
from tdrop.evaluate import Moved, compare_risks
from tdrop.metrics import log_loss

RISK = np.linspace(0.1, 0.9, 200)


def test_groups_go_from_most_to_least_like_the_source_and_hold_means():
    likeness = np.linspace(1, 0, 200)
    found = compare_risks("transductive_ensemble", 0.1, RISK, RISK - 0.05 * likeness, likeness)
    assert [group.n for group in found.groups] == [40] * 5
    assert [group.likeness for group in found.groups] == sorted(group.likeness for group in found.groups)
    first, last = found.groups[0], found.groups[-1]
    assert first.moved == pytest.approx(0.05 * likeness[-40:].mean())
    assert last.moved == pytest.approx(0.05 * likeness[:40].mean())
    assert last.before - last.after == pytest.approx(last.moved)
    assert found.reliability is None


def test_few_patients_make_fewer_groups_and_fewer_than_one_none():
    sizes = {n: len(compare_risks("m", 0.1, RISK[:n], RISK[:n], RISK[:n]).groups) for n in (1, 19, 20, 59, 60, 200)}
    assert sizes == {1: 0, 19: 0, 20: 1, 59: 2, 60: 3, 200: 5}


def test_known_outcomes_judge_both_and_unknown_ones_are_left_out():
    y = (np.random.default_rng(0).random(200) < RISK).astype(float)
    y[::4] = np.nan
    found = compare_risks("m", 0.1, RISK, 1 - RISK, RISK, y)
    before, after = found.reliability
    known = np.isfinite(y)
    assert before.n == after.n == 150
    assert before.log_loss == pytest.approx(log_loss(y[known], RISK[known]))
    assert after.calibration_error > before.calibration_error
    assert read(Moved, plain(found)) == found


def test_outcomes_of_one_kind_judge_nothing():
    assert compare_risks("m", 0.1, RISK, RISK, RISK, np.zeros(200)).reliability is None
