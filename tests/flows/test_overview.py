"""`tdrop status` tells how each site stands."""

from __future__ import annotations

import json
import os
from io import StringIO

from conftest import settle

from flows.overview import run_status, standing_of
from flows.printer import Printer
from tasks.prepare import look_for_changes
from tdrop.home.status import Status, one_at_a_time, write_status
from tdrop.runs.settings import TransferSettings


def test_every_state_is_told_with_its_reason(tiny_network):
    place = tiny_network
    site = place.resolve("harbour")
    assert standing_of(site).state == "never run"
    write_status(place, Status("harbour", None, "stopped", sentence="column 'age' is missing"))
    assert (standing_of(site).state, standing_of(site).reason) == ("stopped", "column 'age' is missing")
    write_status(place, Status("harbour", look_for_changes(site, TransferSettings()), "done"))
    assert standing_of(site).state == "done"
    with one_at_a_time(place, "harbour"):
        assert standing_of(site).state == "running"
    extract = place.root / "demo" / "registry.csv"
    found = extract if extract.is_file() else next((place.root / "demo").glob("registry*"))
    found.write_bytes(found.read_bytes() + b"\n")
    settle(found.parent)
    assert standing_of(site).state == "stale"
    assert "the source's data changed" in standing_of(site).reason


def test_the_age_of_the_data_is_told(tiny_network, monkeypatch):
    os.utime(tiny_network.root / "demo" / "harbour.csv", (1_700_000_000, 1_700_000_000))
    monkeypatch.setenv("TDROP_HOME", tiny_network.home)
    out = StringIO()
    run_status(contracts=tiny_network.contracts, console=Printer(file=out))
    assert "harbour: never run, data of 2023-11-14 22:13 UTC, no report\n" in out.getvalue()


def test_json_is_one_document_with_every_target(tiny_network, monkeypatch):
    monkeypatch.setenv("TDROP_HOME", tiny_network.home)
    out = StringIO()
    run_status(contracts=tiny_network.contracts, console=Printer(as_json=True, file=out))
    sites = json.loads(out.getvalue())["sites"]
    assert {each["site"] for each in sites} == {site.name for site in tiny_network.network().targets}
    assert {each["state"] for each in sites} == {"never run"}
