"""Two documents for a governance board, per champion: its model card, and the change plan sealed at its promotion.

Every field is a fact of the run with the record behind it, or is marked for the site to fill in; nothing is made up.
The plan has the three parts of the FDA's predetermined change control plans: modifications, protocol, impact.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from tdrop.base import Count, Task, counted, written
from tdrop.contracts import Site
from tdrop.evaluate import ALL, Row
from tdrop.metrics import METRICS, OUTCOME_KINDS
from tdrop.report.data import ReportData
from tdrop.report.first_page import find_worst_group
from tdrop.report.pages import render_template
from tdrop.report.sentences import method_title
from tdrop.report.summary import report_summary, unknowns
from tdrop.report.text import moment, number
from tdrop.report.watch import WatchSummary
from tdrop.served import Promotion
from tdrop.watch import (
    ALPHA,
    CAUTION_LINE,
    LINE,
    STOP_LINE,
    TOLERATED_PLACE,
    TOLERATED_SHARE,
    WATCHED_KINDS,
    WatchState,
)

#: Stands where only the site can know.
TO_FILL, TO_WRITE = "to be filled by the site", "to be written by the site"
#: tdrop trains no candidate unasked for fewer new patients than this.
FEWEST_TO_RETRAIN = 100


@dataclass(frozen=True)
class Fact:
    """One field.

    Attributes:
        name: Its name.
        value: In words, or that the site fills it in.
        record: The file or record behind it; empty where the site fills it in.
        numbers: The numbers behind the words.
    """

    name: str
    value: str
    record: str = ""
    numbers: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class Section:
    """Some fields under a heading."""

    title: str
    facts: tuple[Fact, ...]


@dataclass(frozen=True)
class Document:
    """A model card or a change plan.

    Attributes:
        kind: "Model card" or "Change plan".
        site: Name of the site.
        title: The site's name for people.
        version: Of the model.
        promoted: When a person promoted it.
        sections: Its contents.
        simulated: No patient is real.
        foreseen: Of a plan, the modifications that may be made without a new plan, by name.
    """

    kind: str
    site: str
    title: str
    version: str
    promoted: str
    sections: tuple[Section, ...]
    simulated: bool = False
    foreseen: tuple[str, ...] = ()


def render_document(document: Document) -> str:
    """Returns a card or a plan as a page."""
    blanks = (TO_FILL, TO_WRITE)
    return render_template("governance.html", simulated=document.simulated, document=document, blanks=blanks)


def make_card(data: ReportData, promotion: Promotion, lineage: Mapping[str, str]) -> Document:
    """Returns the model card of a champion without how its watch stands, from the report that it was promoted by.

    Args:
        data: Of that report; after disclosure where the card may leave.
        promotion: Who promoted it.
        lineage: What else is known of where the model comes from, by name.
    """
    sections = (
        Section("Intended use", tuple(_use(data, promotion))),
        Section("Patients it was made for", tuple(_patients(data))),
        Section("Sources", tuple(_sources(data))),
        Section("Method", tuple(_method(data))),
        Section("Performance, with 95% intervals", tuple(_performance(data))),
        Section("Worst subgroup", (_worst(data),)),
        Section("Limits", tuple(Fact("limit", sentence, "report.html") for sentence in unknowns(data))),
        Section("Warnings", tuple(_warnings(data))),
        Section("Versions and lineage", tuple(_lineage(data, promotion, lineage))),
    )
    return _document("Model card", data.site, promotion, sections)


def _document(
    kind: str, site: Site, promotion: Promotion, sections: Sequence[Section], foreseen: Sequence[str] = ()
) -> Document:
    about = (site.name, site.title, promotion.version, promotion.when)
    return Document(kind, *about, tuple(sections), site.simulated, tuple(foreseen))


def with_watch(card: Document, summary: WatchSummary | None) -> Document:
    """Returns a card with how the watch of its champion stands; that part is written anew each time."""
    facts: tuple[Fact, ...] = (Fact("watch", "not begun"),)
    if summary is not None:
        rests = f"{counted(summary.patients, 'new patient')} and {counted(summary.outcomes, 'known outcome')}"
        facts = (
            Fact("state", f"{summary.stand} after {rests}", "watch.json", _counts(patients=summary.patients)),
            *(Fact(rule.question, f"{rule.stand}. {rule.sentence}", "watch.json") for rule in summary.rules),
            *(Fact("what to do", sentence, "watch.json") for sentence in summary.advice),
        )
    watch = Section("Watch", facts)
    return replace(card, sections=(*card.sections[:-1], watch, card.sections[-1]))


def _counts(**counts: Count | None) -> dict[str, float]:
    """Counts that are shown, by name."""
    return {name: count for name, count in counts.items() if isinstance(count, int)}


def _use(data: ReportData, promotion: Promotion) -> Iterator[Fact]:
    contract = data.contract
    yield Fact("predicts", contract.outcome.title, f"tables/{contract.name}.yaml")
    if contract.task == "binary":
        level = data.site.decision.risk_level
        yield Fact("the site acts from a risk of", f"{level:.0%}", f"sites/{data.site.name}.yaml", {"level": level})
    tolerance = data.evaluation.decision.get("tolerance")
    if tolerance is not None:
        yield Fact("an error is a prediction off by more than", f"{tolerance:g}", "evaluation.json")
    yield Fact("approved for", promotion.note, "promotion in MLflow")
    for name in ("which decision it supports", "who uses it, and for whom not"):
        yield Fact(name, TO_FILL)


def _patients(data: ReportData) -> Iterator[Fact]:
    evaluation, validation = data.evaluation, data.validation
    marks = (("simulated", data.site.simulated), ("public", data.site.public))
    kinds = [word for word, true in marks if true and word not in data.site.title]
    yield Fact("site", f"{data.site.title}{f' ({kinds[0]})' if kinds else ''}", f"sites/{data.site.name}.yaml")
    numbers = _counts(n=evaluation.patients)
    yield Fact("patients", written(evaluation.patients or 0), "evaluation.json", numbers)
    known = written(evaluation.labelled or 0)
    if data.contract.task == "binary":
        known += f", of whom {written(evaluation.outcomes or 0)} had the outcome"
    yield Fact("with a known outcome", known, "evaluation.json", _counts(n=evaluation.labelled))
    aside = f"{written(validation.quarantined)} set aside, {written(validation.duplicates)} duplicates"
    yield Fact("rows not used", aside, "validation.json", _counts(n=validation.quarantined))
    yield Fact("period, and how patients were selected", TO_FILL)


def _sources(data: ReportData) -> Iterator[Fact]:
    yield Fact("learned from", data.source_title, f"sites/{data.site.name}.yaml")
    used = data.source_validation.used
    yield Fact("rows used", written(used), "validation.json of the source", _counts(n=used))
    yield Fact("period, and how outcomes were ascertained", TO_FILL)


def _method(data: ReportData) -> Iterator[Fact]:
    yield Fact("method", method_title(data.choice), "choice.json")
    criterion = data.choice.criterion.replace("_", " ")
    loss = OUTCOME_KINDS[data.contract.task].loss
    yield Fact("chosen by", f"{criterion} {loss}, without an outcome of the site", "choice.json")
    settings = {} if data.provenance is None else data.provenance.settings
    for name in ("trials", "seeds", "passes"):
        if name in settings:
            yield Fact(name, str(settings[name]), "run.json", {"setting": float(settings[name])})


def _performance(data: ReportData) -> Iterator[Fact]:
    kind = OUTCOME_KINDS[data.contract.task]
    expected = (report_summary(data).forecast or {}).get(kind.headline)
    if expected is not None and expected.value is not None:
        ends = {"low": expected.low, "high": expected.high}
        words = f"{expected.value:.2f} ({expected.low} to {expected.high}), before any outcome was known"
        numbers = {"value": expected.value, **{name: end for name, end in ends.items() if end is not None}}
        yield Fact(f"{kind.headline_title} forecast", words, "forecast.json", numbers)
    rows = [data.evaluation.row(data.method, name, group=ALL) for name in kind.first_page]
    measured = [fact for row in rows if row is not None and (fact := _measured(row)) is not None]
    yield from measured
    if not measured:
        yield Fact("at the site", "no outcome of the site is known: nothing was measured here", "evaluation.json")


def _measured(row: Row) -> Fact | None:
    if row.value is None:
        return None
    ends = {"low": row.low, "high": row.high, "n": row.n}
    interval = "" if row.low is None or row.high is None else f" ({number(row.low)} to {number(row.high)})"
    of = "" if row.n is None else f", {row.n:,} patients"
    numbers = {"value": row.value, **{name: float(end) for name, end in ends.items() if end is not None}}
    return Fact(METRICS[row.metric].title, f"{number(row.value)}{interval}{of}", "evaluation.json", numbers)


def _worst(data: ReportData) -> Fact:
    worst = find_worst_group(data)
    if worst is None:
        why = "no subgroup does worse than all patients" if data.labelled else "no outcome of the site is known"
        return Fact("worst subgroup", why, "evaluation.json")
    wrong = "predicted with an error" if data.contract.task == "regression" else "misclassified"
    words = f"{worst.error_rate:.1%} of these patients are {wrong}, {worst.overall:.1%} of all"
    return Fact(worst.name, words, "evaluation.json", {"value": worst.error_rate, "overall": worst.overall})


def _warnings(data: ReportData) -> Iterator[Fact]:
    summary = report_summary(data)
    yield Fact("verdict", f"{summary.verdict}. {summary.reason}", "shift.json")
    for thing in summary.things:
        yield Fact("what to know", thing, "report.html")


def _lineage(data: ReportData, promotion: Promotion, lineage: Mapping[str, str]) -> Iterator[Fact]:
    yield Fact("version", promotion.version, "MLflow")
    yield Fact("promoted", f"by {promotion.by}, {moment(promotion.when)}", "promotion in MLflow")
    for name, value in lineage.items():
        yield Fact(name, value, "MLflow")
    if data.provenance is not None:
        yield Fact("report made", moment(data.provenance.created), "summary.json")
        yield Fact("contract", data.provenance.contract, f"tables/{data.contract.name}.yaml")
        versions = ", ".join(f"{name} {number}" for name, number in data.provenance.versions.items())
        yield Fact("packages", versions, "run.json")


def make_plan(data: ReportData, promotion: Promotion, state: WatchState) -> Document:
    """Returns the change plan of a champion: what may change, by which rule, and what that means.

    Args:
        data: Of the report that it was promoted by.
        promotion: Who promoted it.
        state: Its watch, just begun.
    """
    proposes = data.site.batches is not None and data.site.batches.retrain == "propose"
    sections = (
        Section("1. Modifications foreseen", tuple(_modifications(data.contract.task, proposes))),
        Section("2. Protocol", tuple(_protocol(data, state))),
        Section("3. Impact", tuple(_impact(data))),
        Section("Approval", tuple(_approval(promotion))),
    )
    foreseen = ("recalibrate", "retrain", "roll back", *(("propose",) if proposes else ()))
    return _document("Change plan", data.site, promotion, sections, foreseen)


def _modifications(task: Task, proposes: bool) -> Iterator[Fact]:
    record, kind = "tdrop watch", WATCHED_KINDS[task]
    why = f"when known outcomes contradict the {kind.predictions}"
    why += f" and the {kind.quality} is as forecast" if kind.quality else ""
    yield Fact(f"recalibrate the {kind.predictions}", why, record)
    how = (
        f"tdrop trains a candidate once {FEWEST_TO_RETRAIN} new patients came"
        if proposes
        else "by hand, with `tdrop transfer`"
    )
    why = "when new patients are further from the source than those the model was made for"
    yield Fact("train again for the new patients", f"{why}; {how}", record)
    if kind.quality:
        yield Fact("go back or withdraw", f"when the {kind.quality} is below the forecast", record)
    expected, level = ("loss", "another decision level, ") if task == "binary" else ("error", "")
    why = f"when more are for review, or the expected {expected} is higher"
    yield Fact("review patients, look up outcomes", why, record)
    yield Fact("never without a new plan", f"other features, another outcome, {level}another source", record)
    yield Fact("other modifications", TO_WRITE)


def _protocol(data: ReportData, state: WatchState) -> Iterator[Fact]:
    record, share = "watch.json", f"{ALPHA:.0%} of models over their whole life"
    yield Fact(
        "false alarms of each rule", f"in at most {share}, however often somebody looks", record, {"share": ALPHA}
    )
    if state.further is not None:
        words = (
            f"new patients are further from the source than {state.further.limit:.0%} of those the model was made for"
        )
        words += f", on average ({0.5 + TOLERATED_PLACE:.0%} and a margin for chance); alarm at evidence of {LINE:g}"
        yield Fact("1 further", words, record, {"line": LINE})
    if state.review is not None and state.loss is not None:
        words = f"more than {TOLERATED_SHARE:.0%} above those the model was made for, with a margin for chance"
        expected = "loss" if state.task == "binary" else "error"
        yield Fact(
            "2 harm", f"share for review, or expected {expected}, {words}; alarm at {LINE:g}", record, {"line": LINE}
        )
    kind = WATCHED_KINDS[state.task]
    words = f"{kind.predictions} off by more than {kind.tolerated:g} of log odds; caution at {CAUTION_LINE:g}, alarm "
    words += f"at {STOP_LINE:g}"
    yield Fact("3 outcomes", words, record, {"caution": CAUTION_LINE, "line": STOP_LINE})
    if state.forecast_low is not None:
        low = round(state.forecast_low, 2)
        yield Fact(
            "3 ranking", f"{kind.quality} below {low:.2f}, the forecast's lower end", "forecast.json", {"low": low}
        )
    contract = f"{data.contract.name} {data.contract.version}"
    yield Fact("data of a modification", f"checked against contract {contract}, like every extract", "contract")
    yield Fact("evaluation of a modification", "its own report; a verdict of stop makes no candidate", "report.html")
    yield Fact(
        "putting it to use", "a named person promotes it; nothing else changes what patients get", "tdrop promote"
    )
    yield Fact("how often outcomes are looked up", TO_WRITE)


def _impact(data: ReportData) -> Iterator[Fact]:
    headline = OUTCOME_KINDS[data.contract.task]
    names = (headline.headline_title.lower(), METRICS[headline.headline].title.lower())
    yield from (fact for fact in _performance(data) if fact.name.lower().startswith(names))
    yield _worst(data)
    yield Fact("verdict of the report", report_summary(data).use, "report.html")
    for name in (
        "harm of a prediction that is too low, or too high",
        "care while the model is out of use",
        "who is informed",
    ):
        yield Fact(name, TO_WRITE)


def _approval(promotion: Promotion) -> Iterator[Fact]:
    yield Fact("approved by", promotion.by, "promotion in MLflow")
    yield Fact("note", promotion.note, "promotion in MLflow")
    yield Fact("when", moment(promotion.when), "promotion in MLflow")
    yield Fact("who approves modifications", TO_WRITE)
