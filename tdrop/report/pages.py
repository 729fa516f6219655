"""Pages as one self-contained file each: no outside resource, everything escaped, a strict policy."""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from jinja2 import Environment
from markupsafe import Markup, escape

from tdrop.contracts import MEANINGS, Contract, Site, Validation
from tdrop.figures import Drawing, SiteLine, draw_site_number, draw_site_reviews
from tdrop.forecast import SITE_NUMBERS, Rehearsal, SiteNumber, TrackRecord
from tdrop.home import Status
from tdrop.metrics import METRICS, OUTCOME_KINDS, difference_name, metrics_in_view, subgroup_metrics
from tdrop.report import details, sentences
from tdrop.report.data import ReportData, SiteSummary
from tdrop.report.details import SITE_TITLES
from tdrop.report.first_page import (
    adds_nothing,
    expected_sentences,
    find_worst_group,
    forest_rows,
    report_summary,
    review_example,
    unknowns,
    weigh_worth,
)
from tdrop.report.sentences import VERDICTS, verdict_words
from tdrop.report.text import (
    feature_titles,
    number,
    read_template,
    row_interval,
    row_spread,
    row_text,
    say,
    share,
    template_environment,
)
from tdrop.shift import Matching, Shift

#: The file with the statistical details, beside report.html.
DETAILS = "details.html"
#: Numbers of a site that are shares of its patients.
_SHARES = ("error_rate", "accuracy", "coverage")


@cache
def _pages() -> Environment:
    environment = template_environment(autoescape=True)
    environment.filters.update(
        row_text=row_text, row_interval=row_interval, row_spread=row_spread,
        metric=METRICS.__getitem__, difference_name=difference_name,
        site_title=SITE_TITLES.__getitem__, site_number=_site_number,
        as_sentence=lambda text: f"{text[:1].upper()}{text[1:].removesuffix('.')}.",
        base64=lambda text: base64.b64encode(text.encode()).decode(),
        with_code=_with_code, zip=zip,
    )  # fmt: skip
    environment.globals.update(
        details=details, sentences=sentences, metrics=METRICS, outcome_kinds=OUTCOME_KINDS, meanings=MEANINGS,
        metrics_in_view=metrics_in_view, subgroup_metrics=subgroup_metrics,
        unknowns=unknowns, feature_titles=feature_titles,
    )  # fmt: skip
    return environment


def _site_number(value: float | None, name: SiteNumber) -> str:
    """Writes a number of a site: a share as a percentage."""
    return share(value, 0) if name in _SHARES else number(value, 2)


def _with_code(text: str) -> Markup:
    """Escapes a sentence and shows a command that stands in `backticks` as one."""
    return Markup(re.sub(r"`([^`]+)`", r"<code>\1</code>", str(escape(text))))


def _hash(content: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(content.encode()).digest()).decode()


def render_template(template: str, **values: Any) -> str:
    """Fills a template; style and script are allowed by their digest, figures as data, and nothing else is allowed."""
    style, script = read_template("page.css"), read_template("page.js")
    policy = (
        f"default-src 'none'; img-src data:; style-src '{_hash(style)}'; script-src '{_hash(script)}'; "
        "base-uri 'none'; form-action 'none'"
    )
    return _pages().get_template(template).render(style=Markup(style), script=Markup(script), policy=policy, **values)


def write_pages(data: ReportData, folder: Path) -> None:
    """Writes report.html, which a clinical lead reads and signs, and the statistical details beside it."""
    (folder / "report.html").write_text(render_report(data), encoding="utf-8")
    (folder / DETAILS).write_text(render_details(data), encoding="utf-8")


def render_report(data: ReportData) -> str:
    """Returns report.html of one site."""
    values = {
        "data": data,
        "site": data.site,
        "simulated": data.site.simulated,
        "summary": report_summary(data),
        "verdict": sentences.report_verdict(data),
        "verdict_word": sentences.verdict_word,
        "method_sentence": sentences.method_sentence(data),
        "forest": forest_rows(data),
        "expected": expected_sentences(data),
    }
    site_sentences = sentences.site_sentences(data)[:2]
    if data.contract.task != "binary":
        return render_template("other_report.html", **values, site_sentences=site_sentences)
    return render_template(
        "report.html",
        **values,
        site_sentences=[*sentences.odd_sources(data)[:1], *site_sentences],
        example=review_example(data),
        guessed=data.site.decision.guessed or "decision" not in data.site.model_fields_set,
        worst=find_worst_group(data),
        worth=weigh_worth(data),
        judged=any(ground.kind == "benefit" for ground in data.shift.grounds),
        useless=adds_nothing(data),
    )


def render_details(data: ReportData) -> str:
    """Returns details.html of one site: what report.html rests on, for whoever wants to check it."""
    template = "details.html" if data.contract.task == "binary" else "other_details.html"
    about_patients = {
        name: getattr(data, name)
        for name in ("shift", "matching", "validation", "contract", "left_out", "source_titles")
    }
    return render_template(template, simulated=data.site.simulated, data=data, site=data.site, **about_patients)


#: By how a run can end that leaves no current report, its word.
_HALTS = {"stopped": "Stopped", "failed": "Failed"}


@dataclass(frozen=True)
class Halt:
    """How a site's last run ended without a report.

    Attributes:
        word: Stopped or Failed.
        sentence: Why.
        ended: When (ISO 8601), or None.
        has_reason: Whether the run itself said why: the site can be asked about that.
    """

    word: str
    sentence: str
    ended: str | None = None
    has_reason: bool = True


def halt_of(status: Status | None) -> Halt | None:
    """Reads a site's status; None where its last run did not stop or fail."""
    if status is None or status.outcome not in _HALTS:
        return None
    reason = status.reason
    sentence = f"{reason[:1].upper()}{reason[1:]}." if reason else status.sentence or "No reason was written down."
    return Halt(_HALTS[status.outcome], sentence, status.ended, bool(reason))


def render_halt(halt: Halt, summary: SiteSummary, earlier: str = "", letter: str = "") -> str:
    """Returns the page of a site whose last run was stopped or failed.

    Args:
        halt: How it ended.
        summary: Of the report before; only the site's names where it never had one.
        earlier: Address of that report, or empty.
        letter: What the site is asked, as it may be mailed, where its extract was refused.
    """
    letter = letter if halt.has_reason else ""
    values = {"halt": halt, "summary": summary, "earlier": earlier, "letter": letter}
    return render_template("halted.html", simulated=summary.simulated, **values)


@dataclass(frozen=True)
class IndexLine:
    """One site's line of the index.

    Attributes:
        summary: Of its last report; only its names where it never had one.
        link: Address of its report, or of the page that says why there is none.
        halt: How its last run ended without a report, or None.
        watch: How the watch of its champion stands: quiet, caution, alarm or altered; empty without one.
        watch_link: Address of the watch's page; empty where there is none yet.
    """

    summary: SiteSummary
    link: str
    halt: Halt | None = None
    watch: str = ""
    watch_link: str = ""

    @property
    def words(self) -> dict[str, str]:
        """The word, the style and the sentence of the verdict; a halt's where there is one."""
        if self.halt is None:
            return verdict_words(self.summary.verdict)
        return {"word": self.halt.word, "style": "stop", "sentence": self.halt.sentence}

    @property
    def rank(self) -> int:
        """The verdict's place from go to stop, which is how a reader sorts verdicts; a halt comes last."""
        order = list(VERDICTS)
        if self.halt is not None:
            return len(order) + 1
        return order.index(self.summary.verdict) if self.summary.verdict in order else len(order)


def _site_line(line: IndexLine) -> SiteLine:
    summary = line.summary
    expected = (summary.forecast or {}).get("auroc")
    interval = None
    if expected and expected.value is not None and expected.low is not None and expected.high is not None:
        interval = (expected.value, expected.low, expected.high)
    review = None
    if isinstance(summary.referred, int) and isinstance(summary.patients, int) and summary.patients:
        review = summary.referred / summary.patients
    return SiteLine(f"{summary.title}: {line.words['word'].lower()}", interval, summary.auroc, review)


def render_index(
    lines: Sequence[IndexLine], track: TrackRecord | None = None, rehearsals: Mapping[str, str] | None = None
) -> str:
    """Returns index.html across sites.

    Args:
        lines: One per site.
        track: How often sealed forecasts held, over all sites.
        rehearsals: By table that was rehearsed, what that showed.
    """
    drawn = [_site_line(line) for line in lines if line.summary.created is not None]
    return render_template(
        "index.html",
        entries=lines,
        ranking=draw_site_number(drawn, "ranking", "Ranking: AUROC", 0.5),
        reviews=draw_site_reviews(drawn),
        track=say("track", track=track) if track is not None and track.sealed else "",
        rehearsals=rehearsals or {},
        simulated=any(line.summary.simulated for line in lines),
    )


def render_rehearsal(rehearsal: Rehearsal) -> str:
    """Returns the page of a rehearsal: what was promised and what was seen at every labelled site."""
    numbers = [name for name in SITE_NUMBERS if name in rehearsal.kind.site_numbers]
    drawn = [name for name in numbers if name not in ("error_rate", "net_benefit")]
    columns = [name for name in numbers[1:] if name not in ("net_benefit", "slope")]
    return render_template(
        "rehearsal.html",
        rehearsal=rehearsal,
        simulated=rehearsal.simulated,
        drawings={name: _draw_rehearsed(rehearsal, name) for name in drawn},
        columns=columns,
    )


#: What a number is compared with in a figure: guessing, or being right on average.
_COMPARED: Mapping[SiteNumber, float] = {"auroc": 0.5, "observed_expected": 1.0, "slope": 1.0, "coverage": 0.95}


def _draw_rehearsed(rehearsal: Rehearsal, number: SiteNumber) -> Drawing | None:
    """Draws one number of every site that played, and of the next one; the first number with its forecasts."""
    lines = []
    for site in rehearsal.sites:
        forecast = (site.expected, site.low, site.high) if number == rehearsal.kind.headline else (None,) * 3
        value, low, high = forecast
        expected = None if value is None or low is None or high is None else (value, low, high)
        if getattr(site.seen, number) is not None:
            lines.append(SiteLine(site.title, expected, site.seen.value(number), observed_ends=site.seen.ends(number)))
    if (following := rehearsal.next_site().get(number)) is not None:
        lines.append(SiteLine("The next site", (following.mean, following.low, following.high)))
    return draw_site_number(lines, f"rehearsed_{number}", SITE_TITLES[number], _COMPARED.get(number))


def render_shift_page(
    site: Site,
    source_title: str,
    shift: Shift,
    matching: Matching | None,
    validation: Validation,
    contract: Contract | None = None,
    source_titles: Mapping[str, str] | None = None,
) -> str:
    """Returns the page of `tdrop shift`: how different a site's patients are, before any training.

    Args:
        site: The target site.
        source_title: Its source's name for people.
        shift: How different the patients are.
        matching: The source rows that look like the target, or None.
        validation: What was found in the extract.
        contract: Their table; with it features have names for people.
        source_titles: Of several sources, their names for people.
    """
    return render_template(
        "shift.html",
        site=site,
        simulated=site.simulated,
        source_title=source_title,
        verdict=verdict_words(shift.verdict, shift.grounds),
        shift=shift,
        matching=matching,
        validation=validation,
        contract=contract,
        left_out=None,
        source_titles=source_titles or {},
    )
