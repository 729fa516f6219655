"""The quick form of every benchmark through its public entry: files, going on where it stopped, and what is refused."""

from __future__ import annotations

import csv
import importlib.util

import pytest
from typer.testing import CliRunner

from benchmarks import BENCHMARKS, public_tables
from benchmarks.__main__ import app, run_benchmark
from benchmarks.results import Estimate, Results, Table, write_results
from benchmarks.units import Options
from tdrop.base import UsageError

FILES = {
    "toy": {"toy_intervals.csv", "toy_intervals.svg"},
    "uci": {"uci_iris_softmax.csv", "uci_iris_three_classes_softmax.csv"},
    "prostate": {"prostate_paper_methods.csv"},
    "prostate_hard": {"truncated_moderate_prostate_methods.csv"},
    "breast": {"gbsg_methods.csv"},
    "support": {"copd_methods.csv"},
    "transfers": {"choosing.csv", "choosing_gains.csv", "forecast_intervals.csv"},
    "placebos": {"unlabelled.csv", "unlabelled_problems.csv"},
    "networks": {"ways.csv", "networks.csv", "choice.csv", "intervals.csv"},
    "ladder": {"ladder.csv"},
    "censoring": {"designs.csv"},
    "watch": {"further.csv", "harm.csv", "outcomes.csv"},
    "membership": {"membership.csv"},
    "speed": {"speed.csv"},
}


def test_every_benchmark_is_tried():
    assert set(FILES) == set(BENCHMARKS)


@pytest.mark.parametrize("name", FILES)
def test_a_quick_benchmark_writes_its_files_and_resumes(name, tmp_path):
    if {"SurvSet"} & set(BENCHMARKS[name].packages) and importlib.util.find_spec("SurvSet") is None:
        pytest.skip("the optional package SurvSet is not installed")
    # One in worker processes, the others in this one.
    options = Options(quick=True, home=tmp_path, processes=2 if name == "toy" else 1)
    folder = run_benchmark(name, options)
    assert FILES[name] | {"results.md"} <= {path.name for path in folder.iterdir()}
    page = (folder / "results.md").read_text()
    assert "nan" not in page.lower().replace("resonan", "")
    if name in ("toy", "prostate", "prostate_hard", "transfers", "placebos"):
        captions = [line for line in page.splitlines() if line and line[0] not in "|#!"]
        assert all("imulated" in caption for caption in captions)
    if name == "uci":
        assert_papers_figures_beside_the_papers_form(page)
    if name == "support":
        return
    if name == "speed":
        assert_every_bar_is_judged(folder)
        return
    units = {file: file.stat().st_mtime_ns for file in (tmp_path / "benchmarks" / "units").rglob("*.pkl")}
    assert units
    assert (run_benchmark(name, options) / "results.md").read_text() == page
    assert units == {file: file.stat().st_mtime_ns for file in (tmp_path / "benchmarks" / "units").rglob("*.pkl")}


def test_uci_measures_the_methods_that_are_asked_for(tmp_path):
    folder = run_benchmark("uci", Options(quick=True, methods=("logistic_regression",), home=tmp_path, processes=1))
    with (folder / "uci_iris_linear.csv").open() as stream:
        assert [row["method"] for row in csv.DictReader(stream)] == ["Logistic regression"]


def test_speed_measures_the_parts_that_are_asked_for(tmp_path):
    folder = run_benchmark("speed", Options(quick=True, only=("memory",), home=tmp_path, processes=1))
    with (folder / "speed.csv").open() as stream:
        assert not any("fit of" in row["what"] for row in csv.DictReader(stream))
    with pytest.raises(UsageError, match="no part 'memry' of speed; did you mean 'memory'"):
        run_benchmark("speed", Options(quick=True, only=("memry",), home=tmp_path))


def assert_papers_figures_beside_the_papers_form(page):
    rows = [line.split(" | ") for line in page.splitlines() if line.startswith("| Transductive dropout")]
    assert rows
    # The paper has no figures for three classes: the last four problems.
    assert all("±" in row[-1] for row in rows[:6])


def assert_every_bar_is_judged(folder):
    with (folder / "speed.csv").open() as stream:
        rows = list(csv.DictReader(stream))
    assert {"fit", "sampling,"} <= {word for row in rows for word in row["what"].split()}
    assert all(row["met"] in {"yes", "NO"} for row in rows if row["bar"])
    assert sum(bool(row["bar"]) for row in rows) == 4


def test_without_a_name_the_list_is_printed_and_help_names_every_benchmark():
    for arguments in ([], ["--help"]):
        shown = CliRunner().invoke(app, arguments)
        assert shown.exit_code == 0
        assert all(name in shown.output for name in BENCHMARKS)


def test_a_name_that_is_none_is_a_sentence_with_the_nearest_one(tmp_path):
    with pytest.raises(UsageError, match="did you mean 'toy'"):
        run_benchmark("toyy", Options(home=tmp_path))
    with pytest.raises(UsageError, match="did you mean 'fourth'"):
        run_benchmark("transfers", Options(quick=True, only=("forth",), home=tmp_path))


@pytest.mark.parametrize("name", [name for name, benchmark in BENCHMARKS.items() if benchmark.packages])
def test_a_missing_package_is_one_sentence_with_the_command(name, tmp_path, monkeypatch):
    monkeypatch.setattr(public_tables, "find_spec", lambda _: None)
    with pytest.raises(UsageError, match=r"pip install 'tdrop\[benchmarks\]'"):
        run_benchmark(name, Options(home=tmp_path))


def test_options_prefer_what_was_asked_for():
    assert Options().seeds_or(12) == 12
    assert Options(quick=True).seeds_or(12, 2) == 2
    assert Options(quick=True, seeds=5).seeds_or(12) == 5


def test_results_are_written_as_markdown_csv_and_svg(tmp_path):
    rows = [{"method": "a", "auroc": Estimate(None)}, {"method": "b|c", "auroc": Estimate(0.5, 0.4, 0.6)}]
    results = Results("Title", "Simulated.", [Table("one", "Caption", rows)], {"figure": "<svg/>"})
    write_results(results, tmp_path / "out")
    page = (tmp_path / "out" / "results.md").read_text()
    assert "| a | n/a |" in page
    assert "| b\\|c | 0.500 (0.400 to 0.600) |" in page
    assert "![figure](figure.svg)" in page
    with (tmp_path / "out" / "one.csv").open() as stream:
        read = list(csv.DictReader(stream))
    assert read[1] == {"method": "b|c", "auroc": "0.5", "auroc low": "0.4", "auroc high": "0.6"}
    assert read[0]["auroc"] == ""
    assert str(Estimate(1.5, digits=1)) == "1.5"
