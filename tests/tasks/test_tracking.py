"""MLflow's own weak spots: errors that hide errors, pages that end too early, threads that meet."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor

import pytest

from flows.commands.look import experiment_pages
from tasks.recording import log_datasets, recorded_run, save_views
from tasks.registry import CHAMPION, delete_old_runs
from tasks.tracking import connect, experiment_id, experiment_name
from tdrop.home.workspace import Workspace


def test_a_failed_run_keeps_its_own_error(tmp_path, monkeypatch):
    def delete_run(*_):
        raise ConnectionError("MLflow is gone")

    client, experiment = connect(workspace := Workspace.at(tmp_path)), experiment_id(workspace, "prostate")
    monkeypatch.setattr(client, "delete_run", delete_run)
    with pytest.raises(ValueError, match="the real reason"), recorded_run(client, experiment, "a run", {}):
        raise ValueError("the real reason")


@pytest.mark.parametrize(("labelled", "first"), [(True, "error_auroc_sd"), (False, "weighted_log_loss")])
def test_a_view_of_the_methods_comes_with_the_experiment(tmp_path, labelled, first):
    """In the form that MLflow's page reads: a name, times as numbers, the table's state as text."""
    workspace = Workspace.at(tmp_path)
    client = connect(workspace)
    experiment = experiment_id(workspace, "prostate")
    parent = client.create_run(experiment, tags={"kind": "site", "site": "harbour"}).info.run_id
    save_views(client, experiment, "harbour", parent, labelled=labelled)
    view = json.loads(client.get_experiment(experiment).tags["mlflow.sharedViewState.compare-methods-harbour"])
    assert view["name"] == "Compare methods: harbour"
    assert isinstance(view["createdAt"], int)
    state = json.loads(view["state"])
    assert parent in state["searchFilter"]
    assert first in state["orderByKey"]
    assert state["orderByAsc"] is not labelled
    assert state["orderByKey"] in state["selectedColumns"]
    assert state["selectedColumns"][0] == state["columnOrder"][0] == "tags.`chosen`"
    assert next(chart["metricKey"] for chart in state["compareRunCharts"] if chart["type"] == "BAR") == "error_auroc_sd"
    sites = json.loads(
        json.loads(client.get_experiment(experiment).tags["mlflow.sharedViewState.compare-sites"])["state"]
    )
    assert sites["searchFilter"] == "tags.`kind` = 'site'"
    assert {"tags.`verdict`", "metrics.`forecast/auroc`"} <= set(sites["selectedColumns"])
    address = (
        f"http://mlflow/#/experiments/{experiment}/runs?workflowType=machine_learning&viewStateShareKey=compare-sites"
    )
    assert experiment_pages(workspace, "http://mlflow") == [address]
    assert client.get_experiment(experiment).name == "tdrop prostate"


def test_two_sites_that_name_a_new_source_at_once_are_both_recorded(tmp_path):
    """The other site's source is written after MLflow looked for ours and before it adds it."""
    from sqlalchemy import event
    from sqlalchemy.orm import Session

    workspace = Workspace.at(tmp_path)
    client, experiment = connect(workspace), experiment_id(workspace, "prostate")
    first, second = (client.create_run(experiment).info.run_id for _ in range(2))
    source = {"source": ("registry", "d" * 64)}

    def be_first(*_):
        event.remove(Session, "before_flush", be_first)
        with ThreadPoolExecutor(1) as beside:
            beside.submit(log_datasets, client, first, source).result()

    event.listen(Session, "before_flush", be_first)
    log_datasets(client, second, source)
    for run in (first, second):
        (found,) = client.get_run(run).inputs.dataset_inputs
        assert (found.dataset.name, found.dataset.digest) == ("registry", "d" * 32)


def test_a_model_beyond_the_first_page_keeps_its_run(tiny_network):
    """MLflow shows a hundred models at a time, by name."""
    workspace, artifacts = tiny_network, tiny_network.root / "artifacts"
    client = connect(workspace)
    experiment = client.create_experiment(experiment_name("prostate"), artifact_location=artifacts.as_uri())
    champion, old = (client.create_run(experiment, tags={"site": "lakeside"}).info.run_id for _ in range(2))
    for run in (champion, old):
        client.set_terminated(run)
    for number in range(100):
        client.create_registered_model(f"tdrop-a{number:03}")
    client.create_registered_model("tdrop-lakeside")
    for run in (old, champion):
        version = client.create_model_version("tdrop-lakeside", str(artifacts), run).version
    client.set_registered_model_alias("tdrop-lakeside", CHAMPION, version)

    assert delete_old_runs(workspace, 0) == 1
    assert [run.info.run_id for run in client.search_runs([experiment])] == [champion]
    assert [each.version for each in client.search_model_versions("name = 'tdrop-lakeside'")] == [version]
