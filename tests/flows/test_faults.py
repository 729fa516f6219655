"""Faults of the machine: one sentence, the last good report as it was, and the same numbers once it is well again."""

from __future__ import annotations

import os
import shutil
import stat
import subprocess
import time
from contextlib import contextmanager, suppress

import pandas as pd
import pytest
from conftest import cheap, compared_network, finished_network, transfer as run_transfer, write_tiny_network

from tasks.registry import promote_candidate
from tdrop.base import Unwritable, UsageError
from tdrop.data import write_patients
from tdrop.home import add_listener, remove_listeners
from tdrop.home.status import read_status
from tdrop.home.workspace import Workspace

pytestmark = pytest.mark.usefixtures("plain_reports", "prefect_server")
SITE = "harbour"
SETTINGS = cheap("logistic_regression")
#: What a person is told last before the fault, in a run's order.
MOMENTS = ("read and check", "encode", "estimate shift", "match", "tune", "fit", "choose", "forecast", "evaluate")


def transfer(workspace, **more):
    return run_transfer(workspace, SITE, SETTINGS, **more)


def published(workspace) -> dict[str, bytes]:
    return {file.name: file.read_bytes() for file in workspace.latest(SITE).iterdir()}


def half_written(workspace) -> list[str]:
    """Whatever a run writes beside its place before it moves it there."""
    versions = list((workspace.site(SITE) / "latest-versions").glob("*"))
    hidden = [str(file) for file in workspace.root.rglob(".*")]
    return hidden + [str(folder) for folder in versions if folder != workspace.latest(SITE).resolve()]


@contextmanager
def at(moment, happens):
    """Lets something happen when a stage of the run is over."""
    add_listener(lambda event: happens() if event.stage == moment and event.done == event.total else None)
    try:
        yield
    finally:
        remove_listeners()


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory):
    return finished_network(tmp_path_factory.mktemp("undisturbed"), "logistic_regression")


def evaluation(workspace) -> bytes:
    return published(workspace)["evaluation.json"]


def test_everything_below_the_home_is_for_its_owner_alone(undisturbed):
    promote_candidate(undisturbed, SITE, by="Dr Chen", note="review clinics only")
    files = [path for path in undisturbed.root.rglob("*") if not path.is_symlink()]
    open_to_others = [path for path in (undisturbed.root, *files) if stat.S_IMODE(path.stat().st_mode) & 0o077]
    assert any(path.name == "served.json" for path in files)
    assert not open_to_others


@pytest.fixture
def small_disk(tmp_path):
    """A folder that is a disk of its own."""
    folder = tmp_path / "disk"
    folder.mkdir()
    order = ["mount", "-t", "tmpfs", "-o", "size=64m", "tmpfs", str(folder)]
    try:
        mounted = os.geteuid() == 0 and subprocess.run(order, capture_output=True, check=False).returncode == 0
    except OSError:
        mounted = False
    if not mounted:
        pytest.skip("only root can mount a small disk, and not everywhere")
    yield folder
    subprocess.run(["umount", "--lazy", str(folder)], check=True)


def fill(disk) -> None:
    with suppress(OSError), (disk / "ballast").open("ab", buffering=0) as ballast:
        while ballast.write(bytes(1 << 20)):
            pass
    with suppress(OSError), (disk / "ballast").open("ab", buffering=0) as ballast:
        while ballast.write(bytes(4096)):
            pass


def test_a_full_disk_at_every_stage_costs_that_stage_and_no_digit(small_disk, undisturbed):
    workspace = write_tiny_network(small_disk)
    for moment in MOMENTS:
        with at(moment, lambda: fill(small_disk)), pytest.raises(Unwritable, match="the disk is full; free space"):
            transfer(workspace)
        (small_disk / "ballast").unlink()
        assert not workspace.latest(SITE).exists(), moment
        assert half_written(workspace) == [], moment
    with at("report", lambda: fill(small_disk)), pytest.raises(Unwritable, match="the disk is full; free space"):
        transfer(workspace)
    assert evaluation(workspace) == evaluation(undisturbed)
    (small_disk / "ballast").unlink()
    assert half_written(workspace) == []
    assert transfer(workspace).not_recorded is None
    assert evaluation(workspace) == evaluation(undisturbed)

    before = published(workspace)
    with at("evaluate", lambda: fill(small_disk)), pytest.raises(Unwritable):
        transfer(workspace, again=True)
    assert published(workspace) == before
    assert half_written(workspace) == []


def test_a_list_that_does_not_fit_on_the_disk_is_said_and_leaves_nothing(small_disk):
    fill(small_disk)
    with pytest.raises(Unwritable, match="the disk is full"):
        write_patients(small_disk / "list.csv", pd.DataFrame({"id": ["P1"] * 5000}))
    assert {file.name for file in small_disk.iterdir()} == {"ballast"}


def test_a_home_that_became_read_only_is_said_and_keeps_its_report(small_disk, undisturbed):
    workspace = Workspace.at(
        shutil.copytree(undisturbed.root, small_disk / "home", symlinks=True), undisturbed.contracts
    )
    before = published(workspace)
    subprocess.run(["mount", "-o", "remount,ro", str(small_disk)], check=True)
    with pytest.raises(UsageError, match=r"cannot write to .* Read-only file system; set TDROP_HOME"):
        transfer(workspace, again=True)
    assert published(workspace) == before


@pytest.mark.parametrize(
    "damage",
    [lambda whole: b"not a database " * 400, lambda whole: whole[: len(whole) // 2]],
    ids=["no database", "cut short"],
)
def test_a_damaged_record_costs_the_record_alone_and_is_left_as_it_is(tmp_path, undisturbed, damage):
    workspace = Workspace.at(shutil.copytree(undisturbed.root, tmp_path / "home", symlinks=True), undisturbed.contracts)
    record = workspace.root / "mlflow.db"
    record.write_bytes(damage(record.read_bytes()))
    found = record.read_bytes()
    said = transfer(workspace, again=True).not_recorded
    assert f"MLflow's record '{record}' is damaged" in said
    assert "move it away" in said
    assert record.read_bytes() == found
    assert read_status(workspace, SITE).outcome == "not recorded"
    assert evaluation(workspace) == evaluation(undisturbed)
    assert half_written(workspace) == []

    record.rename(tmp_path / "away.db")
    assert transfer(workspace).not_recorded is None


def test_a_clock_that_jumps_back_a_day_changes_nothing(tmp_path, monkeypatch, undisturbed):
    workspace, real = compared_network(tmp_path), time.time
    with at("match", lambda: monkeypatch.setattr(time, "time", lambda: real() - 86_400)):
        assert transfer(workspace).not_recorded is None
    assert evaluation(workspace) == evaluation(undisturbed)
    assert half_written(workspace) == []
    assert "nothing changed" in transfer(workspace).unchanged
