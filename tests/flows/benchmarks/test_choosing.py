"""The measurement behind the default criterion: its arithmetic, and that labels come last."""

from __future__ import annotations

import json

import pytest

from flows.benchmarks import choosing
from tdrop.data.families import SHAPES


def measured(problem, seed, chosen, target):
    return {
        "problem": problem,
        "family": problem,
        "seed": seed,
        "candidates": ["a", "b"],
        "chosen": {"importance_weighted": chosen},
        "target": {name: {"auroc": pair[0], "log_loss": pair[1]} for name, pair in target.items()},
    }


def test_regret_is_what_the_best_candidate_does_better_and_every_problem_counts_once():
    target = {"a": (0.70, 0.20), "b": (0.80, 0.15), "mlp": (0.99, 0.01)}
    runs = [measured("x", 0, "a", target), measured("x", 1, "b", target), measured("y", 0, "b", target)]
    summary = choosing.summarise(runs)
    overall, first, second = summary["regret"]
    assert (first["auroc"], first["log_loss"]) == (pytest.approx(0.05), pytest.approx(0.025))
    assert (second["auroc"], second["log_loss"]) == (pytest.approx(0), pytest.approx(0))
    assert overall["auroc"] == pytest.approx(0.025)
    assert overall["auroc_worst"] == pytest.approx(0.05)
    assert (overall["problems"], overall["runs"]) == (2, 3)
    page = choosing.as_markdown(summary)
    assert "| all | importance_weighted | 2 | 3 | 0.0250 |" in page
    assert page.endswith("How often each method was chosen: b 2, a 1.\n")


def test_the_problems_cover_every_family():
    problems = choosing.list_problems()
    families = {"simulator", "hard simulator", "extrapolation", *SHAPES, "real", "judging", "judging, simulated"}
    assert {problem.family for problem in problems} == families
    assert len({problem.name for problem in problems}) == len(problems)
    assert [problem.seeds for problem in problems if problem.family == "simulator"] == [10, 10, 10]


def test_a_quick_run_writes_its_results_and_continues_where_it_stopped(tmp_path, monkeypatch):
    monkeypatch.setattr(choosing, "QUICK_METHODS", ("mlp", "logistic_regression", "last_layer"))
    summary = choosing.run(tmp_path, quick=True)
    assert json.loads((tmp_path / "choosing.json").read_text()) == summary
    rules = {row["rule"] for row in summary["regret"]}
    assert {"importance_weighted", "matched_validation", "always last_layer"} <= rules
    assert "always mlp" not in rules
    monkeypatch.setattr(choosing, "measure", None)
    assert choosing.run(tmp_path, quick=True) == summary
