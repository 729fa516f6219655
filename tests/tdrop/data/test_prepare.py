"""The demo network, from files to cohorts; and how long large extracts take."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as arrow
import pyarrow.csv as arrow_csv
import pytest

from tdrop.base import Unavailable, plain
from tdrop.contracts import Contract, Network, Site, suite
from tdrop.data import (
    DEMO_STOPPED,
    fingerprint,
    learn_encoder,
    prepare,
    prepare_frame,
    read_extract,
    read_labels,
    source_outcome,
    write_demo_network,
)
from tdrop.disclosure import disclose_validation

ROWS = {"registry": 400, "harbour": 300, "hillside": 300, "lakeside": 300}


@pytest.fixture
def home(tmp_path: Path) -> Path:
    write_demo_network(tmp_path / "home" / "demo", rows=ROWS, seed=3)
    return tmp_path / "home"


def test_the_demo_sites_come_out_alike_and_whole(home: Path, network: Network) -> None:
    source = prepare("registry", network, home=home)
    y, counts = source_outcome(source.frame, source.contract)
    encoder = learn_encoder(source.frame, source.contract)
    assert encoder.encode(source.frame, "registry", y).y is not None
    assert counts["known"] == 400
    for site in (site for site in network.targets if site.name in ROWS):
        prepared = prepare(site, network, home=home, source=source.frame)
        validation = prepared.validation
        assert not validation.stopped, validation.message()
        assert validation.simulated
        assert not validation.public
        cohort = encoder.encode(prepared.frame, site.name)
        assert cohort.features == tuple(feature.name for feature in encoder.features)
        assert "died_10y" not in prepared.frame
        labels = read_labels(site, prepared.contract, cohort.ids, home=home, base=network.base)
        assert labels.counts.known == len(cohort)
        if site.name == "lakeside":
            assert (validation.quarantined, validation.duplicates) == (6, 4)
            assert set(prepared.quarantine["rules"]) == {"age.range", "psa.range", "patient_id.unique"}
        else:
            assert validation.used == validation.read == 300
    json.dumps(plain(validation), allow_nan=False)


def test_the_demo_site_without_a_column_is_stopped_and_its_letter_asks_for_that_alone(
    tmp_path: Path, network: Network
) -> None:
    write_demo_network(tmp_path / "demo", rows={"registry": 400, DEMO_STOPPED: 300})
    source = prepare("registry", network, home=tmp_path)
    validation = prepare(DEMO_STOPPED, network, home=tmp_path, source=source.frame).validation
    assert validation.reason == "column 'stage' (Clinical T stage) is not in the extract"
    letter = validation.message()
    assert letter.count("'stage'") == 1
    assert "please add it" in letter
    assert "used without" not in letter
    left = disclose_validation(validation, network.site(DEMO_STOPPED).disclosure)
    assert left.reason == validation.reason, "a missing column is a fact about the file"
    assert "3 of 300" in letter
    assert "<10 of 300" in left.message()


def test_a_replaced_extract_is_noticed(home: Path, network: Network) -> None:
    site = network.site("harbour")
    before = fingerprint(site, home=home, base=network.base)
    prepare(site, network, home=home, expected=before)
    path = home / "demo" / "harbour.csv"
    path.write_text(path.read_text().replace("T1", "T2", 1))
    with pytest.raises(Unavailable, match="was replaced while the run was going on"):
        prepare(site, network, home=home, expected=before)


def test_another_file_in_the_sites_format_can_be_prepared(home: Path, network: Network, tmp_path: Path) -> None:
    batch = tmp_path / "batch.csv"
    batch.write_text("\n".join((home / "demo" / "hillside.csv").read_text().splitlines()[:41]) + "\n")
    prepared = prepare("hillside", network, home=home, file=batch)
    assert prepared.validation.read == prepared.validation.used == 40
    assert prepared.frame["age"].between(40, 100).all()


@pytest.mark.parametrize("ending", ["csv", "CSV", "csv.gz", "parquet", "pq", "txt"])
def test_a_batch_is_read_as_the_file_it_is_where_the_site_is_a_database(
    ending: str, network: Network, patients: Any, make_site: Any, tmp_path: Path
) -> None:
    batch, frame = tmp_path / f"batch.{ending}", patients(40)
    frame.to_parquet(batch) if ending[0] == "p" else frame.to_csv(batch, index=False)
    # The address is not set: a reader that asks the database fails.
    site = make_site(location=None, reader={"kind": "sql", "url_env": "NO_SUCH_DATABASE", "table": "patients"})
    prepared = prepare(site, network, home=tmp_path, file=batch)
    assert prepared.frame["patient_id"].tolist() == frame["patient_id"].tolist()


@pytest.mark.parametrize("reader", ["csv", "parquet"])
def test_a_batch_may_be_another_kind_of_file_than_the_extract(
    reader: str, network: Network, patients: Any, make_site: Any, tmp_path: Path
) -> None:
    other = {"csv": "parquet", "parquet": "csv"}[reader]
    options = {"separator": ";"} if reader == "csv" else {}
    site, frame = make_site(reader={"kind": reader, **options}), patients(40)
    frame.to_csv(tmp_path / "batch.csv", index=False)
    frame.to_parquet(tmp_path / "batch.parquet")
    assert prepare(site, network, home=tmp_path, file=tmp_path / f"batch.{other}").validation.used == 40
    # A name that tells nothing is left to the site's own reader, with its options.
    unnamed = tmp_path / "batch"
    if reader == "csv":
        frame.to_csv(unnamed, index=False, sep=";")
    else:
        frame.to_parquet(unnamed)
    assert prepare(site, network, home=tmp_path, file=unnamed).validation.used == 40


def wide_contract() -> Contract:
    """12 columns and 40 expectations."""
    numbers = [{"name": f"x{index}", "range": [-100, 100], "plausible": [-20, 20]} for index in range(8)]
    rules = [{"name": f"rule{index}", "title": "so it is", "when": {"column": "kind", "is": "a"},
              "then": {"column": f"x{index}", "below": 90}} for index in range(8)]  # fmt: skip
    return Contract.model_validate({
        "name": "wide", "version": 1, "title": "Wide", "rules": rules,
        "columns": [{"name": "id", "role": "id", "type": "categorical"}, *numbers,
                    {"name": "grade", "type": "ordinal", "categories": [1, 2, 3]},
                    {"name": "kind", "type": "categorical", "categories": ["a", "b"]},
                    {"name": "y", "role": "label", "type": "binary"}],
        "outcome": {"name": "y", "title": "y", "column": "y", "horizon": "1 year"},
    })  # fmt: skip


def wide_frame(rows: int, *, implausible: bool = False) -> pd.DataFrame:
    generator = np.random.default_rng(0)
    frame = pd.DataFrame({"id": np.char.add("p", np.arange(rows).astype(str))})
    for index in range(8):
        frame[f"x{index}"] = generator.normal(50 if implausible and index == 0 else 0, 1, rows).round(4)
    frame["grade"] = generator.integers(1, 4, rows)
    frame["kind"] = generator.choice(["a", "b"], rows)
    return frame.assign(y=generator.integers(0, 2, rows))


WIDE_SITE = {"name": "wide", "title": "Wide", "table": "wide", "role": "source", "settle_seconds": 0}


def processor_seconds(path: Path, **options: Any) -> tuple[float, Any]:
    """Reads and prepares a file; processor time, so that other work on the machine does not count."""
    site = Site.model_validate(WIDE_SITE | {"location": str(path)} | options)
    start = time.process_time()
    prepared = prepare_frame(read_extract(site, home=path.parent, base=path.parent), wide_contract(), site)
    return time.process_time() - start, prepared


@pytest.mark.slow
def test_a_registry_is_checked_in_seconds(tmp_path: Path) -> None:
    rows = 240_486
    contract = wide_contract()
    assert len(suite(contract, contract.names, labels=True)) == 40
    prepare_frame(wide_frame(50), wide_contract(), Site.model_validate(WIDE_SITE | {"location": "x"}))
    for name, implausible in (("clean", False), ("warned", True)):
        table = arrow.Table.from_pandas(wide_frame(rows, implausible=implausible), preserve_index=False)
        arrow_csv.write_csv(table, tmp_path / f"{name}.csv")
    clean, prepared = processor_seconds(tmp_path / "clean.csv")
    assert prepared.validation.used == rows
    warned, prepared = processor_seconds(tmp_path / "warned.csv")
    assert prepared.validation.used == rows
    assert {finding.count for finding in prepared.validation.findings} == {rows}
    assert clean <= 3.0
    assert warned <= 3 * clean


@pytest.mark.slow
def test_quarantining_everything_is_no_slower_than_that(tmp_path: Path) -> None:
    frame = wide_frame(100_000)
    frame["x0"] += 500
    frame.to_parquet(tmp_path / "bad.parquet")
    seconds, prepared = processor_seconds(tmp_path / "bad.parquet", reader="parquet")
    assert prepared.validation.quarantined == len(prepared.quarantine) == 100_000
    assert seconds <= 6.0


def seconds_for_columns(count: int) -> float:
    """Processor time to check a table of so many columns of labels."""
    labels = np.random.default_rng(1).choice(["a", "b", "c"], (2_000, count))
    frame = pd.DataFrame(labels, columns=[f"x{index}" for index in range(count)])
    frame = frame.assign(id=[f"p{row}" for row in range(len(frame))], y=np.arange(len(frame)) % 2)
    columns = [{"name": f"x{index}", "type": "categorical", "categories": ["a", "b", "c"]} for index in range(count)]
    ends = [{"name": "id", "role": "id", "type": "categorical"}, {"name": "y", "role": "label", "type": "binary"}]
    outcome = {"name": "y", "title": "Y", "column": "y"}
    table = {"name": "wide", "version": "1", "title": "Wide", "columns": [*ends, *columns], "outcome": outcome}
    start = time.process_time()
    prepared = prepare_frame(frame, Contract.model_validate(table), Site.model_validate(WIDE_SITE | {"location": "x"}))
    assert prepared.validation.used == len(frame)
    return time.process_time() - start


@pytest.mark.slow
def test_ten_times_the_columns_take_ten_times_as_long() -> None:
    seconds_for_columns(2)
    assert seconds_for_columns(400) <= 20 * seconds_for_columns(40)


@pytest.mark.slow
def test_two_million_rows_of_parquet(tmp_path: Path) -> None:
    wide_frame(2_000_000).to_parquet(tmp_path / "large.parquet", index=False)
    code = f"""
import importlib.util, json, resource, pathlib
spec = importlib.util.spec_from_file_location("measure", {__file__!r})
module = importlib.util.module_from_spec(spec)
spec.loader.exec_module(module)
import great_expectations
seconds, prepared = module.processor_seconds(pathlib.Path({str(tmp_path / "large.parquet")!r}), reader="parquet")
peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
print(json.dumps([seconds, peak, prepared.validation.used]))
"""
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    seconds, peak, used = json.loads(done.stdout.splitlines()[-1])
    assert used == 2_000_000
    assert seconds <= 30
    assert peak <= 2 * 1024**3
