"""A forecast sealed before labels, a list to look up, and an audit that lasts."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from command import tdrop
from conftest import cheap, finished_network, settle, transfer as run_transfer, write_tiny_network

from flows.audit import audit_site, check_forecasts
from tasks.audit import LEDGER, Audit, read_entries, weighed_outcomes
from tasks.labels import SHEET, KnownLabels, read_list, stored_labels, write_list
from tasks.run import last_run
from tasks.tracking import connect
from tdrop.base import DataError, UsageError, read_record
from tdrop.forecast import Forecast, track_record
from tdrop.home import files, load_cohort
from tdrop.served import model_name

pytestmark = pytest.mark.usefixtures("prefect_server")


@pytest.fixture(scope="module")
def settings():
    return cheap()


def transfer(workspace, settings, again=False):
    return run_transfer(workspace, "harbour", settings, again=again)


@pytest.fixture(scope="module")
def workspace(tmp_path_factory):
    """A site that was transferred, audited on the outcomes of a list, and transferred again."""
    return finished_network(tmp_path_factory.mktemp("forecast"))


def labels_of(workspace) -> Path:
    """The site's own file of outcomes."""
    return workspace.root / "demo" / "harbour_outcomes.csv"


def test_the_forecast_is_sealed_before_labels_and_kept(workspace):
    found = read_record(Forecast, workspace.latest("harbour") / "forecast.json")
    (entry,) = read_entries(workspace)
    assert entry.forecast == found
    assert entry.models == last_run(workspace, "harbour").stages.models.digest
    assert (workspace.root / LEDGER).stat().st_mode & 0o077 == 0


def test_scrambled_labels_change_neither_forecast_nor_ledger_nor_list(workspace, settings, tmp_path):
    other = write_tiny_network(tmp_path)
    path = labels_of(other)
    table = pd.read_csv(path)
    column = table.columns[-1]
    table[column] = np.random.default_rng(5).permutation(table[column].to_numpy())
    table.to_csv(path, index=False)
    settle(path.parent)
    transfer(other, settings)
    sheets = []
    for home in (workspace, other):
        run = last_run(home, "harbour")
        sealed = run.stages.forecast.path / "forecast.json"
        sheets.append((write_list(home, run, 20, seed=3).sheet.read_bytes(), sealed.read_bytes()))
    assert sheets[0] == sheets[1]
    assert read_entries(workspace)[0].forecast == read_entries(other)[0].forecast


def test_a_list_comes_back_and_the_audit_lasts(workspace, settings):
    run = last_run(workspace, "harbour")
    sheet = write_list(workspace, run, 40, seed=0).sheet
    assert sheet.stat().st_mode & 0o077 == 0
    asked = pd.read_csv(sheet)
    assert len(asked) == 40
    # Not in the order of the file, which may be sorted by outcome: who fills in the top half has asked a random half.
    places = {str(one): row for row, one in enumerate(load_cohort(run.stages.encoded.path / files.TARGET).ids)}
    order = [places[str(one)] for one in asked.iloc[:, 0]]
    assert sorted(order) == sorted(read_list(workspace, "harbour").rows.tolist())
    assert abs(np.corrcoef(order, np.arange(40))[0, 1]) < 0.5
    known = pd.read_csv(labels_of(workspace))
    key = asked.columns[0]
    back = known[known.iloc[:, 0].astype(str).isin(asked[key].astype(str))].iloc[:30]
    file = workspace.root / "back.csv"
    back.to_csv(file, index=False)
    audit_site(workspace, "harbour", str(file))
    found = read_record(Audit, workspace.latest("harbour") / "audit.json")
    assert (found.listed, found.list_size, found.off_list) == (len(back), 40, 0)
    assert {one.quantity for one in found.measured} >= {"auroc", "outcomes"}
    assert found.ladder.n == len(back)
    assert found.ladder.recommended in {one.name for one in found.ladder.rungs}
    assert f"{len(back)} known outcomes recommend" in " ".join(check_forecasts(workspace, "harbour"))
    assert read_entries(workspace)[-1].observations == found.observations
    assert track_record(read_entries(workspace)).opened <= 1
    assert stored_labels(workspace, "harbour") is not None
    labelled = json.loads((workspace.latest("harbour") / "summary.json").read_text())["labelled"]
    transfer(workspace, settings, again=True)
    after = json.loads((workspace.latest("harbour") / "summary.json").read_text())["labelled"]
    assert after == labelled == len(back)


def test_the_same_model_is_one_candidate(workspace):
    assert len(connect(workspace).search_model_versions(f"name = '{model_name('harbour')}'")) == 1


def write_labels(workspace, name: str, rows: pd.DataFrame) -> str:
    file = workspace.root / name
    rows.to_csv(file, index=False)
    return str(file)


def test_outcomes_of_strangers_or_that_contradict_are_refused_and_the_report_stays(workspace):
    report = (workspace.latest("harbour") / "report.html").read_bytes()
    known = pd.read_csv(labels_of(workspace), dtype=str)
    key, outcome = known.columns[0], known.columns[-1]
    strangers = known.assign(**{key: "stranger-" + known[key]})
    other_way = known.assign(**{outcome: known[outcome].map({"0": "1", "1": "0"})})
    # A list that nobody filled in would take away the outcomes that the report rests on.
    blank = known.assign(**{outcome: ""})
    both = pd.concat([known, other_way])
    for name, rows in (("strangers.csv", strangers), ("both.csv", both), ("blank.csv", blank)):
        with pytest.raises(DataError, match=r"label file of '[^\n]+$"):
            audit_site(workspace, "harbour", write_labels(workspace, name, rows))
    assert (workspace.latest("harbour") / "report.html").read_bytes() == report


def test_an_audit_after_the_extract_changed_is_about_the_reports_patients(workspace):
    """Outcomes of patients who were not asked for are kept and counted apart."""
    extract = workspace.root / "demo" / "harbour.csv"
    before, asked = extract.read_bytes(), pd.read_csv(workspace.site("harbour") / SHEET, dtype=str)
    known = pd.read_csv(labels_of(workspace), dtype=str)
    on_list = known[known.columns[0]].isin(asked[asked.columns[0]])
    file = write_labels(workspace, "some.csv", pd.concat([known[on_list], known[~on_list].iloc[:5]]))
    listed, off = int(on_list.sum()), 5
    try:
        extract.write_bytes(before + before.splitlines(keepends=True)[-1].replace(b"harbour", b"other"))
        settle(extract.parent)
        summary = audit_site(workspace, "harbour", file)
        said = " ".join(check_forecasts(workspace, "harbour"))
    finally:
        extract.write_bytes(before)
        settle(extract.parent)
    found = read_record(Audit, workspace.latest("harbour") / "audit.json")
    assert summary.summary.labelled == found.known == listed + off
    assert (found.listed, found.off_list) == (listed, off)
    assert "The extract changed since" in said
    assert "Known outcomes of patients who were not on the list: 5" in said
    assert "The last report" in (workspace.latest("harbour") / "report.html").read_text()


def test_a_list_of_another_extract_is_not_used(workspace):
    listed = read_list(workspace, "harbour")
    y = np.full(int(listed.rows.max()) + 1, np.nan)
    y[listed.rows] = 1.0
    assert weighed_outcomes(listed, listed.target, KnownLabels(y))[1] is not None
    assert weighed_outcomes(listed, "another", KnownLabels(y))[1] is None


def test_more_patients_than_there_are_is_refused_and_the_last_list_stays(workspace):
    before = (workspace.site("harbour") / SHEET).read_bytes()
    run = last_run(workspace, "harbour")
    with pytest.raises(UsageError, match=r"patients was asked for and the site has"):
        write_list(workspace, run, 100_000, seed=0)
    assert (workspace.site("harbour") / SHEET).read_bytes() == before
    assert read_list(workspace, "harbour") is not None


def test_an_edited_ledger_stops_the_audit_and_loses_nothing(workspace):
    ledger = workspace.root / LEDGER
    good = ledger.read_bytes()
    report = (workspace.latest("harbour") / "report.html").read_bytes()
    ledger.write_bytes(good.replace(b'"site": "harbour"', b'"site": "harbouR"', 1))
    try:
        with pytest.raises(DataError, match="changed by hand"):
            audit_site(workspace, "harbour", str(labels_of(workspace)))
        assert (workspace.latest("harbour") / "report.html").read_bytes() == report
    finally:
        ledger.write_bytes(good)


def test_a_list_says_the_command_that_takes_it_back(workspace, monkeypatch):
    monkeypatch.setenv("TDROP_HOME", str(workspace.home))
    output = tdrop("label-list", "harbour", "--n", 20, "--contracts", workspace.contracts)
    sheet = workspace.site("harbour") / SHEET
    assert f"tdrop audit harbour {sheet} --contracts {workspace.contracts}" in output
