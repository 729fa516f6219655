"""What every page must keep to, whatever a site is like: small and hidden counts, few or no labels, a hostile title."""

from __future__ import annotations

import re
from dataclasses import replace
from html.parser import HTMLParser

import numpy as np
import pytest
from report_cases import make_forecast, make_observations, report_data

from tasks.run import Trained
from tdrop.data.outcomes import LabelCounts
from tdrop.disclosure import disclose
from tdrop.evaluate import evaluate_methods
from tdrop.home.status import Status
from tdrop.report import IndexLine, ReportData, render_halt, render_index, render_report, report_summary
from tdrop.report.halted import halt_of

METHODS = ("mlp", "ensemble", "transductive_dropout", "logistic_regression")
ROWS = 60
HOSTILE = "<script>alert('x')</script>\"><img src=x onerror=y> \u202eltr\u202c " + "Saint " * 45 + "مستشفى"
MOST_BYTES = 400_000


class Words(HTMLParser):
    """The text of a page, its blocks apart, without styles, scripts and figures."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.blocks: list[str] = [""]
        self.tags: list[str] = []
        self._muted = 0
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self._muted += tag in ("style", "script", "svg", "title")
        if tag in ("p", "td", "th", "dd", "dt", "li", "h1", "h2", "caption", "figcaption"):
            self.blocks.append("")

    def handle_endtag(self, tag: str) -> None:
        self._muted -= tag in ("style", "script", "svg", "title")

    def handle_data(self, data: str) -> None:
        if not self._muted:
            self.blocks[-1] = " ".join(f"{self.blocks[-1]} {data}".split())


def site(*, labels: int | None = None, title: str = "") -> ReportData:
    """A small site; `labels` is how many outcomes are known, None for all."""
    data = report_data(target_rows=ROWS, source_rows=300, methods=METHODS, bootstrap=20, labelled=labels != 0)
    if labels:
        assert data.y is not None
        y = np.where(np.arange(ROWS) < labels, data.y, np.nan)
        evaluation = evaluate_methods("harbour", data.predictions, y, data.site.decision, seeds=(0, 1), bootstrap=20)
        counts = LabelCounts(known=labels, missing=ROWS - labels)
        data = replace(data, y=y, evaluation=evaluation, labels=counts)
    if title:
        data = replace(data, site=data.site.model_copy(update={"title": title}), source_title=title)
    expected = make_forecast(METHODS, 300, ROWS)
    seen = make_observations(expected, data.method, labels or ROWS) if data.labelled else []
    return replace(data, forecast=expected, observations=seen)


def hidden(data: ReportData) -> ReportData:
    return disclose(data, data.site.disclosure.model_copy(update={"exempt": False}))


def pages() -> dict[str, str]:
    """One of every kind."""
    full, hostile = site(), site(labels=12, title=HOSTILE)
    cases = {
        "small counts": hidden(full),
        "no labels": site(labels=0),
        "12 labels": site(labels=12),
        "12 labels, hidden": hidden(site(labels=12)),
        "hostile": hostile,
        "stop": replace(full, shift=replace(full.shift, verdict="stop")),
    }
    found = {name: render_report(data) for name, data in cases.items()}
    reason = "column 'stage' (Clinical T stage) is not in the extract"
    halt = halt_of(
        Status("harbour", None, "stopped", "2026-11-16T09:30:00+00:00", reason=reason), HOSTILE, letter=HOSTILE
    )
    assert halt is not None
    lines = [
        IndexLine(report_summary(data), "a.html", halt if name == "hostile" else None) for name, data in cases.items()
    ]
    return {**found, "halted": render_halt(halt), "index": render_index(lines)}


PAGES = ("small counts", "no labels", "12 labels", "12 labels, hidden", "hostile", "stop", "halted", "index")


@pytest.fixture(scope="module")
def written() -> dict[str, str]:
    return pages()


@pytest.mark.parametrize("name", PAGES)
def test_a_page_says_nothing_that_only_a_program_would(written: dict[str, str], name: str) -> None:
    words = Words(written[name])
    text = " ".join(words.blocks)
    assert not re.search(r"\b(None|nan|NaN|inf|Hidden|dict)\b|\[\]|\{\}", text), name
    assert not {"True", "False"} & set(words.blocks), name
    assert not re.search(r"\b\d+\.\d+ (patients|rows|source patients)\b", text), "patients are whole"
    # A sentence may begin with a small number; "1 patients" or "1 are" is no English.
    assert not re.search(r"(?<![\d.,])1 (patients|rows|are|were|have|sites)\b(?! of)", text), "one is not many"
    assert not re.search(r"\b[a-z]+_[a-z]+(_[a-z]+)*\b", _prose(words)), "a name of the program"
    assert words.tags.count("script") == 1
    assert "img" not in words.tags
    assert len(written[name].encode()) <= MOST_BYTES


def _prose(words: Words) -> str:
    """Sentences: what names settings and files is for whoever repeats the run."""
    return " ".join(block for block in words.blocks if block.endswith(".") and len(block.split()) > 5)


@pytest.mark.parametrize("name", ["12 labels", "12 labels, hidden", "no labels", "small counts", "hostile", "stop"])
def test_a_share_on_the_clinical_pages_says_of_how_many(written: dict[str, str], name: str) -> None:
    """The first screen and what a lead signs: a percentage of patients stands beside a number of patients."""
    first = written[name].split('<div id="appendix">')[0]
    for block in Words(first).blocks:
        if re.search(r"\d%", block) and "interval" not in block and "risk" not in block and "there," not in block:
            numbers = re.findall(r"(?<![\d.])\d[\d,]*(?![\d.,]*%)", block)
            assert numbers or "a clinician decides" in block, block


def test_twelve_outcomes_are_too_few_to_judge_by_and_the_page_says_so_first(written: dict[str, str]) -> None:
    text = " ".join(Words(written["12 labels"]).blocks)
    first = " ".join(Words(written["12 labels"].split("</header>")[0]).blocks)
    assert "outcome known for 12" in first
    assert re.search(r"Only \d+ (had|did not have) the outcome of 12 patients: too few to judge", first)
    assert "The outcome is known for 12 of 60 patients; the rest is left out." in text
    assert "clearly better here" not in first, "twelve outcomes do not tell methods apart"
    assert "lowest log loss here" not in text
    assert "of all methods here" not in text
    assert "too few to draw or to correct the risks by" in text
    assert "ten groups" not in re.sub(r"Average distance.*?chance", "", text), "a curve of twelve patients"
    leaving = " ".join(Words(written["12 labels, hidden"]).blocks)
    assert "of 12" not in leaving
    assert "known for 12" not in leaving


def test_a_title_can_do_nothing_but_be_read(written: dict[str, str]) -> None:
    for name in ("hostile", "halted", "index"):
        assert "&lt;script&gt;" in written[name]
        assert "<script>alert" not in written[name]
        assert "onerror=y>" not in re.sub(r"<style.*?</style>", "", written[name], flags=re.S)


def test_a_report_shown_again_has_its_methods_in_the_same_order() -> None:
    """A file keeps them by the alphabet."""
    kept = Trained(failed={"ensemble": "", "logistic_regression": "", "mc_dropout": "", "mlp": "", "of_tomorrow": ""})
    order = ["mlp", "mc_dropout", "ensemble", "logistic_regression", "of_tomorrow"]
    assert list(kept.in_order().failed) == order
