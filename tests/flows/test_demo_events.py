"""The demo network as CSV files, as OMOP databases and as MEDS files: one report."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

import pytest
from conftest import TINY_ROWS, leave_reports_out, transfer, write_tiny_network
from demo_databases import EventForm, write_demo_events, write_event_contracts

from tdrop.home import Workspace

pytest.importorskip("duckdb")
pytestmark = pytest.mark.usefixtures("prefect_server")
#: Simulated in other units than the table's.
SITE = "hillside"


def write_event_network(folder: Path, form: EventForm) -> Workspace:
    contracts = write_event_contracts(form, folder / "network" / "data_contracts")
    for name in ("riverside", "southgate"):
        (contracts / "sites" / f"{name}.yaml").unlink()
    workspace = Workspace.at(folder / "home", contracts)
    write_demo_events(workspace.root / f"demo-{form}", form, TINY_ROWS)
    for file in workspace.root.rglob("*.parquet"):
        os.utime(file, (time.time() - 60,) * 2)
    return workspace


def test_a_database_gives_the_report_of_the_csv_files(
    tmp_path: Path, tiny_settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    leave_reports_out(monkeypatch)
    settings = tiny_settings.model_copy(update={"methods": ("logistic_regression",), "bootstrap": 20})
    workspaces = {"csv": write_tiny_network(tmp_path / "csv")}
    workspaces |= {form: write_event_network(tmp_path / form, form) for form in ("omop", "meds")}
    documents = {}
    for form, workspace in workspaces.items():
        transfer(workspace, SITE, settings)
        latest = workspace.site(SITE) / "latest"
        documents[form] = [(latest / f"{name}.json").read_bytes() for name in ("evaluation", "forecast", "shift")]
    assert documents["omop"] == documents["csv"]
    assert documents["meds"] == documents["csv"]
