"""Dask on another machine: a network namespace with a host name of its own that shares the home and nothing else."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
from command import tdrop
from conftest import PROJECT, compared_network
from dask_workers import WorkerKiller
from servers import prefect_server_in
from waiting import LIMIT_SECONDS, wait_until

from flows.orchestration import free_port

SITE = "harbour"
#: What a transfer writes that carries no time of day.
TIMELESS = ("evaluation.json", "choice.json", "forecast.json", "patients.csv")


@dataclass(frozen=True)
class Machines:
    """This machine and another one, joined by a cable.

    Attributes:
        other: The namespace of the other one.
        here: This machine's address on the cable.
        there: The other one's.
    """

    other: str
    here: str
    there: str

    def start_there(self, folder: Path, words: list[str], **environment: str) -> subprocess.Popen[bytes]:
        """Starts a program on the other machine, which knows nothing of this one's settings and folders."""
        for name in ("home", "temporary"):
            (folder / name).mkdir(parents=True, exist_ok=True)
        program = f'hostname {self.other} && exec "$@"'
        command = ["ip", "netns", "exec", self.other, "unshare", "--uts", "sh", "-c", program, "sh", *words]
        own = {"HOME": str(folder / "home"), "TMPDIR": str(folder / "temporary"), "PATH": os.environ["PATH"]}
        with (folder / "log").open("ab") as log:
            return subprocess.Popen(
                command, cwd=folder, env={**own, "PYTHONPATH": str(PROJECT), **environment}, stdout=log, stderr=log
            )


@pytest.fixture(scope="module")
def machines() -> Iterator[Machines]:
    number = os.getpid()
    name, cable = f"tdrop-{number}", f"td{number}"
    network = f"10.213.{number % 256}"
    machines = Machines(name, f"{network}.1", f"{network}.2")
    if shutil.which("ip") is None:
        pytest.skip("needs the program ip: apt install iproute2")
    steps = (
        ("netns", "add", name),
        ("link", "add", cable, "type", "veth", "peer", "name", "eth0", "netns", name),
        ("addr", "add", f"{machines.here}/24", "dev", cable),
        ("link", "set", cable, "up"),
        ("-n", name, "addr", "add", f"{machines.there}/24", "dev", "eth0"),
        ("-n", name, "link", "set", "eth0", "up"),
        ("-n", name, "link", "set", "lo", "up"),
    )
    try:
        for step in steps:
            done = subprocess.run(["ip", *step], capture_output=True, text=True, check=False)
            if done.returncode:
                pytest.skip(f"this kernel lets this user make no network: ip {' '.join(step)}: {done.stderr.strip()}")
        yield machines
    finally:
        # The cable goes with the namespace.
        subprocess.run(["ip", "netns", "del", name], capture_output=True, check=False)


@contextmanager
def cluster_on(machines: Machines, folder: Path, workspace, prefect: str) -> Iterator[str]:
    """A scheduler on this machine and two workers on the other one; yields the scheduler's address."""
    address = f"tcp://{machines.here}:{free_port()}"
    with ExitStack() as stack:
        command = [sys.executable, "-m", "distributed.cli.dask_scheduler"]
        command += ["--host", machines.here, "--port", address.rpartition(":")[2], "--no-dashboard"]
        with (folder / "scheduler.log").open("ab") as log:
            started = [subprocess.Popen(command, cwd=folder, stdout=log, stderr=log)]
        worker = [sys.executable, "-m", "distributed.cli.dask_worker", address, "--nthreads", "1"]
        worker += ["--no-nanny", "--no-dashboard", "--death-timeout", str(LIMIT_SECONDS)]
        # What docs/CLUSTER.md says a worker needs.
        needed = {"TDROP_HOME": workspace.home, "PREFECT_API_URL": prefect}
        started += [machines.start_there(folder / f"worker-{number}", worker, **needed) for number in range(2)]
        for process in started:
            stack.callback(process.wait)
            stack.callback(process.kill)
        yield address


def test_a_worker_killed_on_another_machine_changes_no_byte(machines, prefect_server, tmp_path, monkeypatch):
    from distributed import Client

    def transfer(workspace, *where):
        monkeypatch.setenv("TDROP_HOME", workspace.home)
        methods = ("--method", "mlp", "--method", "logistic_regression")
        options = ("--contracts", workspace.contracts, "--trials", "1", "--seeds", "1", *methods, *where)
        tdrop("transfer", SITE, *options)
        return {name: (workspace.latest(SITE) / name).read_bytes() for name in TIMELESS}

    alone = transfer(compared_network(tmp_path / "alone"), "--processes", "0")

    workspace = compared_network(tmp_path / "shared")
    with (
        prefect_server_in(tmp_path / "prefect", machines.here) as (url, _),
        cluster_on(machines, tmp_path, workspace, url) as address,
        Client(address, timeout=LIMIT_SECONDS) as client,
    ):
        client.wait_for_workers(2, timeout=LIMIT_SECONDS)
        places = client.run(lambda: os.uname().nodename)
        assert set(places.values()) == {machines.other}
        assert all(place.startswith(f"tcp://{machines.there}:") for place in places)
        killer = WorkerKiller(client, workspace.root / "store" / "held-out")
        killer.start()
        monkeypatch.setenv("PREFECT_API_URL", url)
        together = transfer(workspace, "--runner", "dask", "--address", address)
        killer.join(LIMIT_SECONDS)
        assert killer.killed is not None, "no worker was caught in the middle of a task"
        wait_until(lambda: len(client.scheduler_info()["workers"]) == 1)
    assert together == alone
    assert {path: path.stat().st_mtime_ns for path in killer.finished} == killer.finished
