"""Figures: well-formed, self-contained, deterministic, escaped, and drawn from the right numbers."""

from __future__ import annotations

import re
from collections.abc import Callable
from xml.etree import ElementTree

import matplotlib as mpl
import numpy as np
import pytest
from report_cases import comparison, report_data

from tdrop import figures, metrics
from tdrop.contracts import Decision
from tdrop.figures import LOOKS, TARGET_COLOUR, Canvas, Compared, Drawing, look, styled
from tdrop.methods import method_names
from tdrop.report import ReportData
from tdrop.shift import Density, FeatureShift

SVG = "{http://www.w3.org/2000/svg}"
CHOSEN = ("mc_dropout", "ensemble", "logistic_regression")


def named(method: str) -> str:
    return f"<{method}>"


@pytest.fixture(scope="module")
def data() -> ReportData:
    return report_data(target_rows=400, source_rows=800, seeds=2, bootstrap=20)


def draw_all(data: ReportData) -> dict[str, Drawing]:
    shift, matching = comparison(800, 400)
    summary = data.predictions["mc_dropout"][0]
    referred = np.arange(400) % 4 == 0
    compared = Compared(data.predictions, data.y, named, CHOSEN)
    return {
        "balance": figures.draw_balance(matching.balance, {"age": "Age & <years>"}),
        "densities": figures.draw_densities(shift.features, {"age": "Age & <years>"}),
        "propensity": figures.draw_propensity(shift.propensity),
        "auroc": figures.draw_metric(data.evaluation, "auroc", named, "mc_dropout", (0.4, 1.0)),
        "roc": figures.draw_ranking(compared, "roc"),
        "precision": figures.draw_ranking(compared, "precision"),
        "sweep": figures.draw_interval_sweep(compared),
        "calibration": figures.draw_calibration(compared, 0.15),
        "risks": figures.draw_risk_histogram(summary, referred, 0.15),
        "coverage": figures.draw_risk_coverage(compared, 0.5),
        "benefit": figures.draw_decision_curve(compared, Decision()),
    }


@pytest.fixture(scope="module")
def drawings(data: ReportData) -> dict[str, Drawing]:
    return draw_all(data)


@pytest.fixture(scope="module")
def drawn(drawings: dict[str, Drawing]) -> dict[str, str]:
    return {name: drawing.svg for name, drawing in drawings.items()}


def test_every_figure_is_one_file_that_needs_no_other(drawings: dict[str, Drawing]) -> None:
    for name, drawing in drawings.items():
        root = ElementTree.fromstring(drawing.svg)
        assert drawing.name == name
        assert root.tag == f"{SVG}svg"
        assert "<script" not in drawing.svg
        assert not re.search(r"(href|src)=\"(?!#)|url\((?!#)|@import", drawing.svg)
        assert root.find(f"{SVG}title").text
        assert drawing.alternative.startswith(root.find(f"{SVG}title").text)
        assert drawing.alternative.endswith(".")


def test_names_from_outside_are_escaped(drawn: dict[str, str]) -> None:
    assert "Age &amp; &lt;years&gt;" in drawn["balance"]
    assert "&lt;mc_dropout&gt;" in drawn["auroc"]
    assert "<mc_dropout>" not in "".join(drawn.values())


def test_the_same_data_give_the_same_bytes(data: ReportData, drawings: dict[str, Drawing]) -> None:
    assert draw_all(data) == drawings


def test_drawing_leaves_the_callers_settings_alone() -> None:
    with mpl.rc_context({"font.size": 31.0, "legend.frameon": True}):
        before = dict(mpl.rcParams)

        @styled
        def draw() -> float:
            Canvas(2, 1)
            return float(mpl.rcParams["font.size"])

        assert draw() == 8.5
        assert dict(mpl.rcParams) == before


def test_a_method_looks_the_same_everywhere_and_like_no_other() -> None:
    assert set(LOOKS) >= set(method_names())
    assert len({(item.colour, item.marker) for item in LOOKS.values()}) == len(LOOKS)
    assert len({item.colour for item in LOOKS.values()}) == len(LOOKS)
    assert look("a method of another version").colour == "#5b6672"


def test_the_levels_of_a_column_are_named_as_the_contract_names_them() -> None:
    def level(name: str) -> FeatureShift:
        density = Density((0.0, 0.5, 1.0), (30, 20), (25, 15))
        return FeatureShift(name, "ward", "level", *[None] * 5, "total_variation", None, None, density)

    # Names that could be taken apart in more than one way: nobody does.
    drawn = figures.draw_densities([level("ward=a=b"), level("ward=c")], {}, [], {"ward": {0.0: "a=b", 1.0: "c"}})
    names = {text.text for text in ElementTree.fromstring(drawn.svg).iter(f"{SVG}text")}
    assert {"a=b", "c"} <= names


@pytest.mark.parametrize(
    "draw",
    [
        lambda: figures.draw_balance([], {}),
        lambda: figures.draw_densities([], {}),
        lambda: figures.draw_propensity(None),
        lambda: figures.draw_attrition({"Rows read": 0, "Outcome known": None}),
        lambda: figures.draw_interval_sweep(Compared({}, np.ones(3), named, CHOSEN)),
        lambda: figures.draw_calibration(Compared({}, np.full(3, np.nan), named, CHOSEN), 0.15),
        lambda: figures.draw_risk_coverage(Compared({}, np.full(3, np.nan), named, CHOSEN), 0.5),
        lambda: figures.draw_follow_up({}, "years"),
        lambda: figures.draw_site_number([figures.SiteLine("a site of which nothing is known")], "auroc", "AUROC"),
        lambda: figures.draw_site_reviews([figures.SiteLine("a site of which nothing is known")]),
    ],
)
def test_nothing_is_drawn_of_nothing(draw: Callable[[], str | None]) -> None:
    assert draw() is None


def test_no_decision_curve_of_one_class(data: ReportData) -> None:
    compared = Compared(data.predictions, np.zeros(400), named, CHOSEN)
    assert figures.draw_decision_curve(compared, Decision()) is None


def test_one_figure_is_small_however_many_patients() -> None:
    large = report_data(target_rows=4000, source_rows=800, seeds=1, bootstrap=0, methods=("mc_dropout", "ensemble"))
    drawing = figures.draw_risk_coverage(Compared(large.predictions, large.y, named, ["ensemble"]), 0.5)
    assert len(drawing.svg) < 40_000


def test_sweep_draws_the_papers_numbers(data: ReportData, drawn: dict[str, str]) -> None:
    """INPT at 50% and mean width of the ensemble, as points on the figure's axes."""
    summaries = data.predictions["ensemble"]
    caught = [
        np.mean(
            [(metrics.referred_at_level(s.mean, s.interval(level)[1], 0.5) & (data.y > 0.5)).sum() for s in summaries]
        )
        for level in (0.5, 0.99)
    ]
    assert caught[1] > caught[0]
    root = ElementTree.fromstring(drawn["sweep"])
    marks = [
        (float(use.get("x")), float(use.get("y")))
        for use in root.iter(f"{SVG}use")
        if f"fill: {LOOKS['ensemble'].colour}" in use.get("style", "")
    ][:7]
    heights = [y for _, y in marks]
    assert heights == sorted(heights, reverse=True), "a higher level catches at least as many"


def test_every_figure_is_as_wide_as_a_phone(drawn: dict[str, str]) -> None:
    """A wider one would have to shrink its text there, or scroll."""
    assert {ElementTree.fromstring(svg).get("viewBox").split()[2] for svg in drawn.values()} == {"259.2"}


def test_too_few_outcomes_have_no_curve(data: ReportData) -> None:
    y = np.full(400, np.nan)
    y[:12] = np.arange(12) % 2
    compared = Compared(data.predictions, y, named, CHOSEN)
    assert figures.draw_ranking(compared, "roc") is None
    assert figures.draw_ranking(compared, "precision") is None
    assert figures.draw_calibration(compared, 0.15) is None


def test_calibration_draws_the_chosen_method_as_a_line_with_its_interval(data: ReportData) -> None:
    drawn = figures.draw_calibration(Compared(data.predictions, data.y, named, CHOSEN), 0.15).svg
    assert "smooth, with its 95% interval" in drawn
    assert "predicted risk (dotted: 15%, where one acts)" in drawn
    assert drawn.count(f"fill: {LOOKS['mc_dropout'].colour}; fill-opacity: 0.18") >= 1


def test_three_methods_are_in_colour_and_the_chosen_one_is_bold(drawn: dict[str, str]) -> None:
    def widths(svg: str, colour: str) -> list[float]:
        styles = [path.get("style", "") for path in ElementTree.fromstring(svg).iter(f"{SVG}path")]
        lines = [style for style in styles if f"stroke: {colour}" in style]
        return [float(match.group(1)) for line in lines if (match := re.search(r"stroke-width: ([\d.]+)", line))]

    for name in ("roc", "precision", "calibration", "sweep", "coverage"):
        bold, *others = (max(widths(drawn[name], LOOKS[method].colour)) for method in CHOSEN)
        assert bold > max(others)
        for method in set(method_names()) - set(CHOSEN):
            assert not widths(drawn[name], LOOKS[method].colour), "light grey"
    # The perfect clinician is a bound and no result.
    assert max(widths(drawn["benefit"], "#d55e00")) < max(widths(drawn["benefit"], TARGET_COLOUR))
