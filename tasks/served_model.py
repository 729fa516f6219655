"""The model as MLflow serves it: a hospital's rows in contract columns in, risk and referral out.

MLflow stores this file's text with the model (models-from-code), so nothing is pickled. It needs tdrop beside
it, which no index has: `mlflow models serve --env-manager local` in tdrop's own environment.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import mlflow
import pandas as pd

from tdrop.errors import DataError
from tdrop.served import seal_of

#: MLflow's note of what it downloaded, and the tag with the digest of every byte.
ADDED, SEAL = "registered_model_meta", "tdrop.seal"


class ServedModel(mlflow.pyfunc.PythonModel):  # type: ignore[misc]
    """Encodes rows as the training did and predicts with the stored method."""

    def load_context(self, context: Any) -> None:
        """Reads the method, the encoder, a recalibration and the site's decision."""
        from tdrop.served.model import Served

        folder = Path(context.artifacts["transfer"])
        require_sealed(folder)
        self.served = Served.load(folder)

    def predict(self, context: Any, model_input: pd.DataFrame, params: dict[str, Any] | None = None) -> pd.DataFrame:
        """Returns risk, sd, low, high and refer, one row a patient in the order given."""
        return self.served.predict(model_input)


def require_sealed(folder: Path) -> None:
    """Refuses a registered version that nobody promoted, or of which one byte is not as it was promoted.

    MLflow writes down beside its copy of a registered version which one it is. What has no such note is a model that
    is just being logged.
    """
    whole = next(parent for parent in folder.parents if (parent / "MLmodel").is_file())
    note = whole / ADDED
    if not note.is_file():
        return
    facts = dict(line.split(":", 1) for line in note.read_text(encoding="utf-8").splitlines() if ":" in line)
    name, version = (facts[key].strip().strip("'\"") for key in ("model_name", "model_version"))
    if not version.isdecimal():
        raise DataError(
            "this model was logged for comparison and never promoted; to study it, download its files and open them "
            "with `tdrop.served.model.Served.load`, and for patients a person promotes one with `tdrop promote`"
        )
    tags = mlflow.MlflowClient().get_model_version(name, version).tags
    if SEAL not in tags:
        raise DataError(f"version {version} of '{name}' was not promoted; a person does that with `tdrop promote`")
    if seal_of(whole, besides=(ADDED,)) != tags[SEAL]:
        raise DataError(f"version {version} of '{name}' was altered since its promotion; promote a model again")


mlflow.models.set_model(ServedModel())
