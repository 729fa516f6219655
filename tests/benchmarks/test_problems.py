"""The problems themselves: what is drawn, that real sites pass their contracts, and that no outcome is a feature."""

from __future__ import annotations

import importlib.util

import numpy as np
import pytest

from benchmarks import toy, uci
from benchmarks.problems import PROSTATE, Cohorts, find_problem, toy_truth, transfer_problems
from benchmarks.public_tables import COLLECTIONS, MOST_ROWS, collection
from benchmarks.site_pairs import extract_of, network_of_sites, site_pair
from tdrop.base import UsageError
from tdrop.contracts import load_network
from tdrop.data import prepare_frame, source_outcome
from tdrop.metrics import auroc

TRANSFERS = {(name, title): transfer for name in COLLECTIONS for title, transfer in collection(name).items()}


def test_the_largest_class_is_positive_and_iris_is_versicolor():
    assert [int(uci.load(name)[1].sum()) for name in list(uci.DATASETS)[:3]] == [357, 50, 71]
    assert np.unique(uci.load("wine, three classes")[1], return_counts=True)[1].tolist() == [59, 71, 48]


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
    tests = [uci.draw_test(X, weights, split) for split in range(20)]
    shifts = [abs(component[rows].mean() - component[~rows].mean()) for rows in tests]
    assert np.mean(shifts) / component.std() > (0.7 if weights == "softmax" else 0.2)


def test_the_toy_measures_count_the_truth_as_covered_only_inside_the_interval():
    truth = toy_truth(toy.GRID)
    high = np.where(toy.GRID > 11, truth - 0.5, truth + 1)
    curve = {"mean": truth, "low": truth - 1, "high": high}
    measured = toy.measure(curve)
    assert (measured["coverage, source-dense"], measured["coverage, target-only"]) == (1.0, 0.0)
    assert measured["width, source-dense"] == pytest.approx(2.0)
    assert measured["rmse, source-dense"] == 0.0


def test_the_oracle_is_the_risk_that_outcomes_were_drawn_from():
    sides = Cohorts("severe", (500, 3000), "prostate", truncated=True)(quick=False)
    age = sides.source.features.index("age")
    assert sides.source.X[:, age].max() <= 70 < sides.target.X[:, age].max()
    assert sides.risk.mean() == pytest.approx(sides.outcomes.mean(), abs=0.02)
    assert auroc(sides.outcomes, sides.risk) == pytest.approx(0.764, abs=0.03)
    assert sides.target.y is None


def test_hidden_treatment_hides_it_at_both_sites():
    sides = Cohorts("moderate", (300, 300), hidden=True)(quick=False)
    for cohort in (sides.source, sides.target):
        assert not cohort.X[:, cohort.features.index("treatment=hormone")].any()
        assert not cohort.X[:, cohort.features.index("comorbidity")].any()


def test_the_papers_sizes_and_every_difficulty_are_among_the_prostate_problems():
    versions = [cohorts for _, cohorts in PROSTATE.values()]
    assert versions[0].rows == (240_486, 10_086)
    assert {version.outcome for version in versions} == {"prostate", "all_cause"}
    assert sum(version.truncated for version in versions) == 3
    assert sum(version.hidden for version in versions) == 1
    assert min(version.rows[0] for version in versions) == 2000
    assert all(find_problem(name).title.startswith("Simulated") for name in PROSTATE)


def test_a_name_that_is_none_is_a_sentence():
    with pytest.raises(UsageError, match="did you mean 'gbsg'"):
        find_problem("gbgs")


def test_every_transfer_is_in_one_family_and_simulated_ones_say_so():
    families = transfer_problems()
    names = [problem.name for own in families.values() for problem in own]
    assert len(set(names)) == len(names)
    assert set(families) >= set(COLLECTIONS)
    simulated = {family for family, own in families.items() if own[0].name.startswith(("curved", "smooth"))}
    assert simulated == {family for family in families if "simulated" in family} != set()


@pytest.mark.parametrize("key", TRANSFERS, ids=": ".join)
def test_a_transfer_has_outcomes_on_both_sides_and_none_among_its_features(key):
    transfer = TRANSFERS[key]
    if importlib.util.find_spec(transfer.package) is None:
        pytest.skip(f"the optional package {transfer.package} is not installed")
    sides = transfer.sides()
    source, target = sides.source, sides.target
    assert target.y is None
    assert source.features == target.features
    names = {feature.split("=")[0].removesuffix("_missing") for feature in source.features}
    assert not names & {*transfer.leave_out, "event", transfer.person}
    # The later collections judge: they are large enough for that.
    fewest = {"fourth": 30, "fifth": 20}.get(key[0], 10)
    for cohort, y in ((source, source.y), (target, sides.outcomes[np.isfinite(sides.outcomes)])):
        assert fewest <= y.sum() <= len(y) - fewest
        assert transfer.package == "SurvSet" or len(y) <= MOST_ROWS
        assert np.isfinite(cohort.X).all()
    if key[0] in ("fourth", "fifth"):
        assert len(source) >= 150
        assert len(target) >= 100
    # No feature says the outcome: a column that was known only afterwards would.
    assert max(abs(np.corrcoef(column, source.y)[0, 1]) for column in source.X.T) < 0.75
    again = transfer.sides()
    assert np.array_equal(source.X, again.source.X)
    assert np.array_equal(sides.outcomes, again.outcomes, equal_nan=True)
    if transfer.person is None:
        assert source.persons is None
    else:
        assert not set(source.persons) & set(target.persons)
        # Otherwise nothing would need to be said about persons.
        assert len(set(source.persons)) < len(source)


@pytest.mark.parametrize("name", ["fourth", "fifth"])
def test_a_later_collection_asks_every_table_once_and_none_that_was_seen(name):
    seen = {transfer.table for (other, _), transfer in TRANSFERS.items() if other != name}
    tables = [transfer.table for transfer in collection(name).values()]
    assert len(set(tables)) == len(tables)
    assert not seen & set(tables)


def test_target_patients_of_unknown_outcome_stay_among_the_unlabelled():
    pytest.importorskip("SurvSet")
    sides = collection("judging")["lymphoma stage one to two"].sides()
    assert np.isnan(sides.outcomes).any()
    assert len(sides.target) == len(sides.outcomes)
    assert np.isfinite(sides.source.y).all()


ROWS = {"rotterdam": 2982, "rotterdam_under_60": 1831, "gbsg": 686, "sepsis": 3515, "copd": 967, "malignancy": 712}


@pytest.mark.parametrize("name", ROWS)
def test_every_row_of_a_real_site_passes_its_contract(name):
    pytest.importorskip("SurvSet")
    network = network_of_sites()
    site = network.site(name)
    extract = extract_of(name) if site.role == "source" else extract_of(name).drop(columns=["time", "event"])
    validation = prepare_frame(extract, network.contract_of(site), site).validation
    assert (validation.read, validation.used) == (ROWS[name], ROWS[name])
    assert not validation.stopped


def test_outcomes_of_a_real_pair_are_those_within_the_horizon():
    pytest.importorskip("SurvSet")
    network, sides = network_of_sites(), site_pair("gbsg")
    frame = prepare_frame(extract_of("rotterdam"), network.contracts["breast"], network.site("rotterdam")).frame
    y, _ = source_outcome(frame, network.contracts["breast"])
    assert (len(sides.source), sides.source.y.sum()) == (2961, 218)
    assert np.array_equal(y[~np.isnan(y)], sides.source.y)
    raw = extract_of("gbsg")
    known = (raw["time"] >= 730.5) | (raw["event"] == 1)
    assert np.isfinite(sides.outcomes).sum() == known.sum()
    assert np.nansum(sides.outcomes) == ((raw["event"] == 1) & (raw["time"] <= 730.5)).sum()
    assert sides.target.y is None


def test_the_benchmarks_network_is_apart_from_the_ordinary_one():
    from conftest import PROJECT

    ordinary, apart = load_network(PROJECT / "data_contracts"), network_of_sites()
    assert not set(ordinary.sites) & set(apart.sites)
    assert all(site.public and not site.simulated for site in apart.sites.values())
    assert {site.source for site in apart.targets} == {"rotterdam", "rotterdam_under_60", "sepsis"}
