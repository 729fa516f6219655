"""What CONTRIBUTING.md says under "To add something" is all that is needed: one file, and the next transfer has it."""

from __future__ import annotations

import json
import os
import re
import shutil
import sqlite3
import sys
from pathlib import Path

import pytest
from conftest import PROJECT, settle
from separate_process import run_to_end

from tdrop.data import simulate

METHOD = '''
"""Naive Bayes: every feature speaks for itself."""

from typing import Any, ClassVar

from pydantic import Field
from pydantic.dataclasses import dataclass
from sklearn.naive_bayes import GaussianNB

from tdrop.methods.parts.reference_method import ReferenceMethod


@dataclass(frozen=True)
class NaiveBayes(ReferenceMethod):
    """Bootstrap refits of naive Bayes."""

    name: ClassVar[str] = "naive_bayes"
    label: ClassVar[str] = "Naive Bayes"
    summary: ClassVar[str] = "Takes every feature as independent of the others."

    refits: int = Field(5, ge=1, description="Bootstrap refits K: the samples.")

    def search_space(self) -> dict[str, tuple[Any, ...]]:
        return {}

    def estimator(self, task: Any, seed: int) -> Any:
        return GaussianNB()


METHOD = NaiveBayes
'''
METRIC = '''

@metric("Absolute error", "recorded", views=("scores",))
def _absolute_error(patients: Patients) -> Mean:
    """Mean distance of risk and outcome.

    Mean of |risk - outcome|.
    """
    return Mean(np.abs(patients.risk - patients.y))
'''
READER = '''
"""One JSON object per line."""

import io

import pandas as pd

from tdrop.contracts import Record
from tdrop.data.locations import Location, read_bytes


class JsonLinesReader(Record):
    """Nothing to set."""

    def read(self, location: Location) -> pd.DataFrame:
        """Returns the table; the index is each row's line."""
        frame = pd.read_json(io.BytesIO(read_bytes(location)), lines=True, dtype={"patient_id": str})
        frame.index = pd.RangeIndex(1, len(frame) + 1, name="line")
        return frame
'''
SITE = """
title: Quayside Hospital (simulated)
table: prostate
role: target
source: registry
simulated: true
location: "{home}/quayside.jsonl"
reader: {kind: json_lines}
labels:
  location: "{home}/quayside_outcomes.csv"
disclosure: {exempt: true}
"""


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory, prefect_server: str) -> Path:
    """Does what that table says in a copy of the project, then one small transfer; returns its home."""
    project, home = tmp_path_factory.mktemp("project"), tmp_path_factory.mktemp("home")
    for name in ("tdrop", "tasks", "flows", "data_contracts"):
        shutil.copytree(PROJECT / name, project / name, symlinks=True)
    page = (PROJECT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    places = re.findall(r"^\| (a .*?) \| (.*) \|$", page, re.MULTILINE)
    files = {what: re.search(r"`(.*?)`", where).group(1) for what, where in places if "`" in where}
    add = {
        "a method": ("<name>", "naive_bayes", METHOD),
        "a kind of data source": ("<kind>", "json_lines", READER),
        "a metric": ("", "", METRIC),
    }
    for what, (placeholder, name, text) in add.items():
        with (project / files[what].replace(placeholder, name)).open("a", encoding="utf-8") as file:
            file.write(text)
    (project / files["a site, a table"] / "sites" / "quayside.yaml").write_text(SITE, encoding="utf-8")
    (home / "demo").mkdir()
    simulate("source", 250, seed=0).drop(columns="true_risk").to_csv(home / "demo" / "registry.csv", index=False)
    patients = simulate("mild", 150, seed=1).drop(columns="true_risk")
    patients[["patient_id", "died_10y"]].to_csv(home / "quayside_outcomes.csv", index=False)
    patients.drop(columns="died_10y").to_json(home / "quayside.jsonl", orient="records", lines=True)
    for folder in (home / "demo", home):
        settle(folder)
    _transfer(project, home)
    return home


def _transfer(project: Path, home: Path) -> None:
    options = ["--method", "naive_bayes", "--method", "logistic_regression", "--trials", "1", "--seeds", "1"]
    command = [sys.executable, "-m", "flows.cli", "transfer", "quayside", *options, "--processes", "0"]
    result = run_to_end(command, project, {**os.environ, "TDROP_HOME": str(home), "PYTHONPATH": str(project)})
    assert result.returncode == 0, result.stderr


def test_the_site_gets_its_report(home: Path) -> None:
    assert "Quayside Hospital" in (home / "sites" / "quayside" / "latest" / "report.html").read_text(encoding="utf-8")


def test_the_reader_reads_every_row(home: Path) -> None:
    validation = json.loads((home / "sites" / "quayside" / "latest" / "validation.json").read_text(encoding="utf-8"))
    assert validation["read"] == 150


def test_the_method_is_evaluated_and_the_metric_computed(home: Path) -> None:
    latest = home / "sites" / "quayside" / "latest"
    rows = json.loads((latest / "evaluation.json").read_text(encoding="utf-8"))["rows"]
    found = {row["method"]: row for row in rows if row["metric"] == "absolute_error" and row["seed"] == "all"}
    assert set(found) == {"naive_bayes", "logistic_regression"}
    assert 0 < found["naive_bayes"]["low"] < found["naive_bayes"]["value"] < found["naive_bayes"]["high"] < 1
    details = (latest / "details.html").read_text(encoding="utf-8")
    assert "Naive Bayes" in details
    assert "Absolute error" in details


def test_the_record_shows_both(home: Path) -> None:
    with sqlite3.connect(home / "mlflow.db") as database:
        runs = database.execute(
            "select params.value from metrics join params using (run_uuid) "
            "where metrics.key = 'absolute_error' and params.key = 'method'"
        ).fetchall()
    assert {method for (method,) in runs} == {"naive_bayes", "logistic_regression"}
