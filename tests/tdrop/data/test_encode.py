"""Encoding follows from the contract and the source's features alone, and is the same for every site."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pandas as pd
import pytest

from tdrop.base import DataError, plain, read
from tdrop.contracts import Contract
from tdrop.data import Encoder, features_of, harmonise, learn_encoder, not_recorded, subgroups_of, unlike_missing


@pytest.fixture
def frame(prostate: Contract, patients: Any, make_site: Any) -> pd.DataFrame:
    rows = patients()
    # Enough missing values for an indicator to mean something.
    rows.loc[:11, "psa"] = ""
    return harmonise(rows, prostate, make_site()).frame


@pytest.fixture
def encoder(frame: pd.DataFrame, prostate: Contract) -> Encoder:
    return learn_encoder(frame, prostate)


NAMES = ("age", "log_psa", "psa_missing", "grade_group", "stage", "comorbidity", "treatment=none",
         "treatment=prostatectomy", "treatment=radiotherapy", "treatment=hormone")  # fmt: skip


def test_every_type_has_its_code(encoder: Encoder, patients: Any, prostate: Contract, make_site: Any) -> None:
    assert tuple(feature.name for feature in encoder.features) == NAMES
    rows = patients(2)
    rows["age"], rows["psa"], rows["grade_group"], rows["stage"] = ["70", "60"], ["9", "0"], ["4", "1"], ["T3", "T1"]
    rows["comorbidity"], rows["treatment"] = ["1", "0"], ["hormone", "none"]
    cohort = encoder.encode(harmonise(rows, prostate, make_site()).frame, "north")
    np.testing.assert_allclose(cohort.X, [[70, np.log(10), 0, 4, 3, 1, 0, 0, 0, 1], [60, 0, 0, 1, 1, 0, 1, 0, 0, 0]],
                               rtol=1e-6)  # fmt: skip
    assert cohort.ids.tolist() == ["P00000", "P00001"]
    assert cohort.site == "north"
    assert cohort.y is None


def test_missing_values_become_the_sources_typical_ones(encoder: Encoder, frame: pd.DataFrame) -> None:
    empty = pd.DataFrame({"patient_id": ["a"], "age": [np.nan], "psa": [np.nan], "grade_group": [None], "stage": [None],
                          "comorbidity": [np.nan], "treatment": [None]})  # fmt: skip
    X = dict(zip(NAMES, encoder.matrix(empty)[0], strict=True))
    assert X["age"] == pytest.approx(frame["age"].median(), abs=0.5)
    assert round(float(X["age"]), 4) == round(float(X["age"]), 1), "exact it may be one patient's"
    assert X["log_psa"] == pytest.approx(np.log1p(frame["psa"].median()), abs=0.05)
    assert X["psa_missing"] == 1
    assert X["stage"] == np.floor(frame["stage"].cat.codes.median() + 1)
    mode = frame["treatment"].value_counts().idxmax()
    assert [name for name in NAMES if name.startswith("treatment=") and X[name]] == [f"treatment={mode}"]
    np.testing.assert_array_equal(encoder.matrix(empty[["patient_id"]]), encoder.matrix(empty))


def test_the_target_changes_nothing(encoder: Encoder, frame: pd.DataFrame, prostate: Contract) -> None:
    shuffled = frame.sample(frac=1, random_state=1).reset_index(drop=True)
    assert learn_encoder(shuffled, prostate) == encoder
    assert learn_encoder(frame.assign(died_10y=1.0), prostate) == encoder
    one = encoder.matrix(frame.iloc[[5]])
    np.testing.assert_array_equal(encoder.matrix(frame)[5:6], one)


def test_a_category_the_source_never_held_is_coded_and_counted(
    encoder: Encoder, patients: Any, prostate: Contract, make_site: Any
) -> None:
    rows = patients(3)
    rows["stage"], rows["treatment"] = ["T4", "T4", "T1"], ["none", "magic", "none"]
    frame = harmonise(rows, prostate, make_site()).frame
    assert encoder.unseen(frame) == {"stage": 2, "treatment": 1}
    X = encoder.matrix(frame)
    assert X[0, NAMES.index("stage")] == 4
    assert X[1, 6:].tolist() == [0, 0, 0, 0]
    assert np.isfinite(X).all()


def test_features_say_what_they_are(encoder: Encoder, frame: pd.DataFrame, prostate: Contract) -> None:
    assert [feature.title for feature in encoder.features] == [
        "Age (years)", "PSA (ng/mL, log)", "PSA missing", "Grade group", "Clinical T stage",
        "Comorbidity (Charlson score 1 or more)", "First treatment: no radical treatment",
        "First treatment: prostatectomy", "First treatment: radiotherapy", "First treatment: hormone therapy alone",
    ]  # fmt: skip
    assert [(feature.column, feature.kind, feature.unit) for feature in encoder.features] == [
        ("age", "continuous", "years"), ("psa", "continuous", "ng/mL"), ("psa", "missing", None),
        ("grade_group", "ordinal", None), ("stage", "ordinal", None), ("comorbidity", "binary", None),
        *[("treatment", "level", None)] * 4,
    ]  # fmt: skip
    assert encoder.encode(frame, "north").described == encoder.features
    assert set(encoder.features) <= set(features_of(prostate))


def test_an_encoder_survives_json(encoder: Encoder) -> None:
    assert read(Encoder, json.loads(json.dumps(plain(encoder), allow_nan=False))) == encoder
    with pytest.raises(DataError, match="not a encoder of this version"):
        read(Encoder, {})


def test_plain_values_in_contract_columns_are_encoded_alike(encoder: Encoder, frame: pd.DataFrame) -> None:
    plain = pd.DataFrame({"patient_id": frame["patient_id"], "age": frame["age"], "psa": frame["psa"],
                          "grade_group": frame["grade_group"].astype(int), "stage": frame["stage"].astype(object),
                          "comorbidity": frame["comorbidity"].astype(bool),
                          "treatment": frame["treatment"].astype(object)})  # fmt: skip
    np.testing.assert_array_equal(encoder.matrix(plain), encoder.matrix(frame))
    np.testing.assert_array_equal(encoder.matrix(plain.assign(grade_group=plain["grade_group"].astype(float))),
                                  encoder.matrix(frame))  # fmt: skip
    assert encoder.encode(plain.drop(columns="patient_id"), "served").ids.tolist()[:2] == [1, 2]
    with pytest.raises(DataError, match="column 'age': 100 of 100 values are not finite numbers"):
        encoder.matrix(plain.assign(age="old"))


def test_a_feature_that_the_target_does_not_record_is_left_out(frame: pd.DataFrame, prostate: Contract) -> None:
    target = frame.assign(stage=frame["stage"].where(np.arange(len(frame)) < 5), psa=np.nan)
    assert not_recorded(target, prostate) == ("psa", "stage")
    assert not_recorded(target.drop(columns="age"), prostate) == ("age", "psa", "stage")
    assert not_recorded(frame, prostate) == ()
    encoder = learn_encoder(frame, prostate, not_recorded(target, prostate))
    assert encoder.left_out == ("psa", "stage")
    assert not {"psa", "stage"} & {feature.column for feature in encoder.features}
    assert encoder.encode(target, "north").X.shape == encoder.encode(frame, "here").X.shape
    with pytest.raises(DataError, match="records none of its features"):
        learn_encoder(frame, prostate, [column.name for column in prostate.features])


def test_an_indicator_needs_missing_values_at_the_source(
    patients: Any, prostate: Contract, make_site: Any, frame: pd.DataFrame
) -> None:
    complete = harmonise(patients(), prostate, make_site()).frame
    kinds = [feature.kind for feature in learn_encoder(complete, prostate).features]
    assert "missing" not in kinds
    assert "missing" in [feature.kind for feature in learn_encoder(frame, prostate).features]


def test_a_column_without_a_value_cannot_be_learned(frame: pd.DataFrame, prostate: Contract) -> None:
    for broken in (frame.assign(psa=np.nan), frame.drop(columns="psa")):
        with pytest.raises(DataError, match="column 'psa': the source has no value"):
            learn_encoder(broken, prostate)


def test_subgroups_follow_the_contract(prostate: Contract) -> None:
    frame = pd.DataFrame({"age": [64.9, 65, 74.9, 75, np.nan], "stage": ["T1", "T4", None, "T2", "T3"]})
    groups = subgroups_of(frame, prostate)
    assert groups["Age"].tolist() == ["under 65", "65 to 74", "65 to 74", "75 and over", "unknown"]
    assert groups["Clinical T stage"].tolist() == ["T1", "T4", "unknown", "T2", "T3"]
    assert subgroups_of(frame.drop(columns="age"), prostate)["Age"].tolist() == ["unknown"] * 5


def test_an_indicator_of_missing_values_is_left_out_where_sites_differ_in_them(frame: Any, prostate: Contract) -> None:
    def missing(share: float) -> Any:
        return frame.assign(psa=frame["psa"].where(np.arange(len(frame)) >= share * len(frame)))

    assert unlike_missing(missing(0.12), missing(0.1), prostate) == ()
    assert unlike_missing(missing(0.12), missing(0.2), prostate) == ("psa",), "more than the table allows"
    assert unlike_missing(missing(0.2), missing(0.3), prostate) == (), "the source has as little"
    assert unlike_missing(missing(0.2), missing(0.5), prostate) == ("psa",)
    assert unlike_missing(missing(0.5), missing(0.1), prostate) == (), "those who still lack it may mean the same"
    # A column that is only filled in has no indicator to leave out.
    assert unlike_missing(frame, frame.assign(stage=None), prostate) == ()
    source = missing(0.3)
    usual, careful = learn_encoder(source, prostate), learn_encoder(source, prostate, (), ("psa", "age"))
    assert careful.without_indicator == ("psa",)
    assert {one.name for one in usual.features} - {one.name for one in careful.features} == {"psa_missing"}
    assert np.isfinite(careful.matrix(source)).all()
