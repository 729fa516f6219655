"""The column that says whose row it is: read as text, never a feature, and nobody's own where it is missing."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest

from tdrop.contracts import Column, Contract
from tdrop.data import learn_encoder, persons_of
from tdrop.data.preparation import prepare_frame


@pytest.fixture
def contract(prostate: Contract) -> Contract:
    column = Column(name="whose", role="ignored", type="categorical")
    return Contract.model_validate({**prostate.model_dump(by_alias=True), "columns": (*prostate.columns, column),
                                    "person": "whose"})  # fmt: skip


def visits(patients: Any, whose: list[Any]) -> pd.DataFrame:
    return patients(len(whose)).assign(whose=whose)


WHOSE = [*["007", "7", "007", "b", "b", None, None, " b "], *[f"c{place}" for place in range(92)]]


def test_rows_of_one_person_have_one_number(contract: Contract, patients: Any, make_site: Any) -> None:
    prepared = prepare_frame(visits(patients, WHOSE), contract, make_site())
    assert not prepared.validation.stopped
    persons = persons_of(prepared.frame, contract)
    assert persons is not None
    assert persons[0] == persons[2] != persons[1]
    assert persons[3] == persons[4] == persons[7]
    assert len({*persons[[0, 1, 3, 5, 6]]}) == 5, "who names nobody is a person of their own"
    encoder = learn_encoder(prepared.frame, contract)
    assert not any("whose" in feature.name for feature in encoder.features)
    cohort = encoder.encode(prepared.frame, "north", persons=persons)
    assert cohort.persons is not None
    assert "007" not in repr(cohort)


@pytest.mark.parametrize("spelling", [lambda name: f"person-{name}", lambda name: name[::-1]])
def test_how_persons_are_called_does_not_matter(contract: Contract, patients: Any, make_site: Any,
                                                spelling: Any) -> None:  # fmt: skip
    given = [None if name is None else str(name).strip() for name in WHOSE]
    found = []
    for names in (given, [None if name is None else spelling(name) for name in given]):
        prepared = prepare_frame(visits(patients, names), contract, make_site(renames={}))
        found.append(persons_of(prepared.frame, contract))
    assert np.array_equal(*found)


def test_a_site_may_call_the_column_otherwise(contract: Contract, patients: Any, make_site: Any) -> None:
    raw = visits(patients, WHOSE).rename(columns={"whose": "MRN"})
    prepared = prepare_frame(raw, contract, make_site(renames={"MRN": "whose"}))
    persons = persons_of(prepared.frame, contract)
    assert persons is not None
    assert persons[0] == persons[2]


def test_numbers_are_read_as_the_text_that_they_stand_for(contract: Contract, patients: Any, make_site: Any) -> None:
    raw = visits(patients, [7.0, 8.0, 7.0, np.nan, *range(100, 196)])
    prepared = prepare_frame(raw, contract, make_site())
    assert prepared.frame["whose"].tolist()[:3] == ["7", "8", "7"]


def test_where_nobody_has_two_rows_there_are_no_persons(
    contract: Contract, prostate: Contract, patients: Any, make_site: Any
) -> None:
    raw = visits(patients, [f"p{place}" for place in range(98)] + [None, None])
    assert persons_of(prepare_frame(raw, contract, make_site()).frame, contract) is None
    assert persons_of(prepare_frame(raw, prostate, make_site()).frame, prostate) is None


def test_a_source_without_the_column_is_stopped_and_a_target_is_not(
    contract: Contract, patients: Any, make_site: Any
) -> None:
    raw = patients(100).assign(died_10y=["0", "1"] * 50)
    source = make_site(role="source", source=None)
    found = prepare_frame(raw, contract, source).validation
    assert "column 'whose' (whose) is not in the extract" in found.reason
    assert not prepare_frame(patients(100), contract, make_site()).validation.stopped
