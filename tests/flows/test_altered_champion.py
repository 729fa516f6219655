"""Whatever happens to a promoted model behind a person's back: nobody is scored with it, and a sentence says so."""

from __future__ import annotations

import os
import shutil
from contextlib import contextmanager
from pathlib import Path

import pytest
from command import tdrop
from conftest import cheap, finished_network, leave_reports_out, transfer

from flows.audit import audit_site
from tasks.models import copy_of
from tasks.recalibrate import recalibrate_site
from tasks.registry import CHAMPION, promote_candidate, restore_champion
from tasks.run import last_run
from tasks.score import find_champion, score_batch
from tasks.tracking import connect, version_at
from tdrop.base import TdropError
from tdrop.served.promotion import ADDED

pytestmark = pytest.mark.usefixtures("prefect_server")

NAME = "tdrop-harbour"


@pytest.fixture(scope="module")
def workspace(tmp_path_factory):
    """One tiny site with two champions: version 1, and in use version 2."""
    method = "logistic_regression"
    workspace = finished_network(tmp_path_factory.mktemp("altered"), method)
    promote_candidate(workspace, "harbour", by="Dr Chen", note="review clinics only")
    with pytest.MonkeyPatch.context() as patch:
        leave_reports_out(patch)
        transfer(workspace, "harbour", cheap(method, method_settings={method: {"refits": 6}}))
    promote_candidate(workspace, "harbour", by="Dr Chen", note="review clinics only")
    return workspace


def version(workspace):
    return version_at(workspace, "harbour", CHAMPION)


def kept(workspace) -> Path:
    """The champion's copy below the home."""
    return copy_of(workspace, version(workspace)).folder


def stored(workspace, number: str | None = None) -> Path:
    """A version's files in MLflow's own store."""
    client = connect(workspace)
    source = client.get_model_version(NAME, number or str(version(workspace).version)).source
    return Path(client.get_logged_model(source.removeprefix("models:/")).artifact_location.removeprefix("file://"))


def files_of(folder: Path) -> list[Path]:
    """Every file of a model; MLflow's own note is none."""
    found = (file.relative_to(folder) for file in folder.rglob("*") if file.is_file())
    return sorted(file for file in found if str(file) != ADDED)


@contextmanager
def put_back(folder: Path):
    """Has a folder and what lies beside it as they were when the block ends."""
    kept = folder.with_name(f"kept-{folder.name}")
    beside = folder.with_suffix(".seal")
    seal = beside.read_bytes() if beside.is_file() else None
    shutil.copytree(folder, kept)
    try:
        yield
    finally:
        if folder.is_symlink() or folder.is_file():
            folder.unlink()
        shutil.rmtree(folder, ignore_errors=True)
        kept.rename(folder)
        if seal is not None:
            beside.unlink(missing_ok=True)
            beside.write_bytes(seal)


def served(workspace):
    """The model as `mlflow models serve` loads it."""
    import mlflow

    connect(workspace)
    return mlflow.pyfunc.load_model(f"models:/{NAME}@champion")


def score(workspace):
    return score_batch(workspace, "harbour", str(workspace.root / "demo" / "harbour.csv"))


def score_one(workspace):
    return find_champion(workspace, "harbour")


def alter(folder, file):
    (folder / file).write_bytes((folder / file).read_bytes() + b" ")


def remove(folder, file):
    (folder / file).unlink()


def link(folder, file):
    elsewhere = folder.with_name(f"kept-{folder.name}") / file
    (folder / file).unlink()
    (folder / file).symlink_to(elsewhere)


def add_file(folder):
    (folder / "data" / "more").write_bytes(b"")


def add_pipe(folder):
    os.mkfifo(folder / "pipe")


def add_note_inside(folder):
    """A name that MLflow's own note has, where MLflow puts none."""
    (folder / "data" / "registered_model_meta").write_bytes(b"")


def add_linked_folder(folder):
    (folder / "more").symlink_to(folder.parent)


def link_folder(folder):
    shutil.rmtree(folder)
    folder.symlink_to(folder.with_name(f"kept-{folder.name}"))


def link_inner(folder):
    shutil.rmtree(folder / "data")
    (folder / "data").symlink_to(folder.with_name(f"kept-{folder.name}") / "data")


def empty(folder):
    shutil.rmtree(folder)
    folder.mkdir()


def a_file_instead(folder):
    shutil.rmtree(folder)
    folder.write_bytes(b"")


WHOLE = [add_file, add_pipe, add_note_inside, add_linked_folder, link_folder, link_inner, empty]


@pytest.mark.parametrize("change", [alter, remove, link])
def test_every_file_of_the_copy_counts(workspace, change):
    for file in files_of(kept(workspace)):
        with put_back(folder := kept(workspace)):
            change(folder, file)
            with pytest.raises(TdropError, match="altered since its promotion; remove"):
                score_one(workspace)
    assert score_one(workspace)


@pytest.mark.parametrize("change", [*WHOLE, a_file_instead])
def test_the_copy_is_as_promoted_or_refused(workspace, change):
    with put_back(folder := kept(workspace)):
        change(folder)
        with pytest.raises(TdropError, match="altered since its promotion; remove"):
            score_one(workspace)
    assert score_one(workspace)


def test_another_versions_files_are_not_the_champion(workspace):
    with put_back(folder := kept(workspace)):
        shutil.rmtree(folder)
        shutil.copytree(stored(workspace, "1"), folder)
        with pytest.raises(TdropError, match="altered since its promotion; remove"):
            score_one(workspace)
    with put_back(folder := stored(workspace)):
        shutil.rmtree(folder)
        shutil.copytree(stored(workspace, "1"), folder)
        for use in (score_one, served):
            with pytest.raises(TdropError, match="altered"):
                use(workspace)


@pytest.mark.parametrize("change", [alter, remove])
def test_every_file_of_the_store_counts(workspace, change):
    for file in files_of(stored(workspace)):
        with put_back(folder := stored(workspace)):
            change(folder, file)
            with pytest.raises(TdropError, match=r"altered in MLflow's store|has no files in MLflow"):
                score_one(workspace)
    assert score_one(workspace)


def remove_seal(beside):
    beside.unlink()


def empty_seal(beside):
    beside.write_bytes(b"")


def unreadable_seal(beside):
    beside.write_bytes(b"\xff\xfe\x00")


def pipe_for_seal(beside):
    beside.unlink()
    os.mkfifo(beside)


@pytest.mark.parametrize("change", [remove_seal, empty_seal, unreadable_seal, pipe_for_seal])
def test_a_seal_that_is_not_that_of_the_promotion_is_refused(workspace, change):
    with put_back(folder := kept(workspace)):
        change(folder.with_suffix(".seal"))
        with pytest.raises(TdropError, match="seal") as refused:
            score_one(workspace)
        assert "remove" in str(refused.value) or "promote" in str(refused.value)
    assert score_one(workspace)


def test_a_machine_that_never_had_the_model_takes_it_by_mlflows_seal(workspace):
    folder = kept(workspace)
    shutil.rmtree(folder)
    folder.with_suffix(".seal").unlink()
    assert score_one(workspace)
    assert folder.with_suffix(".seal").is_file()
    with put_back(folder):
        folder.with_suffix(".seal").unlink()
        with pytest.raises(TdropError, match="seal"):
            score_one(workspace)


TAGS = {
    "tdrop.seal": "without a seal|was not promoted",
    "tdrop.promoted_by": "without a name",
    "tdrop.promotion_note": "without a name",
}


@pytest.mark.parametrize("tag", TAGS)
def test_a_version_without_what_a_promotion_leaves_is_refused(workspace, tag):
    client, champion = connect(workspace), version(workspace)
    client.delete_model_version_tag(NAME, champion.version, tag)
    try:
        for use in (score_one, served):
            with pytest.raises(TdropError, match=TAGS[tag]):
                use(workspace)
    finally:
        client.set_model_version_tag(NAME, champion.version, tag, champion.tags[tag])
    assert score_one(workspace)


def test_a_seal_of_other_bytes_in_mlflow_is_refused(workspace):
    client, champion = connect(workspace), version(workspace)
    other = client.get_model_version(NAME, "1").tags["tdrop.seal"]
    client.set_model_version_tag(NAME, champion.version, "tdrop.seal", other)
    try:
        with pytest.raises(TdropError, match="not the one beside its copy"):
            score_one(workspace)
        with pytest.raises(TdropError, match="altered since its promotion"):
            served(workspace)
    finally:
        client.set_model_version_tag(NAME, champion.version, "tdrop.seal", champion.tags["tdrop.seal"])


@pytest.mark.parametrize("change", [alter, remove])
def test_what_is_served_is_what_was_promoted(workspace, change):
    import mlflow

    for file in files_of(stored(workspace)):
        if file.name == "MLmodel":
            continue  # MLflow cannot load without it
        with put_back(folder := stored(workspace)):
            change(folder, file)
            with pytest.raises((TdropError, mlflow.exceptions.MlflowException, OSError)):
                served(workspace)
    assert served(workspace)


def test_only_the_champion_is_served(workspace, tmp_path):
    import mlflow

    connect(workspace)
    with pytest.raises(TdropError, match="not the champion"):
        mlflow.pyfunc.load_model(f"models:/{NAME}/1")
    shutil.copytree(stored(workspace), tmp_path / "model", ignore=shutil.ignore_patterns(ADDED))
    with pytest.raises(TdropError, match="no registered version"):
        mlflow.pyfunc.load_model(str(tmp_path / "model"))


def recalibrate(workspace):
    return recalibrate_site(workspace, "harbour", str(workspace.root / "demo" / "harbour_outcomes.csv"))


def export(workspace):
    folder = workspace.root / "mailed"
    try:
        tdrop("export", "harbour", "--folder", folder, "--contracts", workspace.contracts)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def audit(workspace):
    return audit_site(workspace, "harbour", str(workspace.root / "demo" / "harbour_outcomes.csv"))


@pytest.mark.parametrize("use", [score, recalibrate, export, audit])
def test_every_command_that_speaks_of_the_champion_refuses(workspace, use, monkeypatch):
    monkeypatch.setenv("TDROP_HOME", workspace.home)
    before = {path: path.lstat().st_mtime_ns for path in workspace.site("harbour").rglob("*")}
    for where in (kept, stored):
        with put_back(folder := where(workspace)):
            alter(folder, next(file for file in files_of(folder) if file.name == "served.json"))
            with pytest.raises(TdropError, match="altered"):
                use(workspace)
    after = {path: path.lstat().st_mtime_ns for path in workspace.site("harbour").rglob("*") if path.name != ".lock"}
    assert {path for path in after if after[path] != before.get(path)} <= {workspace.site("harbour")}


@pytest.mark.parametrize("use", [export, audit])
def test_a_report_whose_models_were_altered_on_disk_is_not_told_again(workspace, use, monkeypatch):
    monkeypatch.setenv("TDROP_HOME", workspace.home)
    file = last_run(workspace, "harbour").trained.fits["logistic_regression"][0].path / "predictions.npz"
    before = file.read_bytes()
    file.write_bytes(before + b" ")
    try:
        with pytest.raises(TdropError, match=r"altered on disk .*--again"):
            use(workspace)
    finally:
        file.write_bytes(before)


def test_a_champion_before_that_was_altered_is_not_gone_back_to(workspace):
    now = version(workspace).version
    with put_back(folder := stored(workspace, "1")):
        alter(folder, next(file for file in files_of(folder) if file.name == "served.json"))
        with pytest.raises(TdropError, match=r"version 1 of .* altered in MLflow's store"):
            restore_champion(workspace, "harbour")
    assert version(workspace).version == now


def test_a_candidate_that_was_altered_after_its_run_is_not_promoted(workspace):
    sealed = version(workspace).tags["tdrop.seal"]
    with put_back(folder := stored(workspace)):
        alter(folder, next(file for file in files_of(folder) if file.name == "served.json"))
        with pytest.raises(TdropError, match="not those that its run registered"):
            promote_candidate(workspace, "harbour", by="Dr Chen", note="again")
    assert version(workspace).tags["tdrop.seal"] == sealed
    assert score_one(workspace)
