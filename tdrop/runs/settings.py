"""What a person may set for a transfer; Prefect's form is made from this."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from tdrop.base import UsageError, did_you_mean
from tdrop.methods import COMMITTEE, method_names

#: Interval levels kept of every prediction: the paper sweeps 50 to 99%.
SWEEP = (0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.99)


class TransferSettings(BaseModel):
    """Settings of one transfer. The defaults suit a site of a few thousand patients."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    methods: tuple[str, ...] = Field(default=(), description="Methods to train; empty for all of them")
    seeds: int = Field(
        default=3, ge=1, le=50, description="How often the tuned method is trained again, to show spread"
    )
    trials: int = Field(default=12, ge=1, le=200, description="Tuning trials for every method alike")
    passes: int = Field(default=200, ge=2, le=5000, description="Samples behind each patient's interval")
    folds: int = Field(default=3, ge=2, le=20, description="Parts of the source for the out-of-fold criterion")
    criterion: Literal["importance_weighted", "matched_validation"] = Field(
        default="importance_weighted", description="How the method is chosen without target labels"
    )
    committee: bool = Field(
        default=True, description="Whether methods that source patients cannot tell apart are used together"
    )
    bootstrap: int = Field(
        default=1000, ge=50, le=20000, description="Resamples of patients behind each interval of a metric"
    )
    method_settings: dict[str, dict[str, Any]] = Field(
        default_factory=dict, description="Settings by method that differ from the method's defaults"
    )

    def chosen_methods(self) -> tuple[str, ...]:
        """The methods to train, in the paper's order, each name checked."""
        known = method_names()
        for name in (*self.methods, *self.method_settings):
            if name == COMMITTEE:
                raise UsageError(
                    f"'{COMMITTEE}' is made of other methods' fits and has no settings: name two methods or none, and "
                    "it is formed where source patients cannot tell them apart"
                )
            if name not in known:
                raise UsageError(f"unknown method '{name}'{did_you_mean(name, known)}")
        return tuple(name for name in known if not self.methods or name in self.methods)
