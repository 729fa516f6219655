"""Which command may load what: a person who asks for a status does not wait for a training library."""

from __future__ import annotations

import subprocess
import sys

import pytest
from conftest import PROJECT, write_tiny_network
from separate_process import modules_loaded

HEAVY = {"torch", "great_expectations", "prefect", "mlflow", "pandas", "matplotlib", "sklearn"}
#: What each command may load of it, without a Prefect server and with nothing in the store.
MAY_LOAD = {
    "--help": set(),
    "status": {"pandas"},
    "validate harbour": {"pandas", "great_expectations"},
    # It shares the functions of Prefect's tasks.
    "shift harbour": {"pandas", "great_expectations", "sklearn", "matplotlib", "prefect"},
}


@pytest.mark.parametrize(
    ("command", "code"), [("transfer harbor", 2), ("transfer harbour --method mpl", 2), ("transfer harbour", 1)]
)
def test_a_wrong_name_is_told_before_anything_heavy_is_loaded(command, code, tmp_path):
    workspace = write_tiny_network(tmp_path)
    contracts = workspace.contracts if code == 2 else tmp_path / "nowhere"
    assert not HEAVY & modules_loaded(workspace, [*command.split(), "--contracts", contracts], code)


@pytest.mark.parametrize("method", ["logistic_regression", "gradient_boosting"])
def test_a_reference_is_served_without_a_training_library(method):
    """Whoever scores with one of scikit-learn's models does not wait for PyTorch."""
    program = f"import sys, tdrop.methods.{method}; print('torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], cwd=PROJECT, capture_output=True, check=True, text=True)
    assert done.stdout.strip() == "False"


@pytest.mark.parametrize("command", MAY_LOAD)
def test_a_command_loads_no_more_than_it_may(command, tmp_path):
    workspace = write_tiny_network(tmp_path)
    arguments = command.split() if command == "--help" else [*command.split(), "--contracts", workspace.contracts]
    assert HEAVY & modules_loaded(workspace, arguments) <= MAY_LOAD[command]
