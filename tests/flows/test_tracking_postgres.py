"""MLflow's record on a real PostgreSQL, and what happens when there is no record to be had."""

from __future__ import annotations

import json
import logging

import pytest
from conftest import TINY_METHODS, leave_reports_out, write_tiny_network

pytestmark = pytest.mark.timeout(400)
SITE = "harbour"


@pytest.fixture(scope="module")
def settings():
    from tasks.settings import TransferSettings

    methods = {name: TINY_METHODS[name] for name in ("mlp", "logistic_regression")}
    return TransferSettings(
        methods=tuple(methods), method_settings=methods, seeds=2, trials=1, passes=10, folds=2, bootstrap=50
    )


@pytest.fixture(scope="module")
def postgres(tmp_path_factory):
    """The address of a PostgreSQL server of our own, as MLflow takes it."""
    import pgserver

    server = pgserver.get_server(tmp_path_factory.mktemp("postgres"), cleanup_mode="stop")
    try:
        yield server.get_uri().replace("postgresql://", "postgresql+psycopg://", 1)
    finally:
        server.cleanup()


@pytest.fixture
def place(tmp_path, prefect_server, monkeypatch):
    leave_reports_out(monkeypatch)
    return write_tiny_network(tmp_path)


def transfer(place, settings):
    from flows.transfer import transfer_site

    return transfer_site(SITE, settings, place.contracts, place.home, 0)


def test_a_site_is_recorded_promoted_and_forgotten_on_postgres(postgres, place, settings, monkeypatch):
    from tasks.forget import forget_site
    from tasks.registry import CHAMPION, promote, rollback, version_at
    from tasks.tracking import EXPERIMENTS, connect
    from tdrop.errors import UsageError

    monkeypatch.setenv("MLFLOW_TRACKING_URI", postgres)
    assert transfer(place, settings)["not_recorded"] is None
    assert not (place.root / "mlflow.db").exists()
    client = connect(place)
    experiment = client.search_experiments(filter_string=EXPERIMENTS)[0]
    assert experiment.artifact_location == (place.root / "artifacts").as_uri()
    runs = client.search_runs([experiment.experiment_id], f"tags.site = '{SITE}'")
    assert sorted(run.data.tags.get("method", "") for run in runs) == ["", "logistic_regression", "mlp"]
    assert all(run.data.metrics for run in runs)
    assert promote(place, SITE, by="Dr Chen", note="a test").by == "Dr Chen"
    assert version_at(place, SITE, CHAMPION) is not None
    with pytest.raises(UsageError, match="no earlier champion"):
        rollback(place, SITE)
    assert forget_site(place, SITE) == 3
    assert not client.search_runs([experiment.experiment_id])
    assert not client.search_registered_models()
    assert not list((place.root / "artifacts").rglob("*.*"))


def test_a_password_is_not_shown(place, monkeypatch):
    from tasks.tracking import connect
    from tdrop.errors import Unavailable

    monkeypatch.setenv("MLFLOW_TRACKING_URI", "postgresql+psycopg://tdrop:secret@127.0.0.1:9/mlflow")
    with pytest.raises(Unavailable) as caught:
        connect(place)
    assert "secret" not in str(caught.value)
    assert "127.0.0.1:9/mlflow" in str(caught.value)


def test_a_report_is_published_when_the_record_cannot_be_reached(place, settings, monkeypatch, caplog):
    import tasks.tracking as tracking

    monkeypatch.setenv("MLFLOW_TRACKING_URI", "http://127.0.0.1:9")
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "0")
    monkeypatch.setattr(tracking, "record_site", tracking.record_site.with_options(retries=1, retry_delay_seconds=0))
    with caplog.at_level(logging.CRITICAL):
        summary = transfer(place, settings)
    assert "MLflow does not answer at http://127.0.0.1:9" in summary["not_recorded"]
    assert (place.latest(SITE) / "report.html").is_file()
    status = json.loads((place.site(SITE) / "status.json").read_text())
    assert status["outcome"] == "not recorded"
    fits = sorted((place.root / "store" / "fit").iterdir())

    monkeypatch.delenv("MLFLOW_TRACKING_URI")
    assert transfer(place, settings)["not_recorded"] is None, "the next run did not make up for it"
    assert sorted((place.root / "store" / "fit").iterdir()) == fits
    assert json.loads((place.site(SITE) / "status.json").read_text())["outcome"] == "done"
