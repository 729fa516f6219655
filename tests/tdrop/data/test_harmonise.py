"""Extracts in other shapes come out alike; what cannot be read is marked, never guessed."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings, strategies as st

from tdrop.base import ContractError
from tdrop.contracts import Column, Contract
from tdrop.data import (
    alternatives,
    as_labels,
    as_numbers,
    as_text,
    convert,
    factor,
    harmonise,
    hint_unreadable,
    prepare_frame,
)


def series(*values: Any) -> pd.Series:
    return pd.Series(list(values), dtype="str")


@pytest.mark.parametrize(("values", "options", "numbers", "unreadable"), [
    (series("1", " 2.5 ", "+3", "1e2", ".5", "-0"), {}, [1, 2.5, 3, 100, 0.5, 0], []),
    (series("", " ", "4"), {}, [np.nan, np.nan, 4], []),
    (series("NA", "na", "7"), {"codes": ["NA"]}, [np.nan, np.nan, 7], [1]),
    (series("-9", "-9.0", "-9,0", "9"), {"codes": ["-9"]}, [np.nan, np.nan, np.nan, 9], [2]),
    (series("1,5", "2"), {"decimal": ","}, [1.5, 2], []),
    (series("-9,0", "1,5"), {"decimal": ",", "codes": ["-9"]}, [np.nan, 1.5], []),
    (series("1.5", "2,5"), {"decimal": ","}, [np.nan, 2.5], [0]),
    (series("1.234,5", "2"), {"decimal": ",", "thousands": "."}, [1234.5, 2], []),
    (series("1,234.5", "9,5", "1234", "-1,234,567", "12,34", "1,2345"), {"thousands": ","},
     [1234.5, np.nan, 1234, -1234567, np.nan, np.nan], [1, 4, 5]),
    (series("1 234,5", "9 5"), {"decimal": ",", "thousands": " "}, [1234.5, np.nan], [1]),
    (series("inf", "-Infinity", "nan", "0x10", "1_000", "١", "1e999", "5f"), {}, [np.nan] * 8, list(range(8))),
    (pd.Series([1.0, np.inf, np.nan, -9]), {"codes": ["-9"]}, [1, np.nan, np.nan, np.nan], [1]),
    (pd.Series([1, 2], dtype="int8"), {}, [1, 2], []),
    (pd.Series([True, False]), {}, [1, 0], []),
    (pd.Series([1, None], dtype="Int64"), {}, [1, np.nan], []),
    (pd.Series(["3", None, 4.5, "x"], dtype=object), {}, [3, np.nan, 4.5, np.nan], [3]),
    (pd.Series(["1", "2"], dtype="category"), {}, [1, 2], []),
    (pd.Series(pd.to_datetime(["2020-01-01", None])), {}, [np.nan, np.nan], [0]),
    (series("1", "1.5"), {"whole": True}, [1, np.nan], [1]),
    (series("40 %", "5 years"), {}, [np.nan, np.nan], [0, 1]),
])  # fmt: skip
def test_numbers(values: pd.Series, options: dict[str, Any], numbers: list[float], unreadable: list[int]) -> None:
    found, bad = as_numbers(values, options.pop("codes", ()), **options)
    np.testing.assert_array_equal(found, numbers)
    assert np.flatnonzero(bad).tolist() == unreadable


@settings(max_examples=200)
@given(st.lists(st.text(max_size=8), max_size=20))
def test_any_text_is_a_finite_number_or_missing_or_marked(values: list[str]) -> None:
    numbers, bad = as_numbers(pd.Series(values, dtype="str"), ["NA"])
    for text, number, marked in zip(values, numbers, bad, strict=True):
        assert not np.isinf(number)
        if marked:
            assert np.isnan(number)
        elif np.isnan(number):
            assert text.strip() in ("", "NA")
        else:
            assert float(text) == number


def test_text_is_stripped_and_codes_are_missing() -> None:
    assert as_text(series(" a ", "", "NA", "b"), ["NA"]).fillna("-").tolist() == ["a", "-", "-", "b"]
    assert as_text(pd.Series([1.0, 2.5, np.nan]), ()).fillna("-").tolist() == ["1", "2.5", "-"]
    assert as_text(pd.Series([1, 2], dtype="category"), ()).tolist() == ["1", "2"]
    assert as_text(pd.Series([None, None]), ()).isna().all()


@pytest.mark.parametrize(("values", "translate", "numbers"), [
    (series("0", "1.0", "1.", "0,0", " 1 "), {}, [0, 1, 1, 0, 1]),
    (series("True", "false", "YES", "no", "y", "N"), {}, [1, 0, 1, 0, 1, 0]),
    (series("1", "2", "2.0"), {"1": "0", "2": "1"}, [0, 1, 1]),
    (series("yes", "no"), {"yes": "0", "no": "1"}, [0, 1]),
    (series("1,000", "01", "ja", "2"), {}, [np.nan] * 4),
    (series("-9", "-9.0", "1"), {}, [np.nan, np.nan, 1]),
])  # fmt: skip
def test_answers_are_read_as_people_write_them(
    values: pd.Series, translate: dict[str, str], numbers: list[float]
) -> None:
    found, bad = as_labels(values, ["-9"], Column(name="smoker", type="binary"), translate)
    np.testing.assert_array_equal(found, numbers)
    assert bad.tolist() == [
        bool(np.isnan(number)) and not value.startswith("-9") for value, number in zip(values, numbers, strict=True)
    ]


def test_whole_numbers_with_decimals_are_the_categories_they_look_like() -> None:
    column = Column(name="grade", type="ordinal", categories=("1", "2", "2.5"))
    labels, _ = as_labels(series("1.0", "2.00", "2.5", "3.0"), (), column, {})
    assert labels.astype("str").tolist() == ["1", "2", "2.5", "3.0"]


def test_what_a_map_cannot_match_is_said(prostate: Contract, patients: Any, make_site: Any) -> None:
    site = make_site(categories={"stage": {"T1": "T1", "one": "T1", "two": "T2"}, "comorbidity": {"ja": 1, "nein": 0}})
    found = {finding.rule: finding for finding in harmonise(patients(), prostate, site).findings}
    assert found["stage.unmatched"].severity == "info"
    assert "maps 'one', 'two' of 'stage', which the extract does not hold" in found["stage.unmatched"].sentence
    assert found["comorbidity.unmatched"].severity == "table_warning"
    assert found["comorbidity.unmatched"].ours


@pytest.mark.parametrize("key", [0.0, 0, "0.0", "0"])
def test_a_key_means_the_number_it_looks_like(prostate: Contract, patients: Any, make_site: Any, key: Any) -> None:
    rows = patients(4).assign(comorbidity=["0.0", "0", "9.0", "9"])
    frame = harmonise(rows, prostate, make_site(categories={"comorbidity": {key: 1, 9: 0}})).frame
    assert frame["comorbidity"].tolist() == [1, 1, 0, 0]


def test_one_number_is_not_mapped_twice(make_site: Any) -> None:
    with pytest.raises(ValueError, match="'0' is mapped twice, in two spellings"):
        make_site(categories={"comorbidity": {0: 1, "0.0": 0}})


def test_fractions_where_things_are_counted_are_not_blamed_on_the_decimal_mark() -> None:
    hint = hint_unreadable(series("1.5", "2.5", "3"), np.array([True, True, False]))
    assert hint == "they are fractions in a column of counts: make it type continuous in the table"
    assert "decimal commas" in hint_unreadable(series("1,5"), np.array([True]))
    assert "take `decimal` out" in hint_unreadable(series("1.5"), np.array([True]), ",")


def test_labels_are_translated_and_unknown_ones_stay() -> None:
    column = Column(name="stage", type="ordinal", categories=("T1", "T2"))
    labels, bad = as_labels(pd.Series([1.0, 2.0, 3.0, np.nan]), (), column, {"1": "T1", "2": "T2"})
    assert labels.astype("str").fillna("-").tolist() == ["T1", "T2", "3", "-"]
    assert labels.cat.ordered
    assert list(labels.cat.categories) == ["T1", "T2", "3"]
    assert not bad.any()


def test_binaries_are_numbers_and_the_rest_is_marked() -> None:
    column = Column(name="flag", type="binary")
    numbers, bad = as_labels(series("yes", "no", "maybe", "", "TRUE"), (), column, {"yes": "1", "no": "0"})
    np.testing.assert_array_equal(numbers, [1, 0, np.nan, np.nan, 1])
    assert bad.tolist() == [False, False, True, False, False]
    numbers, _ = as_labels(pd.Series([True, False, None], dtype=object), (), column, {})
    np.testing.assert_array_equal(numbers, [1, 0, np.nan])


def test_units_are_converted_by_a_units_library() -> None:
    assert factor("months", "years") == pytest.approx(1 / 12)
    assert factor("ug/L", "ng/mL") == pytest.approx(1)
    assert factor("1e9/L", "1/uL") == pytest.approx(1000)
    assert factor("10^9/L", "1e6/mL") == pytest.approx(1)
    assert convert(np.ones(1), "mg/dL", "mmol/L", molar_mass=386.65)[0] == pytest.approx(1 / 38.665, rel=1e-4)
    assert convert(np.ones(1), "umol/L", "mg/dL", molar_mass=113.12)[0] == pytest.approx(1 / 88.4, rel=1e-3)
    np.testing.assert_allclose(convert(np.array([98.6, np.nan]), "degF", "degC"), [37.0, np.nan])
    with pytest.raises(ContractError, match=r"here: 'mg/dL' cannot be converted to 'mmol/L'; .* needs a molar_mass"):
        factor("mg/dL", "mmol/L", where="here")
    with pytest.raises(ContractError, match="is not a known unit"):
        factor("bananas", "kg")
    assert "months" in alternatives("years")
    assert "ug/L" not in alternatives("ng/mL")


def test_other_shapes_come_out_alike(prostate: Contract, patients: Any, make_site: Any) -> None:
    plain = patients()
    other = pd.DataFrame(
        {
            "Patient": plain["patient_id"],
            "Age_months": (plain["age"].astype(float) * 12).map("{:.4f}".format).str.replace(".", ","),
            "PSA_ug_L": plain["psa"].str.replace(".", ","),
            "GradeGroup": plain["grade_group"],
            "cT": plain["stage"].str[1],
            "Charlson_ge1": plain["comorbidity"].map({"0": "no", "1": "yes"}),
            "Therapy": plain["treatment"].map(
                {"none": "AS", "prostatectomy": "RP", "radiotherapy": "RT", "hormone": "ADT"}),
        }
    )  # fmt: skip
    other.attrs.update(decimal=",")
    site = make_site(
        renames={"Patient": "patient_id", "Age_months": "age", "PSA_ug_L": "psa", "GradeGroup": "grade_group",
                 "cT": "stage", "Charlson_ge1": "comorbidity", "Therapy": "treatment"},
        units={"age": "months", "psa": "ug/L"},
        categories={"stage": {1: "T1", 2: "T2", 3: "T3", 4: "T4"}, "comorbidity": {"no": 0, "yes": 1},
                    "treatment": {"AS": "none", "RP": "prostatectomy", "RT": "radiotherapy", "ADT": "hormone"}},
    )  # fmt: skip
    expected = prepare_frame(plain, prostate, make_site())
    found = prepare_frame(other, prostate, site)
    pd.testing.assert_frame_equal(found.frame, expected.frame, atol=1e-4)
    assert found.validation.used == len(plain)


def test_labels_of_a_target_never_come_through(prostate: Contract, patients: Any, make_site: Any) -> None:
    extract = patients().assign(died_10y="1")
    for choice in ("refuse", "drop"):
        prepared = prepare_frame(extract, prostate, make_site(labels_in_extract=choice))
        assert "died_10y" not in prepared.frame
        assert prepared.validation.stopped == (choice == "refuse")
    renamed = make_site(renames={"outcome": "died_10y"}, labels_in_extract="drop")
    assert "died_10y" not in harmonise(patients().assign(outcome="1"), prostate, renamed).frame


def test_rows_keep_their_line(prostate: Contract, patients: Any, make_site: Any) -> None:
    extract = patients().set_axis(range(2, 102), axis=0)
    extract.loc[50, "age"] = "old"
    prepared = prepare_frame(extract, prostate, make_site())
    assert prepared.quarantine["row"].tolist() == [50]
    assert prepared.frame.index.tolist() == list(range(99))
