"""All metrics by name, where they are shown, and which of them come first by what the outcome is."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Literal

from tdrop.base import Task

# The entries, which stand in a file of their own: whoever adds one at its end has added a metric.
from tdrop.metrics import table
from tdrop.metrics.metric import ENTRIES, Metric, View

__all__ = ["METRICS", "OUTCOME_KINDS", "OutcomeKind", "difference_name", "metrics_in_view", "subgroup_metrics", "table"]


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


#: What is forecast and compared first.
Headline = Literal["auroc", "rmse"]


@dataclass(frozen=True)
class OutcomeKind:
    """The numbers of one kind of outcome.

    Attributes:
        headline: The one that is forecast, compared between sites and rehearsed first.
        headline_title: Its name in a sentence.
        site_numbers: Those that are compared between sites.
        error_left: Errors left after a fifth of the patients was referred for review.
        first_page: Those on a report's first page and on a model card.
        loss: What choosing a method minimises, in words.
    """

    headline: Headline
    headline_title: str
    site_numbers: tuple[str, ...]
    error_left: str
    first_page: tuple[str, ...]
    loss: str

    def write(self, value: float) -> str:
        """The headline number as text: two decimals of an AUROC, three digits of what has a unit."""
        return f"{value:.2f}" if self.headline == "auroc" else f"{value:.3g}"


OUTCOME_KINDS: Mapping[Task, OutcomeKind] = MappingProxyType(
    {
        "binary": OutcomeKind(
            "auroc",
            "AUROC",
            ("auroc", "log_loss", "error_rate", "net_benefit", "observed_expected", "slope"),
            "retained_error_20_expected",
            ("auroc", "brier", "log_loss", "calibration_intercept", "calibration_slope", "error_rate", "net_benefit"),
            "log loss",
        ),
        "classes": OutcomeKind(
            "auroc",
            "AUROC",
            ("auroc", "log_loss", "accuracy"),
            "retained_error_20_expected",
            ("accuracy", "auroc", "log_loss", "error_auroc_sd", "error_rate"),
            "log loss",
        ),
        "regression": OutcomeKind(
            "rmse",
            "root mean squared error",
            ("rmse", "r2", "coverage"),
            "retained_error_20_sd",
            ("mae", "rmse", "r2", "coverage", "error_auroc_sd", "error_rate"),
            "squared error as a share of the outcome's variance",
        ),
    }
)
