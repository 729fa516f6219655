"""Files as people export them: without an id, with row names, with a spreadsheet's marks, with a laboratory's words."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from command import init

from tdrop.base import DataError
from tdrop.contracts import Contract, Network, Prepared, load_network, parse_site
from tdrop.data import prepare, propose_site, read_labels


def measured(rows: int = 120, seed: int = 0) -> pd.DataFrame:
    """Patients without an id: two measurements, an answer, an outcome."""
    generator = np.random.default_rng(seed)
    return pd.DataFrame(
        {
            "age": generator.integers(30, 90, rows),
            "platelets": np.round(generator.normal(250_000, 60_000, rows)),
            "smoker": generator.choice(["yes", "no"], rows),
            "died": generator.choice([0, 1], rows, p=[0.7, 0.3]),
        }
    )


def network_of(file: Path) -> tuple[Network, Contract, str]:
    output = init(file.parent / "net", file, outcome="died")
    network = load_network(file.parent / "net" / "data_contracts")
    return network, network.contract("ward"), output


def added(file: Path, network: Network, contract: Contract) -> Prepared:
    site = parse_site(propose_site("north", file, contract, network), "north", network)
    return prepare(site, network, home=file.parent)


def features(contract: Contract) -> list[str]:
    return [column.name for column in contract.features]


def test_a_file_without_an_id_has_its_rows_numbered(tmp_path: Path) -> None:
    source, north = tmp_path / "source.csv", tmp_path / "north.csv"
    measured().to_csv(source, index=False)
    measured(seed=1).to_csv(north, index=False)
    network, contract, _ = network_of(source)
    assert (contract.id_column, features(contract)) == ("row", ["age", "platelets", "smoker"])
    prepared = added(north, network, contract)
    assert prepared.site.number_rows
    assert prepared.frame["row"].tolist()[:2] == ["north-2", "north-3"], "the lines of the file"
    assert prepared.validation.used == 120
    # The extract itself tells whose its outcomes are, another file does not.
    ids = prepared.frame["row"].to_numpy()
    labels = read_labels(north, contract, ids, home=tmp_path, base=tmp_path, like=prepared.site)
    assert labels.y.tolist() == measured(seed=1)["died"].astype(float).tolist()
    measured(seed=1).iloc[::-1].to_csv(tmp_path / "sorted.csv", index=False)
    with pytest.raises(DataError, match="numbers its rows, so outcomes in another file"):
        read_labels(tmp_path / "sorted.csv", contract, ids, home=tmp_path, base=tmp_path, like=prepared.site)


def test_measurements_that_all_differ_are_no_id(tmp_path: Path) -> None:
    file = tmp_path / "source.csv"
    measured(40).assign(platelets=np.random.default_rng(0).permutation(40) * 1_000 + 90_000).to_csv(file, index=False)
    _, contract, _ = network_of(file)
    assert contract.id_column == "row"
    assert "platelets" in features(contract)


@pytest.mark.parametrize("named", [False, True])
def test_row_names_are_the_id_where_there_is_no_other(named: bool, tmp_path: Path) -> None:
    file = tmp_path / "source.csv"
    frame = measured().iloc[::2]
    (frame.reset_index(names="Unnamed: 0") if named else frame).to_csv(file, index=not named)
    network, contract, _ = network_of(file)
    assert (contract.id_column, features(contract)) == ("Unnamed_0", ["age", "platelets", "smoker"])
    assert added(file, network, contract).frame["Unnamed_0"].tolist()[:2] == ["0", "2"]


def test_row_names_beside_an_id_predict_nothing(tmp_path: Path) -> None:
    file = tmp_path / "source.csv"
    measured().assign(patient=[f"p{row}" for row in range(120)]).iloc[::3].to_csv(file)
    _, contract, output = network_of(file)
    assert (contract.id_column, features(contract)) == ("patient", ["age", "platelets", "smoker"])
    assert "column 'Unnamed: 0' is left out: it numbers the patients" in output


def test_an_id_by_another_name_is_found_by_its_values(tmp_path: Path) -> None:
    source, north = tmp_path / "source.csv", tmp_path / "north.csv"
    measured().to_csv(source, index_label="pid")
    measured(seed=1).assign(Fall=[f"F{row}" for row in range(120)]).to_csv(north, index=False)
    network, contract, _ = network_of(source)
    prepared = added(north, network, contract)
    assert (dict(prepared.site.renames), prepared.validation.used) == ({"Fall": "pid"}, 120)


def test_words_in_a_laboratorys_column_are_missing_values(tmp_path: Path) -> None:
    file = tmp_path / "source.csv"
    frame = measured().astype({"platelets": object})
    frame.loc[frame.index[::10], "platelets"] = "<80000"
    frame.loc[5, "platelets"] = "clotted"
    frame.to_csv(file, index_label="pid")
    _, contract, output = network_of(file)
    column = contract.column("platelets")
    assert (column.type, column.severity["readable"]) == ("continuous", "row_warning")
    assert "120 rows read, 120 used" in output
    assert "13 of 120 values cannot be read as numbers" in output


def test_marks_between_thousands_are_read(tmp_path: Path) -> None:
    file = tmp_path / "source.csv"
    frame = measured()
    frame.assign(platelets=[f"{value:,.0f}" for value in frame["platelets"]]).to_csv(file, index_label="pid")
    network, contract, _ = network_of(file)
    assert added(file, network, contract).frame["platelets"].tolist() == frame["platelets"].tolist()


def test_outcomes_in_the_sites_own_file_are_read_as_its_extract_is(tmp_path: Path) -> None:
    source, north = tmp_path / "source.csv", tmp_path / "north.csv"
    measured().to_csv(source, index_label="pid")
    frame = measured(seed=1).rename(columns=str.upper)
    frame["PLATELETS"] += 0.5
    frame.to_csv(north, index_label="PID", sep=";", decimal=",")
    network, contract, _ = network_of(source)
    prepared = added(north, network, contract)
    ids = prepared.frame["pid"].to_numpy()
    labels = read_labels(north, contract, ids, home=tmp_path, base=tmp_path, like=prepared.site)
    assert labels.counts.known == 120
    frame[["DIED"]].rename(columns=str.lower).to_csv(tmp_path / "plain.csv", index_label="pid")
    plain = read_labels(tmp_path / "plain.csv", contract, ids, home=tmp_path, base=tmp_path, like=prepared.site)
    assert plain.counts.known == 120


def test_what_other_patients_usually_have_is_no_warning(tmp_path: Path) -> None:
    source, north = tmp_path / "source.csv", tmp_path / "north.csv"
    measured().to_csv(source, index_label="pid")
    measured(500, seed=1).to_csv(north, index_label="pid")
    network, contract, _ = network_of(source)
    findings = added(north, network, contract).validation.findings
    assert [found.rule for found in findings if found.count] == ["table.labels"]


def test_a_column_that_hardly_anybody_has_is_told_as_left_out(tmp_path: Path) -> None:
    source, north = tmp_path / "source.csv", tmp_path / "north.csv"
    measured().to_csv(source, index_label="pid")
    frame = measured(seed=1).astype({"platelets": object})
    frame.loc[frame.index[4:], "platelets"] = None
    frame.to_csv(north, index_label="pid")
    network, contract, _ = network_of(source)
    site = parse_site(propose_site("north", north, contract, network), "north", network)
    known = prepare("source", network, home=tmp_path).frame
    validation = prepare(site, network, home=tmp_path, source=known).validation
    (found,) = [each for each in validation.findings if each.rule == "platelets.all_missing"]
    assert "116 of 120 values missing here" in found.sentence
    assert "a model for this site does without the column" in found.sentence
    assert not validation.stopped


def proposed(tmp_path: Path, **columns: object) -> tuple[Contract, str]:
    file = tmp_path / "source.csv"
    measured().assign(**columns).to_csv(file, index=False)
    _, contract, output = network_of(file)
    return contract, output


def test_none_is_a_label_among_labels_and_missing_among_numbers(tmp_path: Path) -> None:
    word = np.where(np.arange(120) % 4 == 0, "None", "airbag")
    number = np.where(np.arange(120) % 4 == 0, "None", np.arange(120).astype(str))
    contract, _ = proposed(tmp_path, restraint=word, lactate=np.roll(number, 7))
    assert set(contract.column("restraint").categories) == {"None", "airbag"}
    assert contract.column("lactate").type == "continuous"


def test_words_for_not_known_are_missing_values(tmp_path: Path) -> None:
    word = np.where(np.arange(120) % 5 == 0, "nk", np.where(np.arange(120) % 2 == 0, "y", "n"))
    contract, _ = proposed(tmp_path, angina=word, stroke=np.where(word == "nk", "unbekannt", word))
    assert {contract.column(name).type for name in ("angina", "stroke")} == {"binary"}


def test_a_column_of_a_few_patients_values_is_left_out(tmp_path: Path) -> None:
    values = np.where(np.arange(120) < 2, np.arange(120) + 249, np.nan)
    contract, output = proposed(tmp_path, fifth_event=values)
    assert contract.column("fifth_event").role == "ignored"
    assert "only 2 of 120 patients have a value" in output


def test_row_names_and_ids_of_other_things_predict_nothing(tmp_path: Path) -> None:
    shuffled = np.random.default_rng(0).permutation(120) + 1
    contract, output = proposed(
        tmp_path, rownames=shuffled, patid=shuffled[::-1], case_id=np.arange(120) // 2 * 7 % 97, center=shuffled % 13
    )
    assert contract.id_column == "patid"
    assert features(contract) == ["age", "platelets", "smoker"]
    assert "column 'case_id' is left out: an id by its name" in output
    assert "column 'center' is left out: its numbers are codes of places or people" in output


def test_years_of_the_calendar_have_no_unit_and_only_a_patients_age_is_in_years(tmp_path: Path) -> None:
    years = np.arange(120)
    contract, _ = proposed(
        tmp_path, sample_yr=1990 + years % 9, accident=1997 + years % 3, gestational_age=24 + years % 17
    )
    assert contract.column("accident").type == "continuous"
    assert contract.column("sample_yr").unit is None
    assert contract.column("gestational_age").unit is None
    assert contract.column("age").unit == "years"


def test_row_names_in_any_order_are_an_id(tmp_path: Path) -> None:
    contract, _ = proposed(tmp_path, rownames=np.random.default_rng(0).permutation(120) + 1)
    assert contract.id_column == "rownames"


def test_a_unit_that_the_ranges_allow_is_known_beside_the_source(tmp_path: Path) -> None:
    source, north = tmp_path / "source.csv", tmp_path / "north.csv"
    frame = measured().assign(weight_kg=lambda f: (50.0 + f["age"] / 2).where(f.index > 2, 200.0))
    frame.to_csv(source, index=False)
    network, contract, _ = network_of(source)
    frame.assign(weight=(frame["weight_kg"] * 2.2046).round()).drop(columns="weight_kg").to_csv(north, index=False)
    alone = parse_site(propose_site("north", north, contract, network), "north", network)
    known = prepare(network.site("source"), network, home=tmp_path).frame
    beside = parse_site(propose_site("north", north, contract, network, beside=known), "north", network)
    assert (alone.units, beside.units) == ({}, {"weight_kg": "lb"})
    assert prepare(alone, network, home=tmp_path, source=known).validation.stopped
    assert not prepare(beside, network, home=tmp_path, source=known).validation.stopped


def test_of_two_labels_the_other_follows_and_is_never_its_opposite(tmp_path: Path) -> None:
    source, north = tmp_path / "source.csv", tmp_path / "north.csv"
    frame = measured().assign(belt=lambda f: f["smoker"].map({"yes": "belted", "no": "none"}))
    frame.to_csv(source, index=False)
    network, contract, _ = network_of(source)
    frame.assign(belt=frame["belt"].replace("none", "not belted")).to_csv(north, index=False)
    prepared = added(north, network, contract)
    assert prepared.site.categories["belt"] == {"not belted": "none"}
    assert prepared.frame["belt"].tolist() == frame["belt"].tolist()
    unmapped = prepare(prepared.site.model_copy(update={"categories": {}}), network, home=tmp_path).validation
    assert not any("did you mean" in finding.fix for finding in unmapped.findings)


def test_a_later_extract_has_later_years(tmp_path: Path) -> None:
    source, north = tmp_path / "source.csv", tmp_path / "north.csv"
    frame = measured().assign(year_seen=lambda f: 1997 + f["age"] % 3, year_made=lambda f: 1960 + f["age"] % 40)
    frame.to_csv(source, index=False)
    network, contract, _ = network_of(source)
    frame.assign(year_seen=frame["year_seen"] + 5).to_csv(north, index=False)
    assert [one.rule for one in added(north, network, contract).validation.findings] == ["table.labels"]


def test_what_cannot_be_read_is_not_called_missing_too(tmp_path: Path) -> None:
    source, north = tmp_path / "source.csv", tmp_path / "north.csv"
    measured().to_csv(source, index=False)
    network, contract, _ = network_of(source)
    measured(seed=1).assign(smoker=lambda f: f["smoker"].map({"yes": "pre", "no": "post"})).to_csv(north, index=False)
    site = parse_site(propose_site("north", north, contract, network), "north", network)
    known = prepare(network.site("source"), network, home=tmp_path).frame
    found = prepare(site, network, home=tmp_path, source=known).validation.findings
    assert [one.rule for one in found if one.column == "smoker"] == ["smoker.readable"]


def test_names_units_and_numerals_of_a_second_hospital_are_known(tmp_path: Path) -> None:
    source, north = tmp_path / "source.csv", tmp_path / "north.csv"
    frame = measured().assign(
        sysbp=lambda f: 100 + f["age"], hr=lambda f: 50 + f["age"] % 60, temp_c=lambda f: 35 + f["age"] / 20,
        creatinine_mg_dl=lambda f: (f["age"] / 60).round(2), stage=lambda f: 1 + f["age"] % 4,
    )  # fmt: skip
    frame.to_csv(source, index=False)
    network, contract, _ = network_of(source)
    other = frame.rename(columns={"sysbp": "Systolic BP", "hr": "Heart Rate"}).assign(
        temp_f=frame["temp_c"] * 1.8 + 32, creatinine=(frame["creatinine_mg_dl"] * 88.4).round(),
        stage=frame["stage"].map({1: "I", 2: "II", 3: "III", 4: "IV"}),
    )  # fmt: skip
    other.drop(columns=["temp_c", "creatinine_mg_dl"]).to_csv(north, index=False)
    known = prepare(network.site("source"), network, home=tmp_path).frame
    site = parse_site(propose_site("north", north, contract, network, beside=known), "north", network)
    assert site.units == {"temp_c": "degF", "creatinine_mg_dl": "umol/L"}
    prepared = prepare(site, network, home=tmp_path, source=known)
    assert not prepared.validation.stopped
    assert prepared.frame["stage"].astype(str).tolist() == frame["stage"].astype(str).tolist()
    for name in ("sysbp", "hr", "temp_c", "creatinine_mg_dl"):
        np.testing.assert_allclose(prepared.frame[name], frame[name], rtol=0.02)
    # Without the unit most are impossible, and one of many temperatures is no missing-value code.
    fever = prepare(site.model_copy(update={"units": {}}), network, home=tmp_path).validation
    assert not any("missing-value code" in one.fix and "'" in one.fix for one in fever.findings)


def test_what_is_the_same_for_many_is_no_id(tmp_path: Path) -> None:
    file = tmp_path / "source.csv"
    measured(300).assign(test_id=lambda f: f["smoker"].map({"yes": "covid", "no": "xcvd1"})).to_csv(file, index=False)
    _, contract, _ = network_of(file)
    assert contract.id_column == "row"
