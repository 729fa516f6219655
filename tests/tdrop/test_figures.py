"""Figures: well-formed, self-contained, deterministic, escaped, and drawn from the right numbers."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any
from xml.etree import ElementTree

import matplotlib as mpl
import numpy as np
import pytest
from report_cases import CONTRACTS, comparison, report_data

from tdrop import figures, metrics
from tdrop.contracts import load_network
from tdrop.evaluate import Moved, compare_risks
from tdrop.figures.methods import DropoutRates, smooth_density
from tdrop.figures.style import HIGHLIGHT, LOOKS, TARGET_COLOUR, Canvas, clean_svg, look, styled
from tdrop.methods import method_names
from tdrop.report import ReportData
from tdrop.report.text import value_names
from tdrop.shift import Density, FeatureShift

SVG = "{http://www.w3.org/2000/svg}"


def named(method: str) -> str:
    return f"<{method}>"


@pytest.fixture(scope="module")
def data() -> ReportData:
    return report_data(target_rows=400, source_rows=800, seeds=2, bootstrap=20)


def draw_all(data: ReportData) -> dict[str, str]:
    shift, matching = comparison(800, 400)
    summary = data.predictions["mc_dropout"][0]
    referred = np.arange(400) % 4 == 0
    known = data.y
    moved = compare_risks("mc_dropout", 0.1, summary.mean, summary.mean**2, np.arange(400) / 400, known)
    return {
        "balance": figures.draw_balance(matching.balance, {"age": "Age & <years>"}),
        "densities": figures.draw_densities(shift.features, {"age": "Age & <years>"}),
        "propensity": figures.draw_propensity(shift.propensity),
        "auroc": figures.draw_metric(data.evaluation, "auroc", named, "mc_dropout", (0.4, 1.0)),
        "roc": figures.draw_roc(data.predictions, known, named, "mc_dropout"),
        "precision": figures.draw_precision_recall(data.predictions, known, named, "mc_dropout"),
        "smooth": figures.draw_smooth_calibration(summary, known, 0.15),
        "sweep": figures.draw_interval_sweep(data.predictions, known, named),
        "calibration": figures.draw_calibration(data.predictions, known, named),
        "rates": figures.draw_dropout_rates(data.dropout_rates, named),
        "risks": figures.draw_risk_histogram(summary, referred, 0.15),
        "coverage": figures.draw_risk_coverage(data.predictions, known, 0.5, named),
        "benefit": figures.draw_decision_curve(summary, known, 0.95, 0.1, 0.15),
        "moved-mc-dropout": figures.draw_moved(moved),
        "recalibration": figures.draw_recalibration(known, {"As it is": summary.mean, "After": summary.mean}),
    }


@pytest.fixture(scope="module")
def drawn(data: ReportData) -> dict[str, str]:
    return draw_all(data)


def test_every_figure_is_inline_svg_that_a_strict_page_shows(drawn: dict[str, str]) -> None:
    for name, svg in drawn.items():
        root = ElementTree.fromstring(svg)
        assert root.tag == f"{SVG}svg"
        assert root.get("role") == "img"
        assert "style=" not in svg
        assert "<style" not in svg
        assert "<script" not in svg
        assert "http" not in svg.replace("http://www.w3.org/2000/svg", "")
        assert not re.search(r"url\((?!#)", svg)
        assert root.find(f"{SVG}title").text
        assert root.find(f"{SVG}desc").text
        assert root.get("aria-labelledby") == f"{name}-title {name}-description"


def test_ids_are_unique_across_a_page_and_every_reference_has_its_target(drawn: dict[str, str]) -> None:
    page = "".join(drawn.values())
    ids = re.findall(r' id="([^"]+)"', page)
    assert len(ids) == len(set(ids))
    assert set(re.findall(r'(?:href="#|url\(#)([^")]+)', page)) <= set(ids)


def test_names_from_outside_are_escaped(drawn: dict[str, str]) -> None:
    assert "Age &amp; &lt;years&gt;" in drawn["balance"]
    assert "&lt;mc_dropout&gt;" in drawn["auroc"]
    assert "<mc_dropout>" not in "".join(drawn.values())


def test_the_same_data_give_the_same_bytes(data: ReportData, drawn: dict[str, str]) -> None:
    assert draw_all(data) == drawn


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
    told = {text.text for text in ElementTree.fromstring(drawn).iter(f"{SVG}text")}
    assert {"a=b", "c"} <= told
    table = load_network(CONTRACTS).contracts["prostate"]
    assert value_names(table)["treatment"][3.0] == "hormone"


def test_methods_share_one_scale(drawn: dict[str, str]) -> None:
    root = ElementTree.fromstring(drawn["calibration"])
    # The dashed diagonal is drawn in every panel: all must have the same slope and length.
    spans = []
    for path in root.iter(f"{SVG}path"):
        if path.get("stroke-dasharray") and path.get("stroke") == "#5b6672":
            numbers = [float(value) for value in re.findall(r"-?[\d.]+", path.get("d", ""))]
            spans.append((numbers[2] - numbers[0], numbers[3] - numbers[1]))
    assert len(spans) == len(method_names())
    np.testing.assert_allclose(np.ptp(spans, axis=0), 0, atol=0.2 + 1e-9, err_msg="places are to a tenth")


@pytest.mark.parametrize(
    "draw",
    [
        lambda: figures.draw_balance([], {}),
        lambda: figures.draw_densities([], {}),
        lambda: figures.draw_propensity(None),
        lambda: figures.draw_dropout_rates({}, named),
        lambda: figures.draw_moved(Moved("transductive_ensemble", 0.1, ())),
        lambda: figures.draw_interval_sweep({}, np.ones(3), named),
        lambda: figures.draw_calibration({}, np.full(3, np.nan), named),
        lambda: figures.draw_risk_coverage({}, np.full(3, np.nan), 0.5, named),
        lambda: figures.draw_recalibration(np.array([]), {}),
    ],
)
def test_nothing_is_drawn_of_nothing(draw: Callable[[], str | None]) -> None:
    assert draw() is None


def test_no_decision_curve_of_one_class(data: ReportData) -> None:
    summary = data.predictions["mc_dropout"][0]
    assert figures.draw_decision_curve(summary, np.zeros(400), 0.95, 0.1, 0.15) is None


def test_one_figure_is_small_however_many_patients() -> None:
    large = report_data(target_rows=4000, source_rows=800, seeds=1, bootstrap=0, methods=("mc_dropout", "ensemble"))
    svg = figures.draw_risk_coverage(large.predictions, large.y, 0.5, named)
    assert len(svg) < 40_000
    assert len(figures.draw_dropout_rates({"tdnr": DropoutRates(np.ones(9), np.linspace(0, 1, 9000))}, named)) < 40_000


def test_smoothed_density_integrates_to_one_and_finds_the_mode() -> None:
    random = np.random.default_rng(0)
    grid = np.linspace(0, 1, 200)
    density = smooth_density(random.normal(0.3, 0.05, 5000), grid)
    assert density.sum() * (grid[1] - grid[0]) == pytest.approx(1.0, abs=0.02)
    assert grid[density.argmax()] == pytest.approx(0.3, abs=0.02)
    assert np.isfinite(smooth_density(np.full(50, 0.2), grid)).all()


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
        if use.get("fill") == LOOKS["ensemble"].colour
    ][:7]
    heights = [y for _, y in marks]
    assert heights == sorted(heights, reverse=True), "a higher level catches at least as many"


def test_numbers_that_a_figure_says_are_not_rounded() -> None:
    raw = '<svg viewBox="0 0 10 20"><path d="M 1.2345 2.0004"/><text x="3.14159">0.125 and 0.15</text></svg>'
    svg = clean_svg(raw, "n", "A", "B")
    assert 'd="M 1.2 2"' in svg
    assert '<text x="3.1">0.125 and 0.15</text>' in svg


def test_every_figure_is_as_wide_as_a_phone(drawn: dict[str, str]) -> None:
    """A wider one would have to shrink its text there, or scroll."""
    assert {ElementTree.fromstring(svg).get("viewBox").split()[2] for svg in drawn.values()} == {"259.2"}


def test_too_few_outcomes_have_no_curve(data: ReportData) -> None:
    y = np.full(400, np.nan)
    y[:12] = np.arange(12) % 2
    assert figures.draw_roc(data.predictions, y, named, "mc_dropout") is None
    assert figures.draw_precision_recall(data.predictions, y, named, "mc_dropout") is None
    assert figures.draw_smooth_calibration(data.predictions["mc_dropout"][0], y, 0.15) is None


def test_the_chosen_method_is_bold_and_the_perfect_clinician_is_not(data: ReportData, drawn: dict[str, str]) -> None:
    def widths(svg: str, colour: str) -> list[float]:
        lines = [path for path in ElementTree.fromstring(svg).iter(f"{SVG}path") if path.get("stroke") == colour]
        return [float(path.get("stroke-width", 1)) for path in lines]

    others = [max(widths(drawn["roc"], LOOKS[name].colour)) for name in method_names() if name != "mc_dropout"]
    assert max(widths(drawn["roc"], LOOKS["mc_dropout"].colour)) > max(others)
    assert max(widths(drawn["benefit"], HIGHLIGHT)) < max(widths(drawn["benefit"], TARGET_COLOUR))


def test_clean_svg_drops_what_a_page_must_not_hold() -> None:
    raw = (
        '<?xml version="1.0"?><!DOCTYPE svg><svg viewBox="0 0 10 20"><metadata>http://x</metadata>'
        '<defs><style>*{}</style><path id="a"/></defs><g id="unused">'
        '<use xlink:href="#a" style="fill: red; stroke: none"/></g><!-- by a tool --></svg>'
    )
    svg = clean_svg(raw, "n", "A & B", "c < d")
    assert svg.count("<svg") == 1
    assert '<use href="#n-a" fill="red" stroke="none"/>' in svg
    assert 'id="n-a"' in svg
    for gone in ("metadata", "style", "unused", "tool", "DOCTYPE"):
        assert gone not in svg
    assert "A &amp; B" in svg
    assert "c &lt; d" in svg


def test_the_same_content_is_drawn_once_and_another_anew():
    calls = []

    @styled
    def draw(values: Any) -> str:
        calls.append(1)
        return str(values.sum())

    assert [draw(np.arange(3)), draw(np.arange(3)), draw(np.arange(4))] == ["3", "3", "6"]
    assert len(calls) == 2
    generators = [(number for number in range(3)) for _ in range(2)]
    assert [styled(lambda given: sum(given))(each) for each in generators] == [3, 3], "nothing is kept of these"
