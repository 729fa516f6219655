"""Two documents for a governance board, per champion: its model card, and the change plan sealed at its promotion.

Every field is a fact of the run with the record behind it, or is marked for the site to fill in; nothing is made up.
The plan has the three parts of the FDA's predetermined change control plans: modifications, protocol, impact.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from tdrop.base import Amount, Task, counted, written
from tdrop.contracts import Site
from tdrop.evaluate import ALL
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


def _fact(name: str, value: str, record: str = "", /, **numbers: Amount | None) -> Fact:
    """One field, with those of its numbers that are shown."""
    return Fact(name, value, record, {key: part for key, part in numbers.items() if isinstance(part, int | float)})


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
        Section("Limits", tuple(_fact("limit", sentence, "report.html") for sentence in unknowns(data))),
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
    facts = [_fact("watch", "not begun")]
    if summary is not None:
        rests = f"{counted(summary.patients, 'new patient')} and {counted(summary.outcomes, 'known outcome')}"
        facts = [_fact("state", f"{summary.stand} after {rests}", "watch.json", patients=summary.patients)]
        facts += [_fact(rule.question, f"{rule.stand}. {rule.sentence}", "watch.json") for rule in summary.rules]
        facts += [_fact("what to do", sentence, "watch.json") for sentence in summary.advice]
    watch = Section("Watch", tuple(facts))
    return replace(card, sections=(*card.sections[:-1], watch, card.sections[-1]))


def _use(data: ReportData, promotion: Promotion) -> Iterator[Fact]:
    contract, tolerance = data.contract, data.evaluation.decision.get("tolerance")
    yield _fact("predicts", contract.outcome.title, f"tables/{contract.name}.yaml")
    if contract.task == "binary":
        level = data.site.decision.risk_level
        yield _fact("the site acts from a risk of", f"{level:.0%}", f"sites/{data.site.name}.yaml", level=level)
    if tolerance is not None:
        yield _fact("an error is a prediction off by more than", f"{tolerance:g}", "evaluation.json")
    yield _fact("approved for", promotion.note, "promotion in MLflow")
    yield _fact("which decision it supports", TO_FILL)
    yield _fact("who uses it, and for whom not", TO_FILL)


def _patients(data: ReportData) -> Iterator[Fact]:
    evaluation, validation, title = data.evaluation, data.validation, data.site.title
    marks = (("simulated", data.site.simulated), ("public", data.site.public))
    kinds = [word for word, true in marks if true and word not in title]
    yield _fact("site", f"{title} ({kinds[0]})" if kinds else title, f"sites/{data.site.name}.yaml")
    yield _fact("patients", written(evaluation.patients or 0), "evaluation.json", n=evaluation.patients)
    known = written(evaluation.labelled or 0)
    if data.contract.task == "binary":
        known += f", of whom {written(evaluation.outcomes or 0)} had the outcome"
    yield _fact("with a known outcome", known, "evaluation.json", n=evaluation.labelled)
    aside = f"{written(validation.quarantined)} set aside, {written(validation.duplicates)} duplicates"
    yield _fact("rows not used", aside, "validation.json", n=validation.quarantined)
    yield _fact("period, and how patients were selected", TO_FILL)


def _sources(data: ReportData) -> Iterator[Fact]:
    used = data.source_validation.used
    yield _fact("learned from", data.source_title, f"sites/{data.site.name}.yaml")
    yield _fact("rows used", written(used), "validation.json of the source", n=used)
    yield _fact("period, and how outcomes were ascertained", TO_FILL)


def _method(data: ReportData) -> Iterator[Fact]:
    criterion = data.choice.criterion.replace("_", " ")
    loss = OUTCOME_KINDS[data.contract.task].loss
    settings = {} if data.provenance is None else data.provenance.settings
    yield _fact("method", method_title(data.choice), "choice.json")
    yield _fact("chosen by", f"{criterion} {loss}, without an outcome of the site", "choice.json")
    for name in ("trials", "seeds", "passes"):
        if name in settings:
            yield _fact(name, str(settings[name]), "run.json", setting=float(settings[name]))


def _performance(data: ReportData) -> Iterator[Fact]:
    kind = OUTCOME_KINDS[data.contract.task]
    expected = (report_summary(data).forecast or {}).get(kind.headline)
    if expected is not None and expected.value is not None:
        words = f"{expected.value:.2f} ({expected.low} to {expected.high}), before any outcome was known"
        yield _fact(f"{kind.headline_title} forecast", words, "forecast.json", **vars(expected))
    rows = [data.evaluation.row(data.method, name, group=ALL) for name in kind.first_page]
    measured = [row for row in rows if row is not None and row.value is not None]
    for row in measured:
        interval = "" if row.low is None or row.high is None else f" ({number(row.low)} to {number(row.high)})"
        words = f"{number(row.value)}{interval}" + ("" if row.n is None else f", {row.n:,} patients")
        numbers = {"value": row.value, "low": row.low, "high": row.high, "n": row.n}
        yield _fact(METRICS[row.metric].title, words, "evaluation.json", **numbers)
    if not measured:
        yield _fact("at the site", "no outcome of the site is known: nothing was measured here", "evaluation.json")


def _worst(data: ReportData) -> Fact:
    worst = find_worst_group(data)
    if worst is None:
        why = "no subgroup does worse than all patients" if data.labelled else "no outcome of the site is known"
        return _fact("worst subgroup", why, "evaluation.json")
    wrong = "predicted with an error" if data.contract.task == "regression" else "misclassified"
    words = f"{worst.error_rate:.1%} of these patients are {wrong}, {worst.overall:.1%} of all"
    return _fact(worst.name, words, "evaluation.json", value=worst.error_rate, overall=worst.overall)


def _warnings(data: ReportData) -> Iterator[Fact]:
    summary = report_summary(data)
    yield _fact("verdict", f"{summary.verdict}. {summary.reason}", "shift.json")
    for thing in summary.things:
        yield _fact("what to know", thing, "report.html")


def _lineage(data: ReportData, promotion: Promotion, lineage: Mapping[str, str]) -> Iterator[Fact]:
    yield _fact("version", promotion.version, "MLflow")
    yield _fact("promoted", f"by {promotion.by}, {moment(promotion.when)}", "promotion in MLflow")
    for name, value in lineage.items():
        yield _fact(name, value, "MLflow")
    if data.provenance is not None:
        yield _fact("report made", moment(data.provenance.created), "summary.json")
        yield _fact("contract", data.provenance.contract, f"tables/{data.contract.name}.yaml")
        versions = ", ".join(f"{name} {number}" for name, number in data.provenance.versions.items())
        yield _fact("packages", versions, "run.json")


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
    yield _fact(f"recalibrate the {kind.predictions}", why, record)
    why = "when new patients are further from the source than those the model was made for"
    how = f"tdrop trains a candidate once {FEWEST_TO_RETRAIN} new patients came"
    how = how if proposes else "by hand, with `tdrop transfer`"
    yield _fact("train again for the new patients", f"{why}; {how}", record)
    if kind.quality:
        yield _fact("go back or withdraw", f"when the {kind.quality} is below the forecast", record)
    expected, level = ("loss", "another decision level, ") if task == "binary" else ("error", "")
    why = f"when more are for review, or the expected {expected} is higher"
    yield _fact("review patients, look up outcomes", why, record)
    yield _fact("never without a new plan", f"other features, another outcome, {level}another source", record)
    yield _fact("other modifications", TO_WRITE)


def _protocol(data: ReportData, state: WatchState) -> Iterator[Fact]:
    record, kind = "watch.json", WATCHED_KINDS[state.task]
    words = f"in at most {ALPHA:.0%} of models over their whole life, however often somebody looks"
    yield _fact("false alarms of each rule", words, record, share=ALPHA)
    if state.further is not None:
        limit = f"{state.further.limit:.0%} of those the model was made for, on average"
        margin = f"{0.5 + TOLERATED_PLACE:.0%} and a margin for chance"
        words = f"new patients are further from the source than {limit} ({margin}); alarm at evidence of {LINE:g}"
        yield _fact("1 further", words, record, line=LINE)
    if state.review is not None and state.loss is not None:
        expected = "loss" if state.task == "binary" else "error"
        words = f"more than {TOLERATED_SHARE:.0%} above those the model was made for, with a margin for chance"
        words = f"share for review, or expected {expected}, {words}; alarm at {LINE:g}"
        yield _fact("2 harm", words, record, line=LINE)
    words = f"{kind.predictions} off by more than {kind.tolerated:g} of log odds"
    words += f"; caution at {CAUTION_LINE:g}, alarm at {STOP_LINE:g}"
    yield _fact("3 outcomes", words, record, caution=CAUTION_LINE, line=STOP_LINE)
    if state.forecast_low is not None:
        low = round(state.forecast_low, 2)
        words = f"{kind.quality} below {low:.2f}, the forecast's lower end"
        yield _fact("3 ranking", words, "forecast.json", low=low)
    contract = f"{data.contract.name} {data.contract.version}"
    yield _fact("data of a modification", f"checked against contract {contract}, like every extract", "contract")
    yield _fact("evaluation of a modification", "its own report; a verdict of stop makes no candidate", "report.html")
    words = "a named person promotes it; nothing else changes what patients get"
    yield _fact("putting it to use", words, "tdrop promote")
    yield _fact("how often outcomes are looked up", TO_WRITE)


def _impact(data: ReportData) -> Iterator[Fact]:
    headline = OUTCOME_KINDS[data.contract.task]
    names = (headline.headline_title.lower(), METRICS[headline.headline].title.lower())
    yield from (fact for fact in _performance(data) if fact.name.lower().startswith(names))
    yield _worst(data)
    yield _fact("verdict of the report", report_summary(data).use, "report.html")
    yield _fact("harm of a prediction that is too low, or too high", TO_WRITE)
    yield _fact("care while the model is out of use", TO_WRITE)
    yield _fact("who is informed", TO_WRITE)


def _approval(promotion: Promotion) -> Iterator[Fact]:
    yield _fact("approved by", promotion.by, "promotion in MLflow")
    yield _fact("note", promotion.note, "promotion in MLflow")
    yield _fact("when", moment(promotion.when), "promotion in MLflow")
    yield _fact("who approves modifications", TO_WRITE)
