"""What speaks against "go" beside the features."""

from __future__ import annotations

import numpy as np
import pytest

from tdrop.records import plain, read
from tdrop.shift.grounds import Ground, judge_known_outcomes, judge_shared_patients, judge_source_outcomes, worst

FEW = "too few to say"


@pytest.mark.parametrize(("events", "verdict"), [(0, FEW), (2, FEW), (10, "go"), (395, FEW)])
def test_few_source_outcomes_teach_nothing(events, verdict):
    found = judge_source_outcomes(np.arange(400) < events)
    assert (found.verdict, found.count, found.of) == (verdict, min(events, 400 - events), 400)
    assert read(Ground, plain(found)) == found


def test_the_sources_own_patients_are_no_new_site():
    ids = np.array([f"p{i}" for i in range(100)])
    assert judge_shared_patients(ids, ids).verdict == "stop"
    assert judge_shared_patients(ids, np.r_[ids[:20], [f"q{i}" for i in range(80)]]).verdict == "caution"
    assert judge_shared_patients(np.arange(100), np.arange(100, 200)).verdict == "go"
    assert judge_shared_patients(np.arange(3), np.arange(3).astype(str)).count == 3


def test_outcomes_that_contradict_every_risk_stop_and_right_ones_do_not():
    contradicted = judge_known_outcomes(np.zeros(100), np.full(100, 0.56))
    assert (contradicted.verdict, contradicted.count, contradicted.of) == ("stop", 0, 100)
    assert contradicted.expected == pytest.approx(56)
    assert judge_known_outcomes(np.full(5, np.nan), np.full(5, 0.2)) is None
    generator = np.random.default_rng(0)
    said = [
        judge_known_outcomes((generator.uniform(size=150) < risk).astype(float), risk).verdict
        for risk in generator.beta(1, 4, (200, 150))
    ]
    assert said.count("go") >= 0.93 * len(said)
    assert judge_known_outcomes(np.ones(1), np.array([0.4])).verdict == "go"


def test_the_worst_ground_is_the_verdict():
    grounds = judge_source_outcomes(np.zeros(50)), None
    assert worst("go", *grounds) == "too few to say"
    assert worst("stop", *grounds) == "stop"
    assert worst("caution") == "caution"
