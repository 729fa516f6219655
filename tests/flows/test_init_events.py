"""`tdrop init` and `add-site` on databases of events: a cohort's codes become a table that a second hospital reads."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path

import pandas as pd
import pytest
from command import tdrop
from demo_databases import omop_tables, write_demo_events, write_meds
from event_cases import CONCEPTS, make_records

from tdrop.base import TdropError
from tdrop.contracts import load_network
from tdrop.data import prepare, read_labels

pytest.importorskip("duckdb")
ROWS = {"registry": 200, "harbour": 120, "hillside": 120}
ASKED = ("--index", "SNOMED/399068003", "--outcome-code", "MEDS_DEATH", "--horizon", "10 years")
PSA = "LOINC/2857-1"


def settle(folder: Path) -> None:
    for file in folder.rglob("*.parquet"):
        os.utime(file, (time.time() - 60,) * 2)


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The simulated network as MEDS and OMOP; Harbour's PSA has a code of its own, Hillside has no grade."""
    folder = tmp_path_factory.mktemp("demo")
    for form in ("meds", "omop"):
        write_demo_events(folder / form, form, ROWS)
    concepts = folder / "omop" / "harbour" / "concept.parquet"
    renamed = pd.read_parquet(concepts)
    renamed.loc[renamed["concept_code"] == "2857-1", ["vocabulary_id", "concept_code"]] = ["Lab", "77"]
    renamed.to_parquet(concepts)
    events = folder / "meds" / "hillside" / "data" / "events.parquet"
    held = pd.read_parquet(events)
    held[~held["code"].str.startswith("Demo/grade")].to_parquet(events)
    settle(folder)
    return folder


def test_a_cohorts_frequent_codes_become_a_table_with_their_titles(demo: Path, tmp_path: Path) -> None:
    words = tdrop("init", tmp_path / "net", "--meds", demo / "meds" / "registry", *ASKED)
    assert "Outcome: Death within 10 years; it happened to " in words
    assert "tdrop add-site NAME --meds DIR" in words
    text = (tmp_path / "net" / "data_contracts" / "tables" / "net.yaml").read_text()
    contract = load_network(tmp_path / "net" / "data_contracts").contract("net")
    psa = next(column for column in contract.features if column.events and PSA in column.events.listed)
    assert psa.title == "Prostate specific Ag [Mass/volume] in Serum or Plasma"
    assert (psa.unit, psa.type, psa.events and psa.events.take) == ("ng/mL", "continuous", "last")
    assert "# guess (possible): 100% of the patients have such a record by then" in text
    assert "# 0% are missing here" in text
    # By another door the same table, with equally frequent codes in another order.
    tdrop("init", tmp_path / "other" / "net", "--omop", demo / "omop" / "registry", *ASKED)
    other = (tmp_path / "other" / "net" / "data_contracts" / "tables" / "net.yaml").read_text()
    assert sorted(other.splitlines()) == sorted(text.splitlines())


def test_a_second_hospital_is_told_which_codes_it_lacks_and_which_look_alike(demo: Path, tmp_path: Path) -> None:
    contracts = tmp_path / "net" / "data_contracts"
    tdrop("init", tmp_path / "net", "--meds", demo / "meds" / "registry", *ASKED)
    words = tdrop("add-site", "harbour", "--omop", demo / "omop" / "harbour", "--contracts", contracts)
    title = "Prostate specific Ag [Mass/volume] in Serum or Plasma"
    assert f"note: {PSA} ({title}) is not recorded here; with the same title: Lab/77 ({title})" in words
    network = load_network(contracts)
    site = network.site("harbour")
    assert site.reader.options["codes"] == {PSA: ["Lab/77"]}
    frame = prepare(site, network, home=tmp_path).frame
    psa = next(column.name for column in network.contract("net").features if column.unit == "ng/mL")
    assert frame[psa].notna().mean() > 0.9
    file = contracts / "sites" / "harbour.yaml"
    file.write_text(file.read_text().replace("# labels:", "labels:"))
    site = load_network(contracts).site("harbour")
    labels = read_labels(site, network.contract("net"), frame["patient"], home=tmp_path, base=tmp_path)
    assert labels.counts.known == len(frame)
    answer = tdrop("add-site", "hillside", "--meds", demo / "meds" / "hillside", "--contracts", contracts, "--json")
    assert json.loads(answer)["site"] == "hillside"
    assert {"grade_group_1", "grade_group_2"} <= set(load_network(contracts).site("hillside").not_recorded)


def test_texts_become_categories_and_units_that_nobody_knows_none(tmp_path: Path) -> None:
    records, _ = make_records(60, length=60)
    # A code of digits alone, whose texts are digits too.
    records.loc[records["code"] == "CPT4/55866", ["code", "label"]] = ["55866", "45"]
    records.loc[(records["code"] == "55866") & (records["subject"] % 2 == 0), "label"] = "46"
    write_meds(tmp_path / "meds", records, CONCEPTS)
    settle(tmp_path)
    asked = ("--index", "SNOMED/399068003", "--outcome-code", "SNOMED/22298006", "--horizon", "3 years")
    tdrop("init", tmp_path / "net", "--meds", tmp_path / "meds", *asked)
    contract = load_network(tmp_path / "net" / "data_contracts").contract("net")
    by_code = {column.events.listed[0]: column for column in contract.features if column.events}
    assert by_code["LOINC/21908-9"].categories == ("T1", "T2", "T3")
    assert by_code["55866"].categories == ("45", "46")
    assert by_code["Visit/IP"].type == "binary"
    assert by_code["MEDS_BIRTH"].unit == "years"
    # Of two sexes that everybody has one of, one is enough.
    assert len({"Gender/M", "Gender/F"} & set(by_code)) == 1
    competing = contract.outcome.events and contract.outcome.events.competing
    assert competing is not None
    assert competing.listed == ("MEDS_DEATH",)


@pytest.mark.parametrize(("arguments", "says"), [
    (["--index", "a", "--outcome-code", "b"], "needs --index CODE, --outcome-code CODE and --horizon TIME"),
    (["--index", "ICD10/C61", *ASKED[2:]], "has none of the index's codes"),
    ([*ASKED[:2], "--outcome-code", "ICD10/I21", "--horizon", "1 year"], "has none of the outcome's codes"),
    ([*ASKED[:4], "--horizon", "soon"], "--horizon cannot be used"),
    ([*ASKED, "--data", "x.csv"], "give one of --data FILE, --omop PLACE and --meds DIR"),
])  # fmt: skip
def test_what_cannot_be_proposed_is_one_sentence(arguments: list[str], says: str, demo: Path, tmp_path: Path) -> None:
    with pytest.raises(TdropError, match=says):
        tdrop("init", tmp_path / "net", "--omop", demo / "omop" / "registry", *arguments)
    assert not (tmp_path / "net").exists()


def test_an_address_is_used_and_written_nowhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import sqlalchemy

    monkeypatch.setenv("DATABASE_OMOP_URL", "")
    records, periods = make_records(60, length=60)
    url = f"sqlite:///{tmp_path / 'secret_place.db'}"
    engine = sqlalchemy.create_engine(url, poolclass=sqlalchemy.NullPool)
    with engine.begin() as connection:
        for name, table in omop_tables(records, CONCEPTS, periods).items():
            table.to_sql(name, connection, index=False)
    asked = ("--index", "SNOMED/399068003", "--outcome-code", "SNOMED/22298006", "--horizon", "3 years")
    tdrop("init", tmp_path / "net", "--omop", url, *asked)
    written = "".join(file.read_text() for file in (tmp_path / "net").rglob("*.yaml"))
    assert "secret_place" not in written
    assert '"url_env": "DATABASE_OMOP_URL"' in written
