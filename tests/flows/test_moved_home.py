"""A home is one folder: moved elsewhere, it holds everything that it held."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pandas as pd
import pytest
from conftest import cheap, finished_network

from tasks.registry import promote_candidate
from tasks.tracking import connect
from tdrop.home import Workspace

pytestmark = pytest.mark.usefixtures("prefect_server")

SETTINGS = cheap("logistic_regression")
#: In a process of its own, as whoever moved a home would: nothing is remembered of where it was.
AFTERWARDS = """
import json, sys
import os
from flows.transfer import transfer_site
from tasks.score import score_batch
from tdrop.home import Workspace, worker_processes
from tasks.registry import champion_record, promote_candidate
from tasks.settings import TransferSettings

home, contracts, batch, settings = sys.argv[1:]
workspace = Workspace.at(home, contracts)
before = champion_record(workspace, "harbour")
promote_candidate(workspace, "harbour", by="Dr B", note="moved")
scored = score_batch(workspace, "harbour", batch)
os.environ.update(TDROP_HOME=home, TDROP_CONTRACTS=contracts)
with worker_processes(0):
    again = transfer_site("harbour", TransferSettings(**json.loads(settings)))
print(json.dumps({"by": before.by, "scored": scored.scored, "unchanged": bool(again.unchanged)}))
"""


def test_a_moved_home_promotes_scores_and_finds_everything_done(tmp_path: Path) -> None:
    workspace = finished_network(tmp_path / "old", "logistic_regression")
    promote_candidate(workspace, "harbour", by="Dr A", note="review clinics only")
    batch = pd.read_csv(workspace.root / "demo" / "harbour.csv").head(30)
    batch.to_csv(tmp_path / "batch.csv", index=False)
    moved = tmp_path / "elsewhere" / "new home"
    moved.parent.mkdir()
    shutil.move(workspace.root, moved)
    settings = json.dumps(SETTINGS.model_dump(mode="json"))
    done = subprocess.run(
        [sys.executable, "-c", AFTERWARDS, str(moved), workspace.contracts, str(tmp_path / "batch.csv"), settings],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "TDROP_HOME": str(moved)},
        cwd=Path(__file__).parents[2],
    )
    assert done.returncode == 0, done.stderr[-2000:]
    assert json.loads(done.stdout.splitlines()[-1]) == {"by": "Dr A", "scored": 30, "unchanged": True}
    assert not workspace.root.exists(), "nothing is written where the home was"
    assert os.fsencode(str(workspace.root)) not in (moved / "mlflow.db").read_bytes()


def test_artifacts_that_were_never_in_the_home_stay_where_they_are(tmp_path: Path) -> None:
    (tmp_path / "first" / "artifacts").mkdir(parents=True)
    client = connect(Workspace.at(tmp_path / "first"))
    experiment = client.create_experiment("tdrop a", artifact_location="file:///shared/artifacts")
    run = client.create_run(experiment).info.run_id
    for there, expected in (("second", "file:///shared/artifacts"), ("third", (tmp_path / "third/artifacts").as_uri())):
        shutil.copytree(tmp_path / "first", tmp_path / there)
        if there == "third":
            (tmp_path / there / "artifacts" / run / "artifacts").mkdir(parents=True)
        client = connect(Workspace.at(tmp_path / there))
        assert client.get_experiment(experiment).artifact_location == expected
        assert client.get_run(run).info.artifact_uri == f"{expected}/{run}/artifacts"
