"""What predicts for raw contract columns: encoder, fitted model, recalibration and the site's decision in one."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Self

import pandas as pd

from tdrop.contracts.site import Decision
from tdrop.data.encode import Encoder
from tdrop.methods import load
from tdrop.metrics import referred_by_level
from tdrop.records import read
from tdrop.served.line import CalibrationLine
from tdrop.types import Cohort, Fitted, Summary

#: The two parts of a served model's folder.
MODEL, SERVED = "model", "served.json"


@dataclass(frozen=True)
class Served:
    """A model as it is used.

    Attributes:
        encoder: Turns contract columns into features, as at the training.
        fitted: The trained method.
        decision: Where the site acts.
        passes: Samples behind each prediction.
        seed: Decides them.
        recalibration: Moves the risks, or None where they are as the method gives them.
    """

    encoder: Encoder
    fitted: Fitted
    decision: Decision
    passes: int
    seed: int
    recalibration: CalibrationLine | None = None

    @classmethod
    def load(cls, folder: Path) -> Self:
        """Reads the folder of a registered version."""
        described = json.loads((folder / SERVED).read_text(encoding="utf-8"))
        line = described.get("recalibration")
        return cls(
            encoder=read(Encoder, described["encoder"]),
            fitted=load(folder / MODEL),
            decision=Decision.model_validate(described["decision"]),
            passes=int(described["passes"]),
            seed=int(described["seed"]),
            recalibration=None if line is None else read(CalibrationLine, line),
        )

    def summarise(self, cohort: Cohort) -> Summary:
        """Risk, sd and interval of each patient, recalibrated; memory does not grow with rows times passes."""
        levels = (self.decision.interval_level,)
        summary = self.fitted.summarise(cohort.X, self.passes, seed=self.seed, levels=levels)
        return summary if self.recalibration is None else self.recalibration.move(summary)

    def predict(self, frame: pd.DataFrame) -> pd.DataFrame:
        """Returns risk, sd, low, high and refer, one row a patient in the order given.

        A patient is referred when the interval reaches the site's risk level although the risk
        does not. The capacity share needs a whole list of patients, and who is unlike anyone the model
        learned from is known where those are: `tdrop score` adds both.
        """
        summary = self.summarise(self.encoder.encode(frame.reset_index(drop=True), "served"))
        low, high = summary.interval(self.decision.interval_level)
        return pd.DataFrame(
            {
                "risk": summary.mean.astype(float),
                "sd": summary.sd.astype(float),
                "low": low.astype(float),
                "high": high.astype(float),
                "refer": referred_by_level(summary, self.decision),
            },
            index=frame.index,
        )
