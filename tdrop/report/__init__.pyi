from .data import (
    MethodLine as MethodLine,
    Provenance as Provenance,
    ReportData as ReportData,
    SiteSummary as SiteSummary,
)
from .first_page import report_summary as report_summary
from .governance import (
    FEWEST_TO_RETRAIN as FEWEST_TO_RETRAIN,
    Document as Document,
    make_card as make_card,
    make_plan as make_plan,
    render_document as render_document,
    with_watch as with_watch,
)
from .pages import (
    DETAILS as DETAILS,
    IndexLine as IndexLine,
    halt_of as halt_of,
    render_details as render_details,
    render_halt as render_halt,
    render_index as render_index,
    render_rehearsal as render_rehearsal,
    render_report as render_report,
    render_shift_page as render_shift_page,
    write_pages as write_pages,
)
from .sentences import (
    choice_sentence as choice_sentence,
    describe_rehearsal as describe_rehearsal,
    evaluation_warnings as evaluation_warnings,
    left_out_sentence as left_out_sentence,
    shift_sentence as shift_sentence,
)
from .text import row_text as row_text
from .watch import (
    MovedFeature as MovedFeature,
    WatchSummary as WatchSummary,
    render_watch as render_watch,
    summarise_watch as summarise_watch,
    watch_document as watch_document,
    watch_in_short as watch_in_short,
    watch_without_counts as watch_without_counts,
)
