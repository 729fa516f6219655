"""The parts of a page after its first screen: a heading, sentences, tables and figures each."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from markupsafe import Markup

from tdrop import figures
from tdrop.evaluate.statistics import referred_by_capacity, referred_by_level
from tdrop.report import tables
from tdrop.report.data import ReportData
from tdrop.report.tables import Table
from tdrop.report.text import count, method_label, share


@dataclass(frozen=True)
class Drawing:
    """A figure with its caption."""

    svg: Markup
    caption: str


@dataclass(frozen=True)
class Section:
    """One part of a page."""

    name: str
    title: str
    sentences: tuple[str, ...] = ()
    parts: tuple[Table | Drawing, ...] = ()
    warnings: tuple[str, ...] = ()


def drawing(svg: str | None, caption: str) -> list[Drawing]:
    """Wraps a figure; nothing where nothing was drawn."""
    # The figures module escapes every text that it puts into an SVG.
    return [] if svg is None else [Drawing(Markup(svg), caption)]


def report_sections(data: ReportData) -> list[Section]:
    """Returns the sections of a report."""
    sections = [_results(data), _referrals(data)]
    if data.labelled:
        sections.append(_calibration(data))
    sections += [_subgroups(data), _choice(data)]
    sections += shift_sections(data.shift, data.matching, data.validation, feature_titles(data))
    sections.append(_making(data))
    return [section for section in sections if section.parts or section.sentences]


def feature_titles(data: ReportData) -> dict[str, str]:
    """Returns names for people of encoded features, by what the contract calls their columns."""
    titles = {}
    columns = {column.name: column for column in data.contract.features}
    for row in data.shift.get("features", ()):
        column = columns.get(row["column"])
        if column is None:
            continue
        feature = str(row["feature"])
        level = feature.partition("=")[2]
        titles[feature] = column.label
        if level:
            titles[feature] = f"{column.label}: {column.category_titles.get(level, level)}"
        elif feature.endswith("_missing"):
            titles[feature] = f"{column.label} missing"
        elif column.transform == "log":
            titles[feature] = f"{column.label} (log)"
    return titles


def _results(data: ReportData) -> Section:
    parts: list[Table | Drawing] = [tables.main_table(data)]
    if data.labelled:
        names = ("auroc", "error_auroc_sd", "error_auroc_risk")
        svg = figures.draw_metric(data.evaluation, names, method_label, data.method, "aurocs")
        parts += drawing(svg, "Ranking of patients and of errors, by method. The same scale for all.")
        difference = tables.difference_table(data)
        parts += [difference] if difference else []
    return Section("results", "Results at this site", parts=tuple(parts), warnings=tuple(data.evaluation.warnings))


def _referrals(data: ReportData) -> Section:
    decision = data.site.decision
    summary = data.predictions[data.method][0]
    referred = referred_by_level(summary, decision) | referred_by_capacity(summary, decision)
    parts = drawing(
        figures.draw_risk_histogram(summary, referred, decision.risk_level, data.hide_below),
        f"Predicted risks of {method_label(data.method)} (first seed) and who is referred.",
    )
    collected: list[Table | Drawing] = list(parts)
    if data.labelled and data.y is not None:
        collected += [tables.equal_table(data), tables.retained_table(data)]
        collected += drawing(
            figures.draw_risk_coverage(data.predictions, data.y, decision.threshold, method_label, data.hide_below),
            "Error rate among patients who are not referred, as more are referred (first seed).",
        )
        collected.append(tables.benefit_table(data))
        collected += drawing(
            figures.draw_interval_sweep(data.predictions, data.y, method_label, data.hide_below),
            "Patients with the outcome whom the interval catches at a 50% risk level, against interval width.",
        )
    sentences = (
        f"A patient is referred when the risk is below {share(decision.risk_level, 0)} but the "
        f"{share(decision.interval_level, 0)} interval reaches it, or when the prediction is among the "
        f"{share(decision.capacity, 0)} most likely to be wrong.",
    )
    return Section("referrals", "Who is referred", sentences, tuple(collected))


def _calibration(data: ReportData) -> Section:
    parts: list[Table | Drawing] = [tables.score_table(data)]
    if data.y is not None:
        parts += drawing(
            figures.draw_calibration(data.predictions, data.y, method_label, data.hide_below),
            "Observed share against predicted risk in ten groups of patients, by method (first seed).",
        )
    return Section("calibration", "Are the risks right?", parts=tuple(parts))


def _subgroups(data: ReportData) -> Section:
    table = tables.subgroup_table(data)
    return Section("subgroups", "Subgroups", parts=(table,) if table else ())


def _choice(data: ReportData) -> Section:
    sentences = [str(data.choice.get("reason", ""))]
    if data.choice.get("mlp_better"):
        sentences.append("A plain network without intervals scores better still, but cannot say when it is unsure.")
    sentences += [f"{method_label(name)} could not be fitted: {why}" for name, why in data.failed_methods.items()]
    return Section("choice", "Why this method", tuple(filter(None, sentences)), (tables.choice_table(data),))


def shift_sections(
    shift: Mapping[str, Any], matching: Mapping[str, Any], validation: Mapping[str, Any], titles: Mapping[str, str]
) -> list[Section]:
    """Returns the sections about the extract and its patients."""
    order = [driver["column"] for driver in shift.get("drivers", ())]
    parts: list[Table | Drawing] = []
    parts += drawing(
        figures.draw_densities(shift.get("features", ()), titles, order),
        "The features that tell the sites apart most. Grey: source. Blue line: this site.",
    )
    parts.append(tables.shift_table(shift, titles))
    parts += drawing(
        figures.draw_balance(matching.get("balance", ()), titles),
        "How far the source is from this site, before and after picking similar patients.",
    )
    sentences = [_sentence(str(shift.get("reason", ""))), *map(_sentence, map(str, shift.get("notes", ())))]
    if matching:
        sentences.append(
            f"{count(matching.get('retained'))} source patients were picked to look like this site's; methods are "
            "tuned on them and on nothing else."
        )
        sentences += [_sentence(str(matching["fallback"]))] if matching.get("fallback") else []
    extract = tables.validation_table(validation, "validation", "What was found in the extract")
    return [
        Section("patients", "How different the patients are", tuple(filter(None, sentences)), tuple(parts)),
        Section("extract", "The extract", (extract.note,), (extract,) if extract.lines else ()),
    ]


def _sentence(words: str) -> str:
    return words[:1].upper() + words[1:]


def _making(data: ReportData) -> Section:
    parts = [tables.plain_table("provenance", "How this report was made", data.provenance)] if data.provenance else []
    if data.labels:
        parts.insert(0, tables.plain_table("labels", "The label file", data.labels))
    return Section("making", "How it was made", parts=tuple(parts))
