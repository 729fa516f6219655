"""Records runs in MLflow: per site a parent run, per method a child run, and the chosen model as candidate.

All that is logged has passed disclosure. Saved views compare the sites, and the methods of each site: MLflow shows them
under an experiment's Views and stores them as tags of the experiment.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

from tasks.export import WITHHELD
from tasks.models import find_model, log_model, point_candidate, register, same_model
from tasks.site_record import MethodRecord, SiteRecord
from tasks.tracking import PARENT, connect, experiment_id
from tdrop import figures
from tdrop.home import Workspace, digest_of

if TYPE_CHECKING:
    from mlflow import MlflowClient
    from mlflow.entities import Metric

#: MLflow takes at most this many metrics in one batch.
BATCH = 1000
#: Characters of a digest that MLflow keeps of a dataset.
DIGEST = 32
#: Tag with a digest of the record, by which a repeated record is recognised.
RECORD_KEY = "tdrop.record"
#: Tag that MLflow shows as a run's description.
DESCRIPTION = "mlflow.note.content"
#: Tag of a method's run that says where its model is, or why it has none.
MODEL_TAG = "model"
#: If two sites add the same new dataset at once, MLflow refuses one, which succeeds when it tries again.
DATASET_TRIES = 3
#: Prefix of the tag that holds a saved view.
SAVED_VIEW = "mlflow.sharedViewState."
#: Columns of the view of one site's methods, and their widths, which hold the whole heading. In order of interest: was
#: the method chosen, does it know its errors, does it rank patients, and why was it chosen.
METHOD_COLUMNS: Mapping[str, int] = {
    "tags.`chosen`": 80,
    "metrics.`error_auroc_sd`": 130,
    "metrics.`auroc`": 80,
    "metrics.`log_loss`": 90,
    "metrics.`referred`": 85,
    "metrics.`choice/weighted_log_loss`": 200,
}
#: Columns of the view of all sites.
SITE_COLUMNS: Mapping[str, int] = {
    "tags.`verdict`": 80,
    "tags.`chosen`": 170,
    "metrics.`auroc`": 80,
    "metrics.`forecast/auroc`": 120,
    "metrics.`error_auroc_sd`": 130,
    "metrics.`referred`": 85,
    "metrics.`rows/used`": 90,
    "metrics.`shift/domain_auroc`": 155,
}
#: Metrics that the views draw as bars, and the pair in a scatter plot.
CHARTS = ("error_auroc_sd", "auroc", "log_loss")
PAIR = ("auroc", "error_auroc_sd")
#: Tag with the colour of a run in MLflow's charts.
COLOUR = "mlflow.runColor"
#: The key of the view of all sites.
ALL_SITES = "compare-sites"


def record_site(workspace: Workspace, record: SiteRecord) -> str:
    """Writes a site's record to MLflow, unless it is there already; returns the id of the parent run.

    The site's candidate is then the model of this record, or none if the verdict is stop.
    """
    client, experiment = connect(workspace), experiment_id(workspace, record.tags["contract"])
    key = digest_of([record.site, record.tags, record.params, record.metrics, [m.metrics for m in record.methods]])
    earlier = _find_record(client, experiment, key, record)
    parent, version = earlier or _write_record(workspace, experiment, key, record)
    point_candidate(client, record.site, version)
    labelled = any("error_auroc_sd" in method.metrics for method in record.methods)
    save_views(client, experiment, record.site, parent, labelled=labelled)
    return parent


def record_recalibration(workspace: Workspace, record: SiteRecord) -> str:
    """Writes one run with a recalibrated model and returns the model's version."""
    import mlflow

    client, experiment = connect(workspace), experiment_id(workspace, record.tags["contract"])
    tags = {**record.tags, "kind": "recalibration"}
    with recorded_run(client, experiment, f"recalibrate {record.site}", tags) as run_id:
        mlflow.log_params(record.params)
        mlflow.log_metrics(record.metrics)
        log_datasets(client, run_id, record.datasets)
        return register(workspace, run_id, record, log_model(Path(str(record.candidate)), record, record.chosen))


def _find_record(client: MlflowClient, experiment: str, key: str, record: SiteRecord) -> tuple[str, str | None] | None:
    """The run and the model version of a finished record with this key; None if run or version is missing."""
    for run in client.search_runs([experiment], f"tags.`{RECORD_KEY}` = '{key}' AND attributes.status = 'FINISHED'"):
        version = None if record.candidate is None else same_model(client, record)
        if version is not None or record.candidate is None:
            return str(run.info.run_id), version
    return None


def _write_record(workspace: Workspace, experiment: str, key: str, record: SiteRecord) -> tuple[str, str | None]:
    """Writes a record; returns its run, and the version of its model or None."""
    import mlflow

    client, version = connect(workspace), None
    tags = {**record.tags, RECORD_KEY: key, "kind": "site", "chosen": record.chosen, DESCRIPTION: record.about()}
    seconds = sum(method.seconds or 0.0 for method in record.methods)
    with recorded_run(client, experiment, record.site, tags, seconds) as parent:
        mlflow.log_params(record.params)
        mlflow.log_metrics(record.metrics)
        log_datasets(client, parent, record.datasets)
        mlflow.log_artifacts(record.exported, "report")
        for method in record.methods:
            version = _write_method(workspace, experiment, parent, record, method) or version
    return parent, version


def _write_method(
    workspace: Workspace, experiment: str, parent: str, record: SiteRecord, method: MethodRecord
) -> str | None:
    """Writes a method's run; returns the version of its model if the method was chosen."""
    import mlflow

    client = connect(workspace)
    chosen = method.method == record.chosen
    tags = {**record.tags, "kind": "method", "method": method.method, "chosen": str(chosen).lower(), PARENT: parent}
    tags |= {DESCRIPTION: record.about_method(method.method), COLOUR: figures.look(method.method).colour}
    # The name is the first column, which is always visible.
    name = f"chosen: {method.method}" if chosen else method.method
    with recorded_run(client, experiment, name, tags, method.seconds) as run_id:
        # Before the model, which copies the settings.
        mlflow.log_params(method.params)
        log_datasets(client, run_id, record.datasets)
        model = _log_or_find_model(client, experiment, run_id, record, method)
        _log_metrics(method, record.datasets, None if model is None else model.model_id)
        _log_curve(client, run_id, method.history)
        for name, text in method.files.items():
            mlflow.log_text(text, name)
        if model is None or not chosen:
            return None
        return same_model(client, record) or register(workspace, run_id, record, model)


def _log_or_find_model(
    client: MlflowClient, experiment: str, run_id: str, record: SiteRecord, method: MethodRecord
) -> Any | None:
    """Logs a method's model, or finds that of an earlier run; None, with a tag that says why, if none may be used.

    A model of an earlier run becomes an input of this run, and is deleted with the earlier one.
    """
    from mlflow.entities import LoggedModelInput

    if method.served is None or record.candidate is None:
        why = record.tags.get(WITHHELD) or f"the verdict is {record.tags['verdict']}"
        why = f"none: {why}, so that no model may be used at this site"
        client.set_tag(run_id, MODEL_TAG, why)
        return None
    model = find_model(client, experiment, record, method.method)
    if model is None:
        model = log_model(Path(method.served), record, method.method)
    else:
        client.log_inputs(run_id, models=[LoggedModelInput(model.model_id)])
    client.set_tag(run_id, MODEL_TAG, f"models:/{model.model_id}")
    return model


@contextmanager
def recorded_run(
    client: MlflowClient, experiment: str, name: str, tags: Mapping[str, str], seconds: float | None = None
) -> Iterator[str]:
    """An active run in MLflow, a child of the run of an outer block; deleted if the block raises.

    `seconds` becomes its duration: that of the fits, which ended before the run was written.
    """
    import mlflow

    ended = int(time.time() * 1000)
    started = None if seconds is None else ended - round(1000 * seconds)
    run_id = str(client.create_run(experiment, start_time=started, run_name=name, tags=dict(tags)).info.run_id)
    try:
        with mlflow.start_run(run_id=run_id, nested=True, log_system_metrics=False):
            yield run_id
    except BaseException:
        # The first error matters more than that MLflow could not delete the run.
        with suppress(Exception):
            client.delete_run(run_id)
        raise
    if seconds is not None:
        client.set_terminated(run_id, "FINISHED", ended)


def _log_metrics(method: MethodRecord, datasets: Mapping[str, tuple[str, str]], model: str | None) -> None:
    """Logs a method's metrics with its model and the extract on which they were measured."""
    import mlflow

    for role, (name, digest) in datasets.items():
        here = {key: value for key, value in method.metrics.items() if ("/" not in key) == (role == "target")}
        mlflow.log_metrics(here, model_id=model, dataset=_dataset(name, digest))


def _log_curve(client: MlflowClient, run_id: str, history: Sequence[Mapping[str, float | None]]) -> None:
    """Logs the training curve by step, in few calls."""
    from mlflow.entities import Metric

    stamp = int(time.time() * 1000)
    points = [
        Metric(f"training/{name}", float(value), stamp, int(point["step"] or 0))
        for point in history
        for name, value in point.items()
        if name != "step" and value is not None
    ]
    log_points(client, run_id, points)


def log_points(client: MlflowClient, run_id: str, points: Sequence[Metric]) -> None:
    """Logs metrics with their steps and moments, in few calls."""
    for start in range(0, len(points), BATCH):
        client.log_batch(run_id, metrics=points[start : start + BATCH])


def log_datasets(client: MlflowClient, run_id: str, datasets: Mapping[str, tuple[str, str]]) -> None:
    """Logs names and digests of the extracts, never their content or location."""
    from mlflow.entities import DatasetInput, InputTag

    inputs = [
        DatasetInput(_dataset(name, digest), [InputTag("mlflow.data.context", role)])
        for role, (name, digest) in datasets.items()
    ]
    for left in reversed(range(DATASET_TRIES)):
        try:
            return client.log_inputs(run_id, datasets=inputs)
        except Exception:
            if not left:
                raise


def _dataset(name: str, digest: str) -> Any:
    from mlflow.entities import Dataset

    return Dataset(name, digest[:DIGEST], "local", json.dumps({"site": name}))


def view_key(site: str) -> str:
    """The key of the saved view of a site's methods."""
    return f"compare-methods-{site}"


def save_views(client: MlflowClient, experiment: str, site: str, parent: str, *, labelled: bool) -> None:
    """Saves the views of one site's methods and of all sites.

    Methods are sorted by error AUROC, or without outcomes by the criterion of the choice.
    """
    best = "metrics.`error_auroc_sd`" if labelled else "metrics.`choice/weighted_log_loss`"
    views = {
        view_key(site): (
            f"Compare methods: {site}",
            f"tags.`{PARENT}` = '{parent}'",
            best,
            not labelled,
            METHOD_COLUMNS,
        ),
        ALL_SITES: ("Compare sites", "tags.`kind` = 'site'", "attributes.start_time", False, SITE_COLUMNS),
    }
    now = int(time.time() * 1000)
    for key, (name, runs, order, ascending, columns) in views.items():
        state = {
            "searchFilter": runs,
            "orderByKey": order,
            "orderByAsc": ascending,
            "selectedColumns": list(columns),
            "columnOrder": list(columns),
            "columnWidths": dict(columns),
            "runsHiddenMode": "SHOW_ALL",
            **_charts("Measured at the site" if key == ALL_SITES else f"Measured at {site}"),
        }
        view = {"name": name, "createdAt": now, "updatedAt": now, "state": json.dumps(state)}
        client.set_experiment_tag(experiment, SAVED_VIEW + key, json.dumps(view))


def _charts(title: str) -> dict[str, Any]:
    """The charts of a view, in a section before MLflow's own."""
    common = {"metricSectionId": "tdrop", "runsCountToCompare": 20, "deleted": False, "isGenerated": False}
    bars = [{"uuid": f"tdrop-{metric}", "type": "BAR", "metricKey": metric, **common} for metric in CHARTS]
    across, up = ({"key": metric, "type": "METRIC"} for metric in PAIR)
    pair = {"uuid": "tdrop-pair", "type": "SCATTER", "xaxis": across, "yaxis": up, **common}
    section = {"uuid": "tdrop", "name": title, "display": True, "deleted": False, "isGenerated": False}
    return {
        "compareRunCharts": [*bars, pair],
        "compareRunSections": [{**section, "isReordered": True}],
        "isAccordionReordered": True,
    }


def view_address(tracking: str, experiment: str, key: str = ALL_SITES) -> str:
    """The address of a saved view on MLflow's page, in its machine learning part."""
    query = urlencode({"workflowType": "machine_learning", "viewStateShareKey": key})
    return f"{tracking}/#/experiments/{experiment}/runs?{query}"
