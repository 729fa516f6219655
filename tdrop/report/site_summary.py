"""A report in a few values: summary.json, the line in index.html, and what the next report compares with."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from tdrop.base import Amount, Count
from tdrop.served import Promotion


@dataclass(frozen=True)
class Expected:
    """A number that was forecast, with its interval, to two decimals."""

    value: float | None
    low: float | None
    high: float | None


@dataclass(frozen=True)
class MethodLine:
    """What the index shows of one method; counts are means over seeds."""

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
    """One site's report in a few values; only the site's names are known of one that never had a report.

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
        matched_auroc: Of its picked trial on source patients.
        use: Whether and for whom the model may be used.
        things: What to know first.
        promotion: Who took a model into use.
        failed_methods: Methods that could not be fitted.
        methods: One line a method.
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
    matched_auroc: float | None = None
    use: str = ""
    things: tuple[str, ...] = ()
    promotion: Promotion | None = None
    failed_methods: tuple[str, ...] = ()
    methods: tuple[MethodLine, ...] = ()
    form: int = 1
