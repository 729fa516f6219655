"""The index across sites, the page of a stopped or failed site, and the page of a shift."""

from __future__ import annotations

from dataclasses import replace

import pytest
from page_text import Page

from tdrop.base import Hidden
from tdrop.forecast import TrackRecord
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
    render_shift_page,
    report_summary,
)
from tdrop.served import Promotion

EVIL = '<script>alert("x")</script><img src=x onerror=y>'
REASON = "site 'harbour' is stopped by 1 table-level finding(s): column 'age' is missing <script>"
STATUS = Status("harbour", None, "stopped", "2026-11-16T02:37:38+00:00", sentence=REASON)
SUMMARY = SiteSummary(
    "harbour", "Harbour Hospital", verdict="go", method_label="Ensemble", patients=400, created="2026-11-01 09:00"
)


def test_index_sets_sites_side_by_side_with_links(labelled: ReportData, unlabelled: ReportData) -> None:
    lines = [
        IndexLine(replace(report_summary(data), title=title), f"sites/{title}/latest/report.html")
        for title, data in {"Harbour": labelled, "Lakeside": unlabelled}.items()
    ]
    page = Page(render_index([*lines, IndexLine(SiteSummary("ferryside", "Ferryside"), "stopped.html")]))
    assert [a["href"] for a in page.all("a")][:2] == [line.link for line in lines]
    for words in ("Caution", "Transductive dropout", "400", "nobody yet", "Ferryside"):
        assert words in page.text
    for figure in ("ranking", "reviews"):
        drawn = page.figure(figure)
        assert "Harbour: caution" in drawn
        assert "Ferryside" not in drawn, "it never had a report"
    share = lines[0].summary.referred / 400
    assert f"{share:.0%}" in page.figure("reviews")
    assert "No site has a report yet" in render_index([])
    hidden = replace(lines[0].summary, referred=Hidden(10), patients=None, auroc=None, forecast=None)
    small = render_index([replace(lines[0], summary=hidden)])
    assert "&lt;10" in small
    assert "<figure" not in small


def test_the_index_says_over_all_sites_how_often_forecasts_held(unlabelled: ReportData) -> None:
    line = IndexLine(report_summary(unlabelled), "a.html")
    page = Page(render_index([line], TrackRecord(5, 4, 3, 2, 0.09, 0.99, 0.034))).text
    assert "at 2 of 3 (67%; 95% interval 9% to 99%), on average 0.03 from the forecast" in page
    assert line.summary.forecast is not None
    expected = line.summary.forecast["auroc"]
    assert f"{expected.low:.2f} to {expected.high:.2f}" in page
    assert "AUROC expected" in page
    assert 'id="track"' not in render_index([line])
    unopened = render_index([line], TrackRecord(1, 1, 0, 0, None, None, None))
    assert "No forecast has been checked by an audit yet." in unopened


def test_shift_page_stands_alone(labelled: ReportData) -> None:
    page = render_shift_page(labelled.site, "Registry", labelled.shift, None, labelled.validation, labelled.contract)
    text = Page(page).text
    assert "Caution" in text
    assert "Age (years)" in text
    assert "Rows read 420 = used 400" in text
    render_shift_page(labelled.site, "Registry", labelled.shift, labelled.matching, labelled.validation)


@pytest.mark.usefixtures("undrawn")
def test_what_comes_from_outside_is_escaped(labelled: ReportData) -> None:
    site = labelled.site.model_copy(update={"title": EVIL})
    finding = replace(labelled.validation.findings[0], words=EVIL, fix=EVIL)
    data = replace(
        labelled,
        site=site,
        source_title=EVIL,
        validation=replace(labelled.validation, findings=(finding,)),
        failed_methods={"mixmatch": EVIL},
        promotion=Promotion("harbour", "1", "ensemble", by=EVIL, note=EVIL, when="2026-11-16"),
        provenance=replace(labelled.provenance, contract=EVIL),
        choice=replace(labelled.choice, runner_up=EVIL),
    )
    for text in (
        render_report(data),
        render_details(data),
        render_index([IndexLine(report_summary(data), "a.html")]),
        render_shift_page(site, EVIL, data.shift, data.matching, data.validation, data.contract),
    ):
        page = Page(text)
        assert len(page.all("script")) == 1
        assert all((image["src"] or "").startswith("data:image/svg+xml") for image in page.all("img"))
        assert "&lt;script&gt;" in text


# Stopped and failed sites -------------------------------------------------------------------------


def test_the_page_gives_the_reason_and_leads_to_the_report_before() -> None:
    halt = halt_of(STATUS)
    assert halt is not None
    before = SiteSummary("harbour", "Harbour Hospital", created="2026-11-01 09:00")
    page = render_halt(halt, before, "earlier_report.html")
    assert "column &#39;age&#39; is missing &lt;script&gt;" in page
    assert 'href="earlier_report.html"' in page
    assert "2026-11-16 02:37 UTC" in page
    assert ">Stopped<" in page
    assert ">Go<" not in page


def test_the_index_never_shows_the_verdict_before() -> None:
    page = render_index([IndexLine(SUMMARY, "a.html", halt_of(STATUS))])
    assert ">Stopped<" in page
    assert ">Go<" not in page
    assert "column &#39;age&#39; is missing" in page
    assert "of the report before" in page
    assert ">Go<" in render_index([IndexLine(SUMMARY, "a.html")])


def test_a_site_without_any_report_has_a_line() -> None:
    halt = halt_of(Status("hillside", None, "failed"))
    page = render_index([IndexLine(SiteSummary("hillside", "hillside"), "sites/hillside/stopped.html", halt)])
    assert ">Failed<" in page
    assert "No reason was written down." in page
    assert "of the report before" not in page


def test_other_endings_are_no_halt() -> None:
    for outcome in ("done", "not recorded", "interrupted"):
        assert halt_of(Status("hillside", None, outcome, sentence="x")) is None
    assert halt_of(None) is None


def test_a_simulated_site_that_is_stopped_is_said_to_be_simulated() -> None:
    for simulated in (True, False):
        halt = halt_of(STATUS)
        assert halt is not None
        page = render_halt(halt, SiteSummary("ferryside", "Ferryside Hospital", simulated=simulated))
        assert ("Simulated data: no real patients" in page) == simulated
