"""The simulated populations: where the demo's truth turns, and where it is the published one."""

from __future__ import annotations

import numpy as np

from tdrop.data import simulate
from tdrop.data.simulation import TURN_AGE, TURN_PSA


def test_a_turning_risk_is_the_published_one_but_for_old_men_with_a_high_psa() -> None:
    published, turning = (simulate("severe", 2000, seed=0, truth=truth) for truth in ("published", "turning"))
    beyond = (published["age"] > TURN_AGE) & (published["psa"] > TURN_PSA)
    assert 0.2 < beyond.mean() < 0.8
    assert np.allclose(turning["true_risk"][~beyond], published["true_risk"][~beyond])
    assert (turning["true_risk"][beyond] < published["true_risk"][beyond]).all()
    far = published["psa"] > 3 * TURN_PSA
    assert turning["true_risk"][beyond & far].mean() < turning["true_risk"][beyond & ~far].mean()


def test_few_of_the_source_are_where_the_risk_turns() -> None:
    shares = {
        name: ((drawn["age"] > TURN_AGE) & (drawn["psa"] > TURN_PSA)).mean()
        for name in ("source", "severe")
        for drawn in [simulate(name, 2000, seed=0)]
    }
    assert shares["severe"] > 3 * shares["source"]
