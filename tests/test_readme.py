"""What the README tells a newcomer to do works as written, and no connection leaves the machine meanwhile."""

from __future__ import annotations

import os
import re
import shlex
import sys
from pathlib import Path

import pytest
from conftest import PROJECT
from separate_process import run_to_end
from SurvSet.data import SurvLoader

README = (PROJECT / "README.md").read_text(encoding="utf-8")
#: Runs in every Python process of a command, before anything else, and notes whom it calls.
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


def test_the_library_example_runs(tmp_path):
    (example,) = re.findall(r"```python\n(.*?)```", README, flags=re.DOTALL)
    result = run_to_end([sys.executable, "-W", "error::DeprecationWarning:tdrop", "-c", example], tmp_path, os.environ)
    assert result.returncode == 0, result.stderr
    assert result.stdout.splitlines()[0] in {"go", "caution", "stop", "too few to say"}


@pytest.fixture(scope="module")
def commands():
    section = README.partition("## Your own two files")[2].partition("\n## ")[0]
    return re.findall(r"^    tdrop (.*?)(?:\s+#.*)?$", section, flags=re.MULTILINE)


@pytest.fixture(scope="module")
def done(commands, tmp_path_factory) -> tuple[Path, list]:
    """The folder in which the three commands ran while their calls were noted, and how each of them ended."""
    folder = tmp_path_factory.mktemp("newcomer")
    table = SurvLoader().load_dataset("flchain")["df"].drop(columns=["fac_chapter", "fac_sample_yr"])
    for name, value in (("women", "F"), ("men", "M")):
        rows = table[table["fac_sex"] == value].head(300).drop(columns="fac_sex")
        rows.to_csv(folder / f"{name}.csv", index=False)
    watch = folder / "watch"
    watch.mkdir()
    (watch / "sitecustomize.py").write_text(WATCH)
    # Nothing that tests set leads to a server: the transfer starts its own.
    environment = {name: value for name, value in os.environ.items() if name not in {"PREFECT_API_URL", "PREFECT_HOME"}}
    environment |= {"TDROP_HOME": str(folder / "home"), "TDROP_CALLS": str(folder / "calls.txt")}
    environment["PYTHONPATH"] = f"{watch}{os.pathsep}{PROJECT}"
    few = ("", "", " --trials 1 --seeds 1 --method logistic_regression")
    program = str(Path(sys.executable).with_name("tdrop"))
    orders = [[program, *shlex.split(command + more)] for command, more in zip(commands, few, strict=True)]
    return folder, [run_to_end(order, folder, environment) for order in orders]


def test_two_files_become_a_report_in_three_commands(commands, done):
    assert [command.split()[0] for command in commands] == ["init", "add-site", "transfer"]
    folder, results = done
    for result in results:
        assert result.returncode == 0, result.stderr
    outputs = [result.stdout for result in results]
    assert "\n  tdrop add-site NAME --data FILE\n" in outputs[0]
    assert "\n  tdrop transfer men\n" in outputs[1]
    assert "\n  tdrop audit men men.csv\n" in outputs[1]
    assert "Each cell: patients whose interval reaches the decision level. " in outputs[2]
    assert (folder / "home" / "sites" / "men" / "latest" / "report.html").is_file()


def test_no_process_of_a_command_calls_anybody_beyond_loopback(done):
    folder, results = done
    called = {eval(line) for line in (folder / "calls.txt").read_text().splitlines()}
    called = {name.decode() if isinstance(name, bytes) else name for name in called}
    assert "local:watching" in called, "nobody watched"
    assert any(name.startswith("127.") for name in called), "a transfer asks its own server"
    assert all(name.startswith(LOOPBACK) for name in called), called
    assert not any(result.stderr.strip() for result in results), "libraries' chatter reached the terminal"
