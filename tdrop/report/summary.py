"""Writes a report's summary."""

from __future__ import annotations

from tdrop.report.choice import picked_trial
from tdrop.report.data import ReportData
from tdrop.report.sentences import shift_sentence
from tdrop.report.site_summary import Expected, MethodLine, SiteSummary
from tdrop.report.text import method_label
from tdrop.report.words import referral_counts, things_to_know, use_sentence

#: What the index shows of each method.
INDEXED = ("auroc", "error_auroc_sd", "error_auroc_risk", "interval_width", "referrals", "referred", "inpt")


def report_summary(data: ReportData) -> SiteSummary:
    """Returns the summary of a report."""
    evaluation = data.evaluation
    reasons = referral_counts(data)
    trial = picked_trial(data.tuning.get(data.method, ()))
    return SiteSummary(
        site=data.site.name,
        title=data.site.title,
        source_title=data.source_title,
        simulated=data.site.simulated,
        public=data.site.public,
        outcome=data.contract.outcome.title,
        created=None if data.provenance is None else data.provenance.created,
        contract_version=data.contract.version,
        verdict=data.verdict,
        reason=shift_sentence(data.shift),
        method=data.method,
        method_label=method_label(data.method),
        patients=evaluation.patients,
        referred=reasons.get("referred"),
        reasons=reasons,
        labelled=evaluation.labelled,
        outcomes=evaluation.outcomes,
        auroc=evaluation.value(data.method, "auroc"),
        forecast=_forecast(data),
        matched_auroc=None if trial is None else trial.auroc,
        use=use_sentence(data),
        things=tuple(things_to_know(data)),
        promotion=data.promotion,
        failed_methods=tuple(sorted(data.failed_methods)),
        methods=tuple(
            MethodLine(
                method,
                method_label(method),
                method == data.method,
                *(evaluation.value(method, name) for name in INDEXED),
            )
            for method in evaluation.methods
        ),
    )


def _forecast(data: ReportData) -> dict[str, Expected] | None:
    """The chosen method's forecast; None without one."""
    if data.forecast is None:
        return None
    answers = [one for one in data.forecast.answers if one.method == data.method and one.value is not None]
    return {one.quantity: Expected(*map(_rounded, (one.value, one.low, one.high))) for one in answers}


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 2)
