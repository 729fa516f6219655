"""A drop split into parts whose truth is known."""

from __future__ import annotations

import numpy as np
import pytest

from tdrop.base import DataError
from tdrop.forecast import split_drop


def _split(shift: float, concept: float, seed: int, rows: int = 1_500):  # type: ignore[no-untyped-def]
    """A model that reads sigmoid(x - 1); the target's patients move by shift, its outcomes' logit by concept."""
    generator = np.random.default_rng(seed)
    x = generator.normal(size=rows), generator.normal(shift, 1, size=rows)
    losses, chance = [], []
    for values, moved in zip(x, (0.0, concept), strict=True):
        risk = 1 / (1 + np.exp(-(values - 1)))
        y = generator.random(rows) < 1 / (1 + np.exp(-(values - 1 + moved)))
        losses.append(-np.log(np.where(y, risk, 1 - risk)))
        chance.append(1 / (1 + np.exp(-(shift * values - shift**2 / 2))))
    return split_drop((losses[0], losses[1]), (chance[0], chance[1]), resamples=200, seed=seed)


def _covers_nothing(part) -> bool:  # type: ignore[no-untyped-def]
    return bool(part.low <= 0 <= part.high)


def test_the_parts_add_up() -> None:
    found = _split(0.8, 1.0, seed=0)
    assert found.patients.value + found.outcomes.value == pytest.approx(found.target - found.source, abs=1e-12)
    assert found.patients.value == pytest.approx(found.towards_shared + found.from_shared, abs=1e-12)


def test_a_pure_shift_of_patients_leaves_the_outcomes_alone() -> None:
    found = [_split(1.0, 0.0, seed) for seed in range(20)]
    assert sum(_covers_nothing(one.outcomes) for one in found) >= 17
    assert not any(_covers_nothing(one.patients) for one in found)


def test_a_pure_shift_of_outcomes_leaves_the_patients_alone() -> None:
    found = [_split(0.0, 1.5, seed) for seed in range(20)]
    assert sum(_covers_nothing(one.patients) for one in found) >= 17
    assert not any(_covers_nothing(one.outcomes) for one in found)


def test_sites_of_unequal_size_are_compared_as_equals() -> None:
    generator = np.random.default_rng(0)
    x = generator.normal(size=4_000), generator.normal(1, 1, size=400)
    # The chance of being a target patient among 4,000 and 400; the loss depends on the patient alone.
    chance = [1 / (1 + 10 * np.exp(-(one - 0.5))) for one in x]
    found = split_drop((x[0], x[1]), (chance[0], chance[1]), resamples=100)
    assert _covers_nothing(found.outcomes)
    assert found.towards_shared == pytest.approx(0.5, abs=0.1)


def test_rows_that_stand_for_others_weigh_more() -> None:
    losses = np.zeros(4), np.array([1.0, 0.0])
    chance = np.full(4, 4 / 6), np.full(2, 4 / 6)
    assert split_drop(losses, chance, weights=np.array([3.0, 1.0]), resamples=20).target == pytest.approx(0.75)


def test_losses_of_one_site_only_are_refused() -> None:
    with pytest.raises(DataError, match="both sites"):
        split_drop((np.ones(3), np.ones(0)), (np.ones(3), np.ones(0)))
