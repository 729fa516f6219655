"""A killed, damaged or repeated run: finished work is used again, and the numbers are the same to the last digit."""

from __future__ import annotations

import json
import os
import signal

import pytest
from command import tdrop
from conftest import TINY_METHODS, cheap, compared_network, leave_reports_out, settle, transfer
from separate_process import start_transfer, wait_for_pause, worker_processes_of
from waiting import is_gone, wait_until

from tasks.run import last_run
from tdrop.home import read_note

pytestmark = pytest.mark.usefixtures("plain_reports", "prefect_server")
SITE = "harbour"


@pytest.fixture(scope="module")
def settings():
    return cheap(seeds=3)


def finished_stages(workspace) -> dict[str, int]:
    """By stage of the store, when it was sealed."""
    files = (workspace.root / "store").glob("*/[!.]*/manifest.json")
    return {f"{file.parent.parent.name}/{file.parent.name}": file.stat().st_mtime_ns for file in files}


def evaluation(workspace) -> bytes:
    return (workspace.latest(SITE) / "evaluation.json").read_bytes()


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory, settings):
    """A site whose run nobody disturbed; tests leave it as they found it."""
    workspace = compared_network(tmp_path_factory.mktemp("undisturbed"))
    with pytest.MonkeyPatch.context() as patch:
        leave_reports_out(patch)
        transfer(workspace, SITE, settings)
    return workspace


def state_of(flow_run: str) -> tuple[str, str]:
    """Type and name of a run's state in Prefect."""
    from prefect.client.orchestration import get_client

    with get_client(sync_client=True) as client:
        state = client.read_flow_run(flow_run).state
    return state.type.value, state.name


def test_a_killed_run_goes_on_and_ends_with_the_same_digits(undisturbed, settings, tmp_path, monkeypatch):
    workspace = compared_network(tmp_path)
    process = start_transfer(workspace, settings, SITE, 1, pauses=("fit",))
    wait_for_pause(process, "fit")
    wait_until(lambda: len(list((workspace.root / "store").glob("model/[!.]*"))) >= 2)
    children = worker_processes_of(process.pid)
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    before = finished_stages(workspace)
    assert not workspace.latest(SITE).exists()
    ghost = read_note(workspace, SITE).flow_run
    monkeypatch.setenv("TDROP_HOME", workspace.home)
    assert "interrupted" in tdrop("status", "--contracts", workspace.contracts)
    assert state_of(ghost) == ("RUNNING", "Running")

    transfer(workspace, SITE, settings)

    assert state_of(ghost) == ("CRASHED", "Interrupted"), "it would count as running for ever"
    assert "interrupted" not in tdrop("status", "--contracts", workspace.contracts)
    after = finished_stages(workspace)
    assert {name: after[name] for name in before} == before
    assert evaluation(workspace) == evaluation(undisturbed)
    assert children, "the run had no worker process to leave behind"
    wait_until(lambda: all(map(is_gone, children)))


def test_a_run_without_changes_imports_nothing_heavy(undisturbed, settings):
    before = finished_stages(undisturbed)
    process = start_transfer(undisturbed, settings, SITE, 1)
    output, _ = process.communicate(timeout=600)
    assert process.returncode == 0, output
    assert "imported []" in output
    assert finished_stages(undisturbed) == before


@pytest.mark.parametrize("damage", [b"", b"{", None])
def test_a_damaged_stage_is_computed_again_not_trusted(undisturbed, settings, damage):
    expected = evaluation(undisturbed)
    fit = next((undisturbed.root / "store").glob("fit/[!.]*"))
    if damage is None:
        content = bytearray((fit / "predictions.npz").read_bytes())
        content[len(content) // 2] ^= 1
        (fit / "predictions.npz").write_bytes(bytes(content))
    else:
        (fit / "manifest.json").write_bytes(damage)
    transfer(undisturbed, SITE, settings, again=True)
    assert json.loads((fit / "manifest.json").read_text())["files"]
    assert evaluation(undisturbed) == expected


def test_a_changed_extract_re_runs_what_depends_on_it(undisturbed, settings, tmp_path):
    before = finished_stages(undisturbed)
    extract = undisturbed.root / "demo" / "harbour.csv"
    original = extract.read_bytes()
    extract.write_bytes(b"".join(original.splitlines(keepends=True)[:-1]))
    settle(undisturbed.root / "demo")
    summary = transfer(undisturbed, SITE, settings)
    after = finished_stages(undisturbed)
    new = sorted(name.split("/")[0] for name in after if name not in before)
    assert new.count("prepared") == 1, "the source was read again although only the target changed"

    ablations = last_run(undisturbed, SITE).trained.ablations
    assert new.count("fit") == len(TINY_METHODS) * settings.seeds + len(ablations)
    assert json.loads((undisturbed.latest(SITE) / "evaluation.json").read_text())["patients"] == 149
    assert summary.not_recorded is None

    extract.write_bytes(original)
    settle(undisturbed.root / "demo")
    transfer(undisturbed, SITE, settings)
    assert finished_stages(undisturbed) == after


def test_a_status_tells_what_a_run_was_made_from(undisturbed, settings):
    status = json.loads((undisturbed.site(SITE) / "status.json").read_text())
    assert status["outcome"] == "done"
    assert set(status["inputs"]) == {"contract", "source_data", "target_data", "labels", "settings", "code"}
    assert status["started"] <= status["ended"]
