"""Everything a report is made from, as plain data that can be put together from files."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from tdrop.base import Summary
from tdrop.choose import Choice, Trial
from tdrop.contracts import Contract, Site, Validation
from tdrop.data import LabelCounts
from tdrop.evaluate import Evaluation, LeftOut, Moved, Recalibration
from tdrop.figures import DropoutRates
from tdrop.forecast import Forecast, Observation
from tdrop.metrics import Referrals, refer
from tdrop.report.site_summary import SiteSummary
from tdrop.served import Batch, Promotion
from tdrop.shift import Matching, Shift


@dataclass(frozen=True)
class Provenance:
    """How a report was made.

    Attributes:
        created: When.
        contract: The table and its version.
        digests: By what was made, the digest of its contents.
        settings: As the run was started.
        seeds: The seeds that were refitted.
        versions: By package.
    """

    created: str
    contract: str
    digests: Mapping[str, str] = field(default_factory=dict)
    settings: Mapping[str, Any] = field(default_factory=dict)
    seeds: tuple[int, ...] = ()
    versions: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class ReportData:
    """What is known about one site.

    Attributes:
        site: The target site.
        source_title: The source site's name for people.
        contract: The table that both share.
        validation: What was found in the target's extract.
        source_validation: The same of the source.
        shift: How different the patients are, under the verdict that known outcomes leave.
        matching: The source rows that look like the target, or None.
        tuning: By method, its trials.
        choice: The chosen method and why.
        evaluation: The numbers.
        predictions: By method, one Summary a seed, all of the same patients.
        y: Outcomes (rows,), NaN where unknown; None without labels.
        unlike: Who is unlike anyone the model learned from (rows,); None where that is not known.
        source_frame: Harmonised features of the source, natural units.
        target_frame: Harmonised features of the target, natural units, in the order of the predictions.
        dropout_rates: By method, how often it drops a unit.
        moved: Of methods that used the unlabelled patients, what these did to their risks.
        failed_methods: By method, why it could not be fitted.
        labels: Counts of the label file, or None.
        refused_labels: Why the label file could not be used, in a sentence; empty where it could.
        provenance: How the report was made, or None.
        previous: Summary of the last report, or None.
        promotion: Who took a model into use, or None.
        recalibration: What known outcomes suggest, or None.
        forecast: What was expected before any outcome, or None.
        observations: Forecast numbers beside what the outcomes showed.
        left_out: Features that the site does not record, and what that costs; None where it records all.
        batches: What is remembered of the batches that were scored, oldest first.
        hide_below: Counts under it are hidden; 0 hides nothing. Set by `tdrop.disclosure.disclose`.
    """

    site: Site
    source_title: str
    contract: Contract
    validation: Validation
    source_validation: Validation
    shift: Shift
    matching: Matching | None
    tuning: Mapping[str, Sequence[Trial]]
    choice: Choice
    evaluation: Evaluation
    predictions: Mapping[str, Sequence[Summary]]
    y: NDArray[Any] | None = None
    unlike: NDArray[np.bool_] | None = None
    source_frame: pd.DataFrame | None = None
    target_frame: pd.DataFrame | None = None
    dropout_rates: Mapping[str, DropoutRates] = field(default_factory=dict)
    moved: Sequence[Moved] = ()
    failed_methods: Mapping[str, str] = field(default_factory=dict)
    labels: LabelCounts | None = None
    refused_labels: str = ""
    provenance: Provenance | None = None
    previous: SiteSummary | None = None
    promotion: Promotion | None = None
    recalibration: Recalibration | None = None
    forecast: Forecast | None = None
    observations: Sequence[Observation] = ()
    left_out: LeftOut | None = None
    batches: Sequence[Batch] = ()
    hide_below: int = 0

    @property
    def method(self) -> str:
        """Name of the chosen method."""
        return self.choice.method

    @property
    def verdict(self) -> str:
        """go, caution, stop or too few to say."""
        return self.shift.verdict

    @property
    def referrals(self) -> Referrals:
        """Whom the chosen method's first seed refers, and why."""
        return refer(self.predictions[self.method][0], self.site.decision, self.unlike)

    @property
    def labelled(self) -> bool:
        """Whether any outcome is known."""
        return self.evaluation.labelled != 0
