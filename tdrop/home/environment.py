"""Sets what third-party packages read from the environment; called before they are imported.

Whatever the user has set already stays as it is.
"""

from __future__ import annotations

import os
from collections.abc import Mapping

from tdrop.home.place import default_home

#: No telemetry, no chatter, and enough patience for an embedded Prefect on a slow disk.
DEFAULTS: Mapping[str, str] = {
    "DO_NOT_TRACK": "true",
    "PREFECT_SERVER_ANALYTICS_ENABLED": "false",
    # Prefect's V2 page asks an analytics host before it looks at any setting; its V1 page asks nobody.
    "PREFECT_SERVER_UI_V2_ENABLED": "false",
    "PREFECT_SERVER_UI_SHOW_PROMOTIONAL_CONTENT": "false",
    "PREFECT_SERVER_EPHEMERAL_STARTUP_TIMEOUT_SECONDS": "180",
    "PREFECT_CLIENT_METRICS_ENABLED": "false",
    "PREFECT_TELEMETRY_ENABLE_RESOURCE_METRICS": "false",
    "MLFLOW_DISABLE_TELEMETRY": "true",
    "MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false",
    "MLFLOW_ENABLE_ARTIFACTS_PROGRESS_BAR": "false",
    # The record task itself tries again, with longer waits; MLflow's own seven tries take minutes each time.
    "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "2",
    "GX_ANALYTICS_ENABLED": "false",
    # Results must not depend on how many cores there are: parallelism is by processes.
    "OMP_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
}


def prepare_environment() -> None:
    """Fills in the defaults; embedded Prefect keeps its files below the home as well.

    Whatever is written is for its owner alone, also by a deployment or a cluster's worker: stages and reports hold
    patients' values.
    """
    os.umask(0o077)
    for name, value in DEFAULTS.items():
        os.environ.setdefault(name, value)
    if not os.environ.get("PREFECT_API_URL"):  # set to nothing is not set
        os.environ.setdefault("PREFECT_HOME", str(default_home() / "prefect"))


def quieten() -> None:
    """Keeps other packages' warnings and logs off the terminal; `-v` does without this."""
    for name, value in {
        # Flow runs are logged to the server at level INFO; the terminal has lines of its own.
        "PREFECT_LOGGING_HANDLERS_CONSOLE_LEVEL": "CRITICAL",
        "PREFECT_LOGGING_INTERNAL_LEVEL": "CRITICAL",
        "PREFECT_LOGGING_TO_API_WHEN_MISSING_FLOW": "ignore",
        "PREFECT_SERVER_LOGGING_LEVEL": "CRITICAL",
        "MLFLOW_LOGGING_LEVEL": "CRITICAL",
        "PYTHONWARNINGS": "ignore",
    }.items():
        os.environ.setdefault(name, value)
