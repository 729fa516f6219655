"""`tdrop start`: two files and five questions, or none, to a report in a folder of its own."""

from __future__ import annotations

import json
import os
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from command import tdrop

from flows.commands.first_answer import Questions
from tdrop.base import UsageError
from tdrop.contracts import load_network


def hospital(rows: int, seed: int, *, shift: float = 0.0) -> pd.DataFrame:
    """Patients with an id, two features, a column that is known only afterwards, and the outcome."""
    generator = np.random.default_rng(seed)
    age = generator.normal(62 + shift, 9, rows).round(1)
    height = generator.normal(170, 8, rows).round(1)
    died = (generator.random(rows) < 1 / (1 + np.exp(-(age - 62) / 6))).astype(int)
    stay = (5 + 3 * died + generator.normal(0, 2, rows)).clip(1).round(1)
    ids = [f"P{seed}-{number}" for number in range(rows)]
    return pd.DataFrame({"patient": ids, "age": age, "height_cm": height, "los": stay, "died": died})


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Path, Path]:
    """A labelled file, and another hospital's without outcomes and with heights in metres."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("TDROP_HOME")
    # What the command sets for its flow runs ends with the test.
    for name in ("TDROP_CONTRACTS", "PREFECT_HOME"):
        monkeypatch.setenv(name, os.environ.get(name, ""))
    hospital(300, 0).to_csv(tmp_path / "ours.csv", index=False)
    theirs = hospital(120, 1, shift=2).drop(columns="died").rename(columns={"height_cm": "height_m"})
    theirs["height_m"] = (theirs["height_m"] / 100).round(3)
    theirs.to_csv(tmp_path / "theirs.csv", index=False)
    return tmp_path / "ours.csv", tmp_path / "theirs.csv"


def without_transfer(monkeypatch: pytest.MonkeyPatch) -> list[tuple[list[str], Path]]:
    """Leaves the transfer out; returns what it would have been given and where."""
    given: list[tuple[list[str], Path]] = []
    monkeypatch.setattr(
        "flows.transfer_command.run_transfer", lambda sites, settings, **_: given.append((sites, Path.cwd()))
    )
    return given


def test_five_answers_become_a_network(files, tmp_path, monkeypatch):
    given = without_transfer(monkeypatch)
    # Outcome and id as guessed, a level of one's own, the length of stay left out, heights converted.
    output = tdrop("start", *files, answer="\n20%\n\n\n\n")
    for question in (
        "Which column is the outcome? [died]",
        "From which risk would you act?",
        "[patient]",
        "'los'",
        "in m,",
    ):
        assert question in output
    assert given == [(["theirs"], tmp_path / "tdrop-ours")]
    network = load_network(tmp_path / "tdrop-ours" / "data_contracts")
    contract = network.contract("tdrop_ours")
    assert {column.name for column in contract.features} == {"age", "height_cm"}
    assert network.site("theirs").decision.risk_level == 0.2
    assert dict(network.site("theirs").units) == {"height_cm": "m"}
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith(".")] == [], "a home beside the folder"


def test_a_unit_that_a_person_denies_is_not_converted(files, tmp_path, monkeypatch):
    without_transfer(monkeypatch)
    with pytest.raises(Exception, match="theirs"):
        tdrop("start", *files, answer="\n\n\n\nn\n")
    text = (tmp_path / "tdrop-ours" / "data_contracts" / "sites" / "theirs.yaml").read_text()
    assert "units:" not in text


def test_nothing_is_asked_with_yes_and_the_level_stays_a_guess(files, tmp_path, monkeypatch):
    without_transfer(monkeypatch)
    assert "?" not in tdrop("start", *files, "--yes").replace("is it one of", "")
    source = (tmp_path / "tdrop-ours" / "data_contracts" / "sites" / "ours.yaml").read_text()
    assert "decision: {risk_level: 0.15, guessed: true}    # guess" in source


def test_what_cannot_be_answered_is_one_sentence(files):
    with pytest.raises(UsageError, match="nobody answered; `--yes` takes the guesses"):
        tdrop("start", *files, answer="")
    with pytest.raises(UsageError, match="'often' is no risk"):
        tdrop("start", *files, answer="\noften\n")
    with pytest.raises(UsageError, match="--json cannot ask"):
        tdrop("start", *files, "--json")
    assert Questions(take_guesses=True).agree("Anything?", False) is False


def test_two_files_become_a_report(files, tmp_path, prefect_server):
    output = tdrop(
        "start", *files, "--outcome", "died", "--level", 0.2, "--yes", "--json",
        "--method", "logistic_regression", "--trials", 1, "--seeds", 1, "--processes", 0,
    )  # fmt: skip
    summary = json.loads(output)["sites"]["theirs"]
    assert summary["patients"] == 120
    assert (tmp_path / "tdrop-ours" / ".tdrop" / "sites" / "theirs" / "latest" / "report.html").is_file()
    assert "theirs: done" in tdrop("status"), "the working directory is the new folder"
