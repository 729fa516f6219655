"""All metrics by name, and where they are shown."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from tdrop.base import Task
from tdrop.metrics import table
from tdrop.metrics.metric import ENTRIES, Metric, View

__all__ = ["METRICS", "difference_name", "metrics_in_view", "subgroup_metrics", "table"]


def difference_name(name: str) -> str:
    """The name of the difference between a method's metric and the reference's."""
    return f"{name}_difference"


#: By name, in the order of every table; differences come last.
METRICS: Mapping[str, Metric] = MappingProxyType(
    {**ENTRIES, **{difference_name(name): entry.difference() for name, entry in ENTRIES.items() if entry.compared}}
)


def metrics_in_view(view: View) -> tuple[str, ...]:
    """The metrics of one view of the report's table of methods."""
    return tuple(name for name, entry in METRICS.items() if view in entry.views)


def subgroup_metrics(*, labelled: bool, task: Task = "binary") -> tuple[str, ...]:
    """The metrics that are computed for each subgroup, without those that need outcomes unless these are known."""
    return tuple(
        name
        for name, entry in METRICS.items()
        if entry.subgroups and task in entry.tasks and (labelled or entry.needs == "patients")
    )
