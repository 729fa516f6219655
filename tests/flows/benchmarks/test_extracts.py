"""The real extracts pass their contracts row for row, and targets come without outcomes."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest

from flows.benchmarks import CONTRACTS
from tdrop.contracts import load_network
from tdrop.data.outcomes import read_labels, source_outcome
from tdrop.data.preparation import prepare

pytest.importorskip("SurvSet")

ROWS = {"rotterdam": 2982, "rotterdam_under_60": 1831, "gbsg": 686, "sepsis": 3515, "copd": 967, "malignancy": 712}


@pytest.fixture(scope="module")
def home(tmp_path_factory) -> Path:
    from conftest import settle

    from flows.benchmarks.extracts import FOLDER, write_breast, write_support

    home = tmp_path_factory.mktemp("home")
    write_breast(home)
    write_support(home)
    settle(home / FOLDER)
    return home


@pytest.fixture(scope="module")
def network():
    return load_network(CONTRACTS)


@pytest.mark.parametrize("site", ROWS)
def test_every_row_is_used(site, home, network):
    validation = prepare(network.site(site), network, home=home).validation
    assert (validation.read, validation.used) == (ROWS[site], ROWS[site])
    assert not validation.stopped


def test_no_target_extract_holds_an_outcome(home, network):
    for site in network.targets:
        columns = pd.read_csv(home / "benchmarks" / "extracts" / Path(site.location).name, nrows=1).columns
        assert not {"time", "event"} & set(columns)


def test_outcomes_are_those_within_the_horizon(home, network):
    contract = network.contracts["breast"]
    _, counts = source_outcome(prepare(network.site("rotterdam"), network, home=home).frame, contract)
    assert (counts["known"], counts["positive"]) == (2961, 218)
    gbsg = network.site("gbsg")
    ids = prepare(gbsg, network, home=home).frame["patient_id"].to_numpy()
    labels = read_labels(gbsg, contract, ids, home=home, base=network.base)
    raw = pd.read_csv(home / "benchmarks" / "extracts" / "gbsg_outcomes.csv")
    assert labels.counts.known == int(((raw["time"] >= 730.5) | (raw["event"] == 1)).sum())
    assert int((labels.y == 1).sum()) == int(((raw["event"] == 1) & (raw["time"] <= 730.5)).sum())


def test_a_second_writing_leaves_the_files_alone(home):
    from flows.benchmarks.extracts import write_breast

    file = home / "benchmarks" / "extracts" / "gbsg.csv"
    before = file.stat().st_mtime_ns
    write_breast(home)
    assert file.stat().st_mtime_ns == before
