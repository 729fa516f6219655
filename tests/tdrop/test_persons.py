"""Rows of one person stay together wherever rows are dealt or drawn; without persons nothing changes."""

from __future__ import annotations

import pickle
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from tdrop.base import Cohort, DataError, Summary, count_persons, deal_persons, draw_persons
from tdrop.choose import Losses, deal_folds, predict_folds
from tdrop.contracts import Decision
from tdrop.evaluate import evaluate_methods
from tdrop.home import load_cohort, save_cohort
from tdrop.methods import build
from tdrop.metrics import auroc
from tdrop.shift import propensity


def repeated(persons: int = 120, rows: int = 4, seed: int = 0) -> Cohort:
    """Each person has nearly the same features in every row and an outcome that nothing else tells."""
    generator = np.random.default_rng(seed)
    person = np.repeat(np.arange(persons), rows)
    X = generator.normal(size=(persons, 4))[person] + generator.normal(0, 0.01, size=(persons * rows, 4))
    y = generator.integers(0, 2, persons)[person]
    order = generator.permutation(len(person))
    names = tuple(f"x{place}" for place in range(4))
    return Cohort("here", np.arange(len(person)), names, X[order], y[order], persons=person[order])


def boosted(source: Cohort) -> float:
    """AUROC of boosting on rows it was not fitted on."""
    method = build("gradient_boosting", refits=1, steps=60)
    found = predict_folds(method, source, source.unlabelled(), deal_folds(source, seed=0), (0, 1, 2), seed=0)
    assert source.y is not None
    return auroc(source.y[found.rows], found.risk) or 0.0


def test_knowing_people_by_heart_does_not_look_good() -> None:
    source = repeated()
    assert boosted(replace(source, persons=None)) > 0.85
    assert 0.35 < boosted(source) < 0.65


def test_folds_hold_whole_persons_and_about_as_many_rows_and_outcomes() -> None:
    generator = np.random.default_rng(1)
    persons = generator.integers(0, 400, 1500)
    y = (generator.random(1500) < 0.3).astype(np.float64)
    fold = deal_persons(persons, 3, np.random.default_rng(0), y)
    assert all(len(np.unique(fold[persons == person])) == 1 for person in np.unique(persons))
    events, rows = np.bincount(fold, y), np.bincount(fold)
    assert np.ptp(events) <= 6
    assert np.ptp(rows) <= 60


def test_the_numbers_of_persons_do_not_matter() -> None:
    source = repeated()
    assert source.persons is not None
    fold = deal_folds(source, seed=0)[1]
    # Another number for everybody, in the same order; then any others at all: whoever belongs together stays so.
    renamed = replace(source, persons=source.persons * 7 + 100)
    assert np.array_equal(deal_folds(renamed, seed=0)[1], fold)
    shuffled = source.take(np.random.default_rng(5).permutation(len(source)))
    for other in (replace(source, persons=-source.persons), shuffled):
        assert other.persons is not None
        again = deal_folds(other, seed=0)[1]
        assert len(np.unique(np.stack([other.persons, again]), axis=1).T) == count_persons(source.persons)


def test_without_persons_the_folds_are_what_they_were() -> None:
    y = np.tile([1, 0, 0], 6)
    source = Cohort("here", np.arange(18), ("x",), np.zeros((18, 1)), y)
    rows, fold = deal_folds(source, seed=0)
    assert rows.tolist() == list(range(18))
    assert fold.tolist() == [0, 1, 1, 2, 0, 2, 0, 2, 0, 1, 0, 2, 2, 2, 1, 1, 1, 0]


def test_too_few_persons_for_the_folds_are_refused() -> None:
    source = repeated(persons=6, rows=30)
    assert source.persons is not None
    one = replace(source, y=(source.persons == 0).astype(np.float32))
    with pytest.raises(DataError, match="3 folds need at least 3 source patients of each outcome, came fewer of one"):
        deal_folds(one, seed=0)


def test_the_sites_are_told_apart_by_what_does_not_know_people_by_heart() -> None:
    source, target = repeated(seed=1), repeated(seed=2).unlabelled()
    by_row = propensity(replace(source, persons=None), replace(target, persons=None), kind="boosting")
    by_person = propensity(source, target, kind="boosting")
    assert by_row.auroc.value > 0.85
    assert by_person.auroc.value < 0.65


def test_one_person_alone_can_still_be_told_apart() -> None:
    source = repeated()
    alone = replace(repeated(persons=1, rows=8, seed=3), persons=np.zeros(8, dtype=np.int64)).unlabelled()
    assert np.isfinite(propensity(source, alone, kind="logistic").target).all()


def test_a_draw_takes_whole_persons() -> None:
    persons = np.array([3, 3, 3, 9, 9, 4])
    often = draw_persons(persons, np.random.default_rng(0), times=200)
    assert (often[:, 0] == often[:, 1]).all()
    assert (often[:, 3] == often[:, 4]).all()
    assert (often[:, 0] + often[:, 3] + often[:, 5] == 3).all()


def test_intervals_are_wider_where_rows_are_of_few_persons() -> None:
    generator = np.random.default_rng(4)
    persons = np.repeat(np.arange(60), 6)
    y = generator.integers(0, 2, 60)[persons].astype(np.float64)
    mean = np.clip(generator.random(60)[persons], 0.01, 0.99).astype(np.float32)
    summary = Summary(mean, np.zeros_like(mean), (0.95,), mean[None], mean[None], 1)
    widths = []
    for whose in (None, persons):
        found = evaluate_methods("here", {"mlp": [summary]}, y, Decision(), seeds=[0], bootstrap=200, persons=whose)
        row = next(row for row in found.rows if row.metric == "brier" and row.group == "all")
        assert row.low is not None
        assert row.high is not None
        widths.append(row.high - row.low)
    assert widths[1] > 1.7 * widths[0]


def test_what_is_lost_on_rows_of_one_person_counts_once() -> None:
    generator = np.random.default_rng(6)
    own, others = generator.random(150), generator.random(150)
    once, again = Losses.collect(own), Losses.collect(np.repeat(own, 4), persons=np.repeat(np.arange(150), 4))
    assert again.standard_error == pytest.approx(once.standard_error)
    assert Losses.collect(np.repeat(own, 4)).standard_error < 0.6 * once.standard_error
    assert Losses.collect(own, persons=np.arange(150)) == once
    difference = again.compare(Losses.collect(np.repeat(others, 4), persons=np.repeat(np.arange(150), 4)))
    assert difference == pytest.approx(once.compare(Losses.collect(others)))


def test_a_cohort_keeps_its_persons(tmp_path: Path) -> None:
    source = repeated(persons=5)
    assert source.persons is not None
    save_cohort(tmp_path / "source.npz", source)
    for kept in (load_cohort(tmp_path / "source.npz"), pickle.loads(pickle.dumps(source)), source.unlabelled()):
        assert kept.persons is not None
        assert np.array_equal(kept.persons, source.persons)
    taken = source.take(np.array([2, 0]))
    assert taken.persons is not None
    assert taken.persons.tolist() == [source.persons[2], source.persons[0]]
    save_cohort(tmp_path / "none.npz", replace(source, persons=None))
    assert load_cohort(tmp_path / "none.npz").persons is None
    with pytest.raises(DataError, match="20 rows of X but persons of shape"):
        replace(source, persons=np.arange(3))
