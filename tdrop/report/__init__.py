"""The report a clinical lead reads and signs, the index across sites, the page of a shift."""

from tdrop.report.data import Provenance, ReportData
from tdrop.report.halted import Halt, halt_of
from tdrop.report.render import IndexLine, render_halt, render_index, render_report, render_shift_page
from tdrop.report.site_summary import Expected, MethodLine, SiteSummary
from tdrop.report.summary import report_summary

__all__ = [
    "Expected",
    "Halt",
    "IndexLine",
    "MethodLine",
    "Provenance",
    "ReportData",
    "SiteSummary",
    "halt_of",
    "render_halt",
    "render_index",
    "render_report",
    "render_shift_page",
    "report_summary",
]
