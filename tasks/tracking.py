"""The record: per site a parent run, per method a child run, the chosen model as candidate.

Only this file and the served model import mlflow. What is logged has passed disclosure.
"""

from __future__ import annotations

import json
import os
import socket
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from prefect import task
from prefect.cache_policies import NO_CACHE

from tasks.artifacts import leave
from tasks.place import PRIVATE, Place
from tasks.prepare import BACKOFF_SECONDS
from tasks.progress import report
from tasks.records import MethodRecord as MethodRecord
from tasks.records import SiteRecord as SiteRecord
from tasks.store import digest_of
from tdrop.errors import TdropError, Unavailable

if TYPE_CHECKING:
    from mlflow import MlflowClient

    from tdrop.contracts.network import Network

#: MLflow takes at most this many metrics in one batch.
BATCH = 1000
#: Tag that names a record by its content, so that a repeated recording is found instead of doubled.
RECORD = "tdrop.record"
PARENT = "mlflow.parentRunId"
TRACKING_LIMIT_SECONDS = 900
CONNECT_LIMIT_SECONDS = 10
#: Ports that an address may leave out.
PORTS: Mapping[str, int] = {"http": 80, "https": 443, "postgresql": 5432, "mysql": 3306, "mssql": 1433}
#: Finds the networks' experiments.
EXPERIMENTS = "name LIKE 'tdrop %'"
#: Tells MLflow's page that this is about models, and a reader how to compare them.
EXPERIMENT_TAGS: Mapping[str, str] = {
    "mlflow.experimentKind": "custom_model_development",
    "mlflow.note.content": (
        "One run a site, one run a method below it. To compare the methods of a site, filter by "
        "`tags.site = 'NAME'`, open the site (+), select its methods and press Compare."
    ),
}


def tracking_uri(place: Place) -> str:
    """The user's `MLFLOW_TRACKING_URI`, or a sqlite file in the home."""
    return os.environ.get("MLFLOW_TRACKING_URI") or f"sqlite:///{place.root / 'mlflow.db'}"


def connect(place: Place) -> MlflowClient:
    """A client of the tracking store; the first one on an empty home creates the database alone."""
    uri = tracking_uri(place)
    client = _connect(uri, place.home)
    _point_at(uri)
    return client


def _point_at(uri: str) -> None:
    """Makes MLflow's own functions use this record, in this process alone.

    MLflow also writes the address into the environment, where another home, or a process started from
    here, would take it for the user's setting.
    """
    import mlflow

    configured = os.environ.get("MLFLOW_TRACKING_URI")
    mlflow.set_tracking_uri(uri)
    if configured is None:
        os.environ.pop("MLFLOW_TRACKING_URI", None)


@lru_cache(maxsize=8)
def _connect(uri: str, home: str) -> MlflowClient:
    from filelock import FileLock
    from mlflow import MlflowClient

    # Two processes that migrate one fresh sqlite file at once break it for good.
    with FileLock(Path(home) / "mlflow.lock"):
        try:
            _require_listener(uri)
            client = MlflowClient(uri, uri)
            client.search_experiments(max_results=1)
        except Exception as error:
            raise Unavailable(
                f"MLflow does not answer at {_without_password(uri)} ({type(error).__name__}); "
                "check MLFLOW_TRACKING_URI and that its server runs"
            ) from error
    return client


def _require_listener(uri: str) -> None:
    """Raises when nobody listens at the address: MLflow itself would try a dead database for minutes."""
    parts = urlsplit(uri)
    port = parts.port or PORTS.get(parts.scheme.split("+")[0])
    if parts.hostname and port:
        socket.create_connection((parts.hostname, port), timeout=CONNECT_LIMIT_SECONDS).close()


def experiment_id(place: Place, network: Network) -> str:
    """The network's experiment, created once with a fixed place for its artifacts."""
    from filelock import FileLock

    client, name = connect(place), f"tdrop {network.folder.parent.name}/{network.folder.name}"
    with FileLock(place.root / "mlflow.lock"):
        found = client.get_experiment_by_name(name)
        if found is not None:
            return str(found.experiment_id)
        try:
            location = _artifact_location(place)
            return str(client.create_experiment(name, artifact_location=location, tags=dict(EXPERIMENT_TAGS)))
        except Exception:
            # Another home on the same record may have been first.
            found = client.get_experiment_by_name(name)
            if found is None:
                raise
            return str(found.experiment_id)


def _artifact_location(place: Place) -> str | None:
    """Where a new experiment keeps its files: `$TDROP_ARTIFACTS`, the tracking server's choice, or the home."""
    if chosen := os.environ.get("TDROP_ARTIFACTS"):
        return chosen
    if tracking_uri(place).startswith(("http://", "https://")):
        return None
    # MLflow's own default would be the working directory.
    artifacts = place.root / "artifacts"
    artifacts.mkdir(exist_ok=True, mode=PRIVATE)
    return artifacts.as_uri()


@task(
    name="record",
    task_run_name="record {record.site}",
    cache_policy=NO_CACHE,
    retries=len(BACKOFF_SECONDS),
    retry_delay_seconds=BACKOFF_SECONDS,
    timeout_seconds=TRACKING_LIMIT_SECONDS,
)
def record_site(place: Place, record: SiteRecord) -> str:
    """Writes a site's record to MLflow and returns the parent run's id; a finished one is found again."""
    network = place.network()
    client, experiment = connect(place), experiment_id(place, network)
    key = digest_of([record.site, record.tags, record.params, record.metrics, [m.metrics for m in record.methods]])
    found = client.search_runs([experiment], f"tags.`{RECORD}` = '{key}' AND attributes.status = 'FINISHED'")
    if found:
        report(record.site, "record", detail="already recorded")
        return str(found[0].info.run_id)
    with _run(client, experiment, record.site, {**record.tags, RECORD: key, "kind": "site"}) as parent:
        _log(client, parent, record.params, record.metrics)
        _log_datasets(client, parent, record.datasets)
        client.log_artifacts(parent, record.exported, "report")
        for method in record.methods:
            tags = {**record.tags, "kind": "method", "method": method.method, PARENT: parent}
            tags["chosen"] = str(method.method == record.chosen).lower()
            with _run(client, experiment, f"{method.method} {record.site}", tags) as child:
                _log(client, child, method.params, method.metrics)
                _log_datasets(client, child, record.datasets)
                _log_history(client, child, method.history)
                for name, text in method.files.items():
                    client.log_text(child, text, name)
                if method.method == record.chosen and record.candidate is not None:
                    _register(client, child, record)
    leave(record.site, "record", f"# {record.site}: recorded\n\nMLflow run `{parent}`, {len(record.methods)} methods.")
    report(record.site, "record", detail=f"{len(record.methods)} methods in MLflow")
    return parent


@contextmanager
def _run(client: MlflowClient, experiment: str, name: str, tags: Mapping[str, str]) -> Iterator[str]:
    """A run that ends as FINISHED or, when the block raises, as FAILED."""
    run_id = str(client.create_run(experiment, run_name=name, tags=dict(tags)).info.run_id)
    try:
        yield run_id
    except BaseException:
        client.set_terminated(run_id, "FAILED")
        raise
    client.set_terminated(run_id, "FINISHED")


def _log(client: MlflowClient, run_id: str, params: Mapping[str, Any], metrics: Mapping[str, float]) -> None:
    from mlflow.entities import Metric, Param

    stamp = int(time.time() * 1000)
    client.log_batch(
        run_id,
        metrics=[Metric(name, float(value), stamp, 0) for name, value in metrics.items()][:BATCH],
        params=[Param(name, str(value)) for name, value in params.items()],
    )


def _log_history(client: MlflowClient, run_id: str, history: Sequence[Mapping[str, float | None]]) -> None:
    """One point an epoch; MLflow draws it as a curve."""
    from mlflow.entities import Metric

    stamp = int(time.time() * 1000)
    points = [
        Metric(f"training_{name}", float(value), stamp, int(epoch["epoch"] or 0))
        for epoch in history
        for name, value in epoch.items()
        if name != "epoch" and value is not None
    ]
    for start in range(0, len(points), BATCH):
        client.log_batch(run_id, metrics=points[start : start + BATCH])


def _log_datasets(client: MlflowClient, run_id: str, datasets: Mapping[str, tuple[str, str]]) -> None:
    """Names and digests of the extracts, never their contents or where they lie."""
    from mlflow.entities import Dataset, DatasetInput, InputTag

    inputs = [
        DatasetInput(
            Dataset(name, digest[:32], "local", json.dumps({"site": name})), [InputTag("mlflow.data.context", role)]
        )
        for role, (name, digest) in datasets.items()
    ]
    client.log_inputs(run_id, datasets=inputs)


def _register(client: MlflowClient, run_id: str, record: SiteRecord) -> None:
    """Registers the chosen model as the site's candidate."""
    import mlflow
    import pandas as pd
    from mlflow.models import infer_signature

    name = f"tdrop-{record.site}"
    example = pd.DataFrame(list(record.example))
    predicted = pd.DataFrame({**{column: [0.1] for column in ("risk", "sd", "low", "high")}, "refer": [False]})
    with mlflow.start_run(run_id=run_id, log_system_metrics=False):
        logged = mlflow.pyfunc.log_model(
            name="model",
            python_model=str(Path(__file__).with_name("served_model.py")),
            artifacts={"transfer": str(record.candidate)},
            signature=infer_signature(example, predicted),
            input_example=example,
            pip_requirements=["tdrop"],
        )
    version = _new_version(client, name, logged, run_id)
    for key, value in {**record.tags, "method": record.chosen, "run": run_id}.items():
        client.set_model_version_tag(name, version, key, value)
    client.set_registered_model_alias(name, "candidate", version)


def _new_version(client: MlflowClient, name: str, logged: Any, run_id: str) -> str:
    """Registers a logged model without MLflow's messages on the terminal."""
    from mlflow.exceptions import MlflowException

    try:
        client.create_registered_model(name)
    except MlflowException as error:
        if error.error_code != "RESOURCE_ALREADY_EXISTS":
            raise
    return str(client.create_model_version(name, logged.model_uri, run_id, model_id=logged.model_id).version)


def download_model(place: Place, name: str, version: str) -> Path:
    """The folder of a registered version: model/ and served.json."""
    import mlflow

    connect(place)
    folder = place.root / "models" / name / version
    if not (folder / "MLmodel").is_file():
        folder.mkdir(parents=True, exist_ok=True, mode=PRIVATE)
        mlflow.artifacts.download_artifacts(f"models:/{name}/{version}", dst_path=str(folder))
    found = next(folder.rglob("served.json"), None)
    if found is None:
        raise Unavailable(f"version {version} of '{name}' has no files in MLflow; check its artifact store")
    return found.parent


def delete_for_good(place: Place, runs: Sequence[Any]) -> None:
    """Deletes runs with their models and files.

    Over HTTP a run can only be marked as deleted; `mlflow gc` on the server then removes it.
    """
    from mlflow.store.artifact.artifact_repository_registry import get_artifact_repository
    from mlflow.tracking._tracking_service.utils import _get_store

    client, store = connect(place), _get_store(tracking_uri(place))
    final = hasattr(store, "_hard_delete_run") and hasattr(store, "_hard_delete_logged_model")
    for run in runs:
        models = [output.model_id for output in (run.outputs.model_outputs if run.outputs else [])]
        for model in models:
            location = client.get_logged_model(model).artifact_location
            client.delete_logged_model(model)
            if final:
                get_artifact_repository(location).delete_artifacts()
                store._hard_delete_logged_model(model)
        client.delete_run(run.info.run_id)
        if final:
            get_artifact_repository(run.info.artifact_uri).delete_artifacts()
            store._hard_delete_run(run.info.run_id)


def _without_password(uri: str) -> str:
    parts = urlsplit(uri)
    host = f"{parts.hostname or ''}{f':{parts.port}' if parts.port else ''}"
    return f"{parts.scheme}://{host}{parts.path}"


def record_or_explain(place: Place, record: SiteRecord) -> str | None:
    """Records a site; returns a sentence when MLflow could not be reached, None when all went well."""
    try:
        record_site(place, record)
    except TdropError as error:
        return str(error)
    except Exception as error:
        return f"site '{record.site}' was not recorded in MLflow ({type(error).__name__}); run the same command again"
    return None


def record_benchmark(
    place: Place, name: str, params: Mapping[str, Any], metrics: Mapping[str, float], folder: str
) -> str:
    """Writes one run with a benchmark's key numbers, and its tables and figures as artifacts; returns the run's id."""
    client = connect(place)
    experiment = experiment_id(place, place.network())
    with _run(client, experiment, f"benchmark {name}", {"kind": "benchmark", "benchmark": name}) as run_id:
        _log(client, run_id, params, metrics)
        client.log_artifacts(run_id, folder, "results")
    return run_id
