"""Ctrl-C and a polite kill at several moments: the command ends, and an interrupted run neither chooses nor looks."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time

import pytest
from conftest import PROJECT, compared_network, write_tiny_network
from waiting import LIMIT_SECONDS, wait_until

from flows.training import collect_fits
from tasks.run import Trained
from tdrop.home import Interrupted, clear_interrupt, read_note, read_status, request_interrupt

ONE, TWO = ("harbour",), ("harbour", "hillside", "--at-once", "2")

#: What comes after the training, and must not be there.
LATER = ("choice", "models", "evaluation")
MOMENTS = [
    (signal.SIGINT, ONE, "matching"),
    (signal.SIGTERM, ONE, "fit"),
    # Two sites at once: the second may be starting just then, and is closed by its next run.
    pytest.param(signal.SIGINT, TWO, "fit", marks=pytest.mark.slow),
    pytest.param(signal.SIGTERM, TWO, "held-out", marks=pytest.mark.slow),
    pytest.param(signal.SIGINT, ONE, "prepared", marks=pytest.mark.slow),
    pytest.param(signal.SIGTERM, TWO, "prepared", marks=pytest.mark.slow),
    pytest.param(signal.SIGINT, TWO, "fold", marks=pytest.mark.slow),
]


def start(workspace, sites):
    # Little to tune before the first fit, and so many fits after it that no site ends before the other begins.
    methods = ("--method", "mlp", "--method", "logistic_regression")
    options = ("--trials", "1", "--seeds", "50", "--contracts", workspace.contracts, *methods)
    return subprocess.Popen(
        [sys.executable, "-m", "flows.cli", "transfer", *sites, *options],
        cwd=PROJECT,
        env={**os.environ, "TDROP_HOME": workspace.home},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def wait_for(workspace, stage: str, process) -> None:
    stages = workspace.root / "store" / stage
    wait_until(lambda: list(stages.glob("[!.]*")) or process.poll() is not None)
    assert process.poll() is None, process.communicate()


@pytest.mark.parametrize(("order", "sites", "moment"), MOMENTS)
def test_an_interrupted_transfer_ends_and_chooses_nothing(prefect_server, tmp_path, order, sites, moment):
    workspace = write_tiny_network(tmp_path) if moment in ("prepared", "matching") else compared_network(tmp_path)
    process = start(workspace, sites)
    wait_for(workspace, moment, process)
    # Of two sites the second may begin seconds after the first one's fits; it is interrupted too where it has begun.
    begun = [name for name in sites if name in ("harbour", "hillside") and read_note(workspace, name)]
    # Extracts are read while the server starts, before there is a run.
    assert begun or moment == "prepared"
    os.kill(process.pid, order)
    _, errors = process.communicate(timeout=LIMIT_SECONDS)
    assert process.returncode == 130, errors
    said = [line for line in errors.splitlines() if line]
    assert said[0] == "Stopping ..."
    assert said[1:] == [
        "tdrop: interrupted: nothing is half-written; the same command goes on from the last finished step"
    ]
    for name in begun:
        assert read_status(workspace, name).outcome == "interrupted"
        assert not workspace.latest(name).exists()
    assert not [stage for stage in LATER if (workspace.root / "store" / stage).exists()]
    assert not list(workspace.root.glob(".record-*"))
    if begun:
        assert states_of_runs(workspace, sites) <= {"CANCELLED", "CRASHED"}


def states_of_runs(workspace, sites) -> set[str]:
    """How Prefect says that the interrupted flow runs ended: none of them runs for ever."""
    from prefect.client.orchestration import get_client

    runs = [read_note(workspace, site).flow_run for site in sites if read_note(workspace, site) is not None]
    assert runs
    with get_client(sync_client=True) as client:
        return {client.read_flow_run(run).state_type.value for run in runs}


def test_a_method_fails_only_by_its_own_failure(tmp_path):
    """A fit that was ended is not counted, whatever it looks like to whoever waits for it."""
    from concurrent.futures import CancelledError

    class Ended:
        def result(self):
            raise CancelledError

    trained = Trained()
    request_interrupt()
    try:
        with pytest.raises(Interrupted):
            collect_fits("harbour", "mlp", [Ended()], trained)
    finally:
        clear_interrupt()
    assert not trained.failed


PROGRAM = """
import hashlib, sys, time
from flows.interrupts import exit_now, install_signal_handlers, signal_received
install_signal_handlers()
try:
    print("begun", flush=True)
    {body}
finally:
    if signal_received():
        exit_now()
"""
BODIES = {
    "waits": "time.sleep(3600)",
    "swallows the interrupt and goes on": ("\n    try: time.sleep(3600)\n    except BaseException: time.sleep(3600)"),
    # Python can only print what is raised there, together with whatever was at hand.
    "is where no exception can be caught": (
        "\n    class Held:\n        def __del__(self): time.sleep(3600)\n    held = Held()\n    del held"
    ),
    # Python's handlers wait until this returns.
    "computes in another language": "hashlib.pbkdf2_hmac('sha256', b'', b'', 10**9)",
}


def test_whatever_a_command_is_busy_with_it_ends():
    cases = [(body, order) for body in BODIES for order in (signal.SIGINT, signal.SIGTERM)]
    # All at once: some take the whole time that a command has to end.
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", PROGRAM.format(body=BODIES[body])],
            cwd=PROJECT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )
        for body, _ in cases
    ]  # fmt: skip
    for (body, order), process in zip(cases, processes, strict=True):
        assert process.stdout.readline() == "begun\n", body
        process.send_signal(order)
    for (body, order), process in zip(cases, processes, strict=True):
        assert process.stderr.readline() == "Stopping ...\n", (body, order)
        assert process.wait(LIMIT_SECONDS) == 130, (body, order)
        errors = process.stderr.read()
        assert errors.count("tdrop: interrupted") == 1, (body, order)
        assert "Traceback" not in errors, (body, order)


def test_ctrl_c_to_the_whole_group_while_workers_start_prints_no_traceback(tmp_path):
    """A terminal sends Ctrl-C to every process of the command."""
    program = (
        "from flows.interrupts import exit_now, install_signal_handlers, signal_received\ninstall_signal_handlers()\n"
        "from tdrop.home import compute, worker_processes\nimport os\n"
        "try:\n    with worker_processes(2):\n        print('begun', flush=True)\n"
        "        while True: compute(os.getpid)\nfinally:\n    if signal_received(): exit_now()"
    )
    for moment in (0.0, 0.3, 1.0):
        process = subprocess.Popen(
            [sys.executable, "-c", program],
            cwd=PROJECT,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        assert process.stdout.readline() == "begun\n"
        time.sleep(moment)
        os.killpg(process.pid, signal.SIGINT)
        _, errors = process.communicate(timeout=LIMIT_SECONDS)
        assert process.returncode == 130
        assert "Traceback" not in errors, moment


def test_a_signal_while_the_program_is_being_loaded_gets_its_sentence_too(tmp_path):
    """The first module that the command line loads stands for all of them: it takes its time."""
    (tmp_path / "typer.py").write_text("import time\nprint('loading', flush=True)\ntime.sleep(3600)\n")
    for order in (signal.SIGINT, signal.SIGTERM):
        process = subprocess.Popen(
            [sys.executable, "-m", "flows.cli", "status"],
            cwd=PROJECT,
            env={**os.environ, "PYTHONPATH": str(tmp_path)},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        assert process.stdout.readline() == "loading\n"
        process.send_signal(order)
        _, errors = process.communicate(timeout=LIMIT_SECONDS)
        assert process.returncode == 130
        assert errors.startswith("Stopping ...\ntdrop: interrupted")
        assert "Traceback" not in errors
