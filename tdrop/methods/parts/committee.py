"""Committee: the fits of several methods used together, where source patients cannot tell which of them is best.

Formula: risk = mean over members m of risk_m. The samples are the members' own deviations around it,
    s_mj = risk + k_m (s_mj - risk_m),    every member counting the same: sd^2 = mean of k_m^2 sd_m^2,
where k_m is 1 unless a sample would leave [0, 1], and then the largest factor that keeps it inside. The spread between
members is left out of the sd: it hardly predicted errors (error AUROC .51 to .60), and adding it made the sd predict
them less well or no better.
Not in the paper. The mean of the risks has a log loss no higher than the members' mean log loss, and methods of
different kinds make different errors: a linear model, trees and networks together transferred better than any of them
alone (docs/CHOOSING.md). Unlike other methods it has no settings to tune, no trials and no fit of its own.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from pydantic import Field
from pydantic.dataclasses import dataclass

from tdrop.base import Doubles, Fitted, Predictive, UsageError
from tdrop.methods import COMMITTEE
from tdrop.methods.parts import MethodSettings
from tdrop.methods.parts.fitted import FittedModel, FittedOnFits, read_noise, restore_fits


@dataclass(frozen=True)
class Committee(MethodSettings):
    """Which methods are used together."""

    name: ClassVar[str] = COMMITTEE
    label: ClassVar[str] = "Average of models"
    summary: ClassVar[str] = (
        "The mean of methods that source patients cannot tell apart, each keeping its own uncertainty."
    )
    uses_target: ClassVar[bool] = True

    members: tuple[str, ...] = Field(
        ("logistic_regression", "gradient_boosting"), strict=False, description="The methods that are used."
    )

    def __post_init__(self) -> None:
        if len(set(self.members)) != len(self.members) or len(self.members) < 2 or COMMITTEE in self.members:
            raise UsageError(f"a committee needs at least two different methods; got {', '.join(self.members)}")

    def from_fits(self, fits: Sequence[Fitted]) -> FittedCommittee:
        """The members' fits, in the order of `members`, as one."""
        return FittedCommittee(self, dict(zip(self.members, fits, strict=True)))

    def restore(self, record: Mapping[str, Any], files: Mapping[str, bytes]) -> FittedModel:
        """Rebuilds the fitted half from a saved model's files."""
        return FittedCommittee(self, restore_fits(self.members, files)).with_noise(read_noise(record))


class FittedCommittee(FittedOnFits):
    """Several fitted methods that predict together."""

    def sample(self, X: NDArray[Any], n: int, *, seed: int) -> Predictive:
        """The members' deviations around their mean for X (rows, features), repeated until all have equally many."""
        parts = [member.sample(X, n, seed=seed).samples.astype(np.float64) for member in self.fits.values()]
        means = [part.mean(axis=0) for part in parts]
        risk = np.mean(means, axis=0)
        most = math.lcm(*map(len, parts))
        around = [self._around(risk, part - mean) for part, mean in zip(parts, means, strict=True)]
        samples = np.concatenate([np.repeat(part, most // len(part), axis=0) for part in around])
        return Predictive(samples.astype(np.float32))

    def _around(self, risk: Doubles, deviations: Doubles) -> Doubles:
        """Samples (samples, rows) around a risk (rows,), which are risks themselves; or with K classes behind each."""
        if self.task == "regression" or deviations.shape[1] == 0:
            return risk + deviations
        with np.errstate(divide="ignore", invalid="ignore"):
            bounds = -risk / deviations.min(axis=0), (1 - risk) / deviations.max(axis=0)
        # Where nothing deviates a bound is no number.
        factor = np.minimum(*(np.where(bound >= 0, np.minimum(bound, 1.0), 1.0) for bound in bounds))
        if self.task == "classes":
            # One factor for all classes of a row: its probabilities keep their sum.
            factor = factor.min(axis=-1, keepdims=True)
        return np.clip(risk + factor * deviations, 0.0, 1.0)


METHOD = Committee
