"""A whole transfer with several rows a person: they are kept together, counted, and nobody's number leaves."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from conftest import settle, transfer

from tasks.settings import TransferSettings
from tdrop.home import Workspace, load_cohort

pytestmark = pytest.mark.usefixtures("prefect_server")

SITE = "harbour"
SETTINGS = TransferSettings(methods=("logistic_regression",), seeds=1, trials=1, passes=10, folds=2, bootstrap=50)
KEPT = ("source.npz", "target.npz")
#: The extracts themselves, and checked rows: both stay at the site.
KEPT_HERE = {"demo", "store"}
COLUMN = "  - name: whose\n    role: ignored\n    type: categorical\n"


def add_persons(workspace: Workspace) -> None:
    """Gives the table a column that says whose row it is, and every person three rows."""
    table = Path(workspace.contracts) / "tables" / "prostate.yaml"
    text = table.read_text().replace("version: 1\n", "version: 1\nperson: whose\n", 1)
    table.write_text(text.replace("columns:\n", f"columns:\n{COLUMN}", 1))
    for file in (workspace.root / "demo").glob("*.csv"):
        head, *lines = file.read_text(encoding="utf-8-sig").splitlines()
        mark = ";" if head.count(";") > head.count(",") else ","
        whose = [f"QZX{row // 3}K" for row in range(len(lines))]
        rows = [f"{line}{mark}{one}" for line, one in zip([head, *lines], ["whose", *whose], strict=True)]
        file.write_text("\n".join(rows) + "\n")
    settle(workspace.root / "demo")


def test_persons_stay_together_and_nobodys_number_leaves(tiny_network: Workspace, plain_reports: None) -> None:
    add_persons(tiny_network)
    transfer(tiny_network, SITE, SETTINGS)
    cohorts = [load_cohort(file) for file in (tiny_network.root / "store").rglob("*.npz") if file.name in KEPT]
    assert len(cohorts) >= 2
    for cohort in cohorts:
        assert cohort.persons is not None
        assert np.bincount(np.unique(cohort.persons, return_inverse=True)[1]).max() == 3
    folds = list((tiny_network.root / "store").rglob("risks.npz"))
    assert folds
    source = next(cohort for cohort in cohorts if cohort.y is not None)
    assert source.persons is not None
    for file in folds:
        dealt = np.load(file)
        pairs = pd.DataFrame({"person": source.persons[dealt["rows"]], "fold": dealt["fold"]}).drop_duplicates()
        assert pairs["person"].is_unique
    outside = [file for file in tiny_network.root.rglob("*") if file.is_file() and not KEPT_HERE & {*file.parts}]
    assert len(outside) > 10
    assert [file.name for file in outside if b"QZX" in file.read_bytes()] == []
