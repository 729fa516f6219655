"""A Prefect server that goes away in the middle of a run: said within seconds, one sentence, nothing lost."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

from command import tdrop
from conftest import compared_network
from servers import prefect_server_in
from waiting import LIMIT_SECONDS, wait_until

from flows import orchestration
from tdrop.home import read_status

#: A person waits for most of a minute; a test need not.
COMMAND = """
from flows import orchestration
orchestration.CHECK_SECONDS, orchestration.WARN_SECONDS, orchestration.GIVE_UP_SECONDS = 0.5, 2, 6
from flows.cli import main
main()
"""


def test_silence_is_said_within_ten_seconds_and_ends_the_command_within_a_minute():
    asked = orchestration.CHECK_SECONDS + 5  # so long a question may go without an answer
    assert orchestration.WARN_SECONDS <= asked <= 10
    assert orchestration.GIVE_UP_SECONDS + asked < 60


def test_a_server_killed_in_the_middle_costs_only_what_was_under_way(tmp_path, prefect_server, monkeypatch):
    workspace = compared_network(tmp_path)
    methods = ("--method", "mlp", "--method", "logistic_regression")
    arguments = ("transfer", "harbour", "--contracts", workspace.contracts, "--trials", "3", "--seeds", "1", *methods)
    command = [sys.executable, "-c", COMMAND, *arguments]
    trials = workspace.root / "store" / "held-out"
    with prefect_server_in(tmp_path / "prefect") as (url, server):
        environment = {**os.environ, "TDROP_HOME": workspace.home, "PREFECT_API_URL": url}
        process = subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        wait_until(lambda: list(trials.glob("[!.]*/manifest.json")) or process.poll() is not None)
        os.killpg(server.process.pid, signal.SIGKILL)
        _, errors = process.communicate(timeout=LIMIT_SECONDS)
    assert process.returncode == 1
    first, last = errors.strip().splitlines()
    assert first == f"tdrop: the Prefect server at {url} does not answer; waiting for it"
    assert last.startswith(f"tdrop: the Prefect server at {url} stopped answering; finished steps are kept")
    assert last.endswith("run the same command again when it is back")
    assert read_status(workspace, "harbour").outcome == "interrupted"
    finished = {file: file.stat().st_mtime_ns for file in trials.glob("[!.]*/manifest.json")}
    assert finished

    # Another server is as good as the one that came back.
    monkeypatch.setenv("TDROP_HOME", workspace.home)
    assert "harbour" in tdrop(*arguments, "--processes", "0")
    assert {file: file.stat().st_mtime_ns for file in finished} == finished, "a finished trial was computed again"
