"""Suspicions that need the source: each says how sure it is and what to change, and can be accepted."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest

from tdrop.contracts import Contract, Finding
from tdrop.data import compare_extracts, prepare_frame


def cohort(prostate: Contract, patients: Any, make_site: Any, rows: int = 400, seed: int = 0) -> pd.DataFrame:
    return prepare_frame(patients(rows, seed).assign(patient_id=lambda f: f["patient_id"] + f"-{seed}"), prostate,
                         make_site()).frame  # fmt: skip


@pytest.fixture
def source(prostate: Contract, patients: Any, make_site: Any) -> pd.DataFrame:
    return cohort(prostate, patients, make_site)


@pytest.fixture
def target(prostate: Contract, patients: Any, make_site: Any) -> pd.DataFrame:
    return cohort(prostate, patients, make_site, seed=1)


def only(findings: tuple[Finding, ...]) -> Finding:
    assert len(findings) == 1, [finding.sentence for finding in findings]
    return findings[0]


def test_alike_sites_raise_no_suspicion(source: Any, target: Any, prostate: Contract, make_site: Any) -> None:
    assert compare_extracts(source, target, prostate, make_site()) == ()


@pytest.mark.parametrize("shift", [0.6, 1.7, 2.3])
def test_a_real_shift_is_no_other_unit(
    shift: float, source: Any, target: Any, prostate: Contract, make_site: Any
) -> None:
    assert compare_extracts(source, target.assign(psa=target["psa"] * shift), prostate, make_site()) == ()


@pytest.mark.parametrize(("column", "times", "unit"), [
    ("age", 12, "months"), ("age", 365.25, "days"), ("psa", 0.001, "mg/L"),
    ("psa", 1000, "pg/mL"), ("psa", 0.0001, "mg/dL"),
])  # fmt: skip
def test_another_unit_is_named(
    column: str, times: float, unit: str, source: Any, target: Any, prostate: Contract,
    make_site: Any
) -> None:  # fmt: skip
    moved = target.assign(**{column: target[column] * times})
    finding = only(compare_extracts(source, moved, prostate, make_site()))
    assert finding.rule == f"{column}.scale"
    assert (finding.severity, finding.sure) == ("table_stop", "likely")
    assert f"units: {{{column}: {unit}}}" in finding.fix
    accepted = only(compare_extracts(source, moved, prostate, make_site(accept=[f"{column}.scale"])))
    assert accepted.severity == "info"


def test_a_unit_that_is_declared_wrongly_is_noticed(
    source: Any, target: Any, prostate: Contract, make_site: Any
) -> None:
    site = make_site(units={"age": "months"})
    finding = only(compare_extracts(source, target.assign(age=target["age"] / 12), prostate, site))
    assert "in years rather than months" in finding.sentence


@pytest.mark.parametrize(("name", "times", "unit", "mass"), [
    ("cholesterol", 38.67, "mg/dL", "386.65"), ("creatinine", 113.12 / 1000, "g/L", "113.12"),
])  # fmt: skip
def test_mass_and_amount_are_told_apart_by_the_columns_name(
    name: str, times: float, unit: str, mass: str, make_site: Any
) -> None:
    table = {
        "name": "lab", "version": 1, "title": "Lab",
        "columns": [{"name": "id", "role": "id", "type": "categorical"}, {"name": name, "unit": "mmol/L"},
                    {"name": "y", "role": "label", "type": "binary"}],
        "outcome": {"name": "y", "title": "y", "column": "y", "horizon": "1 year"},
    }  # fmt: skip
    values = np.random.default_rng(0).normal(5, 0.8, 500)
    frame = pd.DataFrame({"id": [f"a{index}" for index in range(500)], name: values})
    other = pd.DataFrame({"id": [f"b{index}" for index in range(500)], name: values * times * 1.02})
    finding = only(compare_extracts(frame, other, Contract.model_validate(table), make_site()))
    assert f"as if it were in {unit} rather than mmol/L" in finding.sentence
    assert f"units: {{{name}: {unit}}}" in finding.fix
    assert f"`molar_mass: {mass}` in the table" in finding.fix
    assert finding.sure == "likely"


def test_categories_that_the_source_never_holds(source: Any, target: Any, prostate: Contract, make_site: Any) -> None:
    new = target.assign(stage=target["stage"].mask(target.index < 7, "T4"))
    finding = only(compare_extracts(source, new, prostate, make_site()))
    assert (finding.rule, finding.count, finding.severity) == ("stage.new_categories", 7, "table_warning")
    assert "hold T4" in finding.sentence


def test_dead_columns(source: Any, target: Any, prostate: Contract, make_site: Any) -> None:
    rules = [finding.rule for frame in (target.assign(psa=np.nan), target.drop(columns="psa"), target.assign(psa=4.0),
                                        target.assign(comorbidity=0.0))
             for finding in compare_extracts(source, frame, prostate, make_site())]  # fmt: skip
    assert rules == ["psa.all_missing", "psa.all_missing", "psa.constant", "comorbidity.constant"]


def test_patients_of_the_source_in_the_target(source: Any, target: Any, prostate: Contract, make_site: Any) -> None:
    mixed = pd.concat([target, source.head(9)], ignore_index=True)
    finding = only(compare_extracts(source, mixed, prostate, make_site()))
    assert (finding.rule, finding.count) == ("table.shared_patients", 9)
    renamed = pd.concat([target, source.head(90).assign(patient_id=[f"new {row}" for row in range(90)])])
    assert only(compare_extracts(source, renamed, prostate, make_site())).count == 90
    same_numbers = target.assign(patient_id=source["patient_id"])
    assert compare_extracts(source, same_numbers, prostate, make_site()) == ()


def test_the_same_people_under_other_ids_are_suspected_and_strangers_are_not(
    source: Any, target: Any, prostate: Contract, make_site: Any
) -> None:
    random = np.random.default_rng(0)
    again = source.head(120).assign(patient_id=[f"new {row}" for row in range(120)])
    # Measured or rounded once more: a year older or not, the PSA in its last digit.
    again = again.assign(age=again["age"] + random.integers(0, 2, 120), psa=again["psa"].round(1))
    mixed = pd.concat([target.tail(180), again], ignore_index=True)
    finding = only(compare_extracts(source, mixed, prostate, make_site()))
    assert finding.rule == "table.shared_patients"
    assert "under other ids" in finding.sentence
    assert 60 <= finding.count <= 130
    # Few coarse columns: strangers of two sites coincide as often as strangers of one.
    names = ["patient_id", "age", "grade_group", "comorbidity"]
    coarse = prostate.model_copy(update={"columns": tuple(prostate.column(name) for name in names)})
    for rows in (40, 150, 400):
        ours, theirs = (frame[names].assign(age=frame["age"].round()) for frame in (source, target.head(rows)))
        assert compare_extracts(ours, theirs, coarse, make_site()) == ()


def test_values_that_many_share_name_nobody_without_the_id(
    source: Any, target: Any, prostate: Contract, make_site: Any
) -> None:
    def rounded(frame: pd.DataFrame) -> pd.DataFrame:
        same = frame[["grade_group", "stage", "comorbidity", "treatment"]].iloc[0].to_dict()
        return frame.assign(age=(frame["age"] / 20).round() * 20, psa=5.0, **same)

    assert not [one for one in compare_extracts(rounded(source), rounded(target), prostate, make_site())
                if one.rule == "table.shared_patients"]  # fmt: skip


def test_few_rows_raise_no_suspicion(source: Any, target: Any, prostate: Contract, make_site: Any) -> None:
    few = target.head(8).assign(age=target["age"].head(8) * 12)
    assert compare_extracts(source, few, prostate, make_site()) == ()
    assert compare_extracts(source, target.head(0), prostate, make_site()) == ()


def test_prepare_compares_when_it_is_given_the_source(
    source: Any, patients: Any, prostate: Contract, make_site: Any
) -> None:
    extract = patients(300, 1)
    extract["psa"] = (extract["psa"].astype(float) / 1000).round(6).astype(str)
    alone = prepare_frame(extract, prostate, make_site()).validation
    beside = prepare_frame(extract, prostate, make_site(), source=source).validation
    assert not alone.stopped
    assert beside.stopped
    assert beside.by_severity("table_stop")[0].rule == "psa.scale"
