"""One transfer of two tiny sites, looked at from every side."""

from __future__ import annotations

import html
import json
import re
import stat
from collections import Counter

import pandas as pd
import pytest
from conftest import cheap, compared_network, on_server, settle, transfer, transfer_several, write_tiny_network

from flows.audit import audit_site
from flows.pipeline import TransferResult
from tasks import labels
from tasks.run import last_run
from tasks.tracking import connect
from tdrop.base import FitError, SiteStopped
from tdrop.home import files, progress
from tdrop.methods import method_class

pytestmark = pytest.mark.usefixtures("prefect_server")

FILES = (
    "report.html",
    "details.html",
    "evaluation.json",
    "shift.json",
    "matching.json",
    "validation.json",
    "patients.csv",
    "quarantine.csv",
)


@pytest.fixture(scope="module")
def settings():
    return cheap(seeds=2)


@pytest.fixture(scope="module")
def network(tmp_path_factory, session_server, settings):
    """Two sites through the parent flow; returns the workspace and the flow's result. Later ones are plain calls."""

    workspace = write_tiny_network(tmp_path_factory.mktemp("network"))
    with on_server(session_server):
        results = transfer_several(workspace, ["harbour", "lakeside"], settings, processes=2)
    return workspace, results


def model_digests(workspace, site):
    return json.loads((workspace.latest(site) / "models.json").read_text())


def predictions(workspace, site):
    """By method and seed what its model says of every patient, to the last bit."""
    fits = last_run(workspace, site).trained.fits
    return {method: [(ref.path / files.PREDICTIONS).read_bytes() for ref in refs] for method, refs in fits.items()}


def test_every_site_gets_its_folder_of_files(network):
    workspace, results = network
    for site in ("harbour", "lakeside"):
        assert isinstance(results[site], TransferResult)
        for name in FILES:
            assert (workspace.latest(site) / name).is_file(), f"{site} lacks {name}"
        link = f"sites/{site}/latest/report.html"
        assert link in (workspace.root / "index.html").read_text()
        assert (workspace.root / link).is_file()


def test_what_reads_the_source_alone_is_fitted_once_for_both_sites(network, settings):
    workspace, _ = network
    manifests = [json.loads(file.read_text()) for file in (workspace.root / "store" / "model").glob("*/manifest.json")]
    fits = Counter(manifest["inputs"]["method"] for manifest in manifests)
    assert fits["logistic_regression"] == settings.seeds
    # And once more without the target's patients, to tell what they did: that reads the source alone.
    assert fits["transductive_dropout"] == settings.seeds * 2 + 1


def test_every_row_is_accounted_for(network):
    workspace, _ = network
    validation = json.loads((workspace.latest("lakeside") / "validation.json").read_text())
    assert validation["read"] == 124
    assert validation["quarantined"] == 6
    assert validation["duplicates"] == 4
    patients = pd.read_csv(workspace.latest("lakeside") / "patients.csv")
    assert len(patients) == validation["used"] == 114
    assert list(patients.columns) == ["id", "risk", "sd", "low", "high", "refer", "why", "moved_by"]


def test_patients_list_is_for_the_owner_alone(network):
    workspace, _ = network
    mode = stat.S_IMODE((workspace.latest("harbour") / "patients.csv").stat().st_mode)
    assert mode == 0o600


def test_stages_are_for_the_owner_alone_without_the_command_line_too(network):
    workspace, _ = network
    stages = [file for file in (workspace.root / "store").rglob("*") if file.is_file()]
    assert stages
    assert {stat.S_IMODE(file.stat().st_mode) for file in stages} == {0o600}


def test_evaluation_has_the_documented_form(network, settings):
    workspace, _ = network
    evaluation = json.loads((workspace.latest("harbour") / "evaluation.json").read_text())
    assert evaluation["form"] == 1
    assert evaluation["seeds"] == [0, 1]
    fields = {"site", "method", "seed", "metric", "value", "low", "high", "n"}
    assert all(fields <= set(row) for row in evaluation["rows"])
    assert {row["method"] for row in evaluation["rows"]} == set(settings.methods)


def test_prefect_shows_what_happened(network):
    """Logs, tags, a state that says the verdict, task names that differ, and one page on the run."""
    from prefect.client.orchestration import get_client
    from prefect.client.schemas.filters import ArtifactFilter, FlowFilter, FlowRunFilter, LogFilter
    from prefect.logging.handlers import APILogHandler

    _, results = network
    APILogHandler().flush()
    with get_client(sync_client=True) as client:
        runs = client.read_flow_runs(flow_filter=FlowFilter.model_validate({"name": {"any_": ["transfer-site"]}}))
        # Runs of other tests are on the server too: this is the last one of the site that had something to do.
        ended = [run for run in runs if "site:harbour" in run.tags and run.state.name in ("Go", "Caution", "Stop")]
        run = max(ended, key=lambda run: run.start_time)
        logs = client.read_logs(LogFilter.model_validate({"flow_run_id": {"any_": [run.id]}}), limit=200)
        tasks = client.read_task_runs(flow_run_filter=FlowRunFilter.model_validate({"id": {"any_": [run.id]}}))
        pages = client.read_artifacts(
            artifact_filter=ArtifactFilter.model_validate({"flow_run_id": {"any_": [run.id]}})
        )
    verdict = results["harbour"].summary.verdict
    assert {"table:prostate", "source:registry", "simulated", f"verdict:{verdict}"} <= set(run.tags)
    assert run.state.name == verdict.capitalize()
    messages = [log.message for log in logs]
    assert any(message.startswith("harbour: tune 1 of 3") for message in messages)
    assert any(message.startswith("harbour: choose: ") for message in messages)
    assert not any("150" in message for message in messages), "a number of patients"
    names = [task.name for task in tasks]
    assert len(set(names)) == len(names)
    assert [page.key for page in pages] == ["harbour-summary"]


def test_no_patient_reaches_prefect_or_mlflow(network):
    """Identifiers stand for all values: where they are absent, no row was passed on."""
    from prefect.client.orchestration import get_client
    from prefect.client.schemas.sorting import ArtifactSort

    workspace, _ = network
    identifier = re.compile(r"(MIL|SEV|SOU)\d{7}")
    with get_client(sync_client=True) as client:
        pages = " ".join(
            str(artifact.data) for artifact in client.read_artifacts(sort=ArtifactSort.CREATED_DESC, limit=200)
        )
        logs = " ".join(log.message for log in client.read_logs(limit=200))
    assert "harbour" in pages
    assert not identifier.search(pages + logs)
    artifacts = [path for path in (workspace.root / "artifacts").rglob("*") if path.is_file()]
    assert artifacts
    assert not any(identifier.search(path.read_text(errors="ignore")) for path in artifacts)
    experiment = connect(workspace).search_experiments()[0]
    runs = connect(workspace).search_runs([experiment.experiment_id])
    assert not identifier.search(" ".join(str(run.data.to_dictionary()) for run in runs))


def test_mlflow_has_a_parent_a_site_and_a_child_a_method(network, settings):
    workspace, _ = network
    client = connect(workspace)
    experiments = [e.experiment_id for e in client.search_experiments()]
    runs = client.search_runs(experiments, "tags.site = 'harbour'")
    parents = [run for run in runs if run.data.tags["kind"] == "site"]
    children = [run for run in runs if run.data.tags["kind"] == "method"]
    assert len(parents) == 1
    assert {run.data.tags["method"] for run in children} == set(settings.methods)
    assert all(run.data.tags["mlflow.parentRunId"] == parents[0].info.run_id for run in children)
    assert all(run.info.status == "FINISHED" for run in runs)
    assert all(run.data.tags["simulated"] == "true" for run in runs)
    logistic = next(run for run in children if run.data.tags["method"] == "logistic_regression")
    figures = {file.path for file in client.list_artifacts(logistic.info.run_id, "figures")}
    assert figures == {"figures/calibration.svg"}
    evaluation = json.loads((workspace.latest("harbour") / "evaluation.json").read_text())
    expected = next(
        row["value"]
        for row in evaluation["rows"]
        if (row["method"], row["metric"], row["seed"], row["group"]) == ("logistic_regression", "auroc", "all", "all")
    )
    assert logistic.data.metrics["auroc"] == pytest.approx(expected, abs=5e-5)


def test_nothing_changed_means_nothing_to_do(network, settings):
    workspace, _ = network
    before = (workspace.latest("harbour") / "summary.json").read_text()
    report = (workspace.latest("harbour")).resolve()
    assert "nothing changed since the last run" in transfer(workspace, "harbour", settings).unchanged
    assert workspace.latest("harbour").resolve() == report
    assert (workspace.latest("harbour") / "summary.json").read_text() == before


def test_labels_are_opened_after_the_models_are_locked_and_reach_neither_them_nor_the_choice(
    network, settings, tmp_path, monkeypatch
):
    """The target's outcomes turned round, and taken away: the models are the same to the last bit."""
    workspace, _ = network
    expected = predictions(workspace, "harbour")
    stages = ("shift.json", "matching.json", "choice.json")
    # Nothing is in its store: whatever is made there is made beside these outcomes.
    other = write_tiny_network(tmp_path)
    opened = []
    real = labels.read_labels

    def watch(*args, **kwargs):
        opened.append(sorted(path.name for path in (other.root / "store" / "models").iterdir()))
        return real(*args, **kwargs)

    monkeypatch.setattr(labels, "read_labels", watch)
    outcomes = other.root / "demo" / "harbour_outcomes.csv"
    frame = pd.read_csv(outcomes)
    frame["died_10y"] = 1 - frame["died_10y"]
    frame.to_csv(outcomes, index=False)
    settle(outcomes.parent)
    transfer(other, "harbour", settings)
    assert [len(locked) for locked in opened] == [1]
    assert predictions(other, "harbour") == expected
    for name in stages:
        assert (other.latest("harbour") / name).read_bytes() == (workspace.latest("harbour") / name).read_bytes()
    scrambled = json.loads((other.latest("harbour") / "evaluation.json").read_text())
    honest = json.loads((workspace.latest("harbour") / "evaluation.json").read_text())
    assert scrambled != honest, "evaluation must have seen the scrambled labels"
    outcomes.unlink()
    transfer(other, "harbour", settings)
    assert predictions(other, "harbour") == expected
    assert json.loads((other.latest("harbour") / "evaluation.json").read_text())["labelled"] == 0


def test_a_site_that_stops_keeps_its_last_good_report(network, settings):
    workspace, _ = network
    extract = workspace.root / "demo" / "lakeside.csv.gz"
    told = []
    progress.add_listener(told.append)
    good = extract.read_bytes()
    before = workspace.latest("lakeside").resolve()
    try:
        frame = pd.read_csv(extract).drop(columns="age")
        frame.to_csv(extract, index=False)
        settle(extract.parent)
        with pytest.raises(SiteStopped, match="age"):
            transfer(workspace, "lakeside", settings)
    finally:
        progress.remove_listeners()
        extract.write_bytes(good)
        settle(extract.parent)
    assert (told[-1].site, told[-1].stage) == ("lakeside", "stopped")
    assert workspace.latest("lakeside").resolve() == before
    status = json.loads((workspace.site("lakeside") / "status.json").read_text())
    assert status["outcome"] == "stopped"
    assert "age" in (workspace.site("lakeside") / "refused" / "message.txt").read_text()
    page = (workspace.latest("lakeside") / "report.html").read_text()
    reason = "Column 'age' (Age) is not in the extract."
    assert reason in html.unescape(page)
    assert 'class="verdict stop"' in page
    assert (workspace.latest("lakeside") / "earlier_report.html").is_file()
    assert reason in html.unescape((workspace.root / "index.html").read_text())
    transfer(workspace, "lakeside", settings)
    assert reason not in html.unescape((workspace.root / "index.html").read_text())
    assert not (workspace.latest("lakeside") / "earlier_report.html").exists()


def test_a_failed_site_does_not_take_the_network_down(network, settings, tmp_path):
    """The run over both is green, because it went on: an engineer who looks at nothing else must see it on it."""
    from prefect.client.orchestration import get_client
    from prefect.client.schemas.filters import FlowFilter
    from prefect.client.schemas.sorting import FlowRunSort

    workspace, _ = network
    other = write_tiny_network(tmp_path)
    (other.root / "demo" / "hillside.csv").unlink()
    results = transfer_several(other, ["hillside", "harbour"], settings, processes=0)
    assert "hillside.csv" in results["hillside"].sentence
    assert not other.latest("hillside").exists()
    assert "hillside.csv" in (other.site("hillside") / "stopped.html").read_text()
    assert 'href="sites/hillside/stopped.html"' in (other.root / "index.html").read_text()
    with get_client(sync_client=True) as client:
        ours = FlowFilter.model_validate({"name": {"any_": ["transfer-network"]}})
        run = client.read_flow_runs(flow_filter=ours, sort=FlowRunSort.START_TIME_DESC, limit=1)[0]
    assert run.state.is_completed()
    assert run.state.name == "Completed without hillside"
    assert "hillside.csv" in run.state.message
    # And the number of processes does not matter.
    evaluations = [(home.latest("harbour") / "evaluation.json").read_bytes() for home in (workspace, other)]
    assert evaluations[0] == evaluations[1]


def test_a_failed_method_is_reported_and_the_site_goes_on(network, settings, tmp_path, monkeypatch):
    def fail(*_, **__):
        raise FitError("the loss is not finite in epoch 3; lower the learning rate")

    monkeypatch.setattr(method_class("mlp"), "fit", fail)
    other = compared_network(tmp_path)
    summary = transfer(other, "harbour", settings)
    assert summary.summary.failed_methods == ("mlp",)
    assert "lower the learning rate" in last_run(other, "harbour").trained.failed["mlp"]
    assert "lower the learning rate" in (other.latest("harbour") / "details.html").read_text()
    assert summary.summary.method != "mlp"


def test_audit_leaves_the_models_as_they_are(network, settings, tmp_path):
    workspace, _ = network
    before = model_digests(workspace, "lakeside")
    source = pd.read_csv(workspace.root / "demo" / "lakeside_outcomes.csv").head(80)
    labels = tmp_path / "arrived.csv"
    source.to_csv(labels, index=False)
    settle(tmp_path)
    summary = audit_site(workspace, "lakeside", str(labels))
    assert model_digests(workspace, "lakeside") == before
    assert 0 < summary.summary.labelled <= 80
    assert "recalibration" in (workspace.latest("lakeside") / "details.html").read_text().lower()
