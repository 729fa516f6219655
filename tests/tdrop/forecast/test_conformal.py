"""Prediction sets keep their word under covariate shift, and are refused where they could not."""

from __future__ import annotations

import numpy as np
import pytest

from tdrop.base import DataError
from tdrop.forecast import conformal_sets, summarise_sets


def _site(shift: float, concept: float = 0.0, rows: int = 4_000, seed: int = 0):  # type: ignore[no-untyped-def]
    generator = np.random.default_rng(seed)
    x, z = generator.normal(size=rows), generator.normal(shift, 1, size=rows)
    risks = [1 / (1 + np.exp(-2 * one)) for one in (x, z)]
    y = (generator.random(rows) < risks[0]).astype(float)
    later = (generator.random(rows) < 1 / (1 + np.exp(-2 * z - concept))).astype(float)
    weights = [np.exp(shift * one - shift**2 / 2) for one in (x, z)]
    return (risks[0], y, weights[0], risks[1], weights[1]), later


def test_each_class_is_covered_under_covariate_shift() -> None:
    evidence, later = _site(1.0)
    found = summarise_sets("a", evidence, alpha=0.1, outcomes=later)
    assert found.covered_without == pytest.approx(0.9, abs=0.03)
    assert found.covered_outcome == pytest.approx(0.9, abs=0.03)
    assert found.known == ((later == 0).sum(), (later == 1).sum())
    assert found.only_without + found.only_outcome + found.unsure == len(later)


@pytest.mark.parametrize(
    "score",
    [
        pytest.param(lambda risk: risk, id="right"),
        pytest.param(lambda risk: risk**3 / (risk**3 + (1 - risk) ** 3), id="too extreme"),
        pytest.param(lambda risk: 0.4 + 0.1 * risk, id="too timid"),
        pytest.param(lambda risk: risk.round(1), id="ties"),
        pytest.param(lambda risk: (risk > 0.5).astype(float), id="two values"),
    ],
)
def test_each_class_is_covered_whatever_the_score_is_like(score) -> None:  # type: ignore[no-untyped-def]
    """As long as source and target patients are scored alike."""
    covered = []
    for seed in range(25):
        (source, y, weights, target, own), later = _site(0.7, rows=1_000, seed=seed)
        sets = summarise_sets("a", (score(source), y, weights, score(target), own), outcomes=later)
        covered.append((sets.covered_without, sets.covered_outcome))
    assert (np.mean(covered, axis=0) >= 0.88).all()
    assert (np.mean(covered, axis=0) <= 0.92).all()


def test_a_patient_gets_the_same_set_in_any_order_and_company() -> None:
    (source, y, weights, target, own), _ = _site(0.5, rows=1_000)
    ids = np.array([f"p{number}" for number in range(len(target))])
    whole = conformal_sets(source.round(1), y, weights, target.round(1), own, ids=ids)
    some = np.random.default_rng(0).permutation(len(target))[:300]
    part = conformal_sets(source.round(1), y, weights, target.round(1)[some], own[some], ids=ids[some])
    assert np.array_equal(part.without, whole.without[some])
    assert np.array_equal(part.outcome, whole.outcome[some])
    # Equal risks and weights are told apart by the id alone.
    assert 0 < conformal_sets(source.round(0), y, weights, np.full(9, 1.0), np.ones(9)).without.sum() < 9


def test_weights_are_what_keeps_the_promise() -> None:
    (source, y, weights, target, own), later = _site(1.5)
    plain = conformal_sets(source, y, np.ones_like(weights), target, np.ones_like(own))
    weighted = conformal_sets(source, y, weights, target, own)
    positive = later == 0
    assert abs(weighted.without[positive].mean() - 0.9) < abs(plain.without[positive].mean() - 0.9)


def test_a_concept_shift_breaks_it_and_the_audit_shows() -> None:
    evidence, later = _site(0.0, concept=3.0)
    found = summarise_sets("a", evidence, outcomes=later)
    assert found.covered_outcome is not None
    assert found.covered_outcome < 0.8


def test_a_patient_unlike_all_others_gets_both_classes() -> None:
    (source, y, weights, target, own), _ = _site(0.0)
    own = own.copy()
    own[0] = 1e9
    sets = conformal_sets(source, y, weights, target, own)
    assert sets.without[0] == sets.outcome[0]


def test_too_few_effective_patients_promise_nothing() -> None:
    evidence, _ = _site(0.0, rows=60)
    found = summarise_sets("a", evidence)
    assert found.refused == 50
    assert found.effective_n[0] < 50
    with pytest.raises(DataError, match="need 50 effective source patients of each class"):
        conformal_sets(*evidence)
