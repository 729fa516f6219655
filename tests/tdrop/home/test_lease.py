"""A stage in use is leased for as long as its process lives, however it ends."""

from __future__ import annotations

import subprocess
import sys

import pytest
from conftest import PROJECT
from tdrop.home.lease import in_use, let_go
from waiting import wait_until

from tdrop.home.store import Store

PROGRAM = """
import sys, time
from pathlib import Path
from tdrop.home.store import Store
ref = Store(Path(sys.argv[1])).make("fit", {"seed": 0}, lambda folder: (folder / "model").write_text("m"))
print(ref.path, flush=True)
time.sleep(3600)
"""


@pytest.fixture(autouse=True)
def nothing_leased():
    yield
    let_go()


def test_a_lease_ends_with_its_process_also_by_kill_9(tmp_path):
    user = subprocess.Popen(
        [sys.executable, "-c", PROGRAM, str(tmp_path)], cwd=PROJECT, stdout=subprocess.PIPE, text=True
    )
    (stage,) = (tmp_path / "store" / "fit").glob("[!.]*") if user.stdout.readline() else ()
    assert in_use(tmp_path) == {stage}
    user.kill()
    user.wait()
    wait_until(lambda: not in_use(tmp_path))
    assert not list((tmp_path / "leases").glob("*.txt"))


def test_a_stage_is_leased_whether_it_was_made_or_found(tmp_path):
    refs = [Store(tmp_path).make("fit", {"seed": 0}, lambda folder: (folder / "m").write_text("m")) for _ in range(2)]
    assert refs[1].reused
    assert in_use(tmp_path) == {refs[0].path}
    let_go()
    assert in_use(tmp_path) == set()
    Store(tmp_path).make("fit", {"seed": 0}, lambda folder: None)
    assert in_use(tmp_path) == {refs[0].path}
