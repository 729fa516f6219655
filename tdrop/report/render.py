"""Pages as one self-contained file each: no outside resource, everything escaped, a strict policy."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from tdrop.contracts import Contract, Site, Validation
from tdrop.forecast import TrackRecord
from tdrop.report import text, words
from tdrop.report.data import ReportData
from tdrop.report.expected import expectations, forecast_sentence, track_sentence
from tdrop.report.halted import Halt
from tdrop.report.reasons import method_sentence
from tdrop.report.sections import report_sections, shift_sections
from tdrop.report.sentences import referral_reasons, referral_sentence
from tdrop.report.site_summary import SiteSummary
from tdrop.report.summary import report_summary
from tdrop.shift import Matching, Shift


@cache
def _environment() -> Environment:
    environment = Environment(
        loader=PackageLoader("tdrop.report"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters.update(count=text.count, share=text.share, number=text.number, moment=text.moment)
    return environment


def _asset(name: str) -> str:
    return files("tdrop.report").joinpath("templates", name).read_text(encoding="utf-8")


def _hash(content: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(content.encode()).digest()).decode()


def _render(template: str, **values: Any) -> str:
    """Fills a template; style and script are allowed by their digest and nothing else is allowed."""
    style, script = _asset("page.css"), _asset("sort.js")
    policy = (
        f"default-src 'none'; style-src '{_hash(style)}'; script-src '{_hash(script)}'; "
        "base-uri 'none'; form-action 'none'"
    )
    page = _environment().get_template(template)
    return page.render(style=Markup(style), script=Markup(script), policy=policy, **values)


def render_report(data: ReportData) -> str:
    """Returns report.html of one site."""
    summary, counts = report_summary(data), words.referral_counts(data)
    return _render(
        "report.html",
        data=data,
        site=data.site,
        summary=summary,
        verdict=words.verdict_words(data.verdict, data.shift.grounds),
        use=words.use_sentence(data),
        approval=words.approval_sentence(data),
        method_sentence=method_sentence(data),
        outcome_text=words.outcome_text(data),
        referred=words.referred_text(data),
        referred_share=words.referred_share(data),
        expectations=expectations(data),
        forecast_sentence=forecast_sentence(data),
        things=words.things_to_know(data),
        changes=words.changes(data, summary),
        unknowns=words.unknowns(data),
        referred_sentence=referral_sentence(counts),
        reasons=referral_reasons(counts, data.site.decision),
        sections=report_sections(data),
    )


@dataclass(frozen=True)
class IndexLine:
    """One site's line of the index.

    Attributes:
        summary: Of its last report; only its names where it never had one.
        link: Address of its report, or of the page that says why there is none.
        halt: How its last run ended without a report, or None.
    """

    summary: SiteSummary
    link: str
    halt: Halt | None = None

    @property
    def words(self) -> dict[str, str]:
        """The word, the style and the sentence of the verdict; a halt's where there is one."""
        if self.halt is None:
            return words.verdict_words(self.summary.verdict)
        return {"word": self.halt.word, "style": "stop", "sentence": self.halt.sentence}

    @property
    def rank(self) -> int:
        """The verdict's place from go to stop, which is how a reader sorts verdicts; a halt comes last."""
        order = list(words.VERDICTS)
        if self.halt is not None:
            return len(order) + 1
        return order.index(self.summary.verdict) if self.summary.verdict in order else len(order)


def render_index(lines: Sequence[IndexLine], track: TrackRecord | None = None) -> str:
    """Returns index.html across sites.

    Args:
        lines: One a site.
        track: How often sealed forecasts held, over all sites.
    """
    names = list(dict.fromkeys(method.method for line in lines for method in line.summary.methods))
    return _render(
        "index.html",
        entries=lines,
        methods=[(name, text.method_label(name)) for name in names],
        track=track_sentence(track),
        simulated=any(line.summary.simulated for line in lines),
    )


def render_halt(halt: Halt) -> str:
    """Returns the page of a site whose last run was stopped or failed."""
    return _render("halted.html", halt=halt)


def render_shift_page(
    site: Site,
    source_title: str,
    shift: Shift,
    matching: Matching | None,
    validation: Validation,
    contract: Contract | None = None,
) -> str:
    """Returns the page of `tdrop shift`: how different a site's patients are, before any training.

    Args:
        site: The target site.
        source_title: Its source's name for people.
        shift: How different the patients are.
        matching: The source rows that look like the target, or None.
        validation: What was found in the extract.
        contract: Their table; with it features have names for people.
    """
    return _render(
        "shift.html",
        site=site,
        source_title=source_title,
        shift=shift,
        verdict=words.verdict_words(shift.verdict, shift.grounds),
        sections=shift_sections(shift, matching, validation, contract),
    )
