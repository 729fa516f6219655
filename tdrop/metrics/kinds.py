"""What is asked of predictions, by what the outcome is: rehearsals, forecasts, reports and cards read it here."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Literal

from tdrop.base import Task

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
