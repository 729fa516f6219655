"""Who forks the workers ends with the command, also while it still loads."""

from __future__ import annotations

import signal
import subprocess
import sys

from tdrop.home.orphan import ending_with_parent
from waiting import LIMIT_SECONDS

#: Loads for an hour, and holds its output open as long as it lives.
LOADING = """
import time
from tdrop.home.orphan import ending_with_parent
with ending_with_parent():
    print(flush=True)
    time.sleep(3600)
"""
#: Starts that, and is gone as soon as it loads.
PARENT = """
import os, subprocess, sys
loading = subprocess.Popen([sys.executable, "-c", sys.argv[1]], stdout=subprocess.PIPE)
loading.stdout.readline()
os._exit(0)
"""


def test_what_loads_ends_with_its_parent():
    """The output is at its end when nobody holds it any more."""
    started = subprocess.Popen([sys.executable, "-c", PARENT, LOADING], stderr=subprocess.PIPE)
    assert started.communicate(timeout=LIMIT_SECONDS)[1] == b""


def test_afterwards_no_timer_is_left():
    before = signal.getsignal(signal.SIGALRM)
    with ending_with_parent():
        assert signal.getitimer(signal.ITIMER_REAL)[1] > 0
    assert signal.getitimer(signal.ITIMER_REAL) == (0.0, 0.0)
    assert signal.getsignal(signal.SIGALRM) == before
