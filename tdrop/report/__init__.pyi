from .data import Provenance as Provenance, ReportData as ReportData
from .halted import halt_of as halt_of
from .render import (
    IndexLine as IndexLine,
    render_halt as render_halt,
    render_index as render_index,
    render_report as render_report,
    render_shift_page as render_shift_page,
)
from .sentences import choice_sentence as choice_sentence, shift_sentence as shift_sentence
from .site_summary import MethodLine as MethodLine, SiteSummary as SiteSummary
from .summary import report_summary as report_summary
