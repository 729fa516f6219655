"""A Prefect server that goes away in the middle of a run: one sentence, nothing lost."""

from __future__ import annotations

import os
import signal
import subprocess

from conftest import write_tiny_network
from separate_process import small_transfer
from waiting import wait_until

from flows.orchestration import free_port, prefect_command, serving


def test_a_server_killed_in_the_middle_costs_only_what_was_under_way(tmp_path):
    place = write_tiny_network(tmp_path)
    port = free_port()
    url = f"http://127.0.0.1:{port}/api"
    # A person waits for minutes before the command gives up; a test need not.
    command, environment = small_transfer(place, "harbour", url, trials=3, PREFECT_CLIENT_MAX_RETRIES="1")
    health, log = f"{url}/health", tmp_path / "server.log"
    trials = place.root / "store" / "held-out"

    with serving("Prefect", prefect_command(port), health, log, environment) as server:
        process = subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        wait_until(lambda: list(trials.glob("[!.]*/manifest.json")) or process.poll() is not None)
        os.killpg(server.process.pid, signal.SIGKILL)
        _, errors = process.communicate(timeout=600)
    assert process.returncode == 1
    assert "stopped answering" in errors
    assert "run the same command again" in errors
    assert len(errors.strip().splitlines()) == 1, errors
    kept = {file: file.stat().st_mtime_ns for file in trials.glob("[!.]*/manifest.json")}
    assert kept

    # Without a server the command works as well, and a test need not wait for another.
    del environment["PREFECT_API_URL"]
    again = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=600)
    assert again.returncode == 0, again.stderr
    assert {file: file.stat().st_mtime_ns for file in kept} == kept, "a finished trial was computed again"
