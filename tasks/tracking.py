"""Access to MLflow: the connection, where an experiment stores its files, and how runs are deleted.

Only this file, `recording`, `rehearsal`, `governance`, `models` and the served model import mlflow.
"""

from __future__ import annotations

import io
import os
import socket
import sqlite3
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, closing, nullcontext, redirect_stdout
from functools import lru_cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from filelock import FileLock

from tdrop.base import Damaged, Unavailable, resource_error
from tdrop.home import PRIVATE, Workspace, environment
from tdrop.served import model_name

if TYPE_CHECKING:
    from mlflow import MlflowClient
    from mlflow.entities.model_registry import ModelVersion

#: The MLflow database of a home, its lock, and the folder for the files of its runs.
RECORD, LOCK, ARTIFACTS = "mlflow.db", "mlflow.lock", "artifacts"
#: The tag that makes a run another's child.
PARENT = "mlflow.parentRunId"
#: Tag of a rehearsal's runs: the names of all its sites, separated by spaces.
PLAYED = "played"
CONNECT_LIMIT_SECONDS = 10
#: Default ports.
PORTS: Mapping[str, int] = {"http": 80, "https": 443, "postgresql": 5432, "mysql": 3306, "mssql": 1433}
#: Finds the tables' experiments.
EXPERIMENTS = "name LIKE 'tdrop %'"
#: Shows MLflow's page that this is about models, and a reader how to compare them.
EXPERIMENT_TAGS: Mapping[str, str] = {
    "mlflow.experimentKind": "custom_model_development",
    "mlflow.note.content": (
        "**Views**, at the right, shows the sites side by side, or one site's methods, the chosen one by its name. One "
        "run per site, and below it one run per method; one run per rehearsal, and below it one run per site that "
        "played. Plain names such as `auroc` are measured at the site, names with a prefix on source patients; "
        "`forecast/` was expected before any outcome was known."
    ),
}
#: Where MLflow's database holds addresses of files: its own interface has no way to change one.
ADDRESSES = (
    ("experiments", "artifact_location"),
    ("runs", "artifact_uri"),
    ("logged_models", "artifact_location"),
    ("model_versions", "source"),
    ("model_versions", "storage_location"),
)


def tracking_uri(workspace: Workspace) -> str:
    """The user's `MLFLOW_TRACKING_URI`, or a sqlite file in the home."""
    return os.environ.get("MLFLOW_TRACKING_URI") or _own_record(workspace.home)


def _own_record(home: str) -> str:
    return f"sqlite:///{Path(home) / RECORD}"


def _is_http(uri: str) -> bool:
    return uri.startswith(("http://", "https://"))


def connect(workspace: Workspace) -> MlflowClient:
    """A client of the tracking store; the first one on an empty home creates the database alone."""
    uri = tracking_uri(workspace)
    client = _connect(uri, workspace.home)
    import mlflow

    with _same_environment():
        mlflow.set_tracking_uri(uri)
    return client


def _same_environment() -> AbstractContextManager[None]:
    """Takes the record's address out of the environment again, where MLflow writes it.

    Another home, or a process started from here, would take it for the user's setting.
    """
    return environment(MLFLOW_TRACKING_URI=os.environ.get("MLFLOW_TRACKING_URI"))


@lru_cache(maxsize=8)
def _connect(uri: str, home: str) -> MlflowClient:
    from mlflow import MlflowClient

    try:
        _require_listener(uri)
        # Two processes that migrate one fresh sqlite file at once break it for good.
        writable = os.access(home, os.W_OK)
        with FileLock(Path(home) / LOCK) if writable else nullcontext():
            if uri.startswith("sqlite:///"):
                database = Path(uri.removeprefix("sqlite:///"))
                if database.is_file():
                    _require_whole(database)
                elif uri == _own_record(home):
                    _create(database)
            client = MlflowClient(uri, uri)
            client.search_experiments(max_results=1)
            if uri == _own_record(home) and writable:
                _follow_moved_home(client, Path(home))
    except Damaged:
        raise
    except Exception as error:
        raise resource_error(error) or Unavailable(
            f"MLflow does not answer at {_without_password(uri)} ({type(error).__name__}); "
            "check MLFLOW_TRACKING_URI and that its server runs"
        ) from error
    return client


def _require_listener(uri: str) -> None:
    """Raises if nothing listens at the address: MLflow itself would try for minutes."""
    parts = urlsplit(uri)
    port = parts.port or PORTS.get(parts.scheme.split("+")[0])
    if parts.hostname and port:
        socket.create_connection((parts.hostname, port), timeout=CONNECT_LIMIT_SECONDS).close()


def _create(database: Path) -> None:
    """Creates the database, whole or not at all; sqlite need not wait for the disk after each of MLflow's 400 steps."""
    from mlflow import MlflowClient
    from sqlalchemy import Engine, event

    def hurry(connection: Any, _: Any) -> None:
        if isinstance(connection, sqlite3.Connection):
            connection.execute("PRAGMA synchronous = OFF")

    event.listen(Engine, "connect", hurry)
    try:
        with TemporaryDirectory(dir=database.parent, prefix=".mlflow-") as folder:
            draft = Path(folder, database.name)
            MlflowClient(f"sqlite:///{draft}", f"sqlite:///{draft}").search_experiments(max_results=1)
            draft.rename(database)
    finally:
        event.remove(Engine, "connect", hurry)


def _require_whole(database: Path) -> None:
    """Raises if sqlite finds the file damaged: MLflow itself would try for minutes."""
    try:
        with closing(sqlite3.connect(database)) as record:
            state = str(record.execute("PRAGMA quick_check(1)").fetchone()[0])
    except sqlite3.OperationalError:
        # Locked or out of reach: MLflow waits for it.
        return
    except sqlite3.DatabaseError as error:
        state = str(error)
    if state != "ok":
        raise Damaged(
            f"MLflow's record '{database}' is damaged; restore it from a backup or move it away, and run the same "
            "command again"
        )


def _follow_moved_home(client: MlflowClient, home: Path) -> None:
    """Corrects the addresses in the database after the home was moved.

    MLflow stores absolute addresses and cannot change them; only here are its tables written directly. An artifact root
    outside the home, as in `$TDROP_ARTIFACTS`, does not change.
    """
    here = (home / ARTIFACTS).as_uri()
    for experiment in client.search_experiments():
        before = experiment.artifact_location
        if before == here or not before.startswith("file:"):
            continue
        runs = client.search_runs([experiment.experiment_id])
        if not any((home / ARTIFACTS / run.info.run_id).is_dir() for run in runs):
            continue
        with closing(sqlite3.connect(home / RECORD, timeout=60)) as record, record:
            for table, column in ADDRESSES:
                record.execute(
                    f"UPDATE {table} SET {column} = ? || substr({column}, ?) WHERE {column} = ? OR {column} LIKE ?",
                    (here, len(before) + 1, before, f"{before}/%"),
                )


def version_at(workspace: Workspace, site: str, alias: str) -> ModelVersion | None:
    """The version of a site's registered model behind an alias, or None."""
    if tracking_uri(workspace) == _own_record(workspace.home) and not (workspace.root / RECORD).is_file():
        return None
    try:
        return connect(workspace).get_model_version_by_alias(model_name(site), alias)
    except Exception as error:
        if getattr(error, "error_code", "") in {"RESOURCE_DOES_NOT_EXIST", "INVALID_PARAMETER_VALUE"}:
            return None
        raise


def experiment_name(table: str) -> str:
    """Name of the experiment of all sites with this table."""
    return f"tdrop {table}"


def experiment_id(workspace: Workspace, table: str) -> str:
    """The id of the table's experiment, which is created once with a fixed folder for its artifacts."""
    client, name = connect(workspace), experiment_name(table)
    with FileLock(workspace.root / LOCK):
        experiment = client.get_experiment_by_name(name)
        if experiment is not None:
            return str(experiment.experiment_id)
        try:
            location = _artifact_location(workspace)
            return str(client.create_experiment(name, artifact_location=location, tags=dict(EXPERIMENT_TAGS)))
        except Exception:
            # Another home on the same record may have been first.
            experiment = client.get_experiment_by_name(name)
            if experiment is None:
                raise
            return str(experiment.experiment_id)


def _artifact_location(workspace: Workspace) -> str | None:
    """Where a new experiment stores its files: `$TDROP_ARTIFACTS`, the tracking server's default, or the home."""
    if chosen := os.environ.get("TDROP_ARTIFACTS"):
        return chosen
    if _is_http(tracking_uri(workspace)):
        return None
    # MLflow's own default would be the working directory.
    artifacts = workspace.root / ARTIFACTS
    artifacts.mkdir(exist_ok=True, mode=PRIVATE)
    return artifacts.as_uri()


def delete_for_good(workspace: Workspace, runs: Sequence[Any]) -> None:
    """Deletes runs with their models and files, by `mlflow gc` if that removes nothing else.

    Over HTTP a run can only be marked as deleted. `mlflow gc` also removes every deleted experiment, and every deleted
    model if none is named. On a database that others share these may be theirs, so our runs are only marked, and
    whoever maintains the database calls `mlflow gc`.
    """
    from mlflow.entities import ViewType
    from mlflow.store.artifact.artifact_repository_registry import get_artifact_repository

    client, uri = connect(workspace), tracking_uri(workspace)
    # Also what a run logged that was interrupted.
    logged = [
        model
        for run in runs
        for model in client.search_logged_models([run.info.experiment_id], f"source_run_id = '{run.info.run_id}'")
    ]
    addresses = [run.info.artifact_uri for run in runs] + [model.artifact_location for model in logged]
    models = [model.model_id for model in logged]
    for model in models:
        client.delete_logged_model(model)
    for run in runs:
        if run.info.lifecycle_stage == "active":
            client.delete_run(run.info.run_id)
    if not runs or _is_http(uri):
        return
    for address in addresses:
        get_artifact_repository(address).delete_artifacts()
    shared = uri != _own_record(workspace.home)
    if not shared or (models and not client.search_experiments(view_type=ViewType.DELETED_ONLY)):
        _collect_garbage(uri, [run.info.run_id for run in runs], models)


def _collect_garbage(uri: str, runs: Sequence[str], models: Sequence[str]) -> None:
    """`mlflow gc` without its messages."""
    from mlflow.cli import gc

    arguments = ["--backend-store-uri", uri, "--run-ids", ",".join(runs), "--logged-model-ids", ",".join(models)]
    with _same_environment(), redirect_stdout(io.StringIO()):
        gc.main(arguments, standalone_mode=False)


def _without_password(uri: str) -> str:
    parts = urlsplit(uri)
    host = f"{parts.hostname or ''}{f':{parts.port}' if parts.port else ''}"
    return f"{parts.scheme}://{host}{parts.path}"
