"""MLflow's record: how it is reached, where an experiment keeps its files, and how runs leave it for good.

Only this file, `recording`, `models` and the served model import mlflow.
"""

from __future__ import annotations

import os
import socket
import sqlite3
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from filelock import FileLock

from tdrop.base import Damaged, Unavailable, unwritable
from tdrop.home import PRIVATE, Place, Version, require_whole, take_artifacts_along, version_in

if TYPE_CHECKING:
    from mlflow import MlflowClient

    from tdrop.contracts import Network

#: A home's own record, who changes it, and the files of its runs.
RECORD, LOCK, ARTIFACTS = "mlflow.db", "mlflow.lock", "artifacts"
#: The tag that makes a run another's child.
PARENT = "mlflow.parentRunId"
CONNECT_LIMIT_SECONDS = 10
#: Ports that an address may leave out.
PORTS: Mapping[str, int] = {"http": 80, "https": 443, "postgresql": 5432, "mysql": 3306, "mssql": 1433}
#: Finds the networks' experiments.
EXPERIMENTS = "name LIKE 'tdrop %'"
#: Tells MLflow's page that this is about models, and a reader how to compare them.
EXPERIMENT_TAGS: Mapping[str, str] = {
    "mlflow.experimentKind": "custom_model_development",
    "mlflow.note.content": (
        "**Views**, at the right, holds a site's methods side by side, the best first. One run a site, one run a "
        "method below it; `target/` is measured at the site, the rest on source patients."
    ),
}


def tracking_uri(place: Place) -> str:
    """The user's `MLFLOW_TRACKING_URI`, or a sqlite file in the home."""
    return os.environ.get("MLFLOW_TRACKING_URI") or _own_record(place.home)


def _own_record(home: str) -> str:
    return f"sqlite:///{Path(home) / RECORD}"


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
    from mlflow import MlflowClient

    try:
        _require_listener(uri)
        if uri == _own_record(home):
            _own_file(home)
        elif uri.startswith("sqlite:///"):
            require_whole(Path(uri.removeprefix("sqlite:///")))
        # Two processes that migrate one fresh sqlite file at once break it for good.
        with FileLock(Path(home) / LOCK):
            client = MlflowClient(uri, uri)
            client.search_experiments(max_results=1)
    except Damaged:
        raise
    except Exception as error:
        raise unwritable(error) or Unavailable(
            f"MLflow does not answer at {_without_password(uri)} ({type(error).__name__}); "
            "check MLFLOW_TRACKING_URI and that its server runs"
        ) from error
    return client


def find_version(place: Place, name: str, alias: str) -> Version | None:
    """The version of a registered model behind an alias, or None."""
    if tracking_uri(place) == _own_record(place.home):
        # Where its tables are not as they were, or the home cannot be written to, MLflow is asked and has the say.
        with suppress(sqlite3.OperationalError, OSError):
            return version_in(_own_file(place.home), name, alias)
    try:
        found = connect(place).get_model_version_by_alias(name, alias)
    except Exception as error:
        if getattr(error, "error_code", "") in {"RESOURCE_DOES_NOT_EXIST", "INVALID_PARAMETER_VALUE"}:
            return None
        raise
    return _version(found)


def numbered_version(place: Place, name: str, number: str) -> Version:
    """A version of a registered model by its number."""
    return _version(connect(place).get_model_version(name, number))


def _version(found: Any) -> Version:
    return Version(found.name, str(found.version), found.run_id, found.source, found.tags)


@lru_cache(maxsize=8)
def _own_file(home: str) -> Path:
    """The home's own record, looked after once: whole, and with the addresses that its files have now."""
    database = Path(home) / RECORD
    with FileLock(Path(home) / LOCK):
        require_whole(database)
        take_artifacts_along(database, Path(home) / ARTIFACTS)
    return database


def _require_listener(uri: str) -> None:
    """Raises when nobody listens at the address: MLflow itself would try a dead database for minutes."""
    parts = urlsplit(uri)
    port = parts.port or PORTS.get(parts.scheme.split("+")[0])
    if parts.hostname and port:
        socket.create_connection((parts.hostname, port), timeout=CONNECT_LIMIT_SECONDS).close()


def experiment_name(network: Network) -> str:
    """What a network's experiment is called."""
    return f"tdrop {network.folder.parent.name}/{network.folder.name}"


def experiment_id(place: Place, network: Network) -> str:
    """The network's experiment, created once with a fixed place for its artifacts."""
    client, name = connect(place), experiment_name(network)
    with FileLock(place.root / LOCK):
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
    artifacts = place.root / ARTIFACTS
    artifacts.mkdir(exist_ok=True, mode=PRIVATE)
    return artifacts.as_uri()


def every_page(search: Callable[..., Any], *given: Any) -> list[Any]:
    """Everything that one of MLflow's searches finds; a single call ends after its first page."""
    found: list[Any] = []
    token = None
    while True:
        page = search(*given, page_token=token)
        found += page
        token = page.token
        if not token:
            return found


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
