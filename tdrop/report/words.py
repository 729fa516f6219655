"""The first screen: what a clinical lead must know, in plain words."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tdrop.evaluate import Row
from tdrop.report.data import ReportData
from tdrop.report.tables import picked_trial
from tdrop.report.text import count, method_label, of_hundred, share

SIMPLE = "logistic_regression"

VERDICTS: Mapping[str, tuple[str, str, str]] = {
    "go": ("Go", "go", "The patients here are much like those the model learned from."),
    "caution": ("Caution", "caution", "The patients here differ noticeably from those the model learned from."),
    "stop": ("Stop", "stop", "The patients here are too different from those the model learned from."),
    "too few to say": ("Too few to say", "unsure", "There are too few patients to say how alike the sites are."),
}


def verdict_words(verdict: str) -> dict[str, str]:
    """Returns a verdict's word, its style and its sentence."""
    word, style, sentence = VERDICTS.get(verdict, (verdict, "unsure", ""))
    return {"word": word, "style": style, "sentence": sentence}


def use_sentence(data: ReportData) -> str:
    """Says whether and for whom the model may be used."""
    if data.verdict == "stop":
        return "Do not use the model here. The figures below are for the record only."
    if data.verdict == "too few to say":
        return "Do not rely on the model here until more patients are seen."
    patients, row = data.evaluation.patients, referred_row(data)
    looked = count_or_note(row)
    if row is None or row.value is None:
        return f"If approved, the model may be used for those who are not referred; a clinician looks at {looked}."
    kept = patients - round(row.value)
    return (
        f"If approved, it may be used for {count(kept)} of {count(patients)} patients; a clinician looks at {looked}."
    )


def referred_row(data: ReportData) -> Row | None:
    """Returns how many patients are on the referral list (chosen method, first seed)."""
    evaluation = data.evaluation
    return evaluation.row(data.method, "referred", evaluation.seeds[0]) if evaluation.seeds else None


def count_or_note(row: Row | None) -> str:
    """Writes a count, or the note that stands for a hidden one."""
    if row is None:
        return "an unknown number"
    return row.note or "an unknown number" if row.value is None else count(row.value)


def approval_sentence(data: ReportData) -> str:
    """Says who approved the model, or that nobody has."""
    promotion = data.promotion
    if not promotion:
        return "Nobody has approved a model for this site yet."
    by, when = promotion.get("by", "somebody"), promotion.get("when", "")
    method = promotion.get("method")
    which = method_label(str(method)) if method else "A model"
    return f"{which} was approved by {by}{f' on {when}' if when else ''}."


def method_sentence(data: ReportData) -> str:
    """Says why this method, in words without jargon."""
    if data.method == SIMPLE:
        return "The simplest method did best; the neural networks added nothing here."
    runner_up = data.choice.get("runner_up")
    beaten = " Better than logistic regression." if _beats_simple(data) else ""
    return (
        f"Did best on similar patients of the source.{beaten}"
        if runner_up
        else f"The only one that could be fitted.{beaten}"
    )


def _beats_simple(data: ReportData) -> bool:
    rows = {row["method"]: row for row in data.choice.get("table", ())}
    simple = rows.get(SIMPLE, {})
    return simple.get("behind") is not None and not simple.get("tied", True)


def things_to_know(data: ReportData) -> list[str]:
    """Returns the three things to know, most important first."""
    things = list(data.evaluation.warnings[:1])
    things += _with_outcomes(data) if data.labelled else _without_outcomes(data)
    things += [difference_sentence(data), _set_aside(data), _failed(data)]
    return [thing for thing in things if thing][:3]


def _with_outcomes(data: ReportData) -> list[str]:
    evaluation = data.evaluation
    outcome = data.contract.outcome.title
    auroc = evaluation.row(data.method, "auroc")
    things = []
    if auroc is not None and auroc.value is not None:
        span = f" ({100 * auroc.low:.0f} to {100 * auroc.high:.0f})" if auroc.low and auroc.high else ""
        things.append(
            f"Of two patients, one with {outcome} and one without, the first has the higher risk in "
            f"{of_hundred(auroc.value)} pairs{span}; 50 would be chance."
        )
    risk, rate = evaluation.value(data.method, "mean_risk"), evaluation.value(data.method, "outcome_rate")
    if risk is not None and rate is not None:
        things.append(
            f"The model expects {outcome} in {of_hundred(risk)}; it happened in {of_hundred(rate)}"
            f"{_too(risk, rate, data)}."
        )
    return things


def _too(risk: float, rate: float, data: ReportData) -> str:
    row = data.evaluation.row(data.method, "calibration_intercept")
    if row is None or row.low is None or row.high is None or row.low <= 0 <= row.high:
        return ""
    return ": its risks are too low here" if rate > risk else ": its risks are too high here"


def _without_outcomes(data: ReportData) -> list[str]:
    trial = picked_trial(data.tuning.get(data.method, ()))
    similar = ""
    if trial.get("auroc") is not None:
        similar = (
            f" On {count(trial['n'])} similar source patients it ranked the right one of two first in "
            f"{of_hundred(trial['auroc'])} pairs; 50 would be chance."
        )
    return [
        f"Outcomes here are not known yet, so nobody can say how often the model is right at this site.{similar}",
        "All of this assumes that patients with the same findings have the same risk at both sites. "
        "Only outcomes from here can check that.",
    ]


def difference_sentence(data: ReportData) -> str:
    """Names what differs most between the sites, in natural units where the frames are there."""
    drivers = [driver for driver in data.shift.get("drivers", ()) if driver.get("auroc_drop", 0) > 0]
    if not drivers:
        return ""
    told = [_describe_driver(data, str(driver["column"])) for driver in drivers[:2]]
    return f"What differs most from {data.source_title}: {' and '.join(told)}."


def _describe_driver(data: ReportData, name: str) -> str:
    columns = {column.name: column for column in data.contract.features}
    column = columns.get(name)
    if column is None:
        return name
    label = column.label.lower() if column.label[1:].islower() else column.label
    frames = data.source_frame, data.target_frame
    if any(frame is None or name not in frame for frame in frames) or column.type not in ("continuous", "count"):
        return label
    there, here = (float(frame[name].astype("float64").mean()) for frame in frames if frame is not None)
    unit = f" {column.unit}" if column.unit else ""
    return f"{label} (mean {there:.3g} there, {here:.3g}{unit} here)"


def _set_aside(data: ReportData) -> str:
    aside = data.validation.get("quarantined")
    return (
        ""
        if not aside
        else f"{count(aside)} of {count(data.validation.get('read'))} rows broke the agreement and were set aside."
    )


def _failed(data: ReportData) -> str:
    if not data.failed_methods:
        return ""
    names = ", ".join(method_label(name) for name in data.failed_methods)
    return f"{names} could not be fitted; the other methods were compared without."


def changes(data: ReportData, summary: Mapping[str, Any]) -> list[str]:
    """Says what changed since the last report."""
    previous = data.previous
    if not previous:
        return ["This is the first report for this site."]
    told = []
    for key, words in (("verdict", "Verdict"), ("method_label", "Method")):
        if previous.get(key) != summary.get(key):
            told.append(f"{words}: {previous.get(key, 'unknown')} before, {summary.get(key)} now.")
    for key, words in (("patients", "Patients"), ("referred", "To refer"), ("labelled", "Known outcomes")):
        before, now = previous.get(key), summary.get(key)
        if before != now and before is not None:
            told.append(f"{words}: {count(before)} before, {count(now)} now.")
    when = f" of {previous['created']}" if previous.get("created") else ""
    return told or [f"Nothing changed since the last report{when}."]


def unknowns(data: ReportData) -> list[str]:
    """Says what this report cannot know."""
    told = [
        "That patients with the same findings have the same risk at both sites (covariate shift) is an assumption. "
        "If treatment or follow-up differ in ways that the table does not hold, every risk here may be off and no "
        "figure without outcomes would show it.",
        "A referral list finds patients for whom the model is unsure of itself. It does not find those for whom it is "
        "sure and wrong.",
    ]
    if not data.labelled:
        told.insert(
            0,
            "Without outcomes of this site nobody can know how often the model is right here, whether its risks are "
            "too high or too low, or how many referred patients needed the look.",
        )
    outside = data.shift.get("outside_overlap")
    if outside:
        told.append(
            f"{share(outside)} of the patients here have hardly any counterpart at the source; there the model guesses."
        )
    return told
