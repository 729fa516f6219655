"""The 27 items of TRIPOD+AI (Collins et al. 2024): what the run can state, and what its authors must write."""

from __future__ import annotations

from tdrop.evaluate import ALL
from tdrop.report.data import ReportData
from tdrop.report.extract import left_out_sentence, rows_sentence
from tdrop.report.tables import Cell, Table, cells
from tdrop.report.text import count, method_label, row_interval, row_text, share
from tdrop.report.words import difference_sentence, outcome_text, unknowns, verdict_words

#: Stands where the run knows nothing: it is never guessed.
TO_WRITE = "to be written by the authors"

ITEMS = (
    "Title", "Abstract", "Background", "Objectives", "Data", "Participants: eligibility and setting",
    "Data preparation", "Outcome", "Predictors", "Sample size", "Missing data", "Analytical methods",
    "Class imbalance", "Fairness", "Model output", "Training versus evaluation", "Ethical approval",
    "Open science: funding, interests, protocol, registration, data and code",
    "Patient and public involvement", "Participants: flow and characteristics", "Model development",
    "Model specification", "Model performance", "Model updating", "Interpretation", "Limitations",
    "Usability in current care",
)  # fmt: skip


def tripod_table(data: ReportData) -> Table:
    """Returns all items, each stated with its value or left to the authors."""
    told = {**_about_data(data), **_about_model(data)}
    lines = tuple(
        cells(Cell(f"{number}. {title}"), f"stated: {told[number]}" if told.get(number) else TO_WRITE)
        for number, title in enumerate(ITEMS, start=1)
    )
    note = "Values are of this run. Nothing here is a judgement of whether an item is met."
    return Table(
        "tripod", "TRIPOD+AI: what this run states", ("Item", "What is stated"), lines, note, prose=("What is stated",)
    )


def _about_data(data: ReportData) -> dict[int, str]:
    site, contract = data.site, data.contract
    kind = "; simulated, no real patients" if site.simulated else ""
    used, patients = data.source_validation.used, data.evaluation.patients
    return {
        5: f"learned at {data.source_title}, evaluated at {site.title}{kind}; from when to when: {TO_WRITE}",
        7: f"table {contract.name}, version {contract.version}. {rows_sentence(data.validation)}",
        8: f"{contract.outcome.title}{_left_early(data)}; how it was assessed: {TO_WRITE}",
        9: f"{len(contract.features)} columns: {', '.join(column.label for column in contract.features)}; how and when "
        f"they were measured: {TO_WRITE}",
        10: f"{count(used)} source patients, {count(patients)} patients here; why so many: {TO_WRITE}"
        if patients is not None
        else "",
        11: _missing_values(data),
        13: "the classes are as they came: neither resampled nor weighted",
        16: " ".join(filter(None, [verdict_words(data.verdict)["sentence"], difference_sentence(data)])),
        20: f"{rows_sentence(data.validation)} {outcome_text(data).capitalize()}. Characteristics of both sites are in "
        "“Patients of both sites, in groups” and “Feature by feature”.",
        21: _numbers_of_patients(data),
        26: " ".join(unknowns(data)),
    }


def _about_model(data: ReportData) -> dict[int, str]:
    decision = data.site.decision
    methods, seeds = data.evaluation.methods, len(data.evaluation.seeds)
    groups = list(dict.fromkeys(row.group.split(": ")[0] for row in data.evaluation.rows if row.group != ALL))
    models = None if data.provenance is None else data.provenance.digests.get("models")
    auroc = data.evaluation.row(data.method, "auroc")
    known = data.labelled and auroc is not None and auroc.value is not None
    return {
        12: f"{len(methods)} {'method' if len(methods) == 1 else 'methods'} compared over {seeds} "
        f"{'seed' if seeds == 1 else 'seeds'}, settings picked and one method chosen on source patients left out of "
        "the fit, without outcomes of this site: " + ", ".join(map(method_label, methods)),
        14: f"results by {', '.join(groups)}" if groups and data.labelled else "",
        15: f"a risk with a {share(decision.interval_level, 0)} interval; the decision level is "
        f"{share(decision.threshold, 0)}",
        22: f"{method_label(data.method)}, settings in “Settings of the winning trials”, models {models}"
        if models and data.tuning
        else "",
        23: f"AUROC {row_text(auroc)} ({row_interval(auroc) or 'no interval'}); calibration, net benefit and subgroups "
        "in “Results at this site”"
        if known
        else "",
        24: _updating(data),
        27: "rows that break the table's rules are set aside and listed; patients in doubt are referred, as “Who is "
        f"referred” has it; what users must do and know: {TO_WRITE}",
    }


def _left_early(data: ReportData) -> str:
    return "; patients who left before that are not counted" if data.contract.outcome.time else ""


def _numbers_of_patients(data: ReportData) -> str:
    """Patients and outcomes of each analysis, as far as they may be told."""
    learned = next((one for one in data.shift.grounds if one.kind == "source_outcomes"), None)
    told = f"developed on {count(data.source_validation.used)} source patients"
    if learned is not None:
        told += f", {count(learned.count)} of {count(learned.of)} with the rarer outcome"
    if data.matching is not None:
        told += f"; matched validation {count(data.matching.retained)} of them"
    labelled, outcomes = data.evaluation.labelled, data.evaluation.outcomes
    if not data.labelled or labelled is None or outcomes is None:
        return told
    return f"{told}; evaluated on {count(labelled)} patients with a known outcome, {count(outcomes)} of whom had it"


def _missing_values(data: ReportData) -> str:
    marked = [column.label for column in data.contract.features if column.missing.policy == "indicator"]
    told = "a missing value takes the source's median or commonest category"
    if marked:
        told += f", with a mark that it was missing for {', '.join(marked)} where enough source patients lack it"
    needed = [column.label for column in data.contract.features if column.missing.policy == "quarantine"]
    if needed:
        told += f"; rows without {' or '.join(needed)} are set aside"
    return f"{told}. {left_out_sentence(data.left_out, data.contract)}".strip()


def _updating(data: ReportData) -> str:
    """What known outcomes say about moving the risks; nothing before they are known."""
    found = data.recalibration
    if found is None or len(found.adjustments) < 2:
        return ""
    if found.helps is None:
        return "no recalibration to the known outcomes does better than the risks as they are"
    return (
        f"a recalibration to the known outcomes ({found.helps}) is suggested; it is applied only by `tdrop recalibrate`"
    )
