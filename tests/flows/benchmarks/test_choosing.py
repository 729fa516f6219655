"""The measurement behind the default criterion: its arithmetic, and what it is measured on."""

from __future__ import annotations

import numpy as np
import pytest

from flows.benchmarks import choosing, problems
from flows.benchmarks.choosing_tables import Measurement, Scored, regret_table, tuned_table
from tdrop.data.families import SHAPES


def measured(problem, seed, chosen):
    figures = {"a": (0.70, 0.20), "b": (0.80, 0.15), "mlp": (0.99, 0.01)}
    scores = {name: Scored(name != "mlp", None, None, None, *pair, 0.01, 0.02) for name, pair in figures.items()}
    return Measurement(problem, problem, seed, "go", None, None, scores, {"importance_weighted": chosen})


def test_regret_is_what_the_best_candidate_does_better_and_every_problem_counts_once():
    table = regret_table([measured("x", 0, "a"), measured("x", 1, "b"), measured("y", 0, "b")])
    overall, first, second = table.rows
    assert (first["AUROC regret"].value, first["log-loss regret"].value) == pytest.approx((0.05, 0.025))
    assert (second["AUROC regret"].value, second["log-loss regret"].value) == pytest.approx((0, 0))
    assert overall["AUROC regret"].value == pytest.approx(0.025)
    assert overall["AUROC regret, worst"].value == pytest.approx(0.05)
    assert overall["AUROC regret, by halves"].value == pytest.approx(0.01)
    assert (overall["problems"], overall["runs"]) == (2, 3)
    assert "| all | importance_weighted | 2 | 3 | 0.0250 | 0.0500 |" in table.markdown()


def test_what_tuning_gains_is_taken_where_a_method_has_settings():
    def tuned(auroc, default):
        measures = [{"AUROC": each, "log loss": 1 - each, "error AUROC by sd": None} for each in (auroc, default)]
        scores = {
            "mlp": Scored(False, None, None, None, auroc, 0.3, 0.0, 0.0, *measures),
            "committee": Scored(True, None, None, None, 0.8, 0.3, 0.0, 0.0),
        }
        return Measurement("x", "fifth collection", 0, "go", None, None, scores, {"importance_weighted": "committee"})

    rows = tuned_table([tuned(0.7, 0.6), tuned(0.6, 0.6)]).rows
    assert [row["family"] for row in rows][-1] == "fifth collection, not stopped"
    assert {row["method"] for row in rows} == {"MLP"}
    assert rows[0]["AUROC"].value == pytest.approx(0.05)
    assert (rows[0]["AUROC, worst"], rows[0]["other settings than the defaults"], rows[0]["n"]) == (0.0, 1, 2)


def test_the_problems_cover_every_family():
    listed = problems.list_problems()
    families = {"simulator", "hard simulator", "extrapolation", *SHAPES, "real", "judging", "judging, simulated"}
    families |= {f"{name} collection" for name in ("third", "fourth", "fifth")}
    assert {problem.family for problem in listed} == families
    names = [problem.name for problem in (*problems.quick_problems(), *listed, *problems.further_pairs())]
    assert len(set(names)) == len(names)
    assert [problem.seeds for problem in listed if problem.family == "simulator"] == [10, 10, 10]


def test_labels_of_the_target_choose_nothing(monkeypatch):
    problem = problems.quick_problems()[1]
    source, target = (cohort.take(np.arange(200)) for cohort in problem.make(0))
    found = []
    for y in (target.y, 1 - target.y):
        turned = problems.Problem(
            "x", "y", lambda seed, y=y: (source, type(target)("t", target.ids, target.features, target.X, y)), 1
        )
        monkeypatch.setattr(choosing, "find_problem", lambda name, turned=turned: turned)
        found.append(choosing.measure("x", 0, ("logistic_regression",), 1))
    assert found[0].chosen == found[1].chosen
    seen = [[each.importance_weighted for each in one.scores.values()] for one in found]
    assert seen[0] == seen[1]
    assert found[0].scores["logistic_regression"].auroc == pytest.approx(
        1 - found[1].scores["logistic_regression"].auroc, abs=1e-6
    )
