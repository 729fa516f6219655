"""The table of a pair, on numbers that are known, and fits at given settings."""

from __future__ import annotations

import pytest

from benchmarks.problems import Problem, draw
from benchmarks.table_one import ORACLE, fit_methods, methods_table
from tdrop.evaluate import Evaluation
from tdrop.evaluate.records import Row

AUROCS = {"mlp": 0.70, "tdnr": 0.74, "transductive_dropout": 0.71, "gradient_boosting": 0.90, ORACLE: 0.95}


PROBLEM = Problem("x", "X to Y (simulated)", "x", draw)


@pytest.fixture
def evaluation():
    rows = tuple(Row("x", name, "all", "auroc", value, value - 0.1, value + 0.1, 50) for name, value in AUROCS.items())
    return Evaluation("x", (0, 1), 60, 50, 20, {}, rows)


def test_the_table_says_on_whom_and_what_the_paper_printed(evaluation):
    table = methods_table(PROBLEM, evaluation, {"tdnr": 0.1}, {"mlp": "0.720"})
    assert "simulated" in table.caption
    assert "50 target patients with known outcome, 20 with the outcome; mean over 2 seed(s)" in table.caption
    printed = [list(row.values())[-1] for row in table.rows]
    assert printed == ["0.720", *["not in the paper"] * 4]
    assert table.rows[-1]["method"] == "Oracle (true risk)"
    assert str(table.rows[0]["error AUROC by sd"]) == "n/a"
    assert table.rows[1]["error left, 20% referred by sd"] == 0.1


def test_settings_reach_the_fit_and_members_answer_together():
    methods = {"mlp": {"hidden": [4], "steps": 1}, "logistic_regression": {"refits": 3}}
    fits = fit_methods("curved 400", True, methods, members=tuple(methods), seed=0)
    assert list(fits) == ["mlp", "logistic_regression", "committee"]
    assert fits["logistic_regression"].passes == 3
    mean = (fits["mlp"].mean + fits["logistic_regression"].mean) / 2
    assert fits["committee"].mean == pytest.approx(mean, abs=1e-5)
