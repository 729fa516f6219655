"""No connection leaves the machine: every process of a run notes whom it calls."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from conftest import PROJECT, write_tiny_network

#: Runs in every Python process of the run, before anything else.
WATCH = """
import os, sys
def note(event, arguments):
    if event == "socket.connect":
        address = arguments[1]
        with open(os.environ["TDROP_CALLS"], "a") as calls:
            calls.write(repr(address[0] if isinstance(address, tuple) else "local:" + str(address)) + "\\n")
    elif event == "socket.getaddrinfo" and arguments[0] is not None:
        with open(os.environ["TDROP_CALLS"], "a") as calls:
            calls.write(repr(arguments[0]) + "\\n")
sys.addaudithook(note)
with open(os.environ["TDROP_CALLS"], "a") as calls:
    calls.write(repr("local:watching") + "\\n")
"""
LOOPBACK = ("127.", "::1", "localhost", "local:", "0.0.0.0")


def test_a_run_calls_nobody_beyond_loopback(tmp_path):
    workspace = write_tiny_network(tmp_path)
    watch = tmp_path / "watch"
    watch.mkdir()
    (watch / "sitecustomize.py").write_text(WATCH)
    calls = tmp_path / "calls.txt"
    environment = {name: value for name, value in os.environ.items() if name not in {"PREFECT_API_URL", "PREFECT_HOME"}}
    result = subprocess.run(
        [
            *(str(Path(sys.executable).with_name("tdrop")), "transfer", "harbour"),
            *("--method", "logistic_regression", "--trials", "1", "--seeds", "1"),
            *("--contracts", workspace.contracts),
        ],
        cwd=PROJECT,
        env={**environment, "TDROP_HOME": workspace.home, "PYTHONPATH": str(watch), "TDROP_CALLS": str(calls)},
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert result.returncode == 0, result.stderr
    called = {eval(line) for line in calls.read_text().splitlines()}
    called = {name.decode() if isinstance(name, bytes) else name for name in called}
    assert "local:watching" in called, "nobody watched"
    assert all(name.startswith(LOOPBACK) for name in called), called
    assert not result.stderr.strip(), "libraries' chatter reached the terminal"
