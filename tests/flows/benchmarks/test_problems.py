"""The problems themselves: what is drawn, and that no target label is where training looks."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from flows.benchmarks import extrapolation, paired, prostate, prostate_hard, toy, uci
from flows.benchmarks.pairs import draw_pair, fixed_trial
from tdrop.home.files import load_cohort
from tdrop.home.place import Place
from tdrop.metrics import auroc


def test_the_largest_class_is_positive_and_iris_is_versicolor():
    assert [int(uci.load(name)[1].sum()) for name in uci.DATASETS] == [357, 50, 71]


@pytest.mark.parametrize("weights", uci.WEIGHTS)
@pytest.mark.parametrize("dataset", list(uci.DATASETS))
def test_a_test_set_is_a_fifth_shifted_along_the_component_and_seeded(dataset, weights):
    X, _ = uci.load(dataset)
    test = uci.draw_test(X, weights, 0)
    assert test.sum() == round(0.2 * len(X))
    assert np.array_equal(test, uci.draw_test(X, weights, 0))
    assert not np.array_equal(test, uci.draw_test(X, weights, 1))
    standard = (X - X.mean(axis=0)) / X.std(axis=0)
    component = standard @ np.linalg.svd(standard, full_matrices=False)[2][0]
    shifts = [
        abs(component[each].mean() - component[~each].mean())
        for each in (uci.draw_test(X, weights, split) for split in range(20))
    ]
    assert np.mean(shifts) / component.std() > (0.7 if weights == "softmax" else 0.2)


def test_the_toy_measures_count_the_truth_as_covered_only_inside_the_interval():
    from tdrop.data.families import toy_truth

    truth = toy_truth(toy.GRID)
    high, none = np.where(toy.GRID > 11, truth - 0.5, truth + 1), np.zeros(0)
    found = toy.Curve(truth, truth - 1, high, none, none, none, {})
    measured = toy.measure(found)
    assert (measured["coverage, source-dense"], measured["coverage, target-only"]) == (1.0, 0.0)
    assert measured["width, source-dense"] == pytest.approx(2.0)
    assert measured["rmse, source-dense"] == 0.0
    ratios = toy.ratio_of_means([found], [replace(found, high=truth + 3)])
    assert [estimate.value for estimate in ratios.values()] == [0.0, pytest.approx(0.5)]


def test_the_oracle_is_the_risk_that_outcomes_were_drawn_from():
    source, target, risk = prostate.draw("severe", 500, 3000, "prostate", truncated=True, hidden=False, seed=0)
    age = source.features.index("age")
    assert source.X[:, age].max() <= 70 < target.X[:, age].max()
    assert risk.mean() == pytest.approx(target.y.mean(), abs=0.02)
    assert auroc(target.y, risk) == pytest.approx(0.764, abs=0.03)


def test_hidden_treatment_hides_it_at_both_sites():
    source, target, _ = prostate.draw("moderate", 300, 300, "all_cause", truncated=False, hidden=True, seed=0)
    for cohort in (source, target):
        assert not cohort.X[:, cohort.features.index("treatment=hormone")].any()
        assert not cohort.X[:, cohort.features.index("comorbidity")].any()


def test_the_hard_versions_cover_both_outcomes_and_every_difficulty():
    versions = prostate_hard.VERSIONS
    assert {version.outcome for version in versions} == {"prostate", "all_cause"}
    assert any(version.truncated for version in versions)
    assert any(version.hidden for version in versions)
    assert min(version.source_rows for version in versions) == 2000
    assert all("imulated" in version.title for version in (*versions, *prostate.VERSIONS))
    assert (prostate.SOURCE_ROWS, prostate.TARGET_ROWS) == (240_486, 10_086)


def test_a_drawn_pair_keeps_the_targets_labels_where_no_training_looks(tmp_path):
    place = Place.at(tmp_path)
    options = {"seed": 1, "rows": 100, "sharp": 5.0, "target_mean": 1.2}
    pair = draw_pair(place, "x", "x (simulated)", extrapolation.draw, options)
    assert load_cohort(pair.encoded.path / "target.npz").y is None
    assert load_cohort(pair.encoded.path / "source.npz").y is not None
    drawn = extrapolation.draw(**options)
    assert np.array_equal(pair.outcomes(), drawn[1].y)
    assert np.allclose(pair.oracle().mean, drawn[2])
    assert pair.truth.folder != pair.encoded.folder


def test_fixed_settings_reach_the_refit():
    from tdrop.methods import build

    trial = fixed_trial("transductive_dropout", {"steps": 7, "lambda_": 0.1})
    settings = build("transductive_dropout", **trial.settings).settings()
    assert (settings["steps"], settings["lambda_"]) == (7, 0.1)
    assert fixed_trial("logistic_regression", {}).steps == 200


def test_errors_left_are_counted_among_those_not_referred():
    from tdrop.base import Summary

    y = np.array([1.0, 0.0, 0.0, 1.0, 0.0])
    risk = np.array([0.1, 0.9, 0.2, 0.8, 0.3], np.float32)
    sd = np.array([0.9, 0.1, 0.2, 0.3, 0.4], np.float32)
    summary = Summary(risk, sd, (0.95,), risk[None], risk[None], passes=10)
    assert paired.error_left(y, summary) == pytest.approx(1 / 4)
    assert paired.error_left(y, Summary(risk, sd, (0.95,), risk[None], risk[None], passes=1)) is None
