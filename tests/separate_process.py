"""Commands and transfers in processes of their own, for tests in which the process is the subject."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from conftest import PROJECT

#: What is printed last says which of the heavy packages were imported. Figures stay empty.
PROGRAM = """
import sys
sys.path.insert(0, "tests")
from no_figures import leave_figures_empty
leave_figures_empty(setattr)
from flows.transfer import transfer_site
from tasks.settings import TransferSettings
from tdrop.home import progress, worker_processes
site, settings, contracts, home, processes, *pauses = sys.argv[1:]
def pause(event):
    if event.stage in pauses and event.done:
        pauses.remove(event.stage)
        # Workers fit; who hands out the fits has not waited for what they load.
        assert event.stage != "fit" or processes == "0" or "torch" not in sys.modules
        print(PAUSED, event.stage, flush=True)
        sys.stdin.readline()
progress.add_listener(pause)
import os
os.environ.update(TDROP_CONTRACTS=contracts, TDROP_HOME=home)
with worker_processes(int(processes)):
    transfer_site(site, TransferSettings.model_validate_json(settings))
print("imported", sorted({"torch", "great_expectations"} & set(sys.modules)))
"""
#: Several transfers at once, each in a process of its own that its parent forked once it had loaded all that they need.
TOGETHER = """
import multiprocessing, os, sys
sys.path.insert(0, "tests")
from no_figures import leave_figures_empty
leave_figures_empty(setattr)
import great_expectations, mlflow.pyfunc, skops.io, tasks.train, torch
from flows.transfer import transfer_site
from tasks.settings import TransferSettings
from tdrop.home import worker_processes
settings, contracts, home, *sites = sys.argv[1:]
os.environ.update(TDROP_CONTRACTS=contracts, TDROP_HOME=home)
def run(site):
    with worker_processes(0):
        transfer_site(site, TransferSettings.model_validate_json(settings))
started = [multiprocessing.get_context("fork").Process(target=run, args=(site,)) for site in sites]
for process in started:
    process.start()
for process in started:
    process.join()
sys.exit(sum(process.exitcode != 0 for process in started))
"""
#: What it says where it waits.
PAUSED = "waits after"
#: A command of `tdrop` that writes down which packages it loaded.
COMMAND = """
import json, sys
from pathlib import Path
report, sys.argv = Path(sys.argv[1]), ["tdrop", *sys.argv[2:]]
import flows.cli
code = 0
try:
    flows.cli.main()
except SystemExit as stop:
    code = stop.code or 0
report.write_text(json.dumps({"code": code, "modules": sorted(name for name in sys.modules if "." not in name)}))
"""


def run_to_end(
    command: Sequence[object], folder: Path, environment: Mapping[str, str]
) -> subprocess.CompletedProcess[str]:
    """Runs a command in a folder; returns its exit code and what it printed."""
    return subprocess.run(
        list(map(str, command)), cwd=folder, env=environment, capture_output=True, text=True, timeout=600, check=False
    )


def modules_loaded(workspace, arguments, code: int = 0) -> set[str]:
    """The packages that a command loads which ends with an exit code, without a Prefect server."""
    environment = {**os.environ, "TDROP_HOME": workspace.home, "PREFECT_HOME": str(workspace.root / "prefect")}
    environment.pop("PREFECT_API_URL", None)
    report = workspace.root / "loaded.json"
    subprocess.run(
        [sys.executable, "-c", COMMAND, str(report), *map(str, arguments)],
        cwd=PROJECT, env=environment, capture_output=True, check=True, timeout=600,
    )  # fmt: skip
    loaded = json.loads(report.read_text())
    assert loaded["code"] == code
    return set(loaded["modules"])


def start_transfer(
    workspace, settings, site: str, processes: int, pauses: tuple[str, ...] = ()
) -> subprocess.Popen[str]:
    """Starts a site's flow on the session's Prefect server; its output is one stream of text.

    At the first step done of each stage to pause at, the flow waits for a line from here; fits under way go on.
    """
    arguments = [site, settings.model_dump_json(), workspace.contracts, workspace.home, str(processes), *pauses]
    return subprocess.Popen(
        [sys.executable, "-c", PROGRAM.replace("PAUSED", repr(PAUSED)), *arguments],
        cwd=PROJECT,
        env={**os.environ, "PREFECT_LOGGING_LEVEL": "ERROR"},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def transfer_together(workspace, settings, sites) -> tuple[int, str]:
    """Transfers sites at once on the session's server; returns how many processes failed, and what all of them said."""
    done = subprocess.run(
        [sys.executable, "-c", TOGETHER, settings.model_dump_json(), workspace.contracts, workspace.home, *sites],
        cwd=PROJECT, env={**os.environ, "PREFECT_LOGGING_LEVEL": "ERROR"},
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False,
    )  # fmt: skip
    return done.returncode, done.stdout


def wait_for_pause(process: subprocess.Popen[str], stage: str) -> None:
    """Waits until a transfer has come so far."""
    said = []
    for line in process.stdout:
        if line == f"{PAUSED} {stage}\n":
            return
        said.append(line)
    raise AssertionError("".join(said))


def go_on(process: subprocess.Popen[str]) -> None:
    """Lets a transfer go on that waits."""
    process.stdin.write("\n")
    process.stdin.flush()


def worker_processes_of(pid: int) -> list[int]:
    """The processes that a process started, and those that these started, and that have not ended."""
    tasks = Path(f"/proc/{pid}/task")
    children = [int(child) for file in tasks.glob("*/children") for child in file.read_text().split()]
    return children + [each for child in children for each in worker_processes_of(child)]
