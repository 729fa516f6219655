"""What every page must keep to, whatever a site is like: small and hidden counts, few or no labels, a hostile title."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pytest
from page_text import Page
from report_cases import make_forecast, make_observations, report_data

from tasks.run import Trained
from tdrop.data import LabelCounts
from tdrop.disclosure import disclose
from tdrop.evaluate import evaluate_methods
from tdrop.home import Status
from tdrop.report import (
    IndexLine,
    ReportData,
    SiteSummary,
    halt_of,
    render_details,
    render_halt,
    render_index,
    render_report,
    report_summary,
)

METHODS = ("mlp", "ensemble", "transductive_dropout", "logistic_regression")
ROWS = 60
HOSTILE = "<script>alert('x')</script>\"><img src=x onerror=y> \u202eltr\u202c " + "Saint " * 45 + "مستشفى"


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
    shown = {name: render_report(data) for name, data in cases.items()}
    shown |= {f"{name}, details": render_details(data) for name, data in cases.items() if name != "stop"}
    reason = "column 'stage' (Clinical T stage) is not in the extract"
    halt = halt_of(Status("harbour", None, "stopped", "2026-11-16T09:30:00+00:00", reason=reason))
    assert halt is not None
    lines = [
        IndexLine(report_summary(data), "a.html", halt if name == "hostile" else None) for name, data in cases.items()
    ]
    return {
        **shown,
        "halted": render_halt(halt, SiteSummary("harbour", HOSTILE), letter=HOSTILE),
        "index": render_index(lines),
    }


REPORTS = ("small counts", "no labels", "12 labels", "12 labels, hidden", "hostile", "stop")
PAGES = (*REPORTS, *(f"{name}, details" for name in REPORTS[:-1]), "halted", "index")


@pytest.fixture(scope="module")
def written() -> dict[str, str]:
    return pages()


@pytest.mark.parametrize("name", PAGES)
def test_a_page_says_nothing_that_only_a_program_would(written: dict[str, str], name: str) -> None:
    words = Page(written[name])
    text = " ".join(words.blocks)
    assert not re.search(r"\b(None|nan|NaN|inf|Hidden|dict)\b|\[\]|\{\}", text), name
    assert not {"True", "False"} & set(words.blocks), name
    assert not re.search(r"\b\d+\.\d+ (patients|rows|source patients)\b", text), "patients are whole"
    # A sentence may begin with a small number; "1 patients" or "1 are" is no English.
    assert not re.search(r"(?<![\d.,])1 (patients|rows|are|were|have|sites)\b(?! of)", text), "one is not many"
    assert not re.search(r"\b[a-z]+_[a-z]+(_[a-z]+)*\b", _prose(words)), "a name of the program"
    assert len(words.all("script")) == 1


def _prose(words: Page) -> str:
    """Sentences: what names settings and files is for whoever repeats the run."""
    return " ".join(block for block in words.blocks if block.endswith(".") and len(block.split()) > 5)


@pytest.mark.parametrize("name", REPORTS)
def test_a_share_on_the_clinical_pages_says_of_how_many(written: dict[str, str], name: str) -> None:
    """The first screen and what a lead signs: a percentage of patients stands beside a number of patients."""
    for block in Page(written[name]).blocks:
        if re.search(r"\d%", block) and "interval" not in block and "risk" not in block and "there," not in block:
            numbers = re.findall(r"(?<![\d.])\d[\d,]*(?![\d.,]*%)", block)
            assert numbers or "a clinician decides" in block, block


def test_twelve_outcomes_are_too_few_to_judge_by_and_the_page_says_so_first(written: dict[str, str]) -> None:
    text = Page(written["12 labels, details"]).text
    first = Page(written["12 labels"]).text
    assert "outcome known for 12" in first
    assert re.search(r"Only \d+ (had|did not have) the outcome of 12 patients: too few to judge", first)
    assert "The outcome is known for 12 of 60 patients; the others are left out." in text
    assert "clearly better here" not in first, "twelve outcomes do not tell methods apart"
    assert "lowest log loss here" not in text
    assert "of all methods here" not in text
    assert "too few to draw or to correct the risks by" in text
    assert "ten groups" not in re.sub(r"Average distance.*?chance", "", text), "a curve of twelve patients"
    for name in ("12 labels, hidden", "12 labels, hidden, details"):
        assert "of 12" not in Page(written[name]).text
        assert "known for 12" not in Page(written[name]).text


def test_a_title_can_do_nothing_but_be_read(written: dict[str, str]) -> None:
    for name in ("hostile", "hostile, details", "halted", "index"):
        assert "&lt;script&gt;" in written[name]
        assert "<script>alert" not in written[name]
        assert "onerror=y>" not in re.sub(r"<style.*?</style>", "", written[name], flags=re.S)


def test_a_report_shown_again_has_its_methods_in_the_same_order() -> None:
    """A file keeps them by the alphabet."""
    kept = Trained(failed={"ensemble": "", "logistic_regression": "", "mc_dropout": "", "mlp": "", "of_tomorrow": ""})
    order = ["mlp", "mc_dropout", "ensemble", "logistic_regression", "of_tomorrow"]
    assert list(kept.in_order().failed) == order
