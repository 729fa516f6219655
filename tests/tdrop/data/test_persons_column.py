"""The column that says whose row it is: read as text, never a feature, and nobody's own where it is missing."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from tdrop.base import DataError
from tdrop.contracts import Column, Contract, Disclosure, parse_yaml
from tdrop.data import Asked, learn_encoder, persons_of, prepare_frame, propose_table
from tdrop.disclosure import conceal_validation, disclose_validation


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


def test_it_is_said_how_many_persons_the_rows_are_of(contract: Contract, patients: Any, make_site: Any) -> None:
    validation = prepare_frame(visits(patients, WHOSE), contract, make_site()).validation
    found = next(finding for finding in validation.findings if finding.rule == "table.persons")
    assert found.sentence == "100 rows of 97 persons"
    policy = Disclosure(threshold=10)
    shown = [finding for finding in disclose_validation(validation, policy).findings if finding.rule == found.rule]
    assert shown[0].sentence == "100 rows of 100 persons"
    kept = [finding for finding in conceal_validation(validation, policy).findings if finding.rule == found.rule]
    assert kept[0].sentence == "some rows of some persons"


def propose(tmp_path: Path, **ids: Any) -> str:
    generator = np.random.default_rng(0)
    columns = {"age": generator.normal(60, 9, 240).round(1), "sbp": generator.normal(130, 15, 240).round(0)}
    file = tmp_path / "visits.csv"
    pd.DataFrame({**ids, **columns, "died": generator.integers(0, 2, 240)}).to_csv(file, index=False)
    return propose_table("visits", file, Asked(outcome="died")).text


@pytest.mark.parametrize("name", ["patient_id", "MRN", "subject"])
@pytest.mark.parametrize("spelling", [str, "p{:03d}".format])
def test_a_proposed_table_says_whose_rows_they_are(tmp_path: Path, name: str, spelling: Any) -> None:
    whose = [spelling(row % 80 + 400) for row in np.random.default_rng(1).permutation(240)]
    text = propose(tmp_path, **{"encounter_id": [f"e{row}" for row in range(240)], name: whose})
    assert f"\nperson: {name}    # guess (likely)" in text
    table = Contract.model_validate({**parse_yaml(text, Path("visits.yaml")).data})
    assert (table.id_column, table.person) == ("encounter_id", name)


def test_who_has_one_row_is_the_id_and_nobody_is_proposed_twice(tmp_path: Path) -> None:
    text = propose(tmp_path, patient_id=[f"p{row}" for row in range(240)])
    assert "person:" not in text
    text = propose(
        tmp_path, case_id=[f"p{row}" for row in range(240)], patient_age=[40 + row % 40 for row in range(240)]
    )
    assert "person:" not in text
    with pytest.raises(DataError, match="should identify a patient, but 160 of 240 rows repeat"):
        propose(tmp_path, patient_id=[f"p{row % 80}" for row in range(240)])
