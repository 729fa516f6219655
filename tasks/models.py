"""A site's registered models: what one needs to be served, the candidate, and copies on this machine."""

from __future__ import annotations

import shutil
import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.metadata import version as installed
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tasks.tracking import connect, numbered_version
from tdrop.base import read_record
from tdrop.home import Place, Version, digest_of
from tdrop.runs import ENCODED, MODELS_DIGEST, SiteRecord, model_name
from tdrop.served import SERVED, Description, KeptCopy, promoted_seal

if TYPE_CHECKING:
    from mlflow import MlflowClient

#: Alias of the model behind a site's last report.
CANDIDATE = "candidate"
#: What a site's registered model is, for whoever meets it in MLflow.
ABOUT = (
    "The model of one site. `candidate` is what its last run chose; `champion` is what a person took into use with "
    "`tdrop promote`, by name and with a note: an alias set by hand is refused by `tdrop score`."
)
#: Tag on a version: the digest of its every byte as its run registered it.
REGISTERED = "tdrop.registered"
#: Tag on a recalibrated version: the version it was made from.
RECALIBRATED_FROM = "tdrop.recalibrated_from"
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


def requirements() -> list[str]:
    """The packages that the served model needs, each in the version installed here.

    tdrop is not among them: it is on no public index, and an environment that MLflow makes from this list would
    install whatever a stranger publishes there under its name. A model is therefore served from tdrop's own
    environment (`--env-manager local`); in any other it does not load.
    """
    # An index does not know a build's own label, as in 2.13.0+cpu.
    return [f"{name}=={installed(name).split('+')[0]}" for name in NEEDED]


def find_model(client: MlflowClient, experiment: str, record: SiteRecord, method: str) -> Any | None:
    """The method's model where a run before has logged the very same; None otherwise."""
    wanted = {"method": method, **{key: record.tags[key] for key in (MODELS_DIGEST, "contract_digest")}}
    asked = " AND ".join(f"tags.`{key}` = '{value}'" for key, value in wanted.items())
    # A recalibrated model's risks are not those of the method's run.
    found = [one for one in client.search_logged_models([experiment], asked) if RECALIBRATED_FROM not in one.tags]
    return found[0] if found else None


def log_model(run_id: str, served: Path, record: SiteRecord, method: str) -> Any:
    """Logs a method's model below its run; the chosen one with an example of its input, which takes longest."""
    import mlflow
    import pandas as pd
    from mlflow.models import infer_signature

    example = pd.DataFrame(list(record.example))
    predicted = pd.DataFrame({**{column: [0.1] for column in ("risk", "sd", "low", "high")}, "refer": [False]})
    with mlflow.start_run(run_id=run_id, log_system_metrics=False), _logging_a_model, warnings.catch_warnings():
        # That an example is missing is our choice.
        warnings.simplefilter("ignore")
        return mlflow.pyfunc.log_model(
            name=method,
            python_model=str(_private_copy(Path(__file__).with_name("served_model.py"), served.parent)),
            artifacts={"transfer": str(served)},
            signature=infer_signature(example, predicted),
            input_example=example if method == record.chosen else None,
            pip_requirements=requirements(),
            tags={**record.tags, "method": method, "chosen": str(method == record.chosen).lower()},
        )


def register(place: Place, run_id: str, record: SiteRecord, logged: Any) -> str:
    """Makes the chosen method's logged model a version of the site's, and returns that."""
    client, name = connect(place), model_name(record.site)
    described = read_record(Description, Path(str(record.candidate), SERVED))
    version = new_version(client, name, logged, run_id)
    tags = {**record.tags, "method": record.chosen, "run": run_id, ENCODED: described.encoded}
    tags[REGISTERED] = copy_of(place, numbered_version(place, name, version)).stored_seal()
    for key, value in tags.items():
        client.set_model_version_tag(name, version, key, value)
    client.update_model_version(name, version, record.about_model())
    return version


def _private_copy(file: Path, folder: Path) -> Path:
    """A copy for the owner alone: MLflow keeps a file with the rights that it finds."""
    copy = folder / file.name
    copy.touch(mode=0o600)
    shutil.copyfile(file, copy)
    return copy


def same_model(client: MlflowClient, record: SiteRecord) -> str | None:
    """The newest version that serves exactly these models under this contract, or None: it is not registered twice."""
    versions = client.search_model_versions(f"name = '{model_name(record.site)}'")
    # A recalibrated version's risks are not those of the report.
    wanted: dict[str, str | None] = {RECALIBRATED_FROM: None, "method": record.chosen}
    wanted |= {key: record.tags[key] for key in (MODELS_DIGEST, "contract_digest")}
    found = [
        int(one.version)
        for one in versions
        if REGISTERED in one.tags and {key: one.tags.get(key) for key in wanted} == wanted
    ]
    return str(max(found)) if found else None


def new_version(client: MlflowClient, name: str, logged: Any, run_id: str) -> str:
    """Registers a logged model without MLflow's messages on the terminal."""
    with _passing_over("RESOURCE_ALREADY_EXISTS"):
        client.create_registered_model(name, description=ABOUT)
    return str(client.create_model_version(name, logged.model_uri, run_id, model_id=logged.model_id).version)


def copy_of(place: Place, registered: Version) -> KeptCopy:
    """A version's copy on this machine.

    It is kept by the run and the logged model behind the version, not by its number: MLflow begins again at 1 when a
    site comes back after it was erased.
    """
    folder = place.root / "models" / registered.name / digest_of([registered.run_id, registered.source])[:32]
    which = f"version {registered.version} of '{registered.name}'"
    return KeptCopy(which, folder, place.root, lambda files: take_files(registered, files))


def seal_version(place: Place, registered: Version) -> str:
    """The seal of what a version's run registered, and what MLflow's store must still have."""
    return copy_of(place, registered).renew(registered.tags.get(REGISTERED))


def require_sealed(place: Place, registered: Version) -> None:
    """Refuses a version that nobody promoted, or of which one byte is not as it was promoted, here or in MLflow."""
    copy = copy_of(place, registered)
    copy.require(promoted_seal(copy.which, registered.tags))


def take_files(registered: Version, folder: Path) -> None:
    """Copies or downloads a version's files."""
    if registered.folder is not None:
        shutil.copytree(registered.folder, folder, symlinks=True, dirs_exist_ok=True)
        return
    import mlflow

    mlflow.artifacts.download_artifacts(registered.source, dst_path=str(folder))


def point_candidate(client: MlflowClient, site: str, version: str | None) -> None:
    """Makes a version the site's candidate; without one, nothing is left that could be promoted."""
    if version is not None:
        client.set_registered_model_alias(model_name(site), CANDIDATE, version)
        return
    # There may be a site that never had a model.
    with _passing_over("RESOURCE_DOES_NOT_EXIST"):
        client.delete_registered_model_alias(model_name(site), CANDIDATE)


@contextmanager
def _passing_over(code: str) -> Iterator[None]:
    """Takes one of MLflow's errors for done."""
    from mlflow.exceptions import MlflowException

    try:
        yield
    except MlflowException as error:
        if error.error_code != code:
            raise
