"""Everything a report is made from, and its summary: plain data that can be read from files."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from tdrop.base import Amount, Count, Summary
from tdrop.choose import Choice, Trial
from tdrop.contracts import Contract, Site, Validation
from tdrop.data import CensoringSummary, FollowUp, LabelCounts
from tdrop.evaluate import Evaluation, Ladder, LeftOut, Moved, Recalibration
from tdrop.forecast import DropSplit, Forecast, Observation, Quantity
from tdrop.metrics import Referrals, refer
from tdrop.served import Promotion
from tdrop.shift import Matching, Shift


@dataclass(frozen=True)
class Expected:
    """A number that was forecast, with its interval, to two decimals."""

    value: float | None
    low: float | None
    high: float | None


@dataclass(frozen=True)
class MethodLine:
    """One method in the summary of a report; counts are means over seeds."""

    method: str
    label: str
    chosen: bool
    auroc: float | None = None
    error_auroc_sd: float | None = None
    error_auroc_risk: float | None = None
    interval_width: float | None = None
    referrals: Amount | None = None
    referred: Amount | None = None
    inpt: Amount | None = None


@dataclass(frozen=True)
class SiteSummary:
    """One site's report in a few values: summary.json, its line in index.html, what the next report compares with.

    Only the site's names are known of one that never had a report.

    Attributes:
        site: Name of the site.
        title: Its name for people.
        source_title: The source's.
        simulated: No patient is real.
        public: Anybody may have the patients.
        outcome: What is predicted.
        created: When the report was made.
        contract_version: Of the table.
        verdict: go, caution, stop or too few to say.
        reason: Why, in sentences.
        method: The chosen method.
        method_label: Its name for people.
        patients: Who was predicted.
        referred: On the referral list (chosen method, first seed).
        reasons: By reason, how many have it.
        labelled: With a known outcome.
        outcomes: Of these with the outcome.
        auroc: Of the chosen method, where outcomes are known.
        forecast: By quantity, what was expected of the chosen method.
        use: Whether and for whom the model may be used.
        things: What to know first.
        promotion: Who took a model into use.
        failed_methods: Methods that could not be fitted.
        methods: One line per method.
        form: Of this record.
    """

    site: str
    title: str
    source_title: str = ""
    simulated: bool = False
    public: bool = False
    outcome: str = ""
    created: str | None = None
    contract_version: str = ""
    verdict: str = ""
    reason: str = ""
    method: str = ""
    method_label: str = "–"
    patients: Count | None = None
    referred: Count | None = None
    reasons: Mapping[str, Count | None] = field(default_factory=dict)
    labelled: Count | None = None
    outcomes: Count | None = None
    auroc: float | None = None
    forecast: Mapping[str, Expected] | None = None
    use: str = ""
    things: tuple[str, ...] = ()
    promotion: Promotion | None = None
    failed_methods: tuple[str, ...] = ()
    methods: tuple[MethodLine, ...] = ()
    form: int = 1


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
        predictions: By method, one Summary per seed, all of the same patients.
        y: Outcomes (rows,), NaN where unknown; None without labels.
        weight: For how many patients each outcome stands because others left before the horizon (rows,); None where
            all count alike.
        follow_up: How long the site's patients were followed, where the outcome is a time and an event.
        followed: By source's name for people, how long its patients were followed.
        censoring: What was done about source patients who left before the horizon, where it is one.
        unlike: Who is unlike anyone the model learned from (rows,); None where that is not known.
        source_frame: Harmonised features of the source, natural units.
        target_frame: Harmonised features of the target, natural units, in the order of the predictions.
        moved: Of methods that used the unlabelled patients, what these did to their risks.
        failed_methods: By method, why it could not be fitted.
        labels: Counts of the label file, or None.
        refused_labels: Why the label file could not be used, in a sentence; empty where it could.
        provenance: How the report was made, or None.
        previous: Summary of the last report, or None.
        rehearsal: What rehearsals of the table showed, in a sentence; empty where there was none.
        source_titles: By source, its name for people.
        small_sources: Names of sources that had too few outcomes to learn from.
        promotion: Who took a model into use, or None.
        has_card: Whether that model's card is beside the report.
        recalibration: What known outcomes suggest, or None.
        ladder: What they could do, from an intercept to a model of the site's own; None before an audit.
        split: Why the chosen method's loss changed from the source to this site; None before an audit.
        forecast: What was expected before any outcome, or None.
        observations: Forecast numbers beside what the outcomes showed.
        left_out: Features that the site does not record, and what that costs; None where it records all.
        moved_by: What moves the risk most of each patient for review (rows,), in words; None where that is not known.
        unseen_classes: Classes of the table that no source patient has.
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
    weight: NDArray[Any] | None = None
    follow_up: FollowUp | None = None
    followed: Mapping[str, FollowUp] = field(default_factory=dict)
    censoring: CensoringSummary | None = None
    unlike: NDArray[np.bool_] | None = None
    source_frame: pd.DataFrame | None = None
    target_frame: pd.DataFrame | None = None
    moved: Sequence[Moved] = ()
    failed_methods: Mapping[str, str] = field(default_factory=dict)
    labels: LabelCounts | None = None
    refused_labels: str = ""
    provenance: Provenance | None = None
    previous: SiteSummary | None = None
    rehearsal: str = ""
    source_titles: Mapping[str, str] = field(default_factory=dict)
    small_sources: Sequence[str] = ()
    promotion: Promotion | None = None
    has_card: bool = False
    recalibration: Recalibration | None = None
    ladder: Ladder | None = None
    split: DropSplit | None = None
    forecast: Forecast | None = None
    observations: Sequence[Observation] = ()
    left_out: LeftOut | None = None
    moved_by: Sequence[str] | None = None
    unseen_classes: tuple[str, ...] = ()
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
    def weighted(self) -> bool:
        """Whether outcomes are weighted for those who left before the horizon."""
        return self.labels is not None and self.labels.effective_n is not None

    @property
    def weighted_follow_up(self) -> FollowUp | None:
        """The site's follow-up, where outcomes are weighted for those who left before the horizon."""
        return None if self.weight is None else self.follow_up

    @property
    def labelled(self) -> bool:
        """Whether any outcome is known."""
        return self.evaluation.labelled != 0

    def picked_trial(self, method: str) -> Trial | None:
        """The trial that a refit used: the one marked so, or else the one of lowest log loss; None without."""
        trials = self.tuning.get(method, ())
        marked = [trial for trial in trials if trial.picked]
        scored = [(trial.log_loss, place) for place, trial in enumerate(trials) if trial.log_loss is not None]
        if marked or not scored:
            return marked[0] if marked else None
        return trials[min(scored)[1]]

    def observation(self, method: str, quantity: Quantity) -> Observation | None:
        """What outcomes showed of one sealed number; None before they came."""
        seen = (item for item in self.observations if item.method == method and item.quantity == quantity)
        return next(seen, None)
