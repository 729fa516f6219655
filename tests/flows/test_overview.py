"""`tdrop status` shows how each site stands."""

from __future__ import annotations

import json
import os

from command import tdrop
from conftest import settle

from flows.commands.look import standing_of
from tasks.prepare import look_for_changes
from tasks.run import TransferSettings
from tdrop.home import Status, one_at_a_time, write_status


def test_every_state_is_shown_with_its_reason(tiny_network):
    place = tiny_network
    site = place.resolve("harbour")
    assert standing_of(site).state == "never run"
    write_status(place, Status("harbour", None, "stopped", sentence="column 'age' is missing"))
    assert (standing_of(site).state, standing_of(site).reason) == ("stopped", "column 'age' is missing")
    write_status(place, Status("harbour", look_for_changes(site, TransferSettings()), "done"))
    assert standing_of(site).state == "done"
    with one_at_a_time(place, "harbour"):
        assert standing_of(site).state == "running"
    extract = next((place.root / "demo").glob("registry*"))
    extract.write_bytes(extract.read_bytes() + b"\n")
    settle(extract.parent)
    assert standing_of(site).state == "stale"
    assert "the source's data changed" in standing_of(site).reason


def test_the_age_of_the_data_is_shown_and_json_is_one_document_with_every_target(tiny_network, monkeypatch):
    os.utime(tiny_network.root / "demo" / "harbour.csv", (1_700_000_000, 1_700_000_000))
    monkeypatch.setenv("TDROP_HOME", tiny_network.home)
    output = tdrop("status", "--contracts", tiny_network.contracts)
    assert "harbour: never run, data of 2023-11-14 22:13 UTC, no report\n" in output
    sites = json.loads(tdrop("status", "--json", "--contracts", tiny_network.contracts))["sites"]
    assert {site["site"] for site in sites} == {site.name for site in tiny_network.network().targets}
    assert {site["state"] for site in sites} == {"never run"}
