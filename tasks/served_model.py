"""The model as MLflow serves it: a hospital's rows in contract columns in, risk and referral out.

MLflow stores this file's text with the model (models-from-code), so nothing is pickled. It needs tdrop beside
it, which no index has: `mlflow models serve --env-manager local` in tdrop's own environment.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import mlflow
import pandas as pd

#: MLflow's note of what it downloaded, and the tag with the digest of every byte.
ADDED, SEAL = "registered_model_meta", "tdrop.seal"


class ServedModel(mlflow.pyfunc.PythonModel):  # type: ignore[misc]
    """Encodes rows as the training did and predicts with the stored method."""

    def load_context(self, context: Any) -> None:
        """Reads the method, the encoder, the contract and the site's decision."""
        from tdrop.contracts.schema import Contract, Decision
        from tdrop.data.encode import Encoder
        from tdrop.methods import load
        from tdrop.records import read

        folder = Path(context.artifacts["transfer"])
        require_sealed(folder)
        self.fitted = load(folder / "model")
        described = json.loads((folder / "served.json").read_text(encoding="utf-8"))
        self.encoder = read(Encoder, described["encoder"])
        self.contract = Contract.model_validate(described["contract"])
        self.decision = Decision.model_validate(described["decision"])
        self.passes, self.seed = int(described["passes"]), int(described["seed"])

    def predict(self, context: Any, model_input: pd.DataFrame, params: dict[str, Any] | None = None) -> pd.DataFrame:
        """Returns risk, sd, low, high and refer, one row a patient in the order given.

        A patient is referred when the interval reaches the site's risk level although the risk
        does not. The capacity share needs a whole list of patients: `tdrop score` adds it.
        """
        from tdrop.evaluate.statistics import referred_by_level

        cohort = self.encoder.encode(model_input.reset_index(drop=True), "served")
        level = self.decision.interval_level
        summary = self.fitted.summarise(cohort.X, self.passes, seed=self.seed, levels=(level,))
        low, high = summary.interval(level)
        return pd.DataFrame(
            {
                "risk": summary.mean.astype(float),
                "sd": summary.sd.astype(float),
                "low": low.astype(float),
                "high": high.astype(float),
                "refer": referred_by_level(summary, self.decision),
            },
            index=model_input.index,
        )


def require_sealed(folder: Path) -> None:
    """Refuses a registered version that nobody promoted, or of which one byte is not as it was promoted.

    MLflow writes down beside its copy of a registered version which one it is. What has no such note is a model that
    is just being logged.
    """
    from tdrop.errors import DataError
    from tdrop.served import seal_of

    whole = next(parent for parent in folder.parents if (parent / "MLmodel").is_file())
    note = whole / ADDED
    if not note.is_file():
        return
    facts = dict(line.split(":", 1) for line in note.read_text(encoding="utf-8").splitlines() if ":" in line)
    name, version = (facts[key].strip().strip("'\"") for key in ("model_name", "model_version"))
    tags = mlflow.MlflowClient().get_model_version(name, version).tags
    if SEAL not in tags:
        raise DataError(f"version {version} of '{name}' was not promoted; a person does that with `tdrop promote`")
    if seal_of(whole, besides=(ADDED,)) != tags[SEAL]:
        raise DataError(f"version {version} of '{name}' was altered since its promotion; promote a model again")


mlflow.models.set_model(ServedModel())
