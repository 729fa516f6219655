"""The report a clinical lead reads and signs, the index across sites, the page of a shift."""

from tdrop.report.data import ReportData
from tdrop.report.halted import NO_REPORT, Halt, halt_of
from tdrop.report.render import render_halt, render_index, render_report, render_shift_page
from tdrop.report.summary import report_summary

__all__ = [
    "NO_REPORT",
    "Halt",
    "ReportData",
    "halt_of",
    "render_halt",
    "render_index",
    "render_report",
    "render_shift_page",
    "report_summary",
]
