"""Shift: known truths, hand-checked numbers, and sites about which little can be said."""

from __future__ import annotations

import json
import warnings
from dataclasses import replace

import numpy as np
import pytest
import scenarios
from scipy.stats import wasserstein_distance

from tdrop.base import Cohort, DataError, Feature, UsageError, plain, read
from tdrop.data import simulated_cohort
from tdrop.shift import (
    DomainAuroc,
    Propensity,
    Shift,
    density_ratio_weights,
    effective_n,
    estimate_shift,
    judge_shift,
    match,
    permutation_test,
    propensity,
    unlike_newcomers,
)


def cohort(site: str, **columns) -> Cohort:
    """A cohort from columns by name; "stage=T1" is spelled stage__T1, and psa_missing says where psa was not there."""
    names = tuple(name.replace("__", "=") for name in columns)
    X = np.column_stack(list(columns.values()))
    described = [Feature(name, name.split("=")[0], "level") for name in names if "=" in name]
    described += [Feature("psa_missing", "psa", "missing")]
    return Cohort(site, np.arange(len(X)), names, X, described=tuple(described))


@pytest.mark.parametrize("rows", [200, 2_000, 20_000])
def test_no_shift_says_go_at_any_size(rows):
    source, target = scenarios.no_shift(rows, seed=4)
    shift = estimate_shift(source, target)
    assert shift.verdict == "go"
    assert abs(shift.domain_auroc.value - 0.5) < max(0.003, 1.5 / np.sqrt(rows))
    assert shift.outside_overlap < 0.06
    assert shift.weights_effective_n > 0.8 * rows


def test_simulated_sites_come_out_in_order():
    source = simulated_cohort("source", 8_000, seed=0)
    shifts = [estimate_shift(source, simulated_cohort(name, 4_000, seed=9)) for name in ("mild", "moderate", "severe")]
    aurocs = [shift.domain_auroc.value for shift in shifts]
    # The populations' own figures: .588, .756 and .889.
    assert aurocs == pytest.approx([0.588, 0.756, 0.889], abs=0.02)
    assert [shift.verdict for shift in shifts] == ["go", "caution", "caution"]
    outside = [shift.outside_overlap for shift in shifts]
    assert outside == sorted(outside)
    effective = [shift.weights_effective_n for shift in shifts]
    assert effective == sorted(effective, reverse=True)
    assert {"treatment", "age"} <= {driver.column for driver in shifts[2].drivers[:3]}


def test_a_source_without_the_old_and_the_ill_says_stop():
    source = simulated_cohort("source", 5_000, seed=0, support="truncated")
    shift = estimate_shift(source, simulated_cohort("severe", 2_000, seed=1))
    assert shift.verdict == "stop"
    assert shift.outside_overlap > 0.25


@pytest.mark.parametrize("rows", [30, 200, 2_000])
def test_no_overlap_says_stop(rows):
    shift = estimate_shift(*scenarios.no_overlap(rows, seed=0))
    assert shift.verdict == "stop"
    assert shift.outside_overlap > 0.9
    assert shift.drivers[0].column == "x0"
    assert shift.permutation.p_value == 1 / 500


def test_a_tiny_difference_in_a_huge_sample_is_significant_and_still_go():
    source, target = scenarios.no_shift(30_000, seed=0)
    target = replace(target, X=target.X + 0.15)
    shift = estimate_shift(source, target)
    assert shift.domain_auroc.low > 0.55
    assert shift.permutation.p_value < 0.05
    assert shift.verdict == "go"


def test_standardised_difference_and_distances_by_hand():
    generator = np.random.default_rng(0)
    age, older = generator.normal(60, 8, 500), generator.normal(66, 10, 300)
    stage, later = generator.choice(3, 500, p=[0.5, 0.3, 0.2]), generator.choice(3, 300, p=[0.2, 0.3, 0.5])
    source = cohort("a", age=age, smoker=stage > 0, stage__T1=stage == 0, stage__T2=stage == 1, stage__T3=stage == 2)
    target = cohort("b", age=older, smoker=later > 0, stage__T1=later == 0, stage__T2=later == 1, stage__T3=later == 2)
    by_name = {feature.feature: feature for feature in estimate_shift(source, target).features}
    spread = np.sqrt((age.var() + older.var()) / 2)
    assert by_name["age"].smd == pytest.approx((older.mean() - age.mean()) / spread, rel=1e-4)
    assert by_name["age"].distance == pytest.approx(wasserstein_distance(age, older) / spread, rel=1e-4)
    assert by_name["age"].outside_range == np.mean((older > age.max()) | (older < age.min()))
    p, q = np.mean(stage > 0), np.mean(later > 0)
    assert by_name["smoker"].smd == pytest.approx((q - p) / np.sqrt((p * (1 - p) + q * (1 - q)) / 2), rel=1e-5)
    assert by_name["smoker"].distance == pytest.approx(q - p, rel=1e-5)
    shares = [np.bincount(side, minlength=3) / len(side) for side in (stage, later)]
    total_variation = np.abs(shares[0] - shares[1]).sum() / 2
    for level in ("T1", "T2", "T3"):
        assert by_name[f"stage={level}"].distance == pytest.approx(total_variation, rel=1e-5)
        assert by_name[f"stage={level}"].column == "stage"


def test_a_level_left_out_of_the_encoding_still_counts():
    first, second = np.repeat([0, 1, 2], [50, 30, 20]), np.repeat([0, 1, 2], [20, 30, 50])
    sides = [cohort("s", stage__T2=side == 1, stage__T3=side == 2) for side in (first, second)]
    assert estimate_shift(*sides).features[0].distance == pytest.approx(0.3, rel=1e-5)


def test_missing_values_are_compared_by_their_indicator():
    generator = np.random.default_rng(0)
    sides = []
    for site, share in (("a", 0.1), ("b", 0.4)):
        missing = np.arange(1_000) < share * 1_000
        sides.append(
            cohort(site, psa=generator.normal(size=1_000), psa_missing=missing, age_group=generator.normal(size=1_000))
        )
    psa, indicator, other = estimate_shift(*sides).features
    assert psa.missing_difference == indicator.missing_difference == pytest.approx(0.3)
    assert indicator.kind == "missing"
    assert indicator.column == "psa"
    assert other.missing_difference is None


def test_densities_count_everybody_on_common_edges():
    source, target = scenarios.prostate("severe", 700, seed=0, source_rows=900)
    shift = estimate_shift(source, target)
    for feature in shift.features:
        assert sum(feature.density.source) == 900
        assert sum(feature.density.target) == 700
        assert len(feature.density.edges) == len(feature.density.source) + 1
        assert list(feature.density.edges) == sorted(set(feature.density.edges))
    assert sum(shift.propensity.source) == 900
    assert sum(shift.propensity.target) == 700
    grade = next(feature for feature in shift.features if feature.feature == "grade_group")
    assert grade.density.source == tuple(np.bincount(source.X[:, 2].astype(int))[1:])


def test_permutation_p_values_are_uniform_without_a_shift():
    p_values = [permutation_test(*scenarios.no_shift(60, seed=10 * seed), seed=seed).p_value for seed in range(60)]
    assert 0.35 < np.mean(p_values) < 0.65
    assert np.mean(np.array(p_values) <= 0.1) < 0.25


def test_weights_turn_the_source_into_the_target():
    generator = np.random.default_rng(0)
    source = cohort("a", x=generator.normal(0, 1, 20_000))
    target = cohort("b", x=generator.normal(0.7, 1, 5_000))
    weights = density_ratio_weights(propensity(source, target), cap=None)
    assert np.average(source.X[:, 0], weights=weights) == pytest.approx(0.7, abs=0.05)
    # Two normals a distance d apart: the effective share is exp(-d^2).
    assert effective_n(weights) / 20_000 == pytest.approx(np.exp(-0.49), abs=0.05)
    # The true ratio is exp(.7 x - .245).
    assert np.corrcoef(np.log(weights), source.X[:, 0])[0, 1] > 0.999


def test_a_cap_bounds_the_weights_and_keeps_their_mean():
    source, target = scenarios.prostate("severe", 1_000, seed=0)
    fitted = propensity(source, target)
    free, capped = density_ratio_weights(fitted, None), density_ratio_weights(fitted, 5.0)
    assert free.max() > 5.1 > capped.max()
    assert capped.mean() == pytest.approx(1.0)
    assert effective_n(capped) > effective_n(free)
    assert (np.argsort(free)[:100] == np.argsort(capped)[:100]).all()


def test_thinning_a_large_site_leaves_the_odds_right(monkeypatch):
    generator = np.random.default_rng(0)
    source, target = cohort("a", x=generator.normal(0, 1, 20_000)), cohort("b", x=generator.normal(1, 1, 1_000))
    whole = propensity(source, target)
    monkeypatch.setitem(__import__("tdrop.shift.classifier").shift.classifier.MOST_FITTED_ROWS, "logistic", 4_000)
    thinned = propensity(source, target)
    assert thinned.auroc.rows_fitted == 4_000
    assert np.abs(thinned.logits()[0] - whole.logits()[0]).max() < 0.6
    assert thinned.source.mean() == pytest.approx(1 / 21, rel=0.1)


def test_overlap_counts_the_target_rows_beyond_the_source():
    generator = np.random.default_rng(0)
    source = cohort("a", x=generator.normal(size=1_000), z=generator.normal(size=1_000))
    target = cohort(
        "b", x=np.r_[generator.normal(size=700), generator.normal(8, 0.5, 300)], z=generator.normal(size=1_000)
    )
    fitted = propensity(source, target)
    assert fitted.unlike[700:].mean() > 0.95
    assert fitted.unlike[:700].mean() < 0.02


def test_who_sits_in_the_middle_of_the_source_is_not_unlike_anyone():
    generator = np.random.default_rng(0)
    wide, narrow = (Cohort("a", np.arange(800), tuple("vwxyz"), s * generator.normal(size=(800, 5))) for s in (1, 0.4))
    assert not propensity(wide, narrow).unlike.any()
    assert propensity(narrow, wide).unlike.mean() > 0.3


def test_newcomers_are_judged_as_the_target_s_own_patients_alone_or_together():
    generator = np.random.default_rng(0)
    names, X = tuple("xyz"), generator.normal(size=(1_000, 3))
    source = Cohort("a", np.arange(1_000), names, X)
    shifted = generator.normal(size=(1_200, 3)) + np.r_[np.zeros(900), np.full(300, 6.0)][:, None]
    target, batch = (Cohort("b", np.arange(600), names, shifted[half::2]) for half in (0, 1))
    fitted = propensity(source, target)
    found = unlike_newcomers(batch, source, target, fitted)
    assert found[450:].mean() > 0.95
    assert found[:450].mean() < 0.02
    assert np.mean(unlike_newcomers(target, source, target, fitted) == fitted.unlike) > 0.98
    alone = [unlike_newcomers(batch.take(np.array([row])), source, target, fitted)[0] for row in (0, 1, 450, 599)]
    assert alone == found[[0, 1, 450, 599]].tolist()


def test_a_value_beyond_all_of_the_source_s_is_unlike_anyone_whatever_the_target():
    generator = np.random.default_rng(0)
    source, target = (Cohort(name, np.arange(500), tuple("xy"), generator.normal(size=(500, 2))) for name in "ab")
    batch = Cohort("b", np.arange(3), tuple("xy"), np.array([[0.0, 0.0], [9.0, 0.0], [0.0, -9.0]]))
    assert unlike_newcomers(batch, source, target, propensity(source, target)).tolist() == [False, True, True]


def draw_pair(kind: str, rows: int, seed: int) -> tuple[Cohort, Cohort]:
    """Two sites of equal means whose spread or correlation differs."""
    generator = np.random.default_rng(seed)
    here, there = generator.normal(size=(2, rows, 4))
    if kind == "correlation":
        there[:, 1] = 0.8 * there[:, 0] + 0.6 * there[:, 1]
    else:
        there[:, 0] *= {"same": 1.0, "spread doubled": 2.0, "spread times .4": 0.4}[kind]
    names = tuple("wxyz")
    return Cohort("a", np.arange(rows), names, here), Cohort("b", np.arange(rows), names, there)


@pytest.mark.parametrize("kind", ["spread doubled", "spread times .4", "correlation"])
@pytest.mark.parametrize("rows", [300, 1_500])
def test_a_change_that_leaves_every_mean_alone_is_seen(kind, rows):
    source, target = draw_pair(kind, rows, seed=1)
    fitted = propensity(source, target)
    assert fitted.auroc.low > 0.6
    assert fitted.effective_n < 0.8 * rows
    linear = propensity(source, target, kind="logistic")
    assert linear.auroc.value < 0.56
    matching = match(source, target, fitted=fitted)
    assert abs(matching.propensity.before) > 0.3
    assert abs(matching.propensity.after) < 0.5 * abs(matching.propensity.before)
    if kind != "correlation":
        ratio = matching.balance[0].variance_before
        assert ratio > 2 or ratio < 0.5
        assert abs(np.log(matching.balance[0].variance_after)) < abs(np.log(ratio))


@pytest.mark.parametrize("rows", [150, 1_000])
def test_without_a_shift_every_patient_keeps_the_same_weight(rows):
    found = [propensity(*draw_pair("same", rows, seed)) for seed in range(5)]
    assert np.mean([one.auroc.value for one in found]) == pytest.approx(0.5, abs=0.04)
    assert min(one.effective_n for one in found) > 0.8 * rows
    assert np.mean([one.effective_n for one in found]) > 0.93 * rows
    assert max(one.unlike.mean() for one in found) < 0.02


@pytest.mark.parametrize("kind", ["logistic", "quadratic", "boosting", None])
def test_without_overlap_the_effective_n_is_small_whatever_the_classifier(kind):
    source, target = scenarios.no_overlap(500, seed=0)
    fitted = propensity(source, target, kind=kind)
    assert fitted.coverage < 0.2
    assert fitted.effective_n < 0.05 * len(source)


def test_a_propensity_survives_its_file(tmp_path):
    fitted = propensity(*scenarios.prostate("severe", 200, seed=1, source_rows=400))
    fitted.save(tmp_path / "propensity.npz")
    again = Propensity.load(tmp_path / "propensity.npz")
    assert (again.kind, again.candidates) == (fitted.kind, fitted.candidates)
    assert again.line == fitted.line
    for name in ("source", "target", "unlike"):
        assert np.array_equal(getattr(again, name), getattr(fitted, name))
    shift = estimate_shift(*scenarios.prostate("severe", 200, seed=1, source_rows=400), fitted=again)
    assert shift.domain_auroc == fitted.auroc
    assert shift.outside_overlap == pytest.approx(fitted.unlike.mean())


def test_outcomes_are_not_read():
    source, target = scenarios.prostate("moderate", 300, seed=1, source_rows=600)
    expected = plain(estimate_shift(source.unlabelled(), target.unlabelled()))
    assert plain(estimate_shift(source, replace(target, y=1 - target.y))) == expected


def test_a_record_survives_json():
    shift = estimate_shift(*scenarios.prostate("severe", 300, seed=1, source_rows=600))
    data = json.loads(json.dumps(plain(shift), allow_nan=False))
    assert read(Shift, data) == shift
    assert data == plain(shift)


@pytest.mark.parametrize(("source_rows", "target_rows"), [(1, 5), (2, 2), (5, 1), (30, 30), (30, 5), (3, 400)])
def test_few_patients_are_too_few_to_say(source_rows, target_rows):
    source, target = scenarios.no_shift(400, seed=0)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        shift = estimate_shift(source.take(np.arange(source_rows)), target.take(np.arange(target_rows)))
    assert shift.verdict == "too few to say"
    json.dumps(plain(shift), allow_nan=False)


def test_awkward_features_are_named_and_do_not_stop_the_rest():
    generator = np.random.default_rng(0)
    ordinary = generator.normal(size=600)
    source = cohort("a", age=ordinary[:300], dead=np.zeros(300), flat=np.ones(300), missing=np.zeros(300))
    target = cohort("b", age=ordinary[300:], dead=np.zeros(300), flat=ordinary[:300], missing=np.ones(300))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        shift = estimate_shift(source, target)
    by_name = {feature.feature: feature for feature in shift.features}
    assert by_name["dead"].smd == 0.0
    assert by_name["dead"].constant == ("source", "target")
    assert by_name["flat"].constant == ("source",)
    assert by_name["flat"].outside_range == 1.0
    # Two different constants: the difference has no standard deviation to be measured in.
    assert by_name["missing"].smd is None
    assert shift.verdict == "stop"


def draw_awkward_column(generator, rows):
    kinds = (
        lambda: np.full(rows, generator.choice([0.0, 3.5, -1e6])),
        lambda: generator.random(rows) < generator.random(),
        lambda: generator.normal(size=rows) * 10.0 ** generator.integers(-12, 12),
        lambda: generator.integers(0, 5, rows),
        lambda: generator.normal(size=rows) + 1e7,
        lambda: np.exp(8 * generator.normal(size=rows)),
        lambda: generator.normal(size=rows) + generator.choice([0, 100]),
    )
    return kinds[generator.integers(len(kinds))]()


@pytest.mark.parametrize("seed", range(15))
def test_any_finite_cohorts_give_a_shift_and_a_matching_without_a_warning(seed):
    generator = np.random.default_rng(seed)
    names = ("age", "psa", "psa_missing", "stage__a", "stage__b", "stage__missing")
    rows = generator.choice([2, 3, 12, 80, 300], 2)
    sides = [cohort("s", **{name: draw_awkward_column(generator, count) for name in names}) for count in rows]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        shift, matching = estimate_shift(*sides), match(*sides)
    json.dumps([plain(shift), plain(matching)], allow_nan=False)
    for feature in shift.features:
        assert sum(feature.density.source) == rows[0]
        assert (np.diff(feature.density.edges) > 0).all()


def test_more_features_than_rows_give_a_result():
    shift = estimate_shift(*scenarios.no_shift(60, seed=0, features=150))
    assert len(shift.features) == 150
    assert shift.domain_auroc is not None


def test_cohorts_that_cannot_be_compared_are_refused():
    source, target = scenarios.no_shift(50, seed=0)
    with pytest.raises(DataError, match="same features"):
        estimate_shift(source, replace(target, features=tuple("abcde")))
    with pytest.raises(DataError, match="at least 1 feature"):
        estimate_shift(replace(source, features=(), X=source.X[:, :0]), replace(target, features=(), X=target.X[:, :0]))
    with pytest.raises(DataError, match="needs patients in both"):
        estimate_shift(source, target.take(np.arange(0)))
    with pytest.raises(DataError, match="at least 2 rows"):
        propensity(source, target.take(np.arange(1)))
    with pytest.raises(UsageError, match="did you mean 'logistic'"):
        propensity(source, target, kind="logistics")


@pytest.mark.parametrize(
    ("auroc", "outside", "verdict"),
    [
        ((0.60, 0.58, 0.62), 0.00, "go"),
        ((0.70, 0.64, 0.76), 0.00, "go"),
        ((0.70, 0.66, 0.74), 0.00, "caution"),
        ((0.60, 0.58, 0.62), 0.12, "caution"),
        ((0.85, 0.83, 0.87), 0.30, "stop"),
        ((0.99, 0.98, 0.999), 0.00, "stop"),
        ((0.60, 0.50, 0.70), 0.00, "too few to say"),
    ],
)
def test_the_verdict_rests_on_effect_size(auroc, outside, verdict):
    assert judge_shift(DomainAuroc(*auroc, "logistic", 100), outside) == verdict
