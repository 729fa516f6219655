"""The summary of a report: its sentences for a clinical lead, and the few values behind them."""

from __future__ import annotations

from collections.abc import Mapping

from tdrop.base import Count
from tdrop.forecast import Quantity
from tdrop.report.data import Expected, MethodLine, ReportData, SiteSummary
from tdrop.report.sentences import (
    by_features,
    difference_sentence,
    evaluation_warnings,
    left_out_sentence,
    method_title,
    shift_sentence,
)
from tdrop.report.text import method_label, say, unit_of

#: Metrics of each method in the summary.
INDEXED = ("auroc", "error_auroc_sd", "error_auroc_risk", "interval_width", "referrals", "referred", "inpt")

#: Sentences about known outcomes of several classes, or numbers.
_OTHER_OUTCOMES = ("classes_right", "values_off", "values_covered")

#: Counts of patients by reason for review, of those on the list, and of those with a reason and no place on it.
REFERRALS = ("referrals", "capacity_referrals", "unlike_referrals", "referred", "left_out")


def report_summary(data: ReportData) -> SiteSummary:
    """Returns the summary of a report."""
    evaluation = data.evaluation
    methods, reasons = evaluation.methods, referral_counts(data)
    trial = data.picked_trial(data.method)
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
        reason=" ".join([shift_sentence(data.shift), *([difference_sentence(data)] if data.verdict == "stop" else [])]),
        method=data.method,
        method_label=method_title(data.choice),
        patients=evaluation.patients,
        referred=reasons.get("referred"),
        reasons=reasons,
        labelled=evaluation.labelled,
        outcomes=evaluation.outcomes,
        auroc=evaluation.value(data.method, "auroc"),
        forecast=_forecast(data),
        matched_auroc=None if trial is None else trial.auroc,
        use=say("use", data=data, referred=reasons.get("referred"), useless=adds_nothing(data)),
        things=tuple(things_to_know(data)),
        promotion=data.promotion,
        failed_methods=tuple(sorted(data.failed_methods)),
        methods=tuple(
            MethodLine(
                method,
                method_label(method),
                method == data.method,
                *(None if row is None else row.value for row in rows),
            )
            for method, rows in zip(methods, evaluation.find_rows(methods, INDEXED), strict=True)
        ),
    )


def adds_nothing(data: ReportData) -> bool:
    """Whether acting on the model is hardly better than acting on everybody or on nobody."""
    return any(ground.kind == "benefit" and ground.verdict != "go" for ground in data.shift.grounds)


def _forecast(data: ReportData) -> dict[str, Expected] | None:
    """The chosen method's forecast; None without one."""
    if data.forecast is None:
        return None
    answers = [answer for answer in data.forecast.answers if answer.method == data.method and answer.value is not None]
    return {answer.quantity: Expected(*map(_rounded, (answer.value, answer.low, answer.high))) for answer in answers}


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 2)


def referral_counts(data: ReportData) -> dict[str, Count | None]:
    """Returns the counts of REFERRALS (chosen method, first seed)."""
    evaluation, method, seeds = data.evaluation, data.method, data.evaluation.seeds
    if not seeds:
        return {}
    rows = {name: evaluation.row(method, name, seeds[0]) for name in REFERRALS}
    return {
        name: None if row is None else round(row.value) if row.value is not None else row.hidden
        for name, row in rows.items()
    }


def things_to_know(data: ReportData) -> list[str]:
    """Returns the three things to know, most important first."""
    # Those that decided the verdict stand beside it, and so does that the model adds nothing.
    grounds = [
        ground
        for ground in data.shift.grounds
        if ground.verdict not in ("go", data.verdict) and (ground.kind != "benefit" or data.verdict == "stop")
    ]
    known = ("ranking", "average_risk") if data.contract.task == "binary" else _OTHER_OUTCOMES
    things = [
        say("refused_labels", data=data),
        *evaluation_warnings(data.evaluation, data.hide_below, weighted=data.weighted)[:1],
        *(say("ground", ground=ground) for ground in grounds),
        *(say("unseen_class", name=name) for name in data.unseen_classes),
        left_out_sentence(data.left_out, data.contract),
        *(say(name, data=data) for name in (known if data.labelled else ("no_outcomes",))),
        "" if by_features(data) else difference_sentence(data),
        *(say(name, data=data) for name in ("set_aside", "failed")),
    ]
    return [thing for thing in things if thing][:3]


def unknowns(data: ReportData) -> list[str]:
    """Says what this report cannot know."""
    limits = (say(name, data=data) for name in ("cannot_know", "same_risk", "sure_and_wrong", "outside"))
    return [limit for limit in limits if limit]


#: A wider interval of a share holds nearly anything, so it says nothing.
_WIDEST = 0.3
#: By number that is forecast, what it is about, for a sentence that says that it cannot be.
_FORECAST: Mapping[Quantity, str] = {
    "auroc": "how well it ranks patients",
    "error_rate": "the errors",
    "outcomes": "the number of outcomes",
}


def expected_sentences(data: ReportData) -> list[str]:
    """Says what was forecast of the chosen method, where nothing has checked it yet.

    An interval that could hardly fail is no result: there the sentence says what limits it.
    """
    forecast = data.forecast
    if forecast is None or data.labelled:
        return []
    unit, task = unit_of(data.contract), data.contract.task
    if task != "binary":
        quantities: tuple[Quantity, ...] = ("error_rate",) if task == "classes" else ("mae", "rmse")
        answers = [answer for name in quantities if (answer := forecast.find(data.method, name)) is not None]
        return [say(f"expected_{task}", answer=answer, unit=unit) for answer in answers if answer.low is not None]
    sentences, too_wide = [], []
    for quantity, name in _FORECAST.items():
        answer = forecast.find(data.method, quantity)
        if answer is None or answer.value is None or answer.low is None or answer.high is None:
            continue
        if answer.high - answer.low > _WIDEST:
            too_wide.append(name)
        # Page one draws the ranking below the sites that were left out.
        elif quantity != "auroc" or not forecast.next_site.get(data.method):
            sentences.append(say(f"expected_{quantity}", answer=answer, threshold=forecast.threshold))
    return [*sentences, say("too_wide", what=too_wide)] if too_wide else sentences
