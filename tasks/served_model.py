"""The model as MLflow serves it: a hospital's rows in contract columns in, risk and referral out.

MLflow stores the name of this module with the model and no code, so nothing is pickled. tdrop must be beside it, which
no index has: `mlflow models serve --env-manager local` in tdrop's own environment.
"""

from __future__ import annotations

from pathlib import Path

import mlflow

from tdrop.base import DataError
from tdrop.served import ADDED, CHAMPION, Served, promoted_seal, seal_of

#: How else a model may be looked at, and how one gets into use.
ELSE = (
    "to study it, download its files and open them with `tdrop.served.Served.load`, and for patients a person "
    "promotes one with `tdrop promote`"
)


def _load_pyfunc(folder: str) -> Served:
    """Reads a site's champion: the method, the encoder, a recalibration and the site's decision. MLflow calls this."""
    refuse_unpromoted(Path(folder))
    return Served.load(Path(folder))


def refuse_unpromoted(folder: Path) -> None:
    """Refuses whatever is not a site's champion, or not in every byte as a person promoted it.

    MLflow writes down beside its copy of a registered version which one it is; a folder without such a note could be
    anybody's.
    """
    whole = next(parent for parent in folder.parents if (parent / "MLmodel").is_file())
    note = (whole / ADDED).read_text(encoding="utf-8") if (whole / ADDED).is_file() else ""
    facts = dict(line.split(":", 1) for line in note.splitlines() if ":" in line)
    name, version = (facts.get(key, "").strip().strip("'\"") for key in ("model_name", "model_version"))
    if not version.isdecimal():
        raise DataError(f"this model is no registered version, which alone can be promoted; {ELSE}")
    which, client = f"version {version} of '{name}'", mlflow.MlflowClient()
    registered = client.get_model_version(name, version)
    if seal_of(whole) != promoted_seal(which, registered.tags):
        raise DataError(f"{which} was altered since its promotion; promote a model again")
    if client.get_registered_model(name).aliases.get(CHAMPION) != registered.version:
        raise DataError(f"{which} is not the champion; serve `models:/{name}@{CHAMPION}`")
