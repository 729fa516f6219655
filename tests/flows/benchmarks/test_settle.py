"""Settling defaults: what is tried, and when a change wins."""

from __future__ import annotations

import numpy as np
import pytest

from flows.benchmarks import settle
from flows.benchmarks.results import Estimate
from tdrop.base import Cohort
from tdrop.methods import build, method_names


@pytest.mark.parametrize("method", method_names())
def test_every_change_is_one_setting_that_differs_from_the_default(method):
    changes = settle.changes_of(method)
    assert len(changes) >= 2
    for name, value in changes:
        assert build(method, **{name: value}).settings()[name] == value != build(method).settings()[name]


@pytest.mark.parametrize(
    ("difference", "expected"),
    [
        (Estimate(-0.01, -0.02, -0.001), True),
        (Estimate(-0.01, -0.02, 0.001), False),
        (Estimate(-0.001, -0.0015, -0.0005), False),
        (Estimate(0.01, 0.005, 0.02), False),
        (Estimate(None), False),
    ],
)
def test_a_change_wins_by_its_mean_and_its_interval(difference, expected):
    assert settle.wins(difference) is expected


def test_no_outcome_of_the_target_is_read(monkeypatch):
    generator = np.random.default_rng(0)
    X = generator.normal(size=(90, 2))
    y = (generator.random(90) < 0.5).astype(float)
    found = []
    for labels in (None, y, 1 - y):
        target = Cohort("target", np.arange(90), ("a", "b"), X, labels)
        pair = (Cohort("source", np.arange(90), ("a", "b"), X, y), target)
        monkeypatch.setattr(settle, "PROBLEMS", {"one": lambda pair=pair: pair})
        unit = {"problem": "one", "changes": [("steps", 3)], "base": {"steps": 2, "hidden": [4]}, "folds": 1}
        found.append(settle.measure(method="transductive_ensemble", **unit))
    assert found[0] == found[1] == found[2]
    assert found[0].changed[0] != found[0].default


def test_a_row_says_what_a_change_costs_over_the_sources():
    changed = (0.5,) * len(settle.changes_of("mlp"))
    row = settle.change_rows("mlp", [settle.Tried(0.4, changed), settle.Tried(0.6, changed)])[0]
    assert (row["setting"], row["default"], row["changed to"]) == ("steps", "160", "80")
    assert row["log loss"].value == pytest.approx(0.0)
    assert row["worst"] == pytest.approx(0.1)
    assert row["wins"] is False
