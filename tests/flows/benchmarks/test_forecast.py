"""What the benchmark of forecasts measures, on a pair whose truth is known."""

from __future__ import annotations

import numpy as np
import pytest

from flows.benchmarks.forecast import Judged, misses
from flows.benchmarks.forecast_labels import SIZES, WAYS, label_rows
from flows.benchmarks.forecast_pairs import Gathered
from tdrop.forecast import QUANTITIES


@pytest.fixture(scope="module")
def pair() -> Gathered:
    generator = np.random.default_rng(0)
    source, target = generator.normal(-0.5, 1.3, 600), generator.normal(0.0, 1.3, 600)
    risks = [np.stack([1 / (1 + np.exp(-(score + shift))) for shift in (0.0, 0.2)]) for score in (source, target)]
    outcomes = [(generator.random(600) < risk[0]).astype(float) for risk in risks]
    return Gathered("pair", "further", ("a", "b"), risks[0], outcomes[0], np.ones(600), risks[1], outcomes[1])


def test_labels_are_measured_for_every_size_and_way(pair: Gathered) -> None:
    found = {(one.n, one.way): one for one in label_rows(pair, 0.3, dict.fromkeys(QUANTITIES, 0.05), draws=15)}
    assert set(found) == {(n, way) for n in SIZES for way in WAYS}
    fifty = {way: found[50, way] for way in WAYS}
    assert fifty["chosen"].half_width < fifty["random"].half_width
    assert fifty["chosen and forecast"].half_width < fifty["chosen"].half_width
    # Nothing unbiased is narrower than the bound; an estimated width scatters about it.
    assert fifty["chosen"].half_width > 0.95 * fifty["chosen"].least
    assert min(one.covered for one in fifty.values()) >= 0.7


def test_tau_is_fitted_without_the_pair_at_hand() -> None:
    judged = [
        Judged(pair, "real", method, method == "a", {}, (0.7,) * 5, (0.01,) * 5, (seen,) * 5, 0.02, 1.0)
        for pair, seen in (("one", 0.7), ("two", 0.9))
        for method in ("a", "b")
    ]
    (errors,), (spreads,) = misses(judged, 0, without="two")
    assert errors.tolist() == [0.0, 0.0]
    assert spreads.tolist() == [0.01, 0.01]
    assert len(misses(judged, 0)[0]) == 2
