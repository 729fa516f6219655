"""The bars of a pair, on numbers that are known."""

from __future__ import annotations

import pytest

from flows.benchmarks.pairs import Pair
from flows.benchmarks.results import Estimate
from flows.benchmarks.table_one import ORACLE, Judged, judged_results
from tdrop.evaluate import Evaluation
from tdrop.evaluate.records import Row
from tdrop.home.store import Ref
from tdrop.runs import TransferSettings

AUROCS = {"mlp": 0.70, "tdnr": 0.74, "transductive_dropout": 0.71, "gradient_boosting": 0.90, ORACLE: 0.95}


@pytest.fixture
def judged():
    rows = tuple(Row("x", name, "all", "auroc", value, value - 0.1, value + 0.1, 50) for name, value in AUROCS.items())
    evaluation = Evaluation("x", (0, 1), 60, 50, 20, {}, rows)
    nowhere = Ref("x", "x", "x")
    return Judged(Pair("x", "X to Y (simulated)", nowhere, nowhere), evaluation, Estimate(0.01, -0.02, 0.04), 0.03)


def test_only_networks_are_the_measure_of_a_network(judged):
    bars = judged_results("x", "X", "", [judged], TransferSettings()).tables[-1]
    assert bars.caption.startswith("Simulated pairs")
    row = bars.rows[0]
    assert row["best neural method"] == "TDNR"
    assert row["test AUROC behind the best neural method"].value == pytest.approx(0.03)
    assert (row["patients"], row["seeds"], row["lambda chosen"]) == (50, 2, 0.03)


def test_the_table_says_on_whom_and_what_the_paper_printed(judged):
    table = judged_results("x", "X", "", [judged], TransferSettings(), printed={"mlp": "0.720"}).tables[0]
    assert "simulated" in table.caption
    assert "50 target patients with known outcome, 20 with the outcome; mean over 2 seed(s)" in table.caption
    printed = [list(row.values())[-1] for row in table.rows]
    assert printed == ["0.720", *["not in the paper"] * 4]
    assert table.rows[-1]["method"] == "Oracle (true risk)"
    assert str(table.rows[0]["error AUROC by sd"]) == "n/a"


def test_key_numbers_leave_out_what_does_not_exist(judged):
    found = judged_results("x", "X", "", [judged], TransferSettings()).metrics
    assert found["x_tdnr_auroc"] == 0.74
    assert found["x_difference_low"] == -0.02
    assert not any(name.endswith("error_auroc_sd") for name in found)
