"""A rehearsal plays every labelled site as the new one, by the command line, and later reports quote it."""

from __future__ import annotations

import json

import pytest
from command import tdrop
from conftest import at, transfer
from leaving_numbers import against_the_rules

from flows.rehearse import rehearse_table, write_contracts
from tasks.prune import erase_files
from tasks.registry import delete_site_runs
from tasks.settings import TransferSettings
from tasks.tracking import PARENT, connect, experiment_id
from tdrop.base import UsageError
from tdrop.contracts import load_network
from tdrop.data import prepare
from tdrop.home import worker_processes

pytestmark = pytest.mark.usefixtures("prefect_server", "plain_reports")
QUICK = {"logistic_regression": {"refits": 5}}
SETTINGS = TransferSettings(
    methods=tuple(QUICK), method_settings=QUICK, seeds=1, trials=1, passes=10, folds=2, bootstrap=50, shares=True
)


def make_teachers(workspace) -> None:
    """Two targets whose outcomes are known by now teach the third."""
    for name in ("harbour", "hillside"):
        file = workspace.root.parent / "network" / "data_contracts" / "sites" / f"{name}.yaml"
        file.write_text(file.read_text().replace("role: target", "role: both").replace("source: registry\n", ""))
    file = file.with_name("lakeside.yaml")
    file.write_text(file.read_text().replace("source: registry\n", ""))


def test_sites_play_the_new_one_and_the_next_report_quotes_them(tiny_network, monkeypatch):
    workspace = tiny_network
    make_teachers(workspace)
    file = workspace.root.parent / "network" / "data_contracts" / "sites" / "harbour.yaml"
    file.write_text(file.read_text().replace("{exempt: true}", "{threshold: 10}"))
    with at(workspace), worker_processes(0):
        rehearsal = rehearse_table("prostate", SETTINGS)
    assert [site.site for site in rehearsal.sites] == ["harbour", "hillside", "registry"]
    assert not rehearsal.failed
    folder = workspace.root / "rehearsals" / "prostate"
    page = (folder / "rehearsal.html").read_text()
    assert "Harbour Hospital" in page
    assert "forecast AUROC was off by" in page
    assert "the 95% prediction interval for a new one" in page
    ratios = sorted(site.seen.observed_expected for site in rehearsal.sites)
    assert f"happened {ratios[0]:.2f} to {ratios[-1]:.2f} times as often as the risks said; at a new site" in page
    index = (workspace.root / "index.html").read_text()
    assert "forecast AUROC was off by" in index
    assert 'href="rehearsals/prostate/rehearsal.html"' in index
    transfer(workspace, "lakeside", SETTINGS)
    mlflow_has_it(workspace, rehearsal)
    forecast = json.loads((workspace.latest("lakeside") / "forecast.json").read_text())
    assert {site["site"] for site in forecast["held_out"]["logistic_regression"]} == {"harbour", "hillside", "registry"}
    expected = forecast["next_site"]["logistic_regression"]
    assert expected["auroc"]["sites"] == 3
    (joined,) = [one for one in forecast["answers"] if one["quantity"] == "auroc"]
    ends = sorted((joined["by"]["blend"], joined["by"]["held_out_sites"]))
    assert ends[0] <= joined["value"] <= ends[1]
    assert joined["between"] < min(expected["auroc"]["error"], 0.08)
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "http://127.0.0.1:1")
    with at(workspace), worker_processes(0):
        again = rehearse_table("prostate", SETTINGS)
    assert again.not_recorded.startswith("the rehearsal of table 'prostate' was not recorded in MLflow: MLflow does")
    assert json.loads((folder / "rehearsal.json").read_text())["created"] == again.created
    monkeypatch.delenv("MLFLOW_TRACKING_URI")
    assert erase_files(workspace, "harbour", set())
    assert delete_site_runs(workspace, "harbour") == 4
    assert not folder.exists()
    assert {run.data.tags["kind"] for run in runs_in_mlflow(workspace)} == {"site", "method"}


def runs_in_mlflow(workspace) -> list:
    return connect(workspace).search_runs([experiment_id(workspace, "prostate")])


def mlflow_has_it(workspace, rehearsal) -> None:
    """One run with the rehearsal and one below it per site, none of which is among the sites' own records."""
    runs = [run for run in runs_in_mlflow(workspace) if run.data.tags["kind"].startswith("rehears")]
    (parent,) = [run for run in runs if run.data.tags["kind"] == "rehearsal"]
    assert (parent.info.run_name, parent.info.status) == ("rehearse prostate", "FINISHED")
    assert (parent.data.tags["table"], parent.data.tags["simulated"]) == ("prostate", "true")
    assert parent.data.metrics["rehearsal/inside"] == rehearsal.inside
    children = {run.data.tags["site"]: run.data for run in runs if run.data.tags.get(PARENT) == parent.info.run_id}
    assert len(runs) == 1 + len(children)
    for site in rehearsal.sites:
        metrics, tags = children[site.site].metrics, children[site.site].tags
        assert (tags["verdict"], tags["chosen"], tags["best"]) == (site.verdict, site.chosen, site.best)
        # Harbour hides counts, so that its numbers are over stand-ins.
        near = 0.1 if site.site == "harbour" else 0.02
        assert metrics["auroc"] == pytest.approx(site.seen.auroc, abs=near)
        assert metrics["forecast/auroc"] == round(site.expected, 2)
        assert metrics["rehearsal/regret"] == pytest.approx(site.regret, abs=near)
        assert metrics["retained_error_20_expected"] == pytest.approx(site.error_left, abs=near + 0.03)
        assert metrics["rehearsal/inside"] == site.inside
    assert not against_the_rules("metrics", children["harbour"].metrics, 10), "it hides counts below ten"
    assert not against_the_rules("metrics", parent.data.metrics, 10)


def test_in_a_rehearsal_no_site_learns_from_itself_and_every_outcome_is_locked(tiny_network, tmp_path):
    make_teachers(tiny_network)
    network = tiny_network.network()
    write_contracts(tiny_network, network, "prostate", tmp_path / "contracts")
    played = load_network(tmp_path / "contracts")
    assert sorted(played.sites) == ["harbour", "hillside", "registry"]
    for site in played.sites.values():
        assert site.name not in [source.name for source in played.sources_of(site)]
        assert site.labels is not None
        assert site.labels_in_extract == "drop"
        rows = prepare(site, played, home=tiny_network.root).frame
        assert len(rows)
        assert not set(played.contract_of(site).outcome.columns) & set(rows), "the outcome is in the label file alone"


def test_too_few_labelled_sites_are_one_sentence(tiny_network, monkeypatch):
    monkeypatch.setenv("TDROP_HOME", tiny_network.home)
    with pytest.raises(UsageError, match="at least 2 labelled sites of table 'prostate', and there are 1"):
        tdrop("rehearse", "--contracts", tiny_network.contracts)
