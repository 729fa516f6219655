"""Settings of a transfer. This module imports little, because commands read it before heavy packages load."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, WithJsonSchema

from tdrop.base import UsageError
from tdrop.methods import method_names, require_methods

#: The form of a deployment offers the methods as a list of choices, and its server refuses any other name.
MethodName = Annotated[str, WithJsonSchema({"type": "string", "enum": list(method_names())})]


class TransferSettings(BaseModel):
    """Settings of one transfer. The defaults suit a site of a few thousand patients."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    methods: tuple[MethodName, ...] = Field(default=(), description="Methods to train; empty for all of them")
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
    shares: bool = Field(
        default=False,
        description="Whether methods may know the source of a patient where held-out sites prefer it; from three on",
    )
    bootstrap: int = Field(
        default=1000, ge=50, le=20000, description="Resamples of patients behind each interval of a metric"
    )
    method_settings: dict[str, dict[str, Any]] = Field(
        default_factory=dict, description="Settings by method that differ from the method's defaults"
    )

    def chosen_methods(self) -> tuple[str, ...]:
        """The methods to train, in the paper's order, each name checked."""
        require_methods((*self.methods, *self.method_settings))
        if set(self.methods) == {"mlp"}:
            raise UsageError(
                "'mlp' alone is only reported and never chosen, because it has no interval; name another method beside "
                "it, or none for all of them"
            )
        return tuple(name for name in method_names() if not self.methods or name in self.methods)
