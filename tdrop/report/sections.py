"""The parts of a report after its first screen: a heading, sentences, tables and figures each."""

from __future__ import annotations

from tdrop import figures
from tdrop.base import UsageError
from tdrop.contracts import Contract, Validation
from tdrop.evaluate import LeftOut
from tdrop.methods import describe_method
from tdrop.report import results
from tdrop.report.choice import settings_table
from tdrop.report.data import ReportData
from tdrop.report.extract import (
    label_table,
    left_out_sentence,
    plain_table,
    rows_sentence,
    shift_table,
    validation_table,
)
from tdrop.report.parts import Part, Section, drawing, found
from tdrop.report.sentences import (
    choice_sentence,
    matching_sentences,
    shift_notes,
    shift_sentence,
)
from tdrop.report.text import count, feature_titles, method_label, moment, share, value_names
from tdrop.report.tripod import tripod_table
from tdrop.report.unlabelled import unlabelled_sentences
from tdrop.report.who import who_table
from tdrop.served import FEWEST, drawable
from tdrop.shift import Matching, Shift


def report_sections(data: ReportData) -> list[Section]:
    """Returns the sections of a report."""
    sections = [
        results.methods_section(data),
        results.ranking_section(data),
        results.calibration_section(data),
        _referrals(data),
        results.benefit_section(data),
        _who(data),
        _choice(data),
        _unlabelled(data),
    ]
    sections += shift_sections(data.shift, data.matching, data.validation, data.contract, data.left_out)
    sections += [_batches(data), attrition_section(data), _uncertainty(data), _making(data), _tripod(data)]
    return [section for section in sections if section.parts or section.sentences]


def _referrals(data: ReportData) -> Section:
    decision = data.site.decision
    summary = data.predictions[data.method][0]
    parts = drawing(
        figures.draw_risk_histogram(summary, data.referrals.referred, decision.risk_level, data.hide_below),
        f"Predicted risks of {method_label(data.method)} and who is referred (first seed, "
        f"{count(data.evaluation.patients)} patients).",
    )
    if data.labelled and data.y is not None:
        parts += drawing(
            figures.draw_risk_coverage(data.predictions, data.y, decision.threshold, method_label),
            f"Error rate at {share(decision.threshold, 0)} among patients who are not referred, as more are referred "
            f"(first seed{results.over(data)}).",
        )
    see = (results.EQUAL, results.RETAINED) if data.labelled else (results.MAIN,)
    return Section("referrals", "Risks and referrals", parts=tuple(parts), see=see)


def _who(data: ReportData) -> Section:
    return Section(
        "who",
        "Who is wrongly classed, who is referred" if data.labelled else "Who is referred, feature by feature",
        parts=tuple(found(who_table(data))),
    )


def _choice(data: ReportData) -> Section:
    sentences = [_about(data.method), choice_sentence(data.choice)]
    if data.choice.mlp_better:
        sentences.append("A plain network without intervals scores better still, but cannot say when it is unsure.")
    warnings = [f"{method_label(name)} could not be fitted: {why}" for name, why in data.failed_methods.items()]
    parts = tuple(found(settings_table(data)))
    told = tuple(filter(None, sentences))
    return Section("choice", "Why this method", told, parts, tuple(warnings), (results.CHOICE,))


def _unlabelled(data: ReportData) -> Section:
    parts: list[Part] = []
    for one in data.moved:
        caption = f"{method_label(one.method)} with this site's unlabelled patients against without (first seed)."
        parts += drawing(figures.draw_moved(one), caption)
    return Section("unlabelled", "The unlabelled patients", tuple(unlabelled_sentences(data)), tuple(parts))


def _about(method: str) -> str:
    """Says what a method is; nothing about one of another version."""
    try:
        told = describe_method(method)
    except UsageError:
        return ""
    name = method_label(method)
    return told if told.lower().startswith(name.lower()) else f"{name}: {told[:1].lower()}{told[1:]}"


def shift_sections(
    shift: Shift,
    matching: Matching | None,
    validation: Validation,
    contract: Contract | None,
    left_out: LeftOut | None = None,
) -> list[Section]:
    """Returns the sections about the extract and its patients."""
    titles = feature_titles(contract)
    # As the first screen and the table order them.
    order = list(dict.fromkeys(row.column for row in shift.by_difference))
    parts = drawing(
        figures.draw_densities(shift.features, titles, order, value_names(contract)),
        "The features that tell the sites apart most. Grey area: source. Blue line: this site.",
    )
    parts += drawing(
        figures.draw_propensity(shift.propensity),
        "How much patients of both sites look like this site's. Where the blue line has no grey behind it, the model "
        "has seen nobody like them.",
    )
    parts.append(shift_table(shift, titles))
    parts += drawing(
        figures.draw_balance(() if matching is None else matching.balance, titles),
        "How far the source is from this site, before and after picking similar patients.",
    )
    sentences = [shift_sentence(shift), *([] if matching is None else matching_sentences(matching, titles))]
    extract = validation_table(validation, "validation", "What was found in the extract")
    rows = (rows_sentence(validation), left_out_sentence(left_out, contract))
    return [
        Section("patients", "How different the patients are", tuple(filter(None, sentences)), tuple(parts)),
        Section("extract", "The extract", tuple(filter(None, rows)), (extract,) if extract.lines else ()),
    ]


def _batches(data: ReportData) -> Section:
    """How the population drifts while the model is in use; nothing before two batches were scored."""
    shown = drawable(data.batches)
    if not shown:
        return Section("batches", "")
    few = len(data.batches) - len(shown)
    counted = f"{count(len(shown))} batches of {count(sum(batch.patients for batch in shown))} patients were scored"
    left = f"; {count(few)} of fewer than {FEWEST} patients are not drawn" if few else ""
    sentences = (
        f"{counted}, the first on {moment(shown[0].when)}, the last on {moment(shown[-1].when)}{left}.",
        "A feature's panel shows how far its mean is from that of the patients the model was made for, in standard "
        "deviations. Within the grey band nobody would see a difference; a line that leaves it for good asks for a new "
        "transfer.",
    )
    drawn = figures.draw_batches(shown, feature_titles(data.contract))
    caption = "Batch by batch: risk, referrals, and the features that moved most (orange: the last batch is outside)."
    return Section("batches", "The population over time", sentences, tuple(drawing(drawn, caption)))


def _uncertainty(data: ReportData) -> Section:
    parts: list[Part] = []
    if data.labelled and data.y is not None:
        parts += drawing(
            figures.draw_interval_sweep(data.predictions, data.y, method_label),
            "Patients with the outcome whom the interval catches at a 50% risk level, against interval width, as the "
            "interval level rises; means over seeds.",
        )
    parts += drawing(
        figures.draw_dropout_rates(data.dropout_rates, method_label),
        "How often the methods with rates of their own drop a unit, source against this site (smoothed; first seed).",
    )
    return Section("uncertainty", "Uncertainty, as in the paper", parts=tuple(parts))


def _making(data: ReportData) -> Section:
    parts: list[Part] = [label_table(data.labels)] if data.labels else []
    if data.provenance is not None:
        written = {**vars(data.provenance), "created": moment(data.provenance.created)}
        parts.append(plain_table("provenance", "How this report was made", written))
    return Section("making", "How it was made", tuple(shift_notes(data.shift)), tuple(parts))


def attrition_section(data: ReportData) -> Section:
    steps = {
        "Rows read": data.validation.read,
        "Duplicates": data.validation.duplicates,
        "Set aside": data.validation.quarantined,
        "Used": data.validation.used,
        "Outcome known": data.evaluation.labelled,
    }
    svg = figures.draw_attrition(steps, frozenset({"Duplicates", "Set aside"}))
    caption = "Rows of this site from the extract to the evaluation. Grey: taken away."
    return Section("attrition", "From extract to evaluation", parts=tuple(drawing(svg, caption)))


def _tripod(data: ReportData) -> Section:
    return Section("tripod", "For a publication", parts=(tripod_table(data),))
