"""A transfer in a process of its own, for tests of what happens between processes."""

from __future__ import annotations

import os
import subprocess
import sys

from conftest import PROJECT

#: What is printed last says which of the heavy packages were imported.
PROGRAM = """
import sys
from flows.transfer import transfer_site
from tasks.settings import TransferSettings
site, settings, contracts, home, processes = sys.argv[1:]
transfer_site(site, TransferSettings.model_validate_json(settings), contracts, home, int(processes))
print("imported", sorted({"torch", "great_expectations"} & set(sys.modules)))
"""


def start_transfer(place, settings, site: str, processes: int) -> subprocess.Popen[str]:
    """Starts a site's flow on the session's Prefect server; its output is one stream of text."""
    arguments = [site, settings.model_dump_json(), place.contracts, place.home, str(processes)]
    return subprocess.Popen(
        [sys.executable, "-c", PROGRAM, *arguments],
        cwd=PROJECT,
        env={**os.environ, "PREFECT_LOGGING_LEVEL": "ERROR"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
