"""A site's registered models: what one needs to be served, the candidate, and copies on this machine."""

from __future__ import annotations

import json
import shutil
import threading
import uuid
from importlib.metadata import version as installed
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tasks.place import PRIVATE, Place
from tasks.records import SiteRecord
from tasks.store import digest_of
from tasks.tracking import connect
from tdrop.errors import TdropError, Unavailable

if TYPE_CHECKING:
    from mlflow import MlflowClient

#: Alias of the model behind a site's last report.
CANDIDATE = "candidate"
#: Tags on a version: the lock on its models, and the stage that new patients are compared with.
MODELS_DIGEST, ENCODED = "models_digest", "tdrop.encoded"
#: What the served model imports at run time, without tdrop itself (see `requirements`).
NEEDED = (
    "mlflow",
    "numpy",
    "pandas",
    "pyarrow",
    "pydantic",
    "safetensors",
    "scikit-learn",
    "skops",
    "threadpoolctl",
    "torch",
)

#: MLflow edits `sys.modules` while it logs a model, and several sites may record in threads of one process.
_logging_a_model = threading.Lock()


def model_name(site: str) -> str:
    """The registered model of a site."""
    return f"tdrop-{site}"


def requirements() -> list[str]:
    """The packages that the served model needs, each in the version installed here.

    tdrop is not among them: it is on no public index, and an environment that MLflow makes from this list would
    install whatever a stranger publishes there under its name. A model is therefore served from tdrop's own
    environment (`--env-manager local`); in any other it does not load.
    """
    # An index does not know a build's own label, as in 2.13.0+cpu.
    return [f"{name}=={installed(name).split('+')[0]}" for name in NEEDED]


def register(client: MlflowClient, run_id: str, record: SiteRecord) -> str:
    """Registers the chosen model and returns its version."""
    import mlflow
    import pandas as pd
    from mlflow.models import infer_signature

    name = model_name(record.site)
    described = json.loads(Path(str(record.candidate), "served.json").read_text(encoding="utf-8"))
    example = pd.DataFrame(list(record.example))
    predicted = pd.DataFrame({**{column: [0.1] for column in ("risk", "sd", "low", "high")}, "refer": [False]})
    with mlflow.start_run(run_id=run_id, log_system_metrics=False), _logging_a_model:
        logged = mlflow.pyfunc.log_model(
            name="model",
            python_model=str(Path(__file__).with_name("served_model.py")),
            artifacts={"transfer": str(record.candidate)},
            signature=infer_signature(example, predicted),
            input_example=example,
            pip_requirements=requirements(),
        )
    version = _new_version(client, name, logged, run_id)
    tags = {**record.tags, "method": record.chosen, "run": run_id, ENCODED: described["encoded"]}
    for key, value in tags.items():
        client.set_model_version_tag(name, version, key, value)
    return version


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
    """The folder of a registered version: model/ and served.json.

    A copy is kept by the run and the logged model behind the version, not by its number: MLflow begins again at 1
    when a site comes back after it was erased.
    """
    registered = connect(place).get_model_version(name, version)
    folder = place.root / "models" / name / digest_of([registered.run_id, registered.source])[:32]
    if not folder.is_dir():
        _fetch(registered, folder)
    found = next(folder.rglob("served.json"), None)
    if found is None:
        raise Unavailable(f"the copy of version {version} of '{name}' was damaged; remove '{folder}'")
    return found.parent


def _fetch(registered: Any, folder: Path) -> None:
    """Downloads a version's files and moves them into place whole."""
    import mlflow

    which = f"version {registered.version} of '{registered.name}'"
    incoming = folder.with_name(f".{folder.name}-{uuid.uuid4().hex[:8]}")
    incoming.mkdir(parents=True, mode=PRIVATE)
    try:
        mlflow.artifacts.download_artifacts(registered.source, dst_path=str(incoming))
        if not any(incoming.rglob("served.json")):
            raise Unavailable(f"{which} has no files in MLflow; check its artifact store")
        incoming.rename(folder)
    except TdropError:
        raise
    except Exception as error:
        # Somebody else may have been first with the same files.
        if not folder.is_dir():
            raise Unavailable(
                f"{which} could not be fetched from MLflow ({type(error).__name__}); check its artifact store"
            ) from error
    finally:
        shutil.rmtree(incoming, ignore_errors=True)


def point_candidate(client: MlflowClient, site: str, version: str | None) -> None:
    """Makes a version the site's candidate; without one, nothing is left that could be promoted."""
    from mlflow.exceptions import MlflowException

    if version is not None:
        client.set_registered_model_alias(model_name(site), CANDIDATE, version)
        return
    try:
        client.delete_registered_model_alias(model_name(site), CANDIDATE)
    except MlflowException as error:
        # A site that never had a model.
        if error.error_code != "RESOURCE_DOES_NOT_EXIST":
            raise
