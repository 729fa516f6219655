"""Kills a worker of a Dask cluster in the middle of its work, as a machine that goes down does."""

from __future__ import annotations

import os
import signal
import threading
import time
from pathlib import Path

from waiting import LIMIT_SECONDS


class WorkerKiller(threading.Thread):
    """Waits until a worker has been in a task for a while, then kills its process."""

    def __init__(self, client, stages: Path) -> None:
        super().__init__(daemon=True)
        self.client, self.stages = client, stages
        self.killed: int | None = None
        self.finished: dict[Path, int] = {}

    def run(self) -> None:
        pids = self.client.run(os.getpid)
        deadline = time.monotonic() + LIMIT_SECONDS
        while time.monotonic() < deadline:
            under_way = list(self.stages.glob(".*"))
            busy = [address for address, tasks in self.client.processing().items() if tasks]
            if under_way and busy:
                self.finished = {file: file.stat().st_mtime_ns for file in self.stages.glob("[!.]*/manifest.json")}
                os.kill(pids[busy[0]], signal.SIGKILL)
                self.killed = pids[busy[0]]
                return
            time.sleep(0.02)
