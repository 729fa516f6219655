"""Two files of one disease as hospitals write them: what a person would understand is understood, and marked."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from command import init

from tdrop.contracts import Column, Prepared, Site, load_network, parse_site
from tdrop.data import closest, guess_labels, prepare, propose_site


def patients(rows: int = 200, seed: int = 0) -> pd.DataFrame:
    generator = np.random.default_rng(seed)
    return pd.DataFrame(
        {
            "patient_id": [f"{seed}-{row}" for row in range(rows)],
            "sex": generator.choice(["Female", "Male"], rows),
            "creatinine_mg_dL": np.exp(generator.normal(0, 0.3, rows)).round(2),
            "glu": generator.normal(120, 20, rows).round(),
            "smoke_years": generator.integers(0, 50, rows),
            "meno": generator.choice([0, 1], rows),
            "prior": generator.choice([0, 10], rows),
            "died": generator.choice([0, 1], rows),
        }
    )


@pytest.fixture
def beside(tmp_path: Path):
    """Proposes and checks a second hospital's file beside that of the first."""
    patients().to_csv(tmp_path / "source.csv", index=False)
    init(tmp_path / "net", tmp_path / "source.csv", outcome="died")
    network = load_network(tmp_path / "net" / "data_contracts")

    def propose(**changes: object) -> tuple[str, Site, Prepared]:
        frame = patients(seed=1).drop(columns="died")
        frame = changes["change"](frame) if callable(changes.get("change")) else frame.assign(**changes)
        frame.to_csv(tmp_path / "north.csv", index=False)
        text = propose_site("north", tmp_path / "north.csv", network.contract("ward"), network)
        site = parse_site(text, "north", network)
        source = prepare(network.site("source"), network, home=tmp_path).frame
        return text, site, prepare(site, network, home=tmp_path, source=source)

    return propose


@pytest.mark.parametrize(
    ("female", "male", "sure"),
    [("F", "M", "likely"), ("w", "m", "likely"), ("2", "1", "possible"), ("weiblich", "männlich", "likely")],
)
def test_the_sexes_are_known_by_word_letter_and_code(beside, female: str, male: str, sure: str) -> None:
    theirs = patients(seed=1)["sex"].map({"Female": female, "Male": male})
    text, site, prepared = beside(sex=theirs)
    assert site.categories["sex"] == {female: "Female", male: "Male"}
    assert f"guess ({sure})" in text
    assert prepared.frame["sex"].astype(str).tolist() == patients(seed=1)["sex"].tolist()


def test_yes_and_no_are_paired_with_two_codes_of_which_one_is_0(beside) -> None:
    _, site, prepared = beside(prior=patients(seed=1)["prior"].map({0: "no", 10: "yes"}))
    assert site.categories["prior"] == {"no": "0", "yes": "10"}
    assert prepared.validation.used == 200


def test_an_analyte_in_the_other_kind_of_unit_is_converted(beside) -> None:
    def other_unit(frame: pd.DataFrame) -> pd.DataFrame:
        frame["creatinine_umol_L"] = (frame.pop("creatinine_mg_dL") * 88.4).round(1)
        return frame

    _, site, prepared = beside(change=other_unit)
    assert site.units == {"creatinine_mg_dL": "umol/L"}
    converted = prepared.frame["creatinine_mg_dL"].to_numpy()
    np.testing.assert_allclose(converted, patients(seed=1)["creatinine_mg_dL"], rtol=0.01)


def test_a_code_for_missing_is_found_however_often_it_stands(beside) -> None:
    years = patients(seed=1)["smoke_years"].where(np.arange(200) % 5 > 0, 999)
    _, site, prepared = beside(smoke_years=years)
    assert site.codes_of("smoke_years") == {"999"}
    assert prepared.validation.used == 200


def test_a_name_cut_short_is_the_same_name(beside) -> None:
    _, site, _ = beside(change=lambda frame: frame.rename(columns={"glu": "Glucose"}))
    assert site.renames == {"Glucose": "glu"}


def test_a_column_that_could_not_hold_what_is_missed_does_not_stop_a_site(beside) -> None:
    text, site, prepared = beside(change=lambda frame: frame.drop(columns=["glu", "meno"]).assign(ward="3B"))
    assert set(site.not_recorded) == {"glu", "meno"}
    assert not prepared.validation.stopped
    text, site, prepared = beside(change=lambda frame: frame.rename(columns={"glu": "lab_17"}).drop(columns="meno"))
    assert "a name like 'glu': is it one of lab_17?" in text
    assert site.not_recorded == ("meno",)
    assert prepared.validation.stopped


def test_labels_of_a_column_of_0_and_1_that_nobody_knows_are_named(beside) -> None:
    _, _, prepared = beside(meno=patients(seed=1)["meno"].map({0: "pre", 1: "post"}))
    [finding] = [finding for finding in prepared.validation.findings if finding.rule == "meno.readable"]
    assert "'pre'" in finding.fix
    assert "`categories`" in finding.fix


def test_labels_of_which_none_is_known_are_told_once(beside) -> None:
    _, _, prepared = beside(sex=patients(seed=1)["sex"].map({"Female": "x", "Male": "y"}))
    assert [finding.rule for finding in prepared.validation.findings if finding.column == "sex"] == ["sex.categories"]


def test_of_two_answers_one_that_is_known_tells_the_other(beside) -> None:
    text, site, _ = beside(meno=patients(seed=1)["meno"].map({0: "never", 1: "current"}))
    assert site.categories["meno"] == {"never": "0", "current": "1"}
    assert '"current": "1"    # guess (possible): the other is a no' in text


def test_words_of_the_sexes_are_paired_with_their_codes() -> None:
    column = Column(name="sex", title="Sex", type="categorical", categories=("1", "2"))
    assert {label: to for label, (to, _) in guess_labels(["F", "M"], column).items()} == {"F": "2", "M": "1"}


def test_a_column_of_one_sex_is_found_in_one_of_both() -> None:
    assert closest(Column(name="male", title="Male", type="binary"), ["age", "Sex"]) == "Sex"


def test_what_is_denied_is_not_what_is_spelled_alike() -> None:
    column = Column(name="belt", title="Belt", type="categorical", categories=("belted", "none"))
    assert guess_labels(["not belted", "unbelted"], column)["not belted"][0] is None
    assert {label: to for label, (to, _) in guess_labels(["no", "yes"], column).items()} == {
        "no": "none",
        "yes": "belted",
    }
    assert guess_labels(["inpatients", "x"], column.model_copy(update={"categories": ("inpatient", "out")}))[
        "inpatients"
    ] == ("inpatient", "guess (possible): a similar spelling")


def test_advice_about_the_export_names_no_file_of_ours(beside) -> None:
    _, _, prepared = beside(smoke_years=patients(seed=1)["smoke_years"].astype(str) + " Jahre")
    [finding] = [finding for finding in prepared.validation.findings if finding.rule == "smoke_years.readable"]
    assert finding.fix.endswith("export the number alone")
