"""A site's models in MLflow: logging and registering them, the candidate, and copies on this machine."""

from __future__ import annotations

import json
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.metadata import version as installed
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tasks.tracking import connect
from tdrop.base import read_record
from tdrop.home import Workspace, digest_of
from tdrop.served import SERVED, SealedCopy, model_name

if TYPE_CHECKING:
    from mlflow import MlflowClient
    from mlflow.entities.model_registry import ModelVersion
    from mlflow.models import ModelSignature

    from tasks.site_record import SiteRecord
    from tdrop.contracts import Contract
    from tdrop.served import CalibrationLine

#: Alias of the model behind a site's last report.
CANDIDATE = "candidate"
#: Description of a site's registered model in MLflow.
ABOUT = (
    "The model of one site. `candidate` is what its last run chose; `champion` is what a person took into use with "
    "`tdrop promote`, by name and with a note: an alias set by hand is refused by `tdrop score`."
)
#: Tag on a version: the digest of all its bytes when its run registered it.
REGISTERED = "tdrop.registered"
#: Tags on a version: the lock on its models, and the stage that new patients are compared with.
MODELS_DIGEST, ENCODED = "models_digest", "tdrop.encoded"
#: Tags on a recalibrated version: the version it was made from, the rung, and intercept and slope.
RECALIBRATED_FROM, METHOD, LINE = "tdrop.recalibrated_from", "tdrop.recalibration_method", "tdrop.recalibration_line"
#: What the served model imports at run time, without tdrop itself (see `requirements`).
NEEDED = (
    *("mlflow", "numpy", "pandas", "pyarrow", "pydantic"),
    *("safetensors", "scikit-learn", "skops", "threadpoolctl", "torch"),
)


def requirements() -> list[str]:
    """The packages that the served model needs, each in the version installed here.

    tdrop is not among them: it is on no public index, and an environment that MLflow makes from this list would
    install whatever a stranger publishes there under its name. A model is therefore served from tdrop's own
    environment (`--env-manager local`); in any other it does not load.
    """
    # An index does not know a build's own label, as in 2.13.0+cpu.
    return [f"{name}=={installed(name).split('+')[0]}" for name in NEEDED]


def line_tag(line: CalibrationLine) -> str:
    """Intercept and slope as a tag; effects of features are in the model's own file."""
    return json.dumps({"intercept": line.intercept, "slope": line.slope})


def log_model(served: Path, record: SiteRecord, method: str) -> Any:
    """Logs a method's model below the active run.

    MLflow would try an example of its input on the model, which refuses to predict before a person promoted it.
    """
    import mlflow

    warnings.filterwarnings("ignore", ".*input example was not provided", module="mlflow")
    return mlflow.pyfunc.log_model(
        name=method,
        loader_module="tasks.served_model",
        data_path=str(served),
        signature=_signature(record.contract),
        pip_requirements=requirements(),
        tags={**record.tags, "method": method, "chosen": str(method == record.chosen).lower()},
    )


def _signature(contract: Contract) -> ModelSignature:
    """The columns that a model reads and those that it returns."""
    from mlflow.models import ModelSignature
    from mlflow.types import ColSpec, Schema

    texts = {"categorical", "ordinal"}
    read = {column.name: "string" if column.type in texts else "double" for column in contract.features}
    returned = dict.fromkeys(("risk" if contract.task == "binary" else "value", "sd", "low", "high"), "double")
    if contract.task == "classes":
        returned = {"class": "string", **dict.fromkeys((*(f"p_{name}" for name in contract.classes), "sd"), "double")}
    inputs, outputs = (
        Schema([ColSpec(kind, name) for name, kind in columns.items()])
        for columns in (read, returned | {"refer": "boolean"})
    )
    return ModelSignature(inputs, outputs)


def find_model(client: MlflowClient, experiment: str, record: SiteRecord, method: str) -> Any | None:
    """The method's model if an earlier run has logged the same one, else None."""
    wanted = " AND ".join(f"tags.`{key}` = '{value}'" for key, value in _identity(record, method).items())
    models = client.search_logged_models([experiment], wanted)
    # A recalibrated model's risks are not those of the method's run.
    line = record.tags.get(LINE)
    return next((one for one in models if RECALIBRATED_FROM not in one.tags and one.tags.get(LINE) == line), None)


def same_model(client: MlflowClient, record: SiteRecord) -> str | None:
    """The newest version with exactly these models and this contract, or None; it is not registered twice."""
    wanted = _identity(record, record.chosen).items()
    versions = [
        int(version.version)
        for version in client.search_model_versions(f"name = '{model_name(record.site)}'")
        if REGISTERED in version.tags
        and RECALIBRATED_FROM not in version.tags
        and version.tags.get(LINE) == record.tags.get(LINE)
        and wanted <= version.tags.items()
    ]
    return str(max(versions)) if versions else None


def _identity(record: SiteRecord, method: str) -> dict[str, str]:
    """The tags that identify a method's model."""
    return {"method": method, **{key: record.tags[key] for key in (MODELS_DIGEST, "contract_digest")}}


def register(workspace: Workspace, run_id: str, record: SiteRecord, logged: Any) -> str:
    """Registers the chosen method's model as a version of the site's model; returns the version."""
    from tdrop.served import Description

    client, name = connect(workspace), model_name(record.site)
    with _accepting("RESOURCE_ALREADY_EXISTS"):
        client.create_registered_model(name, description=ABOUT)
    described = read_record(Description, Path(str(record.candidate), SERVED))
    registered = client.create_model_version(
        name,
        logged.model_uri,
        run_id,
        model_id=logged.model_id,
        tags={**record.tags, "method": record.chosen, "run": run_id, ENCODED: described.encoded},
        description=record.about_model(),
    )
    seal = copy_of(workspace, registered).stored_seal()
    client.set_model_version_tag(name, registered.version, REGISTERED, seal)
    return str(registered.version)


def point_candidate(client: MlflowClient, site: str, version: str | None) -> None:
    """Makes a version the site's candidate; with None, removes the candidate."""
    if version is not None:
        client.set_registered_model_alias(model_name(site), CANDIDATE, version)
        return
    # The site may never have had a model.
    with _accepting("RESOURCE_DOES_NOT_EXIST"):
        client.delete_registered_model_alias(model_name(site), CANDIDATE)


def copy_of(workspace: Workspace, registered: ModelVersion) -> SealedCopy:
    """A version's copy on this machine.

    Its folder is named by run and logged model, not by the version's number: after a site was erased, MLflow starts
    again at 1.
    """
    folder = workspace.root / "models" / registered.name / digest_of([registered.run_id, registered.source])[:32]
    which = f"version {registered.version} of '{registered.name}'"
    return SealedCopy(which, folder, lambda files: download(registered, files))


def download(registered: ModelVersion, folder: Path) -> None:
    """Copies a version's files into a folder."""
    import mlflow

    mlflow.artifacts.download_artifacts(registered.source, dst_path=str(folder))


@contextmanager
def _accepting(code: str) -> Iterator[None]:
    """Ignores one of MLflow's errors, which means that there is nothing to do."""
    from mlflow.exceptions import MlflowException

    try:
        yield
    except MlflowException as error:
        if error.error_code != code:
            raise
