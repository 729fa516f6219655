"""Two documents for a governance board, per champion: its model card, and the change plan sealed at its promotion.

Every field is a fact of the run with the record behind it, or is marked for the site to fill in; nothing is made up.
The wording is in `templates/governance.txt`. The plan has the three parts of the FDA's predetermined change control
plans: modifications, protocol, impact.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any

from jinja2 import Template

from tdrop import watch
from tdrop.base import counted
from tdrop.evaluate import ALL
from tdrop.metrics import METRICS, OUTCOME_KINDS
from tdrop.report.data import ReportData
from tdrop.report.first_page import find_worst_group, report_summary, unknowns
from tdrop.report.pages import render_template
from tdrop.report.text import template_environment
from tdrop.report.watch import WatchSummary
from tdrop.served import Promotion
from tdrop.watch import WatchState

#: Stands where only the site can know.
TO_FILL, TO_WRITE = "to be filled by the site", "to be written by the site"
#: tdrop trains no candidate unasked for fewer new patients than this.
FEWEST_TO_RETRAIN = 100
#: Between name, value, record and numbers of a field.
_SEPARATOR = " :: "


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
    return _write("Model card", data, promotion, state=None, lineage=lineage)


def make_plan(data: ReportData, promotion: Promotion, state: WatchState) -> Document:
    """Returns the change plan of a champion: what may change, by which rule, and what that means.

    Args:
        data: Of the report that it was promoted by.
        promotion: Who promoted it.
        state: Its watch, just begun.
    """
    proposes = data.site.batches is not None and data.site.batches.retrain == "propose"
    foreseen = ("recalibrate", "retrain", "roll back", *(("propose",) if proposes else ()))
    return replace(_write("Change plan", data, promotion, state=state, proposes=proposes), foreseen=foreseen)


def _write(kind: str, data: ReportData, promotion: Promotion, **values: Any) -> Document:
    """Fills the template and reads its fields."""
    outcome = OUTCOME_KINDS[data.contract.task]
    rows = [data.evaluation.row(data.method, name, group=ALL) for name in outcome.first_page]
    text = _template().render(
        data=data,
        promotion=promotion,
        summary=report_summary(data),
        kind=outcome,
        measured=[row for row in rows if row is not None and row.value is not None],
        worst=find_worst_group(data),
        limits=unknowns(data),
        **values,
    )
    _, *parts = re.split(r"^## (.+)\n", text, flags=re.MULTILINE)
    sections = tuple(
        Section(title, tuple(_read_facts(lines))) for title, lines in zip(parts[::2], parts[1::2], strict=True)
    )
    site = data.site
    return Document(kind, site.name, site.title, promotion.version, promotion.when, sections, site.simulated)


@cache
def _template() -> Template:
    environment = template_environment(autoescape=False)
    # Whatever a person wrote stays one value on one line.
    environment.finalize = lambda value: " ".join(str(value).split()).replace("::", ":")
    environment.globals.update(
        rules=watch, metrics=METRICS, to_fill=TO_FILL, to_write=TO_WRITE, fewest_to_retrain=FEWEST_TO_RETRAIN
    )
    return environment.get_template("governance.txt")


def _read_facts(lines: str) -> Iterator[Fact]:
    """Reads the fields of a section, each with those of its numbers that are shown."""
    for line in filter(None, lines.splitlines()):
        name, value, record, numbers = (*line.split(_SEPARATOR), "", "")[:4]
        shown = re.findall(r"(\w+)=(-?\d\S*)", numbers)
        yield Fact(name, value, record, {key: float(number) for key, number in shown})


def with_watch(card: Document, summary: WatchSummary | None) -> Document:
    """Returns a card with how the watch of its champion stands; that part is written anew each time."""
    facts = [Fact("watch", "not begun")]
    if summary is not None:
        rests = f"{counted(summary.patients, 'new patient')} and {counted(summary.outcomes, 'known outcome')}"
        numbers = {"patients": float(summary.patients)} if isinstance(summary.patients, int) else {}
        facts = [Fact("state", f"{summary.stand} after {rests}", "watch.json", numbers)]
        facts += [Fact(rule.question, f"{rule.stand}. {rule.sentence}", "watch.json") for rule in summary.rules]
        facts += [Fact("what to do", sentence, "watch.json") for sentence in summary.advice]
    watch = Section("Watch", tuple(facts))
    return replace(card, sections=(*card.sections[:-1], watch, card.sections[-1]))
