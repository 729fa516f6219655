"""What a fitted method knows besides its weights."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tdrop.methods.parts.scaling import Scaling
from tdrop.types import Task


@dataclass(frozen=True)
class Facts:
    """What was fitted, on what, and for how long.

    Attributes:
        features: Names of the features.
        task: What is predicted.
        steps: Steps (or iterations) behind the kept weights.
        history: Training curve; see `tdrop.types.Fitted`.
        rows: Source rows of the fit.
        scaling: Centre and scale learnt from those rows.
    """

    features: tuple[str, ...]
    task: Task
    steps: int
    history: tuple[dict[str, float | None], ...]
    rows: int
    scaling: Scaling

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON values."""
        return {
            "features": list(self.features),
            "task": self.task,
            "steps": self.steps,
            "history": list(self.history),
            "rows": self.rows,
            "scaling": self.scaling.to_dict(),
        }

    @classmethod
    def from_dict(cls, record: Mapping[str, Any]) -> Facts:
        """Reads `to_dict`'s values back."""
        return cls(
            features=tuple(record["features"]),
            task=record["task"],
            steps=record["steps"],
            history=tuple(record["history"]),
            rows=record["rows"],
            scaling=Scaling.from_dict(record["scaling"]),
        )
