"""A batch beside the patients that a model was made for: alike, elsewhere, further away, or too few to say."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest

from tdrop.base import Cohort
from tdrop.served.batches import compare_batch
from tdrop.shift import DomainAuroc, estimate_shift

RECOMMENDED = "a new transfer is recommended"


def people(mean: float, rows: int, seed: int) -> Cohort:
    """Patients whose first feature has this mean."""
    X = np.random.default_rng(seed).normal(size=(rows, 3))
    X[:, 0] += mean
    return Cohort("harbour", np.arange(rows), ("age", "log_psa", "stage"), X)


def said_of(batch: Cohort, target_rows: int = 1000) -> str | None:
    """What is said of a batch by a model made for patients two standard deviations above its source."""
    source, target = people(0, 2000, 0), people(2, target_rows, 1)
    return compare_batch(batch, target, source, far_from_the_source(target_rows)).sentence()


@cache
def far_from_the_source(target_rows: int) -> DomainAuroc | None:
    return estimate_shift(people(0, 2000, 0), people(2, target_rows, 1)).domain_auroc


def test_as_far_from_the_source_in_another_direction_calls_for_a_new_transfer() -> None:
    said = said_of(people(-2, 600, 2))
    assert said is not None
    assert said.startswith("these 600 patients are not like the 1,000 that the model was made for (AUROC 1.00, ")
    assert RECOMMENDED in said


def test_further_from_the_source_calls_for_a_new_transfer() -> None:
    said = said_of(people(3, 600, 2))
    assert said is not None
    assert said.startswith("these 600 patients differ from the source more (AUROC 0.98, ")
    assert "than the 1,000 that the model was made for (0.92)" in said
    assert RECOMMENDED in said


def test_a_noticeable_difference_is_said_and_no_more() -> None:
    said = said_of(people(1, 600, 2))
    assert said is not None
    assert said.startswith("these 600 patients differ noticeably from the 1,000 that the model was made for (AUROC 0.7")
    assert RECOMMENDED not in said


@pytest.mark.parametrize("rows", [400, 20_000])
def test_the_same_population_calls_for_nothing_at_any_size(rows: int) -> None:
    assert said_of(people(2, rows, 2)) is None


def test_too_few_patients_are_said_to_be_too_few() -> None:
    said = said_of(people(2, 100, 2), target_rows=90)
    assert said is not None
    assert said.startswith("these 100 patients and the 90 that the model was made for are too few to say")
    assert RECOMMENDED not in said
