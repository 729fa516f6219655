"""Coordinates of every drawing in an exported folder: they say no number that its files do not say.

The solver of `test_export.py` finds no small count in the files, so it finds none in drawings of the same numbers.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from drawn_numbers import Panel, panels_of, proportional
from exported_folder import METHODS, SIZES, bars_in, draw_report, figures_in, write_folder
from report_cases import learned_from_several

from tdrop.disclosure import disclose, step_of
from tdrop.report import ReportData, render_report


@pytest.fixture(scope="module", params=SIZES)
def exported(request: Any, tmp_path_factory: pytest.TempPathFactory) -> tuple[ReportData, Path]:
    folder = tmp_path_factory.mktemp("drawn") / "export"
    return write_folder(draw_report(request.param, request.param), folder), folder


def bars(density: dict[str, Any], side: str) -> list[float]:
    """Bars as their file has them; a hidden one is not drawn."""
    return [bar if isinstance(bar, int) else 0 for bar in density[side]]


def check_densities(panels: list[Panel], shown: ReportData, shift: dict[str, Any]) -> None:
    """Steps of each panel are the bars of one feature, or of the levels of one column, as shift.json has them."""
    features = shift["features"]
    columns = {one["column"] for one in features if one["kind"] == "level"}
    levels = [[one["density"] for one in features if one["column"] == column] for column in columns]
    known = [[bars(one["density"], side) for side in ("source", "target")] for one in features]
    known += [[[bars(one, side)[1] for one in column] for side in ("source", "target")] for column in levels]
    drawn = [panel.steps() for panel in panels if panel.paths]
    assert drawn
    for both in drawn:
        assert any(all(map(proportional, both, counts)) for counts in known)


def check_overlap(panels: list[Panel], shown: ReportData, shift: dict[str, Any]) -> None:
    sides = [bars(shift["propensity"], side) for side in ("source", "target")]
    assert all(map(proportional, panels[0].steps(), sides))


def check_balance(panels: list[Panel], shown: ReportData, shift: dict[str, Any]) -> None:
    assert shown.matching is not None
    known = {value for one in shown.matching.balance for value in (one.before, one.after) if value is not None}
    values = panels[0].x_values()
    assert values
    assert all(min(abs(value - one) for one in known) < 1e-4 for value in values)
    # What no file has is on the grid of the files: so coarse that ten patients do not show.
    rows = [count for count in (shown.matching.retained, shown.shift.target_rows) if isinstance(count, int)]
    step = step_of(min(rows, default=1), 10)
    after = [one.after for one in shown.matching.balance if one.after is not None]
    assert all(abs(value / step - round(value / step)) < 1e-6 for value in after)


def check_rows(panels: list[Panel], shown: ReportData, shift: dict[str, Any]) -> None:
    assert panels[0].widths()
    assert all(abs(width - 10 * round(width / 10)) < 0.05 for width in panels[0].widths())


def check_ranking(panels: list[Panel], shown: ReportData, shift: dict[str, Any]) -> None:
    metric = {
        "Test AUROC": "auroc",
        "Error AUROC by sd": "error_auroc_sd",
        "Error AUROC by p(1-p)": "error_auroc_risk",
    }[panels[0].title.split("  ")[0].replace("Logistic regression ", "").replace("MC dropout ", "").strip()]
    known = [shown.evaluation.value(method, metric) for method in METHODS]
    values = panels[0].x_values()
    assert values
    assert all(min(abs(value - one) for one in known if one is not None) < 1e-4 for value in values)


def check_risks(panels: list[Panel], shown: ReportData, shift: dict[str, Any]) -> None:
    """Heights are solved by `test_export.py`; here that each is a number of patients as it may leave."""
    assert len(panels) == 1


CHECKS: dict[str, Callable[[list[Panel], ReportData, dict[str, Any]], None]] = {
    "Test AUROC by method": check_ranking,
    "Error AUROC by sd by method": check_ranking,
    "Error AUROC by p(1-p) by method": check_ranking,
    "Predicted risks and referrals": check_risks,
    "How the patients differ": check_densities,
    "Overlap of the two sites": check_overlap,
    "Difference of each feature before and after matching": check_balance,
    "Rows from extract to evaluation": check_rows,
}


def test_every_drawing_says_what_the_files_say(exported: tuple[ReportData, Path]) -> None:
    """Whoever adds a drawing to what leaves adds how it is read; until then this fails."""
    shown, folder = exported
    shift = json.loads((folder / "shift.json").read_text())
    read = 0
    for page in folder.glob("*.html"):
        for title, svg in figures_in(page.read_text()).items():
            CHECKS[title](panels_of(svg), shown, shift)
            read += 1
    assert read >= 6


def test_bars_of_risks_are_tens_of_patients(exported: tuple[ReportData, Path]) -> None:
    _, folder = exported
    svg = figures_in((folder / "details.html").read_text())["Predicted risks and referrals"]
    heights = [bar for kind in bars_in(svg) for bar in kind]
    assert heights
    assert all(abs(bar - 10 * round(bar / 10)) < 1e-3 for bar in heights)


def test_other_sites_are_drawn_no_finer_than_they_are_written() -> None:
    """Beside each line of page one stand its numbers, to two decimals."""
    data = learned_from_several(draw_report(7, 133), 600, 133)
    page = render_report(disclose(data, data.site.disclosure))
    (table,) = re.findall(r'<table id="table-forest">.*?</table>', page, flags=re.S)
    lines = re.findall(
        r'<rect x="([\d.]+)" width="([\d.]+)" y="3".*?<rect x="([\d.-]+)".*?<td>([^ ]+) <small>(.*?)<', table
    )
    assert len(lines) == 5
    for start, width, mark, value, ends in lines:
        drawn = (float(start), float(start) + float(width), float(mark) + 0.5)
        written = (*map(float, ends.split(" to ")), float(value))
        assert drawn == pytest.approx([round((one - 0.4) / 0.006, 1) for one in written], abs=1e-6)


def test_the_reader_of_drawings_works() -> None:
    assert proportional([1.0, 2.0, 0.0], [10, 20, 0])
    assert not proportional([1.0, 2.0, 0.4], [10, 20, 0])
