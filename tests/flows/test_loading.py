"""Which command may load what: a person who asks for a status does not wait for a training library."""

from __future__ import annotations

import os
import sys

import pytest
from conftest import PROJECT, write_tiny_network
from separate_process import modules_loaded, run_to_end

HEAVY = {"torch", "great_expectations", "prefect", "mlflow", "pandas", "matplotlib", "sklearn"}
#: What each command may load of it, without a Prefect server and with nothing in the store.
MAY_LOAD = {
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


def test_a_reference_is_served_without_a_training_library():
    """Whoever scores with one of scikit-learn's models does not wait for PyTorch."""
    methods = "import sys, tdrop.methods.logistic_regression, tdrop.methods.gradient_boosting"
    done = run_to_end([sys.executable, "-c", f"{methods}; print('torch' in sys.modules)"], PROJECT, os.environ)
    assert done.stdout.strip() == "False", done.stderr


@pytest.mark.parametrize("command", MAY_LOAD)
def test_a_command_loads_no_more_than_it_may(command, tmp_path):
    workspace = write_tiny_network(tmp_path)
    loaded = modules_loaded(workspace, [*command.split(), "--contracts", workspace.contracts])
    assert HEAVY & loaded <= MAY_LOAD[command]
