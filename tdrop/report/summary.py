"""A report in a few plain values: summary.json, the line in index.html, and what the next report compares with."""

from __future__ import annotations

from typing import Any

from tdrop.records import Hidden
from tdrop.report.choice import picked_trial
from tdrop.report.data import ReportData
from tdrop.report.sentences import shift_sentence
from tdrop.report.text import method_label
from tdrop.report.words import referral_counts, things_to_know, use_sentence

FORM = 1

#: What the index shows of each method.
INDEXED = ("auroc", "error_auroc_sd", "error_auroc_risk", "interval_width", "referrals", "referred", "inpt")


def report_summary(data: ReportData) -> dict[str, Any]:
    """Returns the summary of a report as plain JSON values."""
    evaluation = data.evaluation
    reasons = {name: str(one) if isinstance(one, Hidden) else one for name, one in referral_counts(data).items()}
    auroc = evaluation.row(data.method, "auroc")
    trial = picked_trial(data.tuning.get(data.method, ()))
    return {
        "form": FORM,
        "site": data.site.name,
        "title": data.site.title,
        "source_title": data.source_title,
        "simulated": data.site.simulated,
        "public": data.site.public,
        "outcome": data.contract.outcome.title,
        "created": data.provenance.get("created"),
        "contract_version": data.contract.version,
        "verdict": data.verdict,
        "reason": shift_sentence(data.shift),
        "method": data.method,
        "method_label": method_label(data.method),
        "patients": evaluation.patients,
        "referred": reasons.get("referred"),
        "reasons": reasons,
        "labelled": evaluation.labelled,
        "outcomes": evaluation.outcomes,
        "auroc": None if auroc is None else auroc.value,
        "forecast": _forecast(data),
        "matched_auroc": None if trial is None else trial.auroc,
        "use": use_sentence(data),
        "things": things_to_know(data),
        "promotion": dict(data.promotion) if data.promotion else None,
        "failed_methods": sorted(data.failed_methods),
        "methods": [
            {
                "method": method,
                "label": method_label(method),
                "chosen": method == data.method,
                **{name: evaluation.value(method, name) for name in INDEXED},
            }
            for method in evaluation.methods
        ],
    }


def _forecast(data: ReportData) -> dict[str, Any] | None:
    """The chosen method's forecast, each number with its interval, to two decimals; None without one."""
    if data.forecast is None:
        return None
    answers = [one for one in data.forecast.answers if one.method == data.method and one.value is not None]
    return {one.quantity: {name: _rounded(getattr(one, name)) for name in ("value", "low", "high")} for one in answers}


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 2)
