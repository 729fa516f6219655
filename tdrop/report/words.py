"""The first screen: what a clinical lead must know, in plain words."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import pandas as pd

from tdrop.base import Count, Feature
from tdrop.disclosure import shown_mean
from tdrop.evaluate import Row
from tdrop.report.choice import picked_trial
from tdrop.report.data import ReportData
from tdrop.report.expected import observation
from tdrop.report.extract import left_out_sentence
from tdrop.report.sentences import evaluation_warnings, ground_sentence
from tdrop.report.site_summary import SiteSummary
from tdrop.report.text import count, in_sentence, known_features, method_label, moment, number, share
from tdrop.served import Promotion
from tdrop.shift import FeatureShift, Ground

#: A mean from which on decimals say nothing.
_LARGE = 1000

#: By verdict: its word, its style, and what it means.
VERDICTS: Mapping[str, tuple[str, str, str]] = {
    "go": ("Go", "go", "The patients here are much like those the model learned from."),
    "caution": ("Caution", "caution", "The patients here differ noticeably from those the model learned from."),
    "stop": ("Stop", "stop", "The patients here are too different from those the model learned from."),
    "too few to say": ("Too few to say", "unsure", "There are too few patients to say how alike the sites are."),
}


def verdict_words(verdict: str, grounds: Iterable[Ground] = ()) -> dict[str, str]:
    """Returns a verdict's word, its style and its sentence: that of the grounds which decided it, where there are."""
    word, style, sentence = VERDICTS.get(verdict, (verdict, "unsure", ""))
    decided = [ground_sentence(one) for one in grounds if one.verdict == verdict != "go"]
    return {"word": word, "style": style, "sentence": " ".join(decided) or sentence}


def use_sentence(data: ReportData) -> str:
    """Says whether and for whom the model may be used."""
    if data.verdict == "stop":
        return "Do not use the model here. The figures below are for the record only."
    if data.verdict == "too few to say":
        return "Do not rely on the model here until more patients are seen."
    patients, row = data.evaluation.patients, referred_row(data)
    condition = "" if data.promotion else "Once approved, "
    if row is None or row.value is None or patients is None:
        told = f"it may be used for all but the referred patients; a clinician looks at those ({referred_text(data)})."
    else:
        kept, looked = count(patients - round(row.value)), count(row.value)
        told = f"it may be used for {kept} of {count(patients)} patients; a clinician looks at the other {looked}."
    return condition + told if condition else told[:1].upper() + told[1:]


def referred_row(data: ReportData) -> Row | None:
    """Returns how many patients are on the referral list (chosen method, first seed)."""
    evaluation = data.evaluation
    return evaluation.row(data.method, "referred", evaluation.seeds[0]) if evaluation.seeds else None


#: Why patients are referred, who is on the list, and who has a reason without a place on it.
REFERRALS = ("referrals", "capacity_referrals", "unlike_referrals", "referred", "left_out")


def referral_counts(data: ReportData) -> dict[str, Count | None]:
    """Returns the counts of REFERRALS (chosen method, first seed)."""
    evaluation = data.evaluation
    rows = (
        {name: evaluation.row(data.method, name, evaluation.seeds[0]) for name in REFERRALS} if evaluation.seeds else {}
    )
    return {
        name: None if row is None else round(row.value) if row.value is not None else row.hidden
        for name, row in rows.items()
    }


def referred_text(data: ReportData) -> str:
    """Writes how many are referred, or what stands for a hidden count."""
    row = referred_row(data)
    if row is None or (row.value is None and row.hidden is None):
        return "not known"
    return str(row.hidden) if row.value is None else count(row.value)


def referred_share(data: ReportData) -> str:
    """Writes which part of the patients is referred."""
    row = referred_row(data)
    if row is None or row.value is None or not data.evaluation.patients:
        return "a clinician decides"
    return f"{share(row.value / data.evaluation.patients, 0)}: a clinician decides"


def outcome_text(data: ReportData) -> str:
    """Says for how many patients the outcome is known."""
    if not data.labelled:
        return "outcomes not known yet"
    labelled = data.evaluation.labelled
    return "outcome known for nearly all" if labelled is None else f"outcome known for {count(labelled)}"


def approval_sentence(data: ReportData) -> str:
    """Says who approved the model, or that nobody has."""
    promotion = data.promotion
    if not promotion:
        return "Nobody has approved a model for this site yet."
    when = f" on {moment(promotion.when)}" if promotion.when else ""
    which = method_label(promotion.method) if promotion.method else "A model"
    return f"{which} was approved by {promotion.by or 'somebody'}{when}."


def things_to_know(data: ReportData) -> list[str]:
    """Returns the three things to know, most important first."""
    things = [_refused(data), *evaluation_warnings(data.evaluation, data.hide_below)[:1]]
    # Those that decided the verdict stand beside it.
    grounds = [one for one in data.shift.grounds if one.verdict not in ("go", data.verdict)]
    things += [ground_sentence(one) for one in grounds]
    things.append(left_out_sentence(data.left_out, data.contract))
    things += _with_outcomes(data) if data.labelled else _without_outcomes(data)
    things += [difference_sentence(data), _set_aside(data), _failed(data)]
    return [thing for thing in things if thing][:3]


def _refused(data: ReportData) -> str:
    """Says that the outcomes were not used; why is for the site's own eyes, since it counts its rows."""
    if not data.refused_labels:
        return ""
    why = "the site's own report says why" if data.hide_below else data.refused_labels.removesuffix(".")
    return f"The outcomes were not used: {why}."


def _with_outcomes(data: ReportData) -> list[str]:
    auroc = data.evaluation.row(data.method, "auroc")
    things = []
    if auroc is not None and auroc.value is not None:
        span = f" ({100 * auroc.low:.0f} to {100 * auroc.high:.0f})" if auroc.low and auroc.high else ""
        # The forecast was of the model that patients get; the appendix has the mean over its refits.
        seen = observation(data, data.method, "auroc")
        value = auroc.value if seen is None else seen.observed
        things.append(
            f"Of two patients, the one who had the outcome gets the higher risk {100 * value:.0f} times in "
            f"100{span}; guessing gives 50."
        )
    risk, rate = (data.evaluation.value(data.method, name) for name in ("mean_risk", "outcome_rate"))
    if risk is not None and rate is not None:
        things.append(
            f"The average risk is {share(risk, 0)}; {share(rate, 0)} had the outcome{_known(data)}"
            f"{_too(risk, rate, data)}."
        )
    return things


def _known(data: ReportData) -> str:
    """How many patients an observed share rests on; nothing where that is hidden."""
    labelled, outcomes = data.evaluation.labelled, data.evaluation.outcomes
    return "" if labelled is None or outcomes is None else f" ({count(outcomes)} of {count(labelled)})"


def _too(risk: float, rate: float, data: ReportData) -> str:
    row = data.evaluation.row(data.method, "calibration_intercept")
    if row is None or row.low is None or row.high is None or row.low <= 0 <= row.high:
        return ""
    return ": risks are too low here" if rate > risk else ": risks are too high here"


def _without_outcomes(data: ReportData) -> list[str]:
    if data.forecast is not None:
        return [
            "Outcomes here are not known yet: the numbers above are a forecast that nothing here has checked.",
            "A forecast, and every risk, assumes that patients with the same findings fare alike at both sites.",
        ]
    trial = picked_trial(data.tuning.get(data.method, ()))
    similar = ""
    if trial is not None and trial.auroc is not None:
        similar = (
            f" Of two source patients whom it had not seen, the one who had the outcome got the higher risk "
            f"{100 * trial.auroc:.0f} times in 100; guessing gives 50."
        )
    return [
        f"Outcomes here are not known yet, so nobody can say how often the model is right.{similar}",
        "This assumes that patients with the same findings have the same risk at both sites; only outcomes can tell.",
    ]


def difference_sentence(data: ReportData) -> str:
    """Names what differs most between the sites, in natural units where the frames are there."""
    features, told, seen = known_features(data.contract), [], set()
    for row in data.shift.by_difference:
        feature = features.get(row.feature)
        if feature is None or feature.column in seen or not row.smd:
            continue
        seen.add(feature.column)
        told.append(_describe_feature(data, row, feature))
    return f"Differs most from the source: {' and '.join(told[:2])}." if told else ""


def _describe_feature(data: ReportData, row: FeatureShift, feature: Feature) -> str:
    title = in_sentence(feature.label)
    if feature.kind == "continuous":
        means = [_mean(frame, feature.column, data.hide_below) for frame in (data.source_frame, data.target_frame)]
        unit = f" {feature.unit}" if feature.unit else ""
        name = in_sentence(data.contract.column(feature.column).label)
        there, here = means
        if there is None or here is None:
            return name
        digits = 0 if max(abs(there), abs(here)) >= _LARGE else 1
        return f"{name} ({number(there, digits)} there, {number(here, digits)}{unit} here)"
    if row.kind in ("level", "binary", "missing"):
        return f"{title} ({share(row.source_mean, 0)} there, {share(row.target_mean, 0)} here)"
    return f"{title} ({'higher' if (row.smd or 0.0) > 0 else 'lower'} here)"


def _mean(frame: pd.DataFrame | None, name: str, hide_below: int) -> float | None:
    if frame is None or name not in frame:
        return None
    values = pd.to_numeric(frame[name], errors="coerce").astype("float64").dropna()
    return shown_mean(values.to_numpy(), hide_below) if hide_below else float(values.mean())


def _set_aside(data: ReportData) -> str:
    aside, read = data.validation.quarantined, data.validation.read
    if not aside:
        return ""
    whole = f" of {count(read)}" if isinstance(read, int) else ""
    return f"{count(aside)}{whole} rows broke the agreement and were set aside."


def _failed(data: ReportData) -> str:
    if not data.failed_methods:
        return ""
    names = ", ".join(method_label(name) for name in data.failed_methods)
    return f"{names} could not be fitted; the other methods were compared without."


def changes(data: ReportData, summary: SiteSummary) -> str:
    """Says what was different in the last report."""
    previous = data.previous
    if not previous:
        return "This is the first report for this site."
    told = []
    before, now = (verdict_words(one.verdict)["word"] for one in (previous, summary))
    if previous.verdict and before != now:
        told.append(f"verdict {before}")
    if previous.method and previous.method_label != summary.method_label:
        told.append(f"method {previous.method_label}")
    for then, since, words in (
        (previous.patients, summary.patients, "patients"),
        (previous.referred, summary.referred, "to refer"),
        (previous.labelled, summary.labelled, "known outcomes"),
    ):
        if then not in (None, since):
            told.append(f"{count(then) if then else 'no'} {words}")
    when = f" ({previous.created[:10]})" if previous.created else ""
    approved = _approved(previous.promotion, data.promotion)
    differs = f"The last report{when} had {', '.join(told)}." if told else ""
    return " ".join(filter(None, (approved, differs))) or f"Nothing since the last report{when}."


def _approved(before: Promotion | None, now: Promotion | None) -> str:
    """Says whether the model in use is another one since the last report."""
    if (before and before.version) == (now and now.version):
        return ""
    if now is None:
        return "The approval was withdrawn since the last report."
    if before is not None and now.when < before.when:
        earlier = f"version {now.version}, approved earlier by {now.by or 'somebody'}"
        return f"Gone back since the last report: {earlier}, is in use again."
    return f"Approved since the last report by {now.by or 'somebody'}."


def unknowns(data: ReportData) -> list[str]:
    """Says what this report cannot know."""
    told = [
        "That patients with the same findings have the same risk at both sites is an assumption. If treatment "
        "or follow-up differ in ways that the table does not hold, every risk here may be off, and no figure without "
        "outcomes would show it.",
        "A referral list finds patients for whom the model is unsure of itself. It does not find those for whom it is "
        "sure and wrong.",
    ]
    if not data.labelled:
        told.insert(
            0,
            "Without outcomes of this site nobody can know how often the model is right here, whether its risks are "
            "too high or too low, or how many referred patients needed the look.",
        )
    if data.shift.outside_overlap:
        outside = f"{share(data.shift.outside_overlap)} of the {count(data.shift.target_rows)} patients here"
        told.append(f"{outside} have hardly any counterpart at the source; there the model guesses.")
    return told
