"""Several methods' fits as one model."""

from __future__ import annotations

import numpy as np
import pytest
from method_cases import fit_quick, small_cohorts

from tdrop.base import DataError, FitError, Fitted, Predictive, UsageError
from tdrop.methods import COMMITTEE, build, describe_method, label, load, method_names
from tdrop.methods.parts.committee import Committee

MEMBERS = ("transductive_ensemble", "logistic_regression", "gradient_boosting")


@pytest.fixture(scope="module")
def fits() -> list[Fitted]:
    return [fit_quick(name) for name in MEMBERS]


@pytest.fixture(scope="module")
def committee(fits) -> Fitted:
    return Committee(MEMBERS).from_fits(fits)


@pytest.mark.parametrize("passes", [5, 7])
def test_the_risk_is_the_mean_of_the_members_and_the_doubt_is_theirs_around_it(committee, fits, passes):
    X = small_cohorts()[1].X
    parts = [one.summarise(X, passes, seed=1) for one in fits]
    found = committee.summarise(X, passes, seed=1)
    risks = np.stack([part.mean for part in parts])
    assert isinstance(committee, Fitted)
    assert np.allclose(found.mean, risks.mean(axis=0), atol=1e-6)
    theirs = np.sqrt(np.mean([part.sd**2 for part in parts], axis=0))
    assert (found.sd <= theirs + 1e-6).all()
    assert np.isclose(found.sd, theirs, atol=1e-6).mean() > 0.5
    samples = committee.sample(X, passes, seed=1).samples
    assert samples.shape == (found.passes, len(X))
    assert np.array_equal(found.mean, samples.mean(axis=0))


class Sure:
    """A fit that gives every patient the same samples."""

    features, task, classes, steps = ("a", "b", "c"), "binary", (), 1

    def __init__(self, *risks: float) -> None:
        self.risks = risks

    def sample(self, X, n, *, seed):
        return Predictive(np.repeat(np.float32(self.risks)[:, None], len(X), axis=1))


@pytest.mark.parametrize("theirs", [(0.0, 0.0), (0.99, 1.0), (0.0, 1.0), (1.0, 1.0)])
def test_a_sample_stays_a_risk_and_the_mean_stays_the_mean(theirs):
    members = Sure(0.001, 0.001), Sure(*theirs), Sure(0.2, 0.9)
    samples = Committee(MEMBERS).from_fits(members).sample(np.zeros((4, 3)), 2, seed=0).samples
    assert ((samples >= 0) & (samples <= 1)).all()
    assert samples.mean() == pytest.approx(np.mean([0.001, np.mean(theirs), 0.55]), abs=1e-6)


def test_a_method_drawn_by_passes_counts_as_much_as_one_with_few_refits():
    X = small_cohorts()[1].X
    fits = [fit_quick("mc_dropout"), fit_quick("logistic_regression")]
    found = Committee(("mc_dropout", "logistic_regression")).from_fits(fits).summarise(X, 7, seed=1)
    means = [one.summarise(X, 7, seed=1).mean for one in fits]
    assert np.allclose(found.mean, np.mean(means, axis=0), atol=1e-6)


def test_a_patient_does_not_depend_on_the_others(committee):
    X = np.random.default_rng(1).normal(size=(50, 3))
    whole = committee.sample(X, 5, seed=5).samples
    assert np.array_equal(whole[:, 7:9], committee.sample(X[7:9], 5, seed=5).samples)
    assert committee.summarise(X[:0], 5, seed=0).mean.shape == (0,)
    with pytest.raises(DataError, match="3 features"):
        committee.summarise(X[:, :2], 5, seed=0)


def test_it_is_saved_without_pickle_and_comes_back(committee, tmp_path):
    X = small_cohorts()[1].X
    committee.save(tmp_path / "first")
    loaded = load(tmp_path / "first")
    assert np.array_equal(committee.sample(X, 6, seed=2).samples, loaded.sample(X, 6, seed=2).samples)
    assert loaded.method == Committee(MEMBERS)
    assert {path.suffix for path in (tmp_path / "first").iterdir()} == {".json", ".safetensors", ".skops"}


@pytest.mark.parametrize("damage", ["cut", "remove", "exchange"])
def test_every_byte_of_every_member_is_sealed(committee, tmp_path, damage):
    committee.save(tmp_path)
    for path in sorted(tmp_path.iterdir()):
        content = path.read_bytes()
        if damage == "remove":
            path.unlink()
        else:
            path.write_bytes(content[: len(content) // 2] if damage == "cut" else content[::-1])
        with pytest.raises(FitError, match=path.name):
            load(tmp_path)
        path.write_bytes(content)
    load(tmp_path)


@pytest.mark.parametrize("members", [(), ("mlp",), ("mlp", "mlp"), ("mlp", COMMITTEE), "mlp", (1, 2)])
def test_a_committee_of_one_is_refused(members):
    with pytest.raises(UsageError, match="committee"):
        build(COMMITTEE, members=members)


def test_it_is_shown_and_served_but_cannot_be_asked_for():
    assert COMMITTEE not in method_names()
    assert label(COMMITTEE) == "Average of models"
    assert describe_method(COMMITTEE).endswith(".")
