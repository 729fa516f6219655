"""Pruning keeps what a champion or a report rests on; erasing leaves nothing about a site."""

from __future__ import annotations

import json
import os
import shutil
import time
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from command import tdrop
from conftest import finished_network, settle, transfer, write_tiny_network
from filelock import FileLock

from flows import deployments
from tasks.prune import rehearsals_of, stages_made_from
from tasks.registry import CHAMPION, promote_candidate, restore_champion
from tasks.run import last_run
from tasks.score import find_champion
from tasks.tracking import EXPERIMENTS, connect, version_at
from tdrop.base import UsageError
from tdrop.home import progress
from tdrop.home.status import lock_site
from tdrop.home.workspace import Workspace


@pytest.fixture(scope="module")
def workspace(tmp_path_factory, prefect_server):
    return finished_network(tmp_path_factory.mktemp("prune"))


@pytest.fixture(autouse=True)
def at_home(workspace, prefect_server, plain_reports, monkeypatch):
    monkeypatch.setenv("TDROP_HOME", workspace.home)


def prune(workspace, days: int) -> str:
    return tdrop("prune", "--days", days, "--yes", "--contracts", workspace.contracts)


def erase(workspace, site: str) -> str:
    return tdrop("prune", "--erase", site, "--yes", "--contracts", workspace.contracts)


def runs_of(workspace, site):
    client = connect(workspace)
    experiments = [each.experiment_id for each in client.search_experiments(filter_string=EXPERIMENTS)]
    return client.search_runs(experiments, f"tags.site = '{site}'", run_view_type=3)


def test_young_work_is_left_alone(workspace, tiny_settings):
    transfer(workspace, "hillside", tiny_settings)
    before = sorted((workspace.root / "store").glob("*/*"))
    assert prune(workspace, 30).startswith("Removed 0 stages and 0 MLflow runs")
    assert sorted((workspace.root / "store").glob("*/*")) == before


def test_old_work_goes_but_not_the_champions_nor_the_last_reports(workspace, tiny_settings):
    promote_candidate(workspace, "harbour", by="Dr Chen", note="a test")
    promoted = version_at(workspace, "harbour", CHAMPION).run_id
    for passes in (11, 12):
        transfer(workspace, "harbour", tiny_settings.model_copy(update={"passes": passes}))
    abandoned = [workspace.store / "fit" / ".0123-killed", workspace.site("harbour") / ".record-killed"]
    for folder in abandoned:
        folder.mkdir()
        os.utime(folder, (time.time() - 1e6, time.time() - 1e6))
    recorded = len(runs_of(workspace, "harbour"))

    prune(workspace, 0)

    left = {run.info.run_id for run in runs_of(workspace, "harbour")}
    # Three records of four runs each: the champion's and the newest stay, the one between goes.
    assert (recorded, len(left)) == (12, 8)
    assert promoted in left
    assert not any(folder.exists() for folder in abandoned)
    assert not list((workspace.root / "store" / "held-out").glob("*"))
    for site in ("harbour", "hillside"):
        assert all(ref.path.is_dir() for ref in last_run(workspace, site).refs())
    import mlflow

    assert mlflow.pyfunc.load_model(f"models:/tdrop-harbour@{CHAMPION}") is not None


def test_the_patients_that_a_champion_was_made_for_stay(workspace, tiny_settings):
    """Scores are compared with them, also when the report is about newer ones."""
    compared = last_run(workspace, "harbour").stages.encoded.path
    unneeded = shutil.copytree(compared, compared.with_name("0" * 32))
    extract = workspace.root / "demo" / "harbour.csv"
    extract.write_bytes(b"".join(extract.read_bytes().splitlines(keepends=True)[:-1]))
    settle(extract.parent)
    transfer(workspace, "harbour", tiny_settings)
    assert last_run(workspace, "harbour").stages.encoded.path != compared
    prune(workspace, 0)
    assert compared.is_dir()
    assert not unneeded.exists()
    promote_candidate(workspace, "harbour", by="Dr Chen", note="a test")
    prune(workspace, 0)
    assert compared.is_dir(), "a rollback could go back to this champion"
    restore_champion(workspace, "harbour")


def test_a_running_site_is_not_pruned(workspace):
    with lock_site(workspace, "harbour"), pytest.raises(UsageError, match="a run of site 'harbour' is under way"):
        prune(workspace, 0)


def test_pruning_beside_a_first_run_takes_nothing_from_it(tmp_path, tiny_settings, monkeypatch):
    workspace = write_tiny_network(tmp_path)
    monkeypatch.setenv("TDROP_HOME", workspace.home)
    refused = []

    def prune_now(event) -> None:
        before = set(workspace.store.glob("*/[!.]*"))
        if event.done == event.total and event.stage in ("encode", "match", "tune", "fit"):
            with pytest.raises(UsageError, match="a run of site 'harbour' is under way; try again when it has ended"):
                prune(workspace, 0)
            refused.append(event.stage)
            assert before <= set(workspace.store.glob("*/*"))

    progress.add_listener(prune_now)
    try:
        transfer(workspace, "harbour", tiny_settings)
    finally:
        progress.remove_listeners()
    assert refused == ["encode", "match", "tune", "fit"]
    assert not last_run(workspace, "harbour").trained.failed


def test_another_network_on_the_same_home_is_left_alone(workspace, tmp_path):
    """Its sites are not this one's, and neither are its stages nor its records."""
    other = tmp_path / "other" / "data_contracts"
    shutil.copytree(workspace.contracts, other)
    for file in (other / "sites").glob("*.yaml"):
        file.rename(file.with_name(f"other_{file.name}"))
        renamed = file.with_name(f"other_{file.name}")
        text = renamed.read_text().replace("name: ", "name: other_").replace("source: ", "source: other_")
        renamed.write_text(text)
    before, runs = sorted((workspace.root / "store").glob("*/*")), len(runs_of(workspace, "harbour"))

    prune(Workspace.at(workspace.home, other), 0)
    assert sorted((workspace.root / "store").glob("*/*")) == before
    assert len(runs_of(workspace, "harbour")) == runs


@pytest.mark.parametrize("answer", ["n\n", ""])
@pytest.mark.parametrize("what", [["--days", "0"], ["--erase", "harbour"]])
def test_a_no_removes_nothing_and_says_so(workspace, what, answer):
    before = sorted((workspace.root / "store").glob("*/*"))
    output = tdrop("prune", *what, "--contracts", workspace.contracts, answer=answer, exit_code=1)
    assert "Nothing was removed." in output
    assert sorted((workspace.root / "store").glob("*/*")) == before


def test_a_source_is_not_erased_from_under_its_targets(workspace):
    with pytest.raises(UsageError, match="source of harbour, hillside"):
        erase(workspace, "registry")
    with pytest.raises(UsageError, match="did you mean 'harbour'"):
        erase(workspace, "harbor")


def test_every_artifact_of_a_site_is_erased_whosever_lie_between(monkeypatch):
    from prefect.client.orchestration import get_client
    from prefect.client.schemas.actions import ArtifactCreate
    from prefect.client.schemas.filters import ArtifactFilter, ArtifactFilterKey

    monkeypatch.setattr(deployments, "PAGE", 2)
    # Other tests leave hundreds.
    ours = ArtifactFilter(key=ArtifactFilterKey(like_="pier-%"))
    with get_client(sync_client=True) as client:
        for _ in range(3):
            for site in ("pier", "pier-side"):
                page = ArtifactCreate(
                    key=f"{site}-shift", type="markdown", data=site, description=f"shift, site {site}"
                )
                client.create_artifact(page)
        assert deployments.erase_artifacts(client, "pier") == 3
        left = [each.data for each in client.read_artifacts(artifact_filter=ours)]
    assert left == ["pier-side"] * 3


def test_an_erased_site_leaves_nothing(workspace, tiny_settings):
    from prefect.client.orchestration import get_client

    assert workspace.root / "models" in find_champion(workspace, "harbour").folder.parents
    ids = pd.read_csv(workspace.root / "demo" / "harbour.csv")["patient_id"].astype(str).tolist()
    # A run that was killed leaves a record and a stage half-built; another site's run is building one.
    killed, under_way = (
        half_made(workspace, "harbour", "encoded", ids),
        half_made(workspace, "hillside", "fit", ["another"]),
    )
    assert any(holds_one_of(file, ids) for file in workspace.root.rglob("*") if file.is_file())
    assert len(stages_made_from(workspace, "harbour", set())) > 10
    before = {site: last_run(workspace, site) for site in ("harbour", "hillside")}
    with FileLock(under_way.with_name(".4567.lock")):
        output = erase(workspace, "harbour")

    assert "Erased site 'harbour'" in output
    assert not workspace.site("harbour").exists()
    assert not any(ref.path.exists() for name, ref in before["harbour"].stages.all().items() if name != "source")
    assert all(ref.path.exists() for ref in before["hillside"].refs())
    assert runs_of(workspace, "harbour") == []
    assert not connect(workspace).search_registered_models("name = 'tdrop-harbour'")
    tags = [each.tags for each in connect(workspace).search_experiments(filter_string=EXPERIMENTS)]
    assert tags
    assert "harbour" not in str(tags)
    assert "harbour" not in (workspace.root / "index.html").read_text()
    assert not killed.exists()
    assert under_way.exists()
    kept = [workspace.root / name for name in ("store", "sites", "artifacts", "models")]
    assert not list((workspace.root / "models").glob("tdrop-harbour"))
    mentioning = [file for folder in kept for file in folder.rglob("*") if file.is_file() and b"harbour" in read(file)]
    assert mentioning == []
    files = [
        file for file in workspace.root.rglob("*") if file.is_file() and workspace.root / "demo" not in file.parents
    ]
    assert not [file for file in files if holds_one_of(file, ids)]
    with get_client(sync_client=True) as client:
        assert not [run for run in client.read_flow_runs() if run.parameters.get("site") == "harbour"]
        assert not [each for each in client.read_artifacts() if (each.key or "").startswith("harbour-")]
        assert [each for each in client.read_artifacts() if (each.key or "").startswith("hillside-")]


@pytest.mark.parametrize("trace", ["contracts/sites/pier.yaml", "sites/pier/latest", "store/seen/1/validation.json"])
def test_whoever_played_in_a_rehearsal_is_found_by_any_trace_of_it(tmp_path, trace):
    """A later rehearsal without the site has taken its file away, and its rows are still in the store."""
    workspace = Workspace.at(tmp_path)
    folder = workspace.root / "rehearsals" / "prostate"
    (folder / trace).parent.mkdir(parents=True)
    (folder / trace).write_text('{"site": "pier"}')
    (folder / trace).with_name("manifest.json").write_text('{"inputs": {}, "files": {}}')
    assert rehearsals_of(workspace, "pier") == [folder]
    assert rehearsals_of(workspace, "harbour") == []


def half_made(workspace, site, stage, ids) -> Path:
    """A record and a stage that are half-built; returns the stage's folder."""
    record, folder = workspace.site(site) / ".record-x" / "report", workspace.store / stage / ".4567-half"
    for half in (record, folder):
        half.mkdir(parents=True)
    (record / "validation.json").write_text(json.dumps({"site": site}))
    np.savez(folder / "target.npz", ids=np.array(ids))
    return folder


def holds_one_of(file: Path, ids) -> bool:
    """Whether a file of any kind holds a patient's id."""
    if file.suffix == ".parquet":
        text = pd.read_parquet(file).to_csv()
    elif file.suffix == ".npz":
        arrays = np.load(file, allow_pickle=False)
        text = " ".join(
            str(value) for name in arrays for value in arrays[name].ravel() if arrays[name].dtype.kind in "US"
        )
    else:
        text = file.read_bytes().decode("latin-1")
    return any(one in text for one in ids)


def read(file: Path) -> bytes:
    return file.read_bytes()
