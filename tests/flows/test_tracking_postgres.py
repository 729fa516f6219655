"""MLflow's record on a real PostgreSQL, and what happens when there is no record to be had."""

from __future__ import annotations

import json
import logging
from pathlib import Path

import pytest
from conftest import cheap, compared_network, leave_reports_out, transfer as run_transfer
from waiting import postgres_server

from tasks.registry import CHAMPION, delete_site_runs, promote_candidate, restore_champion
from tasks.run import last_run
from tasks.tracking import EXPERIMENTS, connect, version_at
from tdrop.base import DataError, Unavailable, UsageError
from tdrop.served.model import Served

pytestmark = pytest.mark.usefixtures("prefect_server")

SITE = "harbour"


@pytest.fixture(scope="module")
def settings():
    return cheap("mlp", "logistic_regression", seeds=2)


@pytest.fixture(scope="module")
def postgres():
    """The address of a PostgreSQL server of our own, as MLflow takes it."""
    with postgres_server() as uri:
        yield uri.replace("postgresql://", "postgresql+psycopg://", 1)


@pytest.fixture(scope="module")
def recorded(tmp_path_factory, postgres, settings):
    """A site that was transferred with its record on PostgreSQL."""
    workspace = compared_network(tmp_path_factory.mktemp("recorded"))
    (workspace.root / "mlflow.db").unlink()
    with pytest.MonkeyPatch.context() as patch:
        leave_reports_out(patch)
        patch.setenv("MLFLOW_TRACKING_URI", postgres)
        assert transfer(workspace, settings).not_recorded is None
    return workspace


@pytest.fixture
def on_postgres(postgres, monkeypatch):
    monkeypatch.setenv("MLFLOW_TRACKING_URI", postgres)


@pytest.fixture
def workspace(tmp_path, monkeypatch):
    leave_reports_out(monkeypatch)
    return compared_network(tmp_path)


def transfer(workspace, settings):

    return run_transfer(workspace, SITE, settings)


@pytest.mark.usefixtures("on_postgres")
def test_a_record_holds_what_people_compare(recorded, settings):
    client, run = connect(recorded), last_run(recorded, SITE)
    experiment = client.search_experiments(filter_string=EXPERIMENTS)[0].experiment_id
    (mlp,) = client.search_runs([experiment], f"tags.site = '{SITE}' AND tags.method = 'mlp'")
    assert {"auroc", "auroc_low", "auroc_high"} <= set(mlp.data.metrics)
    assert {"choice/weighted_log_loss", "choice/weighted_log_loss_se", "matched/log_loss"} <= set(mlp.data.metrics)
    groups = {name.partition("/")[0] for name in mlp.data.metrics if "/" in name}
    assert groups == {"choice", "matched", "source", "training"}
    assert mlp.data.params["method"] == "mlp"
    assert mlp.data.tags["mlflow.note.content"].startswith("MLP, tuned and fitted on registry for harbour; not chosen.")
    steps = int(mlp.data.params["steps"])
    points = client.get_metric_history(mlp.info.run_id, "training/loss")
    assert sorted(point.step for point in points) == list(range(1, steps + 1))
    assert mlp.data.params["hidden"] == str(settings.method_settings["mlp"]["hidden"])
    (parent,) = client.search_runs([experiment], f"tags.site = '{SITE}' AND tags.kind = 'site'")
    assert parent.data.params["seeds"] == "2"
    # What sites are compared by: the chosen method's numbers, what was expected, and the verdict.
    chosen = parent.data.tags["chosen"]
    (best,) = client.search_runs([experiment], f"tags.site = '{SITE}' AND tags.method = '{chosen}'")
    assert best.info.run_name == f"chosen: {chosen}"
    for name in ("auroc", "error_auroc_sd", "referred"):
        assert parent.data.metrics.get(name) == best.data.metrics.get(name), name
    assert {"forecast/auroc", "forecast/auroc_low", "rows/used"} <= set(parent.data.metrics)
    assert parent.data.tags["verdict"] in ("go", "caution", "stop", "too few to say")
    for each in (parent, mlp):
        names = {given.dataset.name: given.dataset.digest for given in each.inputs.dataset_inputs}
        assert names == {"registry": run.stages.source.digest[:32], SITE: run.stages.target.digest[:32]}
        tags = each.data.tags
        assert tags["contract_version"] == str(recorded.network().contract("prostate").version)
        assert tags["data_digest"] == run.stages.target.digest[:32]
        assert tags["models_digest"] == run.stages.models.digest
        assert tags["contract_digest"] == recorded.network().digest_of(recorded.network().site(SITE))
        assert tags["simulated"] == "true"


@pytest.mark.usefixtures("on_postgres")
def test_every_method_has_its_model_with_what_was_measured_of_it(recorded, tmp_path):
    import mlflow
    import pandas as pd

    client, run = connect(recorded), last_run(recorded, SITE)
    experiment = client.search_experiments(filter_string=EXPERIMENTS)[0].experiment_id
    row = {"age": 70.0, "psa": 8.0, "grade_group": "2", "stage": "T2", "comorbidity": 0.0, "treatment": "none"}
    for method, fits in run.trained.fits.items():
        (child,) = client.search_runs([experiment], f"tags.site = '{SITE}' AND tags.method = '{method}'")
        model = client.get_logged_model(child.data.tags["model"].removeprefix("models:/"))
        assert (model.name, model.source_run_id, model.params["method"]) == (method, child.info.run_id, method)
        # Of the model and the extract that a number was measured on.
        measured = {metric.key: (metric.value, metric.dataset_name) for metric in model.metrics}
        assert measured["auroc"] == (child.data.metrics["auroc"], SITE)
        assert measured["source/log_loss"] == (child.data.metrics["source/log_loss"], "registry")
        spent = 1000 * sum(ref.seconds for ref in fits)
        assert child.info.end_time - child.info.start_time == pytest.approx(spent, abs=2)
        files = Path(mlflow.artifacts.download_artifacts(model.model_uri, dst_path=str(tmp_path / method)))
        (served,) = files.rglob("served.json")
        assert 0 < Served.load(served.parent).predict(pd.DataFrame([row]))["risk"].item() < 1
    with pytest.raises(DataError, match="is no registered version, which alone can be promoted"):
        mlflow.pyfunc.load_model(model.model_uri)


@pytest.mark.usefixtures("on_postgres")
def test_a_site_is_recorded_promoted_and_forgotten_on_postgres(recorded):
    workspace = recorded
    assert not (workspace.root / "mlflow.db").exists()
    client = connect(workspace)
    experiment = client.search_experiments(filter_string=EXPERIMENTS)[0]
    assert experiment.artifact_location == (workspace.root / "artifacts").as_uri()
    runs = client.search_runs([experiment.experiment_id], f"tags.site = '{SITE}'")
    assert sorted(run.data.tags.get("method", "") for run in runs) == ["", "logistic_regression", "mlp"]
    assert all(run.data.metrics for run in runs)
    assert promote_candidate(workspace, SITE, by="Dr Chen", note="a test").by == "Dr Chen"
    assert version_at(workspace, SITE, CHAMPION) is not None
    with pytest.raises(UsageError, match="no earlier champion"):
        restore_champion(workspace, SITE)
    assert delete_site_runs(workspace, SITE) == 3
    assert not client.search_runs([experiment.experiment_id])
    assert not client.search_registered_models()
    assert not list((workspace.root / "artifacts").rglob("*.*"))


def test_a_password_is_not_shown(workspace, monkeypatch):
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "postgresql+psycopg://tdrop:secret@127.0.0.1:9/mlflow")
    with pytest.raises(Unavailable) as caught:
        connect(workspace)
    assert "secret" not in str(caught.value)
    assert "127.0.0.1:9/mlflow" in str(caught.value)


def test_a_report_is_published_when_the_record_cannot_be_reached(workspace, settings, monkeypatch, caplog):
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "http://127.0.0.1:9")
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "0")
    monkeypatch.setattr("tasks.publish.record_in_mlflow.retries", 0)
    with caplog.at_level(logging.CRITICAL):
        summary = transfer(workspace, settings)
    assert "MLflow does not answer at http://127.0.0.1:9" in summary.not_recorded
    assert (workspace.latest(SITE) / "report.html").is_file()
    status = json.loads((workspace.site(SITE) / "status.json").read_text())
    assert status["outcome"] == "not recorded"
    fits = sorted((workspace.root / "store" / "fit").iterdir())

    monkeypatch.delenv("MLFLOW_TRACKING_URI")
    assert transfer(workspace, settings).not_recorded is None, "the next run did not make up for it"
    assert sorted((workspace.root / "store" / "fit").iterdir()) == fits
    assert json.loads((workspace.site(SITE) / "status.json").read_text())["outcome"] == "done"
