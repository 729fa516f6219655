"""What a run leaves in MLflow: per site a parent run, per method a child run, the chosen model as candidate.

What is logged has passed disclosure.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tasks.artifacts import leave
from tasks.models import find_model, log_model, point_candidate, register, same_model
from tasks.step import step, unless_lasting
from tasks.tracking import PARENT, connect, experiment_id, tracking_uri
from tasks.views import compare_sentence, keep_view
from tdrop.base import TdropError
from tdrop.home import Place, digest_of, report
from tdrop.runs import MethodRecord, SiteRecord

if TYPE_CHECKING:
    from mlflow import MlflowClient

#: MLflow takes at most this many metrics in one batch.
BATCH = 1000
#: Characters of a digest that MLflow keeps of a dataset.
DIGEST = 32
#: Tag that names a record by its content, so that a repeated recording is found instead of doubled.
RECORD = "tdrop.record"
#: Tag that MLflow shows as a run's description.
NOTE = "mlflow.note.content"
#: Tag of a method's run that says where its model is, or why it has none.
MODEL = "model"
TRACKING_LIMIT_SECONDS = 900
#: MLflow looks for a dataset and then adds it: of two sites that name a new source at once, one is refused and finds it
#: on another try.
DATASET_TRIES = 3


@step("record", "record {record.site}", retry=unless_lasting, limit_seconds=TRACKING_LIMIT_SECONDS)
def record_site(place: Place, record: SiteRecord) -> str:
    """Writes a site's record to MLflow and returns the parent run's id; a finished one is found again.

    Either way the site's candidate is then the model of this record, or nothing when the verdict is stop.
    """
    client, experiment = connect(place), experiment_id(place, place.network())
    key = digest_of([record.site, record.tags, record.params, record.metrics, [m.metrics for m in record.methods]])
    found = _find(client, experiment, key, record)
    parent, version = found or _write(place, experiment, key, record)
    point_candidate(client, record.site, version)
    labelled = any("target/error_auroc_sd" in method.metrics for method in record.methods)
    keep_view(client, experiment, record.site, parent, labelled=labelled)
    where = compare_sentence(tracking_uri(place), experiment, record.site)
    leave(record.site, "record", f"# {record.site}: recorded\n\n{len(record.methods)} methods, run `{parent}`. {where}")
    report(record.site, "record", detail="already recorded" if found else f"{len(record.methods)} methods in MLflow")
    return parent


def _find(client: MlflowClient, experiment: str, key: str, record: SiteRecord) -> tuple[str, str | None] | None:
    """The run and the model version of a finished record with this key; None when there is none, or not its model."""
    for run in client.search_runs([experiment], f"tags.`{RECORD}` = '{key}' AND attributes.status = 'FINISHED'"):
        parent = str(run.info.run_id)
        if record.candidate is None:
            return parent, None
        version = same_model(client, record)
        if version is not None:
            return parent, version
    return None


def _write(place: Place, experiment: str, key: str, record: SiteRecord) -> tuple[str, str | None]:
    """Writes a record; returns its run, and the version of its model where one was registered."""
    client, version = connect(place), None
    tags = {**record.tags, RECORD: key, "kind": "site", NOTE: record.about()}
    seconds = sum(method.seconds or 0.0 for method in record.methods)
    with recorded_run(client, experiment, record.site, tags, seconds) as parent:
        _log_params(client, parent, record.params)
        _log_metrics(client, parent, record.metrics)
        log_datasets(client, parent, record.datasets)
        client.log_artifacts(parent, record.exported, "report")
        for method in record.methods:
            version = _write_method(place, experiment, parent, record, method) or version
    return parent, version


def _write_method(place: Place, experiment: str, parent: str, record: SiteRecord, method: MethodRecord) -> str | None:
    """Writes a method's run; returns the version of its model where it is the candidate."""
    client = connect(place)
    chosen = method.method == record.chosen
    tags = {**record.tags, "kind": "method", "method": method.method, "chosen": str(chosen).lower(), PARENT: parent}
    tags |= {NOTE: record.about_method(method.method)}
    with recorded_run(client, experiment, f"{method.method} {record.site}", tags, method.seconds) as run_id:
        _log_params(client, run_id, method.params)
        log_datasets(client, run_id, record.datasets)
        model = _keep_model(client, experiment, run_id, record, method)
        _log_metrics(client, run_id, method.metrics, record.datasets, None if model is None else model.model_id)
        _log_curve(client, run_id, method.history)
        for name, text in method.files.items():
            client.log_text(run_id, text, name)
        if model is None or not chosen:
            return None
        return same_model(client, record) or register(place, run_id, record, model)


def _keep_model(
    client: MlflowClient, experiment: str, run_id: str, record: SiteRecord, method: MethodRecord
) -> Any | None:
    """Logs a method's model, or finds the same of a run before; None, and a tag that says why, where none may be used.

    A model that was found is an input of this run: it goes when the run that made it goes.
    """
    from mlflow.entities import LoggedModelInput

    if method.served is None or record.candidate is None:
        why = f"none: the verdict is {record.tags['verdict']}, so that no model may be used at this site"
        client.set_tag(run_id, MODEL, why)
        return None
    found = find_model(client, experiment, record, method.method)
    if found is None:
        found = log_model(run_id, Path(method.served), record, method.method)
    else:
        client.log_inputs(run_id, models=[LoggedModelInput(found.model_id)])
    client.set_tag(run_id, MODEL, f"models:/{found.model_id}")
    return found


@contextmanager
def recorded_run(
    client: MlflowClient, experiment: str, name: str, tags: Mapping[str, str], seconds: float | None = None
) -> Iterator[str]:
    """A run that ends as FINISHED or, when the block raises, as FAILED and out of sight: the next try starts anew.

    With `seconds` that is how long it is said to have taken: its fits, which were over before it was written.
    """
    ended = int(time.time() * 1000)
    started = None if seconds is None else ended - round(1000 * seconds)
    run_id = str(client.create_run(experiment, start_time=started, run_name=name, tags=dict(tags)).info.run_id)
    try:
        yield run_id
    except BaseException:
        # What went wrong is worth more than that MLflow could not be told.
        with suppress(Exception):
            client.set_terminated(run_id, "FAILED")
            client.delete_run(run_id)
        raise
    client.set_terminated(run_id, "FINISHED", None if seconds is None else ended)


def _log_params(client: MlflowClient, run_id: str, params: Mapping[str, Any]) -> None:
    """Settings; before a model, which takes them over."""
    from mlflow.entities import Param

    client.log_batch(run_id, params=[Param(name, str(value)) for name, value in params.items()])


def _log_metrics(
    client: MlflowClient,
    run_id: str,
    metrics: Mapping[str, float],
    datasets: Mapping[str, tuple[str, str]] | None = None,
    model: str | None = None,
) -> None:
    """Numbers, each with the model that it is about and the extract that it was measured on."""
    from mlflow.entities import Metric

    stamp = int(time.time() * 1000)
    points = []
    for name, value in metrics.items():
        at = (datasets or {}).get("target" if name.startswith("target/") else "source")
        measured = {} if at is None else {"dataset_name": at[0], "dataset_digest": at[1][:DIGEST]}
        points.append(Metric(name, float(value), stamp, 0, model_id=model, **measured))
    client.log_batch(run_id, metrics=points)


def _log_curve(client: MlflowClient, run_id: str, history: Sequence[Mapping[str, float | None]]) -> None:
    """The points of the training curve by step."""
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
    """Names and digests of the extracts, never their contents or where they lie."""
    from mlflow.entities import Dataset, DatasetInput, InputTag

    inputs = [
        DatasetInput(
            Dataset(name, digest[:DIGEST], "local", json.dumps({"site": name})), [InputTag("mlflow.data.context", role)]
        )
        for role, (name, digest) in datasets.items()
    ]
    for left in reversed(range(DATASET_TRIES)):
        try:
            return client.log_inputs(run_id, datasets=inputs)
        except Exception:
            if not left:
                raise


def record_or_explain(place: Place, record: SiteRecord) -> str | None:
    """Records a site; returns a sentence when MLflow could not be reached, None when all went well."""
    try:
        record_site(place, record)
    except TdropError as error:
        return str(error)
    except Exception as error:
        return f"site '{record.site}' was not recorded in MLflow ({type(error).__name__}); run the same command again"
    return None


def record_recalibration(place: Place, record: SiteRecord) -> str:
    """Writes one run with a recalibrated model and returns the model's version."""
    client, experiment = connect(place), experiment_id(place, place.network())
    with recorded_run(
        client, experiment, f"recalibrate {record.site}", {**record.tags, "kind": "recalibration"}
    ) as run_id:
        _log_params(client, run_id, record.params)
        _log_metrics(client, run_id, record.metrics)
        log_datasets(client, run_id, record.datasets)
        return register(place, run_id, record, log_model(run_id, Path(str(record.candidate)), record, record.chosen))


def record_benchmark(
    place: Place, name: str, params: Mapping[str, Any], metrics: Mapping[str, float], folder: str
) -> str:
    """Writes one run with a benchmark's key numbers, and its tables and figures as artifacts; returns the run's id."""
    client = connect(place)
    experiment = experiment_id(place, place.network())
    with recorded_run(client, experiment, f"benchmark {name}", {"kind": "benchmark", "benchmark": name}) as run_id:
        _log_params(client, run_id, params)
        _log_metrics(client, run_id, metrics)
        client.log_artifacts(run_id, folder, "results")
    return run_id
