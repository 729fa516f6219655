"""What predicts for raw contract columns: encoder, fitted model, recalibration and the site's decision in one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Self

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from tdrop.base import Cohort, DataError, Doubles, Fitted, Summary, read_record
from tdrop.contracts import Decision
from tdrop.data import Encoder
from tdrop.evaluate import FeatureScale, prediction_columns
from tdrop.methods import load
from tdrop.metrics import clip_risk, recalibrated, referred_by_level
from tdrop.served.promotion import MODEL, SERVED
from tdrop.shift import DomainAuroc


@dataclass(frozen=True)
class Digests:
    """What a served model was made from."""

    source: str
    target: str
    encoded: str
    models: str


@dataclass(frozen=True)
class Description:
    """The description of a served model: served.json.

    Attributes:
        site: Name of the site.
        method: The chosen method.
        encoder: Turns contract columns into features, as at the training.
        contract: The table that its rows come in.
        decision: When the site acts on a risk.
        passes: Number of samples per prediction.
        seed: Seed of the samples.
        digests: Digests of what it was made from.
        contract_digest: Digest of the files of the site, its table and its source at that time.
        encoded: The stage of the patients that it was made for, below the store.
        domain_auroc: How far they were from the source; None if unknown.
        recalibration: Changes the risks; None for the method's own risks.
        taught_here: Whether outcomes of the site were used to train the method.
    """

    site: str
    method: str
    encoder: Encoder
    contract: Mapping[str, Any]
    decision: Decision
    passes: int
    seed: int
    digests: Digests
    contract_digest: str
    encoded: str
    domain_auroc: DomainAuroc | None
    recalibration: CalibrationLine | None = None
    taught_here: bool = False

    @property
    def outcomes_used(self) -> bool:
        """Whether outcomes of the site were used for the model."""
        return self.taught_here or self.recalibration is not None


@dataclass(frozen=True, kw_only=True)
class Served(Description):
    """A model as it is used: its description and the trained method."""

    fitted: Fitted

    @classmethod
    def load(cls, folder: Path) -> Self:
        """Reads the folder of a registered version."""
        description = read_record(Description, folder / SERVED)
        return cls(**vars(description), fitted=load(folder / MODEL))

    def summarise(self, cohort: Cohort) -> Summary:
        """Risk, sd and interval of each patient, recalibrated; memory does not grow with rows times passes."""
        levels = (self.decision.interval_level,)
        summary = self.fitted.summarise(cohort.X, self.passes, seed=self.seed, levels=levels)
        return summary if self.recalibration is None else self.recalibration.move(summary, cohort.X)

    def predict(self, frame: pd.DataFrame) -> pd.DataFrame:
        """Returns risk, sd, low, high and refer, one row per patient in the order given.

        Of several classes it is class, chances, sd and refer, of a continuous outcome value, sd, low, high and refer.
        A patient is referred when the interval reaches the site's risk level although the risk
        does not. The capacity share needs a whole list of patients, and who is unlike anyone the model
        learned from is known where those are: `tdrop score` adds both.
        """
        summary = self.summarise(self.encoder.encode(frame.reset_index(drop=True), "served"))
        predicted = prediction_columns(summary, self.decision.interval_level, self.fitted.classes)
        return pd.DataFrame({**predicted, "refer": referred_by_level(summary, self.decision)}, index=frame.index)


@dataclass(frozen=True)
class CalibrationLine:
    """The log odds of a risk are multiplied by the slope, and the intercept is added, and what each feature says.

    Of several classes the logarithms of their probabilities are multiplied by the slope, one over a temperature, and no
    intercept is there; a value of a continuous outcome is itself multiplied and moved.

    Attributes:
        intercept: Above 0, risks rise.
        slope: Above 0, so that patients who differ in nothing else stay in order.
        effects: Per feature, what a standard deviation adds; empty where features add nothing.
        scale: What a standard deviation of each feature is, where they add something.
    """

    intercept: float
    slope: float = 1.0
    effects: tuple[float, ...] = ()
    scale: FeatureScale | None = None

    def __post_init__(self) -> None:
        if not (np.isfinite([self.intercept, self.slope, *self.effects]).all() and self.slope > 0):
            raise DataError(
                f"a recalibration needs finite numbers and a slope above 0, not {self.intercept} and {self.slope}"
            )

    def after(self, first: CalibrationLine | None) -> CalibrationLine:
        """One line that moves risks as `first` and then this one would; both are of models of the same source."""
        if first is None:
            return self
        added = self.effects or (0.0,) * len(first.effects)
        before = first.effects or (0.0,) * len(added)
        return CalibrationLine(
            self.intercept + self.slope * first.intercept,
            self.slope * first.slope,
            tuple(own + self.slope * theirs for own, theirs in zip(added, before, strict=True)),
            self.scale or first.scale,
        )

    def move(self, summary: Summary, X: NDArray[Any] | None = None) -> Summary:
        """The same predictions, moved; X (rows, features) is needed where features add something.

        Risk and ends of the interval go along the line, which was fitted to risks, not to samples; a quantile moves
        as its samples do. The sd is stretched by the line's steepness at the risk (the delta method).
        """
        if summary.task == "classes":
            return self._tempered(summary)
        if summary.task == "regression":
            parts = {name: self.intercept + self.slope * getattr(summary, name) for name in ("mean", "low", "high")}
            return replace(summary, sd=summary.sd * np.float32(self.slope), **parts)
        before, added = clip_risk(summary.mean), self._added(X)
        after = recalibrated(before, added, self.slope)
        steepness = self.slope * after * (1 - after) / (before * (1 - before))
        return replace(
            summary,
            mean=after.astype(np.float32),
            sd=(summary.sd * steepness).astype(np.float32),
            low=recalibrated(summary.low, added, self.slope).astype(np.float32),
            high=recalibrated(summary.high, added, self.slope).astype(np.float32),
        )

    def _added(self, X: NDArray[Any] | None) -> float | Doubles:
        """What is added to the log odds of each patient."""
        if self.scale is None:
            return self.intercept
        assert X is not None, "features add something"
        return np.asarray(self.intercept + self.scale.apply(X) @ np.asarray(self.effects), dtype=np.float64)

    def _tempered(self, summary: Summary) -> Summary:
        """Classes' probabilities to the power of the slope; each one's sd and ends move as a risk's would."""
        powers = clip_risk(summary.mean) ** self.slope
        mean = (powers / powers.sum(axis=1, keepdims=True)).astype(np.float32)
        before, after = ((p * (1 - p)).mean(axis=1) for p in (clip_risk(summary.mean), clip_risk(mean)))
        sd = (summary.sd * self.slope * after / before).astype(np.float32)
        low, high = (recalibrated(ends, 0.0, self.slope).astype(np.float32) for ends in (summary.low, summary.high))
        return replace(summary, mean=mean, sd=sd, low=low, high=high)
