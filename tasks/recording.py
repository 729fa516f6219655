"""What a run leaves in MLflow: per site a parent run, per method a child run, the chosen model as candidate.

What is logged has passed disclosure. Saved views compare the sites, and the methods of each site: MLflow offers them
under an experiment's Views and keeps them as tags of the experiment, with a name, its times, and the table as JSON.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

from tasks.models import find_model, log_model, point_candidate, register, same_model
from tasks.site_record import MethodRecord, SiteRecord
from tasks.tracking import PARENT, connect, experiment_id
from tdrop import figures
from tdrop.home import Workspace, digest_of

if TYPE_CHECKING:
    from mlflow import MlflowClient

#: MLflow takes at most this many metrics in one batch.
BATCH = 1000
#: Characters of a digest that MLflow keeps of a dataset.
DIGEST = 32
#: Tag that names a record by its content, so that a repeated recording is recognised instead of doubled.
RECORD_KEY = "tdrop.record"
#: Tag that MLflow shows as a run's description.
DESCRIPTION = "mlflow.note.content"
#: Tag of a method's run that says where its model is, or why it has none.
MODEL_TAG = "model"
#: MLflow looks for a dataset and then adds it: of two sites that name a new source at once, one is refused and
#: succeeds when it tries again.
DATASET_TRIES = 3
#: What MLflow's page puts before a saved view's key.
SAVED_VIEW = "mlflow.sharedViewState."
#: Columns of one site's methods and their widths, in the order a reader asks: was it chosen, does it know its errors,
#: does it rank patients, what spoke for it beforehand. A width that holds the whole heading.
METHOD_COLUMNS: Mapping[str, int] = {
    "tags.`chosen`": 80,
    "metrics.`error_auroc_sd`": 130,
    "metrics.`auroc`": 80,
    "metrics.`log_loss`": 90,
    "metrics.`referred`": 85,
    "metrics.`choice/weighted_log_loss`": 200,
}
#: Columns of the sites side by side.
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
#: What the views' charts draw as bars, and the pair that they draw against each other.
CHARTS = ("error_auroc_sd", "auroc", "log_loss")
PAIR = ("auroc", "error_auroc_sd")
#: Tag with the colour of a run in MLflow's charts.
COLOUR = "mlflow.runColor"
#: The key of the view of all sites.
ALL_SITES = "compare-sites"


def record_site(workspace: Workspace, record: SiteRecord) -> str:
    """Writes a site's record to MLflow and returns the parent run's id; a finished record is not written again.

    Either way the site's candidate is then the model of this record, or nothing when the verdict is stop.
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
    """The run and the model version of a finished record with this key; None when there is none, or not its model."""
    for run in client.search_runs([experiment], f"tags.`{RECORD_KEY}` = '{key}' AND attributes.status = 'FINISHED'"):
        version = None if record.candidate is None else same_model(client, record)
        if version is not None or record.candidate is None:
            return str(run.info.run_id), version
    return None


def _write_record(workspace: Workspace, experiment: str, key: str, record: SiteRecord) -> tuple[str, str | None]:
    """Writes a record; returns its run, and the version of its model where one was registered."""
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
    """Writes a method's run; returns the version of its model where it is the candidate."""
    import mlflow

    client = connect(workspace)
    chosen = method.method == record.chosen
    tags = {**record.tags, "kind": "method", "method": method.method, "chosen": str(chosen).lower(), PARENT: parent}
    tags |= {DESCRIPTION: record.about_method(method.method), COLOUR: figures.look(method.method).colour}
    # A run's name is the first column, which no window cuts off.
    name = f"chosen: {method.method}" if chosen else method.method
    with recorded_run(client, experiment, name, tags, method.seconds) as run_id:
        # Before the model, which takes the settings over.
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
    """Logs a method's model, or finds the same of a run before; None, and a tag that says why, where none may be used.

    A model of an earlier run is an input of this run: it goes when the run that made it goes.
    """
    from mlflow.entities import LoggedModelInput

    if method.served is None or record.candidate is None:
        why = f"none: the verdict is {record.tags['verdict']}, so that no model may be used at this site"
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
    """MLflow's active run, nested in another's block; when the block raises it is deleted: the next try starts anew.

    With `seconds` that is how long it is said to have taken: its fits, which were over before it was written.
    """
    import mlflow

    ended = int(time.time() * 1000)
    started = None if seconds is None else ended - round(1000 * seconds)
    run_id = str(client.create_run(experiment, start_time=started, run_name=name, tags=dict(tags)).info.run_id)
    try:
        with mlflow.start_run(run_id=run_id, nested=True, log_system_metrics=False):
            yield run_id
    except BaseException:
        # What went wrong is worth more than that MLflow could not delete the run.
        with suppress(Exception):
            client.delete_run(run_id)
        raise
    if seconds is not None:
        client.set_terminated(run_id, "FINISHED", ended)


def _log_metrics(method: MethodRecord, datasets: Mapping[str, tuple[str, str]], model: str | None) -> None:
    """Logs a method's numbers, each with the model that it is about and the extract that it was measured on."""
    import mlflow

    for role, (name, digest) in datasets.items():
        here = {key: value for key, value in method.metrics.items() if ("/" not in key) == (role == "target")}
        mlflow.log_metrics(here, model_id=model, dataset=_dataset(name, digest))


def _log_curve(client: MlflowClient, run_id: str, history: Sequence[Mapping[str, float | None]]) -> None:
    """Logs the training curve by step, in as few calls as MLflow allows."""
    from mlflow.entities import Metric

    stamp = int(time.time() * 1000)
    points = [
        Metric(f"training/{name}", float(value), stamp, int(point["step"] or 0))
        for point in history
        for name, value in point.items()
        if name != "step" and value is not None
    ]
    for start in range(0, len(points), BATCH):
        client.log_batch(run_id, metrics=points[start : start + BATCH])


def log_datasets(client: MlflowClient, run_id: str, datasets: Mapping[str, tuple[str, str]]) -> None:
    """Logs names and digests of the extracts, never their contents or where they lie."""
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

    Methods stand with the best by error AUROC first, or by the criterion of choice where no outcome is known.
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
    """The part of a view's state that holds its charts, in a section that stands before those MLflow makes itself."""
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
    """Where MLflow's page opens a saved view, among the runs of machine learning and not of language models."""
    query = urlencode({"workflowType": "machine_learning", "viewStateShareKey": key})
    return f"{tracking}/#/experiments/{experiment}/runs?{query}"
