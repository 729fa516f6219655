"""Tables for people and for programs."""

from __future__ import annotations

import csv
import json

from flows.benchmarks.results import Estimate, Results, Scale, Table, write_results


def test_an_estimate_shows_its_interval_where_there_is_one():
    assert str(Estimate(0.7091, 0.68, 0.7333)) == "0.709 (0.680 to 0.733)"
    assert str(Estimate(1.5, digits=1)) == "1.5"
    assert str(Estimate(None, 0.1, 0.2)) == "n/a"


def test_a_scale_prefers_what_was_asked_for():
    assert (Scale().seeds_or(12), Scale(quick=True).seeds_or(12, 2), Scale(quick=True, seeds=5).seeds_or(12)) == (
        12,
        2,
        5,
    )


def test_results_are_written_as_markdown_csv_and_svg(tmp_path):
    rows = [{"method": "a", "auroc": Estimate(None)}, {"method": "b|c", "auroc": Estimate(0.5, 0.4, 0.6)}]
    results = Results("Title", "Simulated.", [Table("one", "Caption", rows)], {"figure": "<svg/>"}, {"x": 0.5})
    write_results(results, tmp_path / "out")
    page = (tmp_path / "out" / "results.md").read_text()
    assert "| a | n/a |" in page
    assert "| b\\|c | 0.500 (0.400 to 0.600) |" in page
    assert "![figure](figure.svg)" in page
    with (tmp_path / "out" / "one.csv").open() as stream:
        read = list(csv.DictReader(stream))
    assert read[1] == {"method": "b|c", "auroc": "0.5", "auroc low": "0.4", "auroc high": "0.6"}
    assert read[0]["auroc"] == ""
    assert json.loads((tmp_path / "out" / "numbers.json").read_text())["metrics"] == {"x": 0.5}
