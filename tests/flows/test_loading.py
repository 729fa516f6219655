"""Which command may load what: a person who asks for a status does not wait for a training library."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest
from conftest import PROJECT, write_tiny_network

HEAVY = {"torch", "great_expectations", "prefect", "mlflow", "pandas", "matplotlib", "sklearn"}
#: What each command may load of it, without a Prefect server and with nothing in the store.
MAY_LOAD = {
    "--help": set(),
    "status": {"pandas"},
    "validate harbour": {"pandas", "great_expectations"},
    "shift harbour": {"pandas", "great_expectations", "sklearn", "matplotlib"},
}
PROGRAM = """
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


@pytest.mark.parametrize("method", ["logistic_regression", "gradient_boosting"])
def test_a_reference_is_served_without_a_training_library(method):
    """Whoever scores with one of scikit-learn's models does not wait for PyTorch."""
    program = f"import sys, tdrop.methods.{method}; print('torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], cwd=PROJECT, capture_output=True, check=True, text=True)
    assert done.stdout.strip() == "False"


@pytest.mark.parametrize("command", MAY_LOAD)
def test_a_command_loads_no_more_than_it_may(command, tmp_path):
    place = write_tiny_network(tmp_path)
    arguments = command.split() if command == "--help" else [*command.split(), "--contracts", place.contracts]
    environment = {**os.environ, "TDROP_HOME": place.home, "PREFECT_HOME": str(tmp_path / "prefect")}
    environment.pop("PREFECT_API_URL", None)
    report = tmp_path / "report.json"
    subprocess.run(
        [sys.executable, "-c", PROGRAM, str(report), *map(str, arguments)],
        cwd=PROJECT, env=environment, capture_output=True, check=True, timeout=600,
    )  # fmt: skip
    found = json.loads(report.read_text())
    assert found["code"] == 0
    assert HEAVY & set(found["modules"]) <= MAY_LOAD[command]
