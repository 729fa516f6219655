"""A Prefect server that goes away in the middle of a run: said within seconds, one sentence, nothing lost."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time

from conftest import write_tiny_network
from separate_process import small_transfer
from waiting import wait_until

from flows import orchestration
from flows.orchestration import free_port, prefect_command, serving
from tdrop.home import read_status

#: A person waits for most of a minute; a test need not.
COMMAND = """
from flows import orchestration
orchestration.ASK_SECONDS, orchestration.SAY_SECONDS, orchestration.GIVE_UP_SECONDS = 0.5, 2, 6
from flows.cli import main
main()
"""


def test_silence_is_said_within_ten_seconds_and_ends_the_command_within_a_minute():
    asked = orchestration.ASK_SECONDS + 5  # so long a question may go without an answer
    assert orchestration.SAY_SECONDS <= asked <= 10
    assert orchestration.GIVE_UP_SECONDS + asked < 60


def test_a_server_killed_in_the_middle_costs_only_what_was_under_way(tmp_path):
    place = write_tiny_network(tmp_path)
    port = free_port()
    url = f"http://127.0.0.1:{port}/api"
    (_, *arguments), environment = small_transfer(place, "harbour", url, trials=3)
    command = [sys.executable, "-c", COMMAND, *arguments]
    health, log = f"{url}/health", tmp_path / "server.log"
    trials = place.root / "store" / "held-out"

    with serving("Prefect", prefect_command(port), health, log, environment) as server:
        process = subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        wait_until(lambda: list(trials.glob("[!.]*/manifest.json")) or process.poll() is not None)
        os.killpg(server.process.pid, signal.SIGKILL)
        killed = time.monotonic()
        _, errors = process.communicate(timeout=600)
        assert time.monotonic() - killed < 60
    assert process.returncode == 1
    first, last = errors.strip().splitlines()
    assert first == f"tdrop: the Prefect server at {url} does not answer; waiting for it"
    assert last.startswith(f"tdrop: the Prefect server at {url} stopped answering; finished steps are kept")
    assert last.endswith("run the same command again when it is back")
    assert read_status(place, "harbour").outcome == "interrupted"
    finished = {file: file.stat().st_mtime_ns for file in trials.glob("[!.]*/manifest.json")}
    assert finished

    # Without a server the command works as well, and a test need not wait for another.
    del environment["PREFECT_API_URL"]
    again = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=600)
    assert again.returncode == 0, again.stderr
    assert {file: file.stat().st_mtime_ns for file in finished} == finished, "a finished trial was computed again"
