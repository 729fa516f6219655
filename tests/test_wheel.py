"""The built wheel, installed where no repository is: it holds all that its commands need."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from conftest import PROJECT

PIP = (sys.executable, "-m", "pip", "--disable-pip-version-check", "--quiet")
DEMO = """
import os, sys
from pathlib import Path
from flows.demo import CONTRACTS, copy_contracts
from tdrop.data import write_demo_network
assert sys.argv[1] in str(CONTRACTS), CONTRACTS
rows = dict.fromkeys(("registry", "riverside", "southgate", "harbour", "hillside", "lakeside"), 200)
write_demo_network(Path(os.environ["TDROP_HOME"]) / "demo", rows)
assert copy_contracts() == copy_contracts() == Path("data_contracts")
"""


@pytest.fixture(scope="module")
def installed(tmp_path_factory):
    """A folder with the wheel's files, as pip puts them there."""
    folder = tmp_path_factory.mktemp("wheel")
    project = folder / "project"
    unwanted = shutil.ignore_patterns("__pycache__", "*.egg-info", "build")
    for name in ("tdrop", "tasks", "flows", "data_contracts"):
        shutil.copytree(PROJECT / name, project / name, symlinks=True, ignore=unwanted)
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(PROJECT / name, project / name)
    _run([*PIP, "wheel", "--no-deps", "--no-build-isolation", "--wheel-dir", folder, project], folder, folder)
    [wheel] = folder.glob("*.whl")
    shutil.rmtree(project)
    _run([*PIP, "install", "--no-deps", "--no-compile", "--target", folder / "installed", wheel], folder, folder)
    return folder / "installed"


def _run(command, folder: Path, installed: Path) -> str:
    environment = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "PREFECT_API_URL")}
    environment |= {"PYTHONPATH": str(installed), "TDROP_HOME": str(folder / "home")}
    environment["PREFECT_HOME"] = str(folder / "prefect")
    done = subprocess.run(
        list(map(str, command)), cwd=folder, env=environment, capture_output=True, text=True, timeout=800
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_an_installed_wheel_starts_a_network_in_an_empty_folder(installed, tmp_path):
    generator = np.random.default_rng(0)
    age = generator.normal(60, 8, 60).round(1)
    died = (age + generator.normal(0, 10, 60) > 60).astype(int)
    pd.DataFrame({"patient": range(60), "age": age, "died": died}).to_csv(tmp_path / "a.csv", index=False)
    command = [sys.executable, installed / "bin" / "tdrop", "init", ".", "--data", "a.csv", "--outcome", "died"]
    assert "60 rows read, 60 used" in _run(command, tmp_path, installed)
    assert (tmp_path / "data_contracts" / "schemas" / "table.json").is_file()


def test_an_installed_wheel_holds_the_demo_s_contracts(installed, tmp_path):
    _run([sys.executable, "-c", DEMO, installed], tmp_path, installed)
    command = [sys.executable, installed / "bin" / "tdrop"]
    assert "200 rows read" in _run([*command, "validate", "harbour"], tmp_path, installed)
    assert "harbour: never run" in _run([*command, "status"], tmp_path, installed)


@pytest.mark.slow
def test_an_installed_wheel_runs_the_demo(installed, tmp_path):
    _run([sys.executable, installed / "bin" / "tdrop", "demo", "--seeds", "1"], tmp_path, installed)
    assert (tmp_path / "home" / "sites" / "lakeside" / "latest" / "report.html").is_file()
