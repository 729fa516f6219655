"""`tdrop init`: most files make a network that validates without an edit; others get a sentence and leave nothing."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from command import init, tdrop

from tdrop.base import DataError, TdropError, UsageError
from tdrop.contracts import load_network, parse_site
from tdrop.data import prepare, propose_site


def ward(rows: int = 200, seed: int = 0) -> pd.DataFrame:
    """A file as a hospital may keep it: units in names, codes for missing values, labels, dates, a constant."""
    generator = np.random.default_rng(seed)
    return pd.DataFrame(
        {
            "Pat-ID": [f"{index:04d}" for index in range(rows)],
            "Age": generator.integers(30, 90, rows),
            "Creatinine (umol/L)": np.where(generator.random(rows) < 0.1, -9, np.exp(generator.normal(4.4, 0.9, rows))),
            "smoker": generator.choice(["yes", "no", "unknown"], rows, p=[0.3, 0.65, 0.05]),
            "cT": generator.choice(["T1", "T2", "T3"], rows),
            "NYHA": generator.integers(1, 5, rows),
            "ward": generator.choice(["A", "B", "C"], rows),
            "admitted": "2020-01-01",
            "country": "X",
            "died": generator.choice(["alive", "dead"], rows, p=[0.7, 0.3]),
        }
    )


def start(frame: pd.DataFrame, folder: Path, **asked: Any) -> str:
    frame.to_csv(folder / "source.csv", index=False)
    return init(folder / "net", folder / "source.csv", **asked)


def test_a_script_gets_one_document_from_init_and_from_add_site(tmp_path: Path) -> None:
    ward().to_csv(tmp_path / "source.csv", index=False)
    ward(seed=1).drop(columns="died").to_csv(tmp_path / "north.csv", index=False)
    contracts = tmp_path / "net" / "data_contracts"
    data = ("--data", tmp_path / "source.csv", "--outcome", "died")
    document = json.loads(tdrop("init", tmp_path / "net", *data, "--table", "ward", "--json"))
    assert (document["table"], document["source"], document["validation"]["used"]) == ("ward", "source", 200)
    assert document["guesses"] > 5
    added = tdrop("add-site", "north", "--data", tmp_path / "north.csv", "--contracts", contracts, "--json")
    document = json.loads(added)
    assert Path(document["file"]).is_file()
    assert (document["site"], document["validation"]["used"]) == ("north", 200)


@pytest.mark.parametrize("name", ["{home}ward.csv", "${HOME}.csv"])
def test_a_file_name_that_a_site_file_would_fill_in_is_refused(name: str, tmp_path: Path) -> None:
    ward().to_csv(tmp_path / name, index=False)
    with pytest.raises(UsageError, match="rename the file"):
        init(tmp_path / "net", tmp_path / name, outcome="died")
    assert not (tmp_path / "net").exists()


def test_no_name_is_cut_on_a_narrow_screen(tmp_path: Path) -> None:
    start(ward(), tmp_path, outcome="died")
    ward(seed=1).to_csv(tmp_path / "north.csv", index=False)
    contracts = tmp_path / "net" / "data_contracts"
    output = tdrop("add-site", "north", "--data", tmp_path / "north.csv", "--contracts", contracts, width=80)
    assert "dropped" in output
    assert "…" not in output


def test_a_file_becomes_a_network_that_validates(tmp_path: Path) -> None:
    output = start(ward(), tmp_path, outcome="died")
    assert "200 rows read, 200 used" in output
    assert "Next:" in output
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith(".")] == []
    network = load_network(tmp_path / "net" / "data_contracts")
    table = network.contracts["ward"]
    kinds = {column.name: (column.role, column.type) for column in table.columns}
    assert kinds == {
        "Pat_ID": ("id", "categorical"), "Age": ("feature", "continuous"),
        "Creatinine_umol_L": ("feature", "continuous"), "smoker": ("feature", "binary"), "cT": ("feature", "ordinal"),
        "NYHA": ("feature", "ordinal"), "ward": ("feature", "categorical"), "admitted": ("ignored", "categorical"),
        "country": ("ignored", "categorical"), "died": ("label", "categorical"),
    }  # fmt: skip
    creatinine = table.column("Creatinine_umol_L")
    assert (creatinine.unit, creatinine.missing.policy) == ("umol/L", "indicator")
    assert table.column("Age").unit == "years"
    assert (table.outcome.positive, table.outcome.horizon) == ("dead", None)
    source = network.site("source")
    assert source.role == "source"
    assert source.codes_of("Creatinine_umol_L") == {"-9"}
    assert source.codes_of("smoker") == {"unknown"}
    text = (network.folder / "tables" / "ward.yaml").read_text()
    typed = [line for line in text.splitlines() if line.startswith(("    type:", "    range:", "    unit:"))]
    assert sum("# guess" in line for line in typed) >= 9


def test_a_second_file_of_the_same_disease_follows(tmp_path: Path) -> None:
    start(ward(), tmp_path, outcome="died")
    network = load_network(tmp_path / "net" / "data_contracts")
    other = ward(150, seed=1).drop(columns="died").rename(columns={"Age": "age_years", "Pat-ID": "patient"})
    other.to_csv(tmp_path / "other.csv", index=False, sep=";")
    text = propose_site("other", tmp_path / "other.csv", network.contract("ward"), network)
    prepared = prepare(parse_site(text, "other", network), network, home=tmp_path)
    assert not prepared.validation.stopped
    assert prepared.validation.used == 150


def sample() -> list[Any]:
    from sklearn import datasets

    cases = []
    for name in ("breast_cancer", "wine", "iris", "diabetes"):
        frame = getattr(datasets, f"load_{name}")(as_frame=True).frame
        if name == "breast_cancer":
            frame["target"] = (frame["target"] > frame["target"].median()).astype(int)
        frame.insert(0, "id", range(1_000, 1_000 + len(frame)))
        cases.append(pytest.param(frame, {"outcome": "target"}, id=name))
    return cases


@pytest.mark.parametrize(("frame", "asked"), sample())
def test_public_tables_validate_without_an_edit(frame: pd.DataFrame, asked: dict[str, str], tmp_path: Path) -> None:
    if frame["target"].nunique() < 2:
        frame["target"] = np.arange(len(frame)) % 2
    assert "Next:" in start(frame, tmp_path, **asked)


@pytest.mark.parametrize("name", ["GBSG2", "pbc", "lung", "support2", "whas500", "colon"])
def test_survival_tables_validate_without_an_edit(name: str, tmp_path: Path) -> None:
    loader = pytest.importorskip("SurvSet.data").SurvLoader()
    if name not in set(loader.df_ds["ds"]):
        pytest.skip(f"SurvSet has no {name}")
    frame = loader.load_dataset(name)["df"].head(1_000)
    assert "Next:" in start(frame, tmp_path, time="time", event="event")
    outcome = load_network(tmp_path / "net" / "data_contracts").contracts["ward"].outcome
    assert (outcome.time, outcome.event) == ("time", "event")
    assert outcome.horizon is not None


def many_columns() -> pd.DataFrame:
    return pd.concat([ward(), pd.DataFrame(np.ones((200, 5_000))).add_prefix("g")], axis=1)


BAD = {
    "no_outcome_column": (ward, {"outcome": "dead"}, UsageError, "has no column 'dead'; did you mean 'died'"),
    "nothing_asked": (ward, {}, UsageError, "--outcome COLUMN, or both --time"),
    "many_labels": (
        lambda: ward().assign(cT=[f"c{row}" for row in range(200)]),
        {"outcome": "cT"},
        DataError,
        "holds 200 different labels, and at most 20 classes",
    ),
    "texts_among_numbers": (
        lambda: ward().assign(cT=[f"{row / 7:.3f}" for row in range(197)] + ["many", "few", "some"]),
        {"outcome": "cT"},
        DataError,
        "holds 197 numbers and 3 other texts",
    ),
    "an_id_that_repeats": (
        lambda: ward().assign(**{"Pat-ID": "1"}), {"outcome": "died"}, DataError, "199 of 200 rows repeat"),
    "one_column": (lambda: ward()[["died"]], {"outcome": "died"}, DataError, "has 1 column; a table"),
    "5000_columns": (many_columns, {"outcome": "died"}, DataError, "columns, and a proposed table has at most 500"),
    "case": (lambda: ward().assign(age=1), {"outcome": "died"}, DataError, "'Age' and 'age' differ only in case"),
    "few_rows": (lambda: ward(12), {"outcome": "died"}, DataError, "12 rows; give at least 20"),
}  # fmt: skip


@pytest.mark.parametrize("name", BAD)
def test_bad_files_get_a_sentence_and_leave_nothing(name: str, tmp_path: Path) -> None:
    make, asked, kind, says = BAD[name]
    with pytest.raises(kind, match=says) as caught:
        start(make(), tmp_path, **asked)
    assert "\n" not in str(caught.value)
    assert [path.name for path in tmp_path.iterdir()] == ["source.csv"]


def test_targets_of_another_kind_are_refused(tmp_path: Path) -> None:
    start(ward(), tmp_path, outcome="died")
    network = load_network(tmp_path / "net" / "data_contracts")
    for frame, says in (
        (ward()[["Pat-ID", "Age", "cT"]], "lacks 4 of the 6 features"),
        (pd.DataFrame({"q1": range(30), "q2": range(30)}), "none of the file's 2 columns looks like"),
    ):
        frame.to_csv(tmp_path / "other.csv", index=False)
        with pytest.raises(DataError, match=says):
            propose_site("other", tmp_path / "other.csv", network.contract("ward"), network)


def test_a_second_table_is_added_whole_or_not_at_all(tmp_path: Path) -> None:
    start(ward(), tmp_path, outcome="died")
    contracts = tmp_path / "net" / "data_contracts"
    add = ("add-table", "stroke", "--data", tmp_path / "stroke.csv", "--contracts", contracts, "--outcome")
    ward(80, seed=2).to_csv(tmp_path / "stroke.csv", index=False)
    with pytest.raises(TdropError, match="no column 'dead'"):
        tdrop(*add, "dead")
    assert sorted(load_network(contracts).contracts) == ["ward"]
    tdrop(*add, "died")
    network = load_network(contracts)
    assert sorted(network.contracts) == ["stroke", "ward"]
    assert network.site("stroke").table == "stroke"
    with pytest.raises(UsageError, match="there is a table 'stroke' already"):
        tdrop(*add, "died")
    with pytest.raises(UsageError, match="there is a network in"):
        start(ward(), tmp_path, outcome="died")
