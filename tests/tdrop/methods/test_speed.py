"""Memory that must stay bounded, work that is shared, and the page that names every setting."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from method_cases import fit_quick

from benchmarks import speed
from tdrop.methods import build
from tdrop.methods.parts import fitted as fitted_parts
from tdrop.methods.parts.network import Shape


@pytest.mark.parametrize("name", ["transductive_dropout", "ensemble", "gradient_boosting"])
def test_summaries_do_not_depend_on_the_chunks(name, monkeypatch):
    fitted, X = fit_quick(name), np.random.default_rng(0).normal(size=(500, 3))
    whole = fitted.summarise(X, 20, seed=0)
    monkeypatch.setattr(fitted_parts, "SAMPLES_AT_ONCE", 20 * 130)
    parts = fitted.summarise(X, 20, seed=0)
    for part in ("mean", "sd", "low", "high"):
        assert np.array_equal(getattr(whole, part), getattr(parts, part))


def test_a_summary_of_many_rows_holds_little_memory():
    # The hidden layer of all rows and passes at once would take 300 MB.
    measured = speed.measure_memory(rows=6_000, passes=100, names=["transductive_dropout"])
    assert {row["unit"] for row in measured} == {"MB extra", "s"}
    assert all(row["value"].value < 150 for row in measured if row["unit"] == "MB extra")


def test_the_body_of_last_layer_is_shared_by_all_passes():
    network = build("last_layer").network(Shape(3, 10), torch.Generator().manual_seed(0))
    assert [weight.dim() for weight in network.draw(7, seed=0)] == [2, 2, 3]
