"""A recalibration: known outcomes move a served model's risks along a line on the log odds."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from tdrop.base import DataError, Floats, Summary
from tdrop.metrics import clip_risk, recalibrated


@dataclass(frozen=True)
class CalibrationLine:
    """The log odds of a risk are multiplied by the slope, and the intercept is added.

    Attributes:
        intercept: Above 0, risks rise.
        slope: Above 0, so that the order of the patients stays.
    """

    intercept: float
    slope: float = 1.0

    def __post_init__(self) -> None:
        if not (np.isfinite(self.intercept) and np.isfinite(self.slope) and self.slope > 0):
            raise DataError(
                f"a recalibration needs a finite intercept and a slope above 0, not {self.intercept} and {self.slope}"
            )

    def after(self, first: CalibrationLine | None) -> CalibrationLine:
        """One line that moves risks as `first` and then this one would."""
        if first is None:
            return self
        return CalibrationLine(self.intercept + self.slope * first.intercept, self.slope * first.slope)

    def move(self, summary: Summary) -> Summary:
        """The same predictions, moved.

        Risk and ends of the interval go along the line, which was fitted to risks, not to samples; a quantile moves
        as its samples do. The sd is stretched by the line's steepness at the risk (the delta method).
        """
        before = clip_risk(summary.mean)
        after = recalibrated(before, self.intercept, self.slope)
        steepness = self.slope * after * (1 - after) / (before * (1 - before))
        return replace(
            summary,
            mean=after.astype(np.float32),
            sd=(summary.sd * steepness).astype(np.float32),
            low=self._moved(summary.low),
            high=self._moved(summary.high),
        )

    def _moved(self, ends: Floats) -> Floats:
        return recalibrated(ends, self.intercept, self.slope).astype(np.float32)
