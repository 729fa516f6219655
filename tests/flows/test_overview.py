"""`tdrop status` shows how each site stands."""

from __future__ import annotations

import json
import os

import pytest
from command import tdrop
from conftest import settle

from flows.commands.look import standing_of
from tasks.prepare import digest_inputs
from tasks.settings import TransferSettings
from tdrop.home import Status, lock_site, write_status


def test_every_state_is_shown_with_its_reason(tiny_network):
    workspace = tiny_network
    site = workspace.resolve("harbour")
    assert standing_of(site).state == "never run"
    write_status(workspace, Status("harbour", None, "stopped", sentence="column 'age' is missing"))
    assert (standing_of(site).state, standing_of(site).reason) == ("stopped", "column 'age' is missing")
    write_status(workspace, Status("harbour", digest_inputs(site, TransferSettings()), "done"))
    assert standing_of(site).state == "done"
    with lock_site(workspace, "harbour"):
        assert standing_of(site).state == "running"
    extract = next((workspace.root / "demo").glob("registry*"))
    extract.write_bytes(extract.read_bytes() + b"\n")
    settle(extract.parent)
    assert standing_of(site).state == "stale"
    assert "the source's data changed" in standing_of(site).reason


@pytest.mark.parametrize(
    ("verdict", "promotion", "champion", "step"),
    [
        ("go", None, None, "`tdrop promote harbour --by NAME --note TEXT`"),
        ("stop", None, None, "why no model is offered"),
        ("caution", {"version": "2", "method": "ensemble", "by": "Dr Chen", "when": "2026-11-18T08:00:00"},
         "version 2 (Ensemble), by Dr Chen, 2026-11-18", "`tdrop score harbour FILE`"),
    ],
)  # fmt: skip
def test_verdict_champion_and_next_step_follow_the_last_report(tiny_network, verdict, promotion, champion, step):
    site = tiny_network.resolve("harbour")
    write_status(tiny_network, Status("harbour", digest_inputs(site, TransferSettings()), "done"))
    folder = tiny_network.latest("harbour")
    folder.mkdir(parents=True)
    (folder / "summary.json").write_text(json.dumps({"verdict": verdict, "promotion": promotion}))
    standing = standing_of(site)
    assert (standing.verdict, standing.champion) == (verdict, champion)
    assert step in standing.next_step
    assert ("promote" in standing.next_step) is (verdict == "go")


def test_the_age_of_the_data_is_shown_and_json_is_one_document_with_every_target(tiny_network, monkeypatch):
    os.utime(tiny_network.root / "demo" / "harbour.csv", (1_700_000_000, 1_700_000_000))
    monkeypatch.setenv("TDROP_HOME", tiny_network.home)
    output = tdrop("status", "--contracts", tiny_network.contracts)
    assert "harbour: never run; data of 2023-11-14 22:13 UTC, no report\n" in output
    assert f"  next: `tdrop transfer harbour --contracts {tiny_network.contracts}`\n" in output
    sites = json.loads(tdrop("status", "--json", "--contracts", tiny_network.contracts))["sites"]
    assert {site["site"] for site in sites} == {site.name for site in tiny_network.network().targets}
    assert {site["state"] for site in sites} == {"never run"}
