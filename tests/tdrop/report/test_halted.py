"""A stopped or failed site: its page and its line in the index give the reason and no earlier verdict."""

from __future__ import annotations

from tdrop.home.status import Status
from tdrop.report import IndexLine, SiteSummary, halt_of, render_halt, render_index

REASON = "site 'harbour' is stopped by 1 table-level finding(s): column 'age' is missing <script>"
STATUS = Status("harbour", None, "stopped", "2026-11-16T02:37:38+00:00", sentence=REASON)
SUMMARY = SiteSummary(
    "harbour", "Harbour Hospital", verdict="go", method_label="Ensemble", patients=400, created="2026-11-01 09:00"
)


def test_the_page_gives_the_reason_and_leads_to_the_report_before() -> None:
    halt = halt_of(STATUS, "Harbour Hospital", "earlier_report.html", "2026-11-01 09:00")
    assert halt is not None
    page = render_halt(halt)
    assert "column &#39;age&#39; is missing &lt;script&gt;" in page
    assert 'href="earlier_report.html"' in page
    assert "2026-11-16 02:37 UTC" in page
    assert ">Stopped<" in page
    assert ">Go<" not in page


def test_the_index_never_shows_the_verdict_before() -> None:
    page = render_index([IndexLine(SUMMARY, "a.html", halt_of(STATUS, "Harbour Hospital"))])
    assert ">Stopped<" in page
    assert ">Go<" not in page
    assert "column &#39;age&#39; is missing" in page
    assert "of the report before" in page
    assert ">Go<" in render_index([IndexLine(SUMMARY, "a.html")])


def test_a_site_without_any_report_has_a_line() -> None:
    halt = halt_of(Status("hillside", None, "failed"), "hillside")
    page = render_index([IndexLine(SiteSummary("hillside", "hillside"), "sites/hillside/stopped.html", halt)])
    assert ">Failed<" in page
    assert "No reason was written down." in page
    assert "of the report before" not in page


def test_other_endings_are_no_halt() -> None:
    for outcome in ("done", "not recorded", "interrupted"):
        assert halt_of(Status("hillside", None, outcome, sentence="x"), "hillside") is None
    assert halt_of(None, "hillside") is None


def test_a_simulated_site_that_is_stopped_is_said_to_be_simulated() -> None:
    halt = halt_of(STATUS, "Ferryside Hospital", simulated=True)
    assert halt is not None
    assert "Simulated data: no real patients" in render_halt(halt)
    real = halt_of(STATUS, "Ferryside Hospital")
    assert real is not None
    assert "Simulated" not in render_halt(real)
