"""Saved models: nothing is trusted that was not written by a fit."""

from __future__ import annotations

import hashlib
import json
from fractions import Fraction
from threading import Event, Thread

import numpy as np
import pytest
from method_cases import fit_quick, quick, small_cohorts
from sklearn.base import BaseEstimator
from sklearn.linear_model import LogisticRegression

from tdrop.base import PARSING, Cohort, FitError, read_arrays
from tdrop.methods import load, method_names
from tdrop.methods.gradient_boosting import METHOD
from tdrop.methods.parts.fitted import MODEL_FORM, canonical_bytes, coarse_scaling, coarse_shares, learn_scaling
from tdrop.methods.parts.reference_method import dump_estimators, load_estimators


def reseal(folder, **changes) -> None:
    """Changes the record and seals it again, as someone who knows the format could."""
    record = json.loads((folder / "model.json").read_text())
    record.pop("seal")
    record.update(changes)
    record["seal"] = hashlib.sha256(canonical_bytes(record)).hexdigest()
    (folder / "model.json").write_text(json.dumps(record))


def test_a_missing_folder_is_one_sentence(tmp_path):
    with pytest.raises(FitError, match=r"'nowhere'.*missing"):
        load(tmp_path / "nowhere")


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b'"text"', b'{"seal": 3}', b"\xff\xfe"])
def test_a_record_that_is_none_is_one_sentence(tmp_path, content):
    (tmp_path / "model.json").write_bytes(content)
    with pytest.raises(FitError, match=r"model\.json"):
        load(tmp_path)


def test_a_resealed_record_of_another_form_or_method_is_refused(tmp_path):
    fit_quick("mlp").save(tmp_path)
    reseal(tmp_path, form=99)
    with pytest.raises(FitError, match="form 99"):
        load(tmp_path)
    reseal(tmp_path, form=MODEL_FORM, method="mpl")
    with pytest.raises(FitError, match="no method 'mpl'"):
        load(tmp_path)
    reseal(tmp_path, method="mlp", settings={"hidden": [3], "speed": 1})
    with pytest.raises(FitError, match="no setting 'speed'"):
        load(tmp_path)
    reseal(tmp_path, settings={"hidden": [3, 3]})
    with pytest.raises(FitError, match="do not fit its settings"):
        load(tmp_path)


@pytest.mark.parametrize("name", ["../outside.bin", "/etc/hostname", "sub/../../outside.bin"])
def test_a_record_that_names_a_file_elsewhere_is_refused_unread(tmp_path, name):
    (tmp_path / "outside.bin").write_bytes(b"a secret")
    fit_quick("mlp").save(tmp_path / "model")
    reseal(tmp_path / "model", files={name: hashlib.sha256(b"a secret").hexdigest()})
    with pytest.raises(FitError, match="names a file outside its folder"):
        load(tmp_path / "model")


class Stranger(BaseEstimator):
    """A type that no fit of ours writes."""


def test_a_model_of_an_untrusted_type_is_refused():
    with pytest.raises(FitError, match=r"not trusted.*Stranger"):
        load_estimators(dump_estimators([Stranger()]), "logistic_regression")


def test_bytes_that_are_no_model_are_refused():
    with pytest.raises(FitError, match="cannot be read"):
        load_estimators(b"not a zip file", "gradient_boosting")


def test_saving_twice_overwrites(tmp_path):
    fit_quick("mlp").save(tmp_path)
    fit_quick("mc_dropout").save(tmp_path)
    assert load(tmp_path).method.name == "mc_dropout"


@pytest.mark.parametrize("name", method_names())
def test_a_saved_model_does_not_tell_how_few_patients_have_a_mark(tmp_path, name):
    def saved(rows: int, marked: int) -> dict[str, object]:
        source, target, _ = small_cohorts()
        X = np.resize(source.X, (rows, source.X.shape[1])).astype(np.float32)
        X[:, 0] = np.arange(rows) < marked
        y = (np.arange(rows) % 3 == 0).astype(np.float32)
        cohort = Cohort("source", np.arange(rows), source.features, X, y)
        quick(name).fit(cohort, target.unlabelled(), seed=0).save(tmp_path / f"{rows}-{marked}")
        return json.loads((tmp_path / f"{rows}-{marked}" / "model.json").read_text())

    models = [saved(100, marked) for marked in (1, 4, 9)]
    told = [(model["scaling"]["center"][0], model["scaling"]["scale"][0]) for model in models]
    assert len(set(told)) == 1
    assert saved(100, 40)["scaling"]["center"][0] == pytest.approx(0.4)
    assert saved(97, 40)["rows"] == saved(103, 40)["rows"] == 100


def test_a_mark_that_few_lack_is_told_no_better_than_one_that_few_have():
    few, lacking = coarse_shares(np.array([1.0, 9.0]), 100), coarse_shares(np.array([99.0, 91.0]), 100)
    assert few.tolist() == [0.05, 0.05]
    assert lacking.tolist() == [0.95, 0.95]
    shares = coarse_shares(np.array([0.0, 14.0, 15.0, 50.0, 86.0, 100.0]), 100)
    assert shares.tolist() == [0, 0.1, 0.2, 0.5, 0.9, 1]


@pytest.mark.parametrize("rows", [97, 101, 187, 1009])
def test_a_saved_model_does_not_tell_its_rows_by_a_mean_or_a_share(rows):
    """An exact mean of whole ages, or share of a mark, is a fraction whose denominator is the number of rows."""
    random = np.random.default_rng(rows)
    X = np.column_stack([random.integers(40, 90, rows), random.random(rows) < 0.3]).astype(np.float32)
    told = learn_scaling(Cohort("source", np.arange(rows), ("age", "mark"), X, (X[:, 0] > 60).astype(np.float32)))
    assert Fraction(float(X[:, 0].astype(np.float64).mean())).limit_denominator(2000).denominator == rows
    for center in told.center:
        assert Fraction(float(center)).limit_denominator(2000).denominator % rows
    assert told.center[0] == pytest.approx(X[:, 0].mean(), abs=told.scale[0] / 100)
    assert told.scale[0] == pytest.approx(X[:, 0].std(), rel=0.05)


def test_one_patient_more_leaves_the_same_centre():
    X = np.random.default_rng(0).integers(40, 90, (1000, 1)).astype(np.float64)
    one_more = [coarse_scaling(np.vstack([X, [[age]]])) for age in range(40, 90)]
    assert len({(float(center[0]), float(scale[0])) for center, scale in one_more}) <= 2


def test_a_saved_forest_counts_no_patients(tmp_path):
    fit_quick("gradient_boosting").save(tmp_path)
    (file,) = [path for path in tmp_path.iterdir() if path.name != "model.json"]
    for one in load_estimators(file.read_bytes(), "gradient_boosting", METHOD.trusted):
        inside = vars(one)  # scikit-learn has no public name for what it writes down of the rows
        assert not any(tree.nodes["count"].any() for trees in inside["_predictors"] for tree in trees)
        baseline = inside["_baseline_prediction"]
        assert baseline == pytest.approx(np.round(baseline, 3), abs=0)


@pytest.mark.parametrize("reader", ["models", "arrays"])
def test_one_thread_at_a_time_reads_arrays(tmp_path, reader):
    # Python before 3.11.9 raises a SystemError now and then when two threads parse; numpy parses each array's header.
    content = dump_estimators([LogisticRegression().fit(np.eye(4), [0, 1, 0, 1])])
    np.savez(tmp_path / "arrays.npz", a=np.eye(2))
    ended = Event()

    def run() -> None:
        if reader == "models":
            load_estimators(content, "logistic_regression")
        else:
            read_arrays(tmp_path / "arrays.npz")
        ended.set()

    with PARSING:
        thread = Thread(target=run, daemon=True)
        thread.start()
        assert not ended.wait(0.3)
    thread.join()
    assert ended.is_set()
