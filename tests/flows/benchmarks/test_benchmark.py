"""The quick form of every benchmark: files, record, and going on where it stopped."""

from __future__ import annotations

import importlib
import importlib.util
import inspect
import json
from typing import get_type_hints

import pytest

from flows import benchmark as command
from flows.benchmarks import BENCHMARKS
from flows.benchmarks.results import Results
from flows.printer import Printer
from tdrop.base import UsageError

FILES = {
    "toy": {"toy_intervals.csv", "toy_ratios.csv", "toy_intervals.svg", "toy_dropout_rates.svg"},
    "uci": {"uci_iris_softmax.csv", "uci_differences.csv"},
    "extrapolation": {"extrapolation_methods.csv", "extrapolation_differences.csv"},
    "prostate": {"prostate_paper_methods.csv", "prostate_bars.csv"},
    "lambda_rule": {"lambda_rules.csv", "lambda_problems.csv"},
    "hedge": {"hedge_rules.csv", "hedge_problems.csv"},
    "settle": {"settled_defaults.csv"},
    "transductive": {
        "transductive_rules.csv",
        "transductive_problems.csv",
        "transductive_doubt.csv",
        "transductive_doubt_problems.csv",
    },
    "choosing": {"choosing.csv", "choosing_tuned.csv", "choosing_unlabelled.csv", "choosing_measurements.csv"},
    "forecast": {"forecast_estimators.csv", "forecast_intervals.csv", "forecast_labels.csv", "forecast_pairs.csv"},
    "breast": {"gbsg_methods.csv", "breast_bars.csv", "breast_shift.csv"},
}


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    return tmp_path_factory.mktemp("home")


@pytest.fixture(params=FILES)
def finished(request, home):
    """One quick benchmark, everything in this process; returns its name, page and folder."""
    name = request.param
    if BENCHMARKS[name].needs_extra and importlib.util.find_spec("SurvSet") is None:
        pytest.skip("the optional package SurvSet is not installed")
    folder = home / "results" / name
    page = command.benchmark(name, quick=True, output=str(folder), home=str(home), processes=0)
    return name, page, folder


def test_a_quick_benchmark_writes_its_files_is_recorded_and_resumes(finished, home, monkeypatch):
    name, page, folder = finished
    names = {path.name for path in folder.iterdir()}
    assert FILES[name] | {"results.md", "numbers.json"} <= names
    assert (folder / "results.md").read_text() == page
    if name in ("toy", "extrapolation", "prostate"):
        captions = [line for line in page.splitlines() if line and line[0] not in "|#!"]
        assert all("imulated" in caption for caption in captions)
    assert "nan" not in page.lower().replace("resonan", "")
    assert_recorded(home, name, json.loads((folder / "numbers.json").read_text())["metrics"])

    def refuse(*values, **named):
        raise AssertionError("everything was computed before")

    monkeypatch.setattr("tdrop.home.stages.compute", refuse)
    monkeypatch.setattr("flows.benchmarks.units.compute", refuse)
    assert command.benchmark(name, quick=True, output=str(folder), home=str(home), processes=0) == page


def test_the_papers_figures_stand_beside_the_papers_form(home):
    page = command.benchmark("uci", quick=True, output=str(home / "results" / "uci"), home=str(home), processes=0)
    rows = [line.split(" | ") for line in page.splitlines() if line.startswith("| Transductive dropout")]
    printed = {row[0]: row[-1] for row in rows}
    assert "not printed" in printed["| Transductive dropout"]
    assert "±" in printed["| Transductive dropout, the paper's form"]


def test_a_committee_that_sits_at_some_draws_is_not_compared_over_draws(home, monkeypatch):
    from flows.benchmarks import extrapolation
    from flows.benchmarks.results import Scale
    from tdrop.home.place import Place

    found, known = [], extrapolation.predictions_of

    def with_committee_at_the_first(trained):
        found.append(dict(known(trained)))
        return found[-1] if len(found) > 1 else {**found[-1], "committee": found[-1]["tdnr"]}

    monkeypatch.setattr(extrapolation, "predictions_of", with_committee_at_the_first)
    tables = extrapolation.run(Place.at(home, command.CONTRACTS), Scale(quick=True)).tables
    assert len(found) > 1
    assert "Committee" not in {row["method"] for row in tables[1].rows}


def test_a_benchmark_is_a_flow_where_a_server_is_at_hand(home, prefect_server):
    from prefect.client.orchestration import get_client

    folder = home / "results" / "toy"
    page = command.benchmark("toy", quick=True, output=str(folder), home=str(home), processes=0)
    assert (folder / "results.md").read_text() == page
    with get_client(sync_client=True) as client:
        states = {run.name: run.state_type.value for run in client.read_flow_runs(limit=200)}
    assert states["benchmark toy"] == "COMPLETED"


def assert_recorded(home, name, metrics):
    """One finished run holds the key numbers and the tables."""
    from tasks.tracking import connect, experiment_id
    from tdrop.home.place import Place

    place = Place.at(home, command.CONTRACTS)
    client = connect(place)
    runs = client.search_runs([experiment_id(place, place.network())], f"tags.benchmark = '{name}'")
    assert runs[0].info.status == "FINISHED"
    assert runs[0].data.metrics == pytest.approx(metrics)
    listed = {each.path for each in client.list_artifacts(runs[0].info.run_id, "results")}
    assert {f"results/{file}" for file in FILES[name]} <= listed


def test_an_unknown_name_is_a_sentence_with_the_nearest_one():
    with pytest.raises(UsageError, match="did you mean 'toy'"):
        command.run_benchmark("toyy", console=Printer())


@pytest.mark.parametrize("name", [name for name, each in BENCHMARKS.items() if each.needs_extra])
def test_the_missing_extra_is_one_sentence_with_the_command(name, monkeypatch):
    import flows.benchmarks.extracts as extracts

    monkeypatch.setattr(extracts, "find_spec", lambda _: None)
    with pytest.raises(UsageError, match=r"pip install 'tdrop\[benchmarks\]'"):
        command.run_benchmark(name, console=Printer())


def test_every_benchmark_has_the_one_form():
    for name in BENCHMARKS:
        run = importlib.import_module(f"flows.benchmarks.{name}").run
        assert list(inspect.signature(run).parameters) == ["place", "scale"]
        assert get_type_hints(run)["return"] is Results


def test_the_benchmarks_network_is_apart_from_the_ordinary_one():
    from tdrop.contracts import load_network

    ordinary = load_network(command.CONTRACTS.parent)
    apart = load_network(command.CONTRACTS)
    assert not set(ordinary.sites) & set(apart.sites)
    assert all(site.public and not site.simulated for site in apart.sites.values())
    assert {network.source for network in apart.targets} == {"rotterdam", "rotterdam_under_60", "sepsis"}
