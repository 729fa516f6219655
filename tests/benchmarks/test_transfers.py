"""The study of transfers: regret, forecasts and rows, on numbers that are known; labels choose nothing."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from benchmarks.paired import MEASURES
from benchmarks.placebos import (
    ABLATION,
    CONSTANT,
    ITSELF,
    PERMUTED,
    SOURCE_AS_TARGET,
    measure_rows,
    placebo_tables,
)
from benchmarks.problems import draw
from benchmarks.transfers import estimators_table, frame_of, gain_table, intervals_table, measure_sides, regret_table
from tdrop.forecast import ESTIMATORS, QUANTITIES


def measured(chosen, seen=0.7):
    figures = {"tdnr": (0.70, 0.20), "ensemble": (0.80, 0.15), "mlp": (0.99, 0.01)}
    numbers = {f"AUROC by {estimator}": 0.7 for estimator in ESTIMATORS} | {"chance": 0.02, "verdict": "go"}
    for quantity in QUANTITIES:
        numbers |= {f"{quantity}, forecast": 0.7, f"{quantity}, low": 0.6, f"{quantity}, high": 0.8}
        numbers[f"{quantity}, observed"] = seen
    return [
        {
            **numbers,
            "method": name,
            "candidate": name != "mlp",
            "AUROC": auroc,
            "log loss": loss,
            "rules": ["importance_weighted"] if name == chosen else [],
        }
        for name, (auroc, loss) in figures.items()
    ]


def test_regret_is_what_the_best_candidate_does_better():
    table = regret_table(frame_of({("third", "x"): measured("tdnr"), ("fourth", "y"): measured("ensemble")}))
    rows = {row["family"]: row for row in table.rows}
    assert (rows["third"]["AUROC regret"].value, rows["third"]["log-loss regret"].value) == pytest.approx((0.1, 0.05))
    assert rows["fourth"]["AUROC regret"].value == 0
    assert rows["all"]["AUROC regret"].value == pytest.approx(0.05)
    assert rows["all"]["AUROC regret, worst"].value == pytest.approx(0.1)
    assert rows["third to fifth, not stopped"]["n"] == 2


def test_gains_are_those_over_logistic_regression():
    reference = {**measured("tdnr")[0], "method": "logistic_regression", "AUROC": 0.6, "log loss": 0.3}
    table = gain_table(frame_of({("third", "x"): [*measured("tdnr"), reference]}))
    row = next(row for row in table.rows if row["method"] == "MLP")
    assert (row["log loss"].value, row["AUROC"].value) == pytest.approx((-0.29, 0.39))


def test_forecasts_are_held_against_what_was_observed():
    tuned = frame_of({("third", "x"): measured("tdnr"), ("third", "y"): measured("tdnr", seen=0.9)})
    intervals = intervals_table(tuned).rows
    assert [row["covered"].value for row in intervals] == [0.5] * len(QUANTITIES)
    assert intervals[0]["half-width"] == pytest.approx(0.1)
    assert estimators_table(tuned).rows[0]["mean absolute error"] == pytest.approx(0.1)


def test_collections_are_also_shown_together():
    gains = {"first": 0.0, "second": -0.01, "fifth": -0.03}
    rows = {
        (family, "x"): {row: dict.fromkeys(MEASURES, 0.5 + gain * (row == ITSELF)) for row in (ITSELF, ABLATION)}
        for family, gain in gains.items()
    }
    pooled = {
        row["family"]: row
        for row in placebo_tables({"transductive_dropout": rows})[0].rows
        if row["row"] == "Transductive dropout minus TDNR"
    }
    assert pooled["first to fifth"]["n"] == 3
    assert pooled["second to fifth"]["log loss"].value == pytest.approx(-0.02)
    assert pooled["second to fifth"]["log loss, lower / higher"] == "2 / 0"


def test_labels_of_the_target_choose_and_forecast_nothing():
    sides = draw("curved 400", quick=True)
    turned = replace(sides, outcomes=1 - sides.outcomes)
    first, second = (
        measure_sides(one, ("mc_dropout", "logistic_regression"), 1, quick=True) for one in (sides, turned)
    )
    for row, other in zip(first, second, strict=True):
        from_outcomes = {"AUROC", "log loss", "chance"} | {name for name in row if "observed" in name}
        assert {name: row[name] for name in row.keys() - from_outcomes} == {
            name: other[name] for name in other.keys() - from_outcomes
        }
    (own, other) = (next(row for row in rows if row["method"] == "logistic_regression") for rows in (first, second))
    assert own["AUROC"] == pytest.approx(1 - other["AUROC"], abs=1e-6)
    assert np.isfinite(own["AUROC"])


def test_a_placebo_knows_nothing_of_where_the_target_is():
    measured = measure_rows("curved 400", "transductive_dropout", seed=0, quick=True)
    assert measured[SOURCE_AS_TARGET]["width of the intervals"] != measured[ITSELF]["width of the intervals"]
    # Doubt that moves between patients leaves each one's middle, and equal doubt ranks as p(1-p) does.
    for row in (PERMUTED, CONSTANT):
        assert measured[row]["AUROC"] == pytest.approx(measured[ITSELF]["AUROC"], abs=0.02)
        assert measured[row]["error AUROC by sd"] != measured[ITSELF]["error AUROC by sd"]
    constant = measured[CONSTANT]
    assert constant["error AUROC by sd"] == pytest.approx(constant["error AUROC by p(1-p)"], abs=1e-3)
