"""From candidate to champion to scores: a person promotes, and only then a patient is scored."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import replace
from importlib.metadata import version as installed
from pathlib import Path
from unittest import mock

import pandas as pd
import pytest
from command import tdrop
from conftest import TWO_PATIENTS, cheap, compared_network, settle, transfer as run_transfer
from waiting import LIMIT_SECONDS, wait_until

from flows.orchestration import free_port
from tasks.export import export_site
from tasks.models import CANDIDATE, MODELS_DIGEST, copy_of
from tasks.publish import assemble, refresh_report
from tasks.recording import record_site
from tasks.registry import BY, CHAMPION, champion_record, promote_candidate, restore_champion
from tasks.run import last_run
from tasks.score import find_champion, score_batch
from tasks.site_record import site_record
from tasks.tracking import connect, tracking_uri, version_at
from tdrop.base import DataError, SiteStopped, Unavailable, UsageError
from tdrop.home.status import read_status
from tdrop.methods import load

pytestmark = pytest.mark.usefixtures("prefect_server")


@pytest.fixture(scope="module")
def workspace(tmp_path_factory):
    """One tiny site, transferred but not promoted."""
    workspace = compared_network(tmp_path_factory.mktemp("champion"))
    run_transfer(workspace, "harbour", cheap("logistic_regression", "transductive_dropout"))
    return workspace


def score(workspace, file, site="harbour"):
    return score_batch(workspace, site, str(file))


def transfer(workspace, **changed):
    """Transfers harbour with the settings of its last run, some of them changed."""
    settings = last_run(workspace, "harbour").settings.model_copy(update=changed)
    return run_transfer(workspace, "harbour", settings)


def candidate(workspace):
    return version_at(workspace, "harbour", CANDIDATE)


def test_nobody_is_scored_before_a_person_promoted(workspace):
    with pytest.raises(UsageError, match="tdrop promote harbour"):
        score(workspace, workspace.root / "demo" / "harbour.csv")


def test_a_site_without_a_candidate_cannot_be_promoted(workspace):
    with pytest.raises(UsageError, match="no candidate"):
        promote_candidate(workspace, "hillside", by="Dr Chen", note="too early")


def test_a_promotion_needs_a_name_and_a_note(workspace):
    with pytest.raises(UsageError, match="--by"):
        promote_candidate(workspace, "harbour", by=" ", note="why")
    for by, note in (("Dr\x00Chen", "why"), ("Dr\udce9", "why"), ("Dr Chen", "\x1b[31mwhy"), ("\u202eDr Chen", "why")):
        with pytest.raises(UsageError, match="plain text"):
            promote_candidate(workspace, "harbour", by=by, note=note)


def test_the_champion_scores_as_the_report_did(workspace, tmp_path):
    promote_candidate(workspace, "harbour", by="Dr Chen", note="review clinics only")
    refresh_report(workspace, "harbour")
    assert read_status(workspace, "harbour").sentence.startswith("It may be used for")
    report = (workspace.latest("harbour") / "report.html").read_text()
    assert "Dr Chen" in report
    assert "review clinics only" in report
    result = score(workspace, workspace.root / "demo" / "harbour.csv")
    scored = pd.read_csv(workspace.site("harbour") / "scores" / "patients.csv")
    reported = pd.read_csv(workspace.latest("harbour") / "patients.csv")
    before = reported["moved_by"].copy()
    with mock.patch(
        "tasks.gather.load", side_effect=AssertionError("a report rendered again fits and explains nothing")
    ):
        refresh_report(workspace, "harbour")
    again = pd.read_csv(workspace.latest("harbour") / "patients.csv")["moved_by"]
    pd.testing.assert_series_equal(again, before)
    moved = reported.pop("moved_by")
    assert not moved[~reported["refer"]].notna().any(), "of nobody but those for review"
    assert moved[reported["refer"]].notna().any()
    pd.testing.assert_frame_equal(scored.drop(columns="filled_in"), reported)
    assert result.scored == len(reported)


def test_bad_rows_of_a_batch_are_quarantined_and_counted(workspace, tmp_path):
    batch = pd.read_csv(workspace.root / "demo" / "harbour.csv").head(110)
    batch.loc[0, "age"] = 300
    file = tmp_path / "batch.csv"
    batch.to_csv(file, index=False)
    settle(tmp_path)
    result = score(workspace, file)
    validation = json.loads((workspace.site("harbour") / "scores" / "validation.json").read_text())
    assert (validation["quarantined"], result.scored) == (1, 109)


def test_a_batch_without_a_column_is_refused(workspace, tmp_path):
    file = tmp_path / "short.csv"
    pd.read_csv(workspace.root / "demo" / "harbour.csv").drop(columns="stage").to_csv(file, index=False)
    settle(tmp_path)
    with pytest.raises(SiteStopped, match="stage"):
        score(workspace, file)


def test_the_registered_model_predicts_from_contract_columns(workspace):
    import mlflow

    connect(workspace)
    model = mlflow.pyfunc.load_model("models:/tdrop-harbour@champion")
    rows = pd.DataFrame(TWO_PATIENTS)
    predicted = model.predict(rows)
    assert list(predicted.columns) == ["risk", "sd", "low", "high", "refer"]
    assert predicted["risk"].between(0, 1).all()
    assert predicted["risk"][1] > predicted["risk"][0]
    alone = model.predict(rows.tail(1))
    assert alone["risk"].iloc[0] == pytest.approx(predicted["risk"][1], abs=0)


def test_mlflow_serves_the_champion(workspace, tmp_path):
    import mlflow

    connect(workspace)
    expected = mlflow.pyfunc.load_model("models:/tdrop-harbour@champion").predict(pd.DataFrame(TWO_PATIENTS))
    body = json.dumps({"dataframe_split": pd.DataFrame(TWO_PATIENTS).to_dict(orient="split", index=False)}).encode()
    with served(workspace, "models:/tdrop-harbour@champion", tmp_path / "serve.log") as address:
        request = urllib.request.Request(f"{address}/invocations", body, {"Content-Type": "application/json"})
        with ask(request) as answer:
            predicted = pd.DataFrame(json.load(answer)["predictions"])
    assert list(predicted.columns) == ["risk", "sd", "low", "high", "refer"]
    pd.testing.assert_frame_equal(predicted, expected)


@contextmanager
def served(workspace, model, log):
    """The address of a model served by MLflow's own command, from this environment."""
    port = str(free_port())
    programs = Path(sys.executable).parent
    environment = {
        **os.environ,
        "MLFLOW_TRACKING_URI": tracking_uri(workspace),
        "PATH": f"{programs}{os.pathsep}{os.environ['PATH']}",
    }
    where = ("--env-manager", "local", "--host", "127.0.0.1", "--port", port)
    with log.open("w") as output:
        process = subprocess.Popen(
            [str(programs / "mlflow"), "models", "serve", "-m", model, *where],
            env=environment,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    try:
        address = f"http://127.0.0.1:{port}"
        wait_until(lambda: answers(f"{address}/ping") or process.poll() is not None, log.read_text)
        assert process.poll() is None, log.read_text()
        yield address
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def ask(request):
    """Asks this machine, whatever proxy the environment names."""
    return urllib.request.build_opener(urllib.request.ProxyHandler({})).open(request, timeout=LIMIT_SECONDS)


def answers(address) -> bool:
    try:
        with ask(address):
            return True
    except OSError:
        return False


def test_a_model_asks_an_index_for_exact_versions_and_never_for_tdrop(workspace):
    """Whoever took the name tdrop on a public index would otherwise run beside the patients."""
    folder = copy_of(workspace, version_at(workspace, "harbour", CHAMPION)).folder
    pinned = dict(line.split("==") for line in (folder / "requirements.txt").read_text().split())
    assert {"mlflow", "torch", "scikit-learn", "skops", "numpy", "pandas", "pydantic", "safetensors"} <= set(pinned)
    assert pinned == {name: installed(name).split("+")[0] for name in pinned}
    assert not any("tdrop" in (folder / name).read_text() for name in ("requirements.txt", "conda.yaml"))


def test_a_download_that_is_cut_off_leaves_nothing_behind(workspace, monkeypatch):
    import tasks.models

    kept = workspace.root / "models" / "tdrop-harbour"
    shutil.rmtree(kept, ignore_errors=True)
    real = tasks.models.download

    def cut_off(registered, folder):
        real(registered, folder)
        next(folder.rglob("model.json")).unlink()
        raise OSError("the connection was lost")

    with monkeypatch.context() as patch:
        patch.setattr(tasks.models, "download", cut_off)
        with pytest.raises(Unavailable, match="could not be fetched"):
            find_champion(workspace, "harbour")
    assert not list(kept.iterdir())
    assert load(find_champion(workspace, "harbour").folder / "model") is not None


def test_two_scores_at_once_download_the_same_model(workspace, monkeypatch):
    import tasks.models

    kept = workspace.root / "models" / "tdrop-harbour"
    shutil.rmtree(kept)
    real, both = tasks.models.download, threading.Barrier(2, timeout=LIMIT_SECONDS)

    def together(registered, folder):
        real(registered, folder)
        both.wait()

    monkeypatch.setattr(tasks.models, "download", together)
    with ThreadPoolExecutor(2) as threads:
        first, second = threads.map(lambda _: find_champion(workspace, "harbour"), range(2))
    assert first == second
    assert len([folder for folder in kept.iterdir() if folder.is_dir()]) == 1


def stored_model(workspace) -> Path:
    """The champion's files in MLflow's own store."""
    source = version_at(workspace, "harbour", CHAMPION).source
    logged = connect(workspace).get_logged_model(source.removeprefix("models:/"))
    location = Path(logged.artifact_location.removeprefix("file://"))
    return next(file.parent for file in location.rglob("served.json"))


ALTERED = {
    "decision": ("served.json", b'"risk_level": 0.15', b'"risk_level": 0.95'),
    "encoder": ("served.json", b'"log": true', b'"log": false'),
    "model": ("model/model.json", b"{", b"{ "),
}


@pytest.mark.parametrize("what", ALTERED)
@pytest.mark.parametrize("where", ["copy", "store"])
def test_a_champion_that_was_altered_is_refused(workspace, what, where):
    import mlflow

    name, before, after = ALTERED[what]
    file = (find_champion(workspace, "harbour").folder if where == "copy" else stored_model(workspace)) / name
    content = file.read_bytes()
    assert before in content
    file.write_bytes(content.replace(before, after, 1))
    try:
        with pytest.raises(DataError, match="altered"):
            score(workspace, workspace.root / "demo" / "harbour.csv")
        if where == "store":
            with pytest.raises(DataError, match="altered since its promotion"):
                mlflow.pyfunc.load_model("models:/tdrop-harbour@champion")
    finally:
        file.write_bytes(content)
    assert find_champion(workspace, "harbour")


def test_a_champion_made_by_hand_is_refused(workspace):
    import mlflow

    client = connect(workspace)
    version = version_at(workspace, "harbour", CHAMPION)
    unknown = client.create_model_version("tdrop-harbour", version.source, version.run_id)
    client.set_registered_model_alias("tdrop-harbour", CHAMPION, unknown.version)
    try:
        with pytest.raises(UsageError, match="without a name and a note; a person promotes one"):
            score(workspace, workspace.root / "demo" / "harbour.csv")
        with pytest.raises(UsageError, match="was not promoted"):
            mlflow.pyfunc.load_model("models:/tdrop-harbour@champion")
        client.set_model_version_tag("tdrop-harbour", unknown.version, BY, "Dr Nobody")
        with pytest.raises(UsageError, match="without a name and a note"):
            score(workspace, workspace.root / "demo" / "harbour.csv")
        client.set_model_version_tag("tdrop-harbour", unknown.version, "tdrop.promotion_note", "none")
        with pytest.raises(UsageError, match="without a seal"):
            score(workspace, workspace.root / "demo" / "harbour.csv")
    finally:
        client.set_registered_model_alias("tdrop-harbour", CHAMPION, version.version)
        client.delete_model_version("tdrop-harbour", unknown.version)


def test_rollback_goes_back_one_champion(workspace):
    with pytest.raises(UsageError, match="no earlier champion"):
        restore_champion(workspace, "harbour")
    first = champion_record(workspace, "harbour")
    transfer(workspace, passes=12)
    second = promote_candidate(workspace, "harbour", by="Dr Osei", note="after the audit")
    assert second.version != first.version
    assert restore_champion(workspace, "harbour") == first


def test_the_candidate_is_the_model_of_the_report_also_when_it_was_recorded_before(workspace):
    newer = candidate(workspace)
    transfer(workspace, passes=10)
    older = candidate(workspace)
    assert int(older.version) < int(newer.version), "the record was made again, or its model is not the candidate"
    assert older.tags[MODELS_DIGEST] == last_run(workspace, "harbour").stages.models.digest
    connect(workspace).set_registered_model_alias("tdrop-harbour", CANDIDATE, newer.version)
    with pytest.raises(UsageError, match="not the model of its last report"):
        promote_candidate(workspace, "harbour", by="Dr Chen", note="nobody has read about this one")
    connect(workspace).set_registered_model_alias("tdrop-harbour", CANDIDATE, older.version)


def test_a_changed_site_file_is_settled_by_a_new_transfer(workspace):
    """Neither rows nor numbers change: the record is a new one all the same."""
    yaml = workspace.network().folder / "sites" / "harbour.yaml"
    text = yaml.read_text()
    yaml.write_text(text.replace('schedule: "0 5', 'schedule: "0 6'))
    try:
        assert changed(workspace)
        transfer(workspace)
        promote_candidate(workspace, "harbour", by="Dr Chen", note="an hour later")
        assert not changed(workspace)
    finally:
        yaml.write_text(text)


def changed(workspace) -> bool:
    sentences = score(workspace, workspace.root / "demo" / "harbour.csv").sentences
    return any("site file changed" in sentence for sentence in sentences)


def test_a_verdict_of_stop_leaves_nothing_to_promote(workspace, tmp_path):
    record = site_record(workspace, run := last_run(workspace, "harbour"), assemble(workspace, run), tmp_path)
    stopped = replace(record, candidate=None, tags={**record.tags, "verdict": "stop"})
    before = candidate(workspace)
    first = record_site(workspace, stopped)
    assert candidate(workspace) is None
    with pytest.raises(UsageError, match="no candidate"):
        promote_candidate(workspace, "harbour", by="Dr Chen", note="in spite of the verdict")
    connect(workspace).set_registered_model_alias("tdrop-harbour", CANDIDATE, before.version)
    assert record_site(workspace, stopped) == first
    assert candidate(workspace) is None
    # A site that never had a model has no alias to remove either.
    record_site(workspace, replace(stopped, site="hillside", tags={**stopped.tags, "site": "hillside"}))


def test_the_export_hides_what_the_site_wants_hidden(workspace, tmp_path):
    yaml = workspace.network().folder / "sites" / "harbour.yaml"
    text = yaml.read_text()
    yaml.write_text(text.replace("disclosure: {exempt: true}", "disclosure: {threshold: 20}"))
    try:
        export_site(workspace, run := last_run(workspace, "harbour"), assemble(workspace, run), tmp_path / "mail")
    finally:
        yaml.write_text(text)
    exported = (tmp_path / "mail" / "report.html").read_text()
    assert "&lt;20" in exported
    names = {path.name for path in (tmp_path / "mail").iterdir()}
    assert "patients.csv" not in names
    assert "quarantine.csv" not in names


def test_an_export_to_the_site_s_own_folder_leaves_nothing_of_an_earlier_one_there(workspace, monkeypatch):
    monkeypatch.setenv("TDROP_HOME", workspace.home)
    folder = workspace.site("harbour") / "export"
    folder.mkdir()
    (folder / "earlier.html").write_text("what was not hidden then")
    tdrop("export", "harbour", "--contracts", workspace.contracts)
    names = {path.name for path in folder.iterdir()}
    assert "report.html" in names
    assert "earlier.html" not in names
    assert not list(folder.parent.glob(".export-*"))


def test_a_version_number_that_is_used_again_is_another_model(workspace):
    """As after a site was erased: MLflow's numbers begin at 1 again."""
    client, name = connect(workspace), "tdrop-harbour"
    first, second = (client.get_model_version(name, version) for version in ("1", "3"))

    def served(version):
        client.set_registered_model_alias(name, CHAMPION, version)
        copy = copy_of(workspace, version_at(workspace, "harbour", CHAMPION))
        copy.renew(copy.stored_seal())
        return json.loads((copy.model / "served.json").read_text())

    before = served("1")
    client.delete_registered_model(name)
    client.create_registered_model(name)
    again = client.create_model_version(name, second.source, second.run_id)
    after = served("1")
    assert again.version == first.version
    assert (before["passes"], after["passes"]) == (10, 12)
