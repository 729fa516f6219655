"""Scoring a batch with the champion: which rows are read, and what is said about them and about the champion."""

from __future__ import annotations

import io
import re
import shutil
import sqlite3
from contextlib import contextmanager, redirect_stdout
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from conftest import cheap, leave_reports_out, settle, transfer as run_transfer, write_tiny_network
from separate_process import modules_loaded

from flows.commands.use import score as score_command
from tasks.prune import stages
from tasks.registry import promote_candidate
from tasks.score import find_champion, score_batch
from tdrop.base import SiteStopped, UsageError
from tdrop.data import simulate

pytestmark = pytest.mark.usefixtures("prefect_server")

SITE = "harbour"
ROWS = {"registry": 1200, "harbour": 500, "hillside": 50, "lakeside": 50}


def transfer(workspace):

    run_transfer(workspace, SITE, cheap("logistic_regression"))


@pytest.fixture(scope="module")
def workspace(tmp_path_factory):
    """A site with a champion; neither it nor its source has a patient of stage T4."""
    workspace = write_tiny_network(tmp_path_factory.mktemp("score"), ROWS)
    for name in ("registry", SITE):
        file = workspace.root / "demo" / f"{name}.csv"
        without_t4(pd.read_csv(file)).to_csv(file, index=False)
    settle(workspace.root / "demo")
    with pytest.MonkeyPatch.context() as patch:
        leave_reports_out(patch)
        transfer(workspace)
        promote_candidate(workspace, SITE, by="Dr Chen", note="review clinics only")
        yield workspace


def without_t4(frame):
    return frame[frame["stage"] != "T4"]


def patients(population="mild", rows=400, seed=5):
    """New patients of a simulated hospital, in the columns of the site's extract."""
    return without_t4(simulate(population, rows, seed=seed).drop(columns=["died_10y", "true_risk"]))


def score(workspace, tmp_path, batch, name="batch.csv"):
    file = tmp_path / name
    batch.to_parquet(file) if name.endswith("parquet") else batch.to_csv(file, index=False)
    return score_batch(workspace, SITE, str(file))


@contextmanager
def edited(file, change):
    """Another content for the block."""
    before = file.read_text()
    try:
        file.write_text(change(before))
        settle(file.parent)
        yield
    finally:
        file.write_text(before)
        settle(file.parent)


def site_file(workspace):
    return workspace.network().folder / "sites" / f"{SITE}.yaml"


def without_last_row(text):
    return "\n".join(text.splitlines()[:-1]) + "\n"


def about_source(result):
    return [sentence for sentence in result.sentences if "source extract" in sentence]


def besides_watch(result) -> list[str]:
    """What is said of the batch and the champion; the watch has met these patients before, and says so."""
    return [sentence for sentence in result.sentences if "watch" not in sentence]


# The batch.


@pytest.mark.parametrize("name", ["batch.csv", "batch.parquet"])
def test_a_database_site_scores_the_file_not_the_database(workspace, tmp_path, monkeypatch, name):
    with sqlite3.connect(tmp_path / "hospital.db") as database:
        patients(rows=60, seed=1).to_sql("patients", database, index=False)
    database.close()
    monkeypatch.setenv("HARBOUR_DB", f"sqlite:///{tmp_path / 'hospital.db'}")
    reader = "reader: {kind: sql, url_env: HARBOUR_DB, table: patients}"
    batch = patients(rows=120).assign(patient_id=lambda rows: "NEW" + rows["patient_id"])
    with edited(site_file(workspace), lambda text: text.replace("reader: {kind: csv}", reader)):
        result = score(workspace, tmp_path, batch, name)
    scored = pd.read_csv(workspace.site(SITE) / "scores" / "patients.csv")
    assert set(scored["id"]) == set(batch["patient_id"])
    assert result.scored == len(batch)


def test_a_batch_is_scored_without_a_server_or_figures(workspace, tmp_path):
    patients().to_csv(tmp_path / "batch.csv", index=False)
    loaded = modules_loaded(workspace, ["score", SITE, tmp_path / "batch.csv", "--contracts", workspace.contracts])
    assert not {"prefect", "matplotlib"} & loaded


def test_a_category_that_the_source_never_had_is_scored_and_counted(workspace, tmp_path):
    batch = patients(rows=120)
    batch.iloc[:7, batch.columns.get_loc("stage")] = "T4"
    result = score(workspace, tmp_path, batch)
    assert result.scored == len(batch)
    scored = pd.read_csv(workspace.site(SITE) / "scores" / "patients.csv").set_index("id")
    assert scored.loc[batch["patient_id"].head(7), "risk"].between(0, 1).all()
    (said,) = [sentence for sentence in result.sentences if "never showed" in sentence]
    assert f"column 'stage': 7 of {len(batch)} values" in said
    assert "T4" not in said
    assert not any(patient in said for patient in batch["patient_id"])


def test_who_is_unlike_anyone_is_referred_and_told_so(workspace, tmp_path):
    batch = patients(rows=120).head(20)
    batch.iloc[:2, batch.columns.get_loc("psa")] = 4_900
    result = score(workspace, tmp_path, batch)
    scored = pd.read_csv(workspace.site(SITE) / "scores" / "patients.csv", keep_default_na=False)
    unlike = scored["why"].str.contains("unlike anyone the model learned from")
    assert unlike.tolist() == [True] * 2 + [False] * 18
    assert scored.loc[unlike, "refer"].all()
    assert result.unlike == 2


def test_a_refused_batch_tells_the_site_all_and_prefect_no_small_count(workspace, tmp_path):
    batch = patients(rows=60).head(7)
    batch.iloc[:4, batch.columns.get_loc("age")] = 300
    with (
        edited(site_file(workspace), lambda text: text.replace("{exempt: true}", "{threshold: 10}")),
        pytest.raises(SiteStopped, match="the batch for site 'harbour' is stopped: ") as caught,
    ):
        score(workspace, tmp_path, batch)
    said = str(caught.value).replace(str(workspace.root), "")
    assert not re.search(r"\b[47]\b", said)
    kept = (workspace.site(SITE) / "refused" / "batch.txt").read_text()
    assert re.search(r"\b4 of 7\b", kept)


def test_a_clinic_s_list_of_8_is_scored_but_for_its_ragged_line(workspace, tmp_path, monkeypatch):
    batch = patients(rows=60).head(8)
    batch.iloc[1, batch.columns.get_loc("psa")] = np.nan
    lines = batch.to_csv(index=False).splitlines()
    lines[8] += ",,,"
    (tmp_path / "clinic.csv").write_text("\n".join(lines) + "\n")
    settle(tmp_path)
    printed = scored_at_the_terminal(workspace, tmp_path / "clinic.csv", monkeypatch)
    scores = workspace.site(SITE) / "scores"
    scored = pd.read_csv(scores / "patients.csv", keep_default_na=False)
    assert list(scored["id"]) == list(batch["patient_id"].head(7))
    assert list(scored["filled_in"]) == ["", "psa", *[""] * 5]
    assert len(pd.read_csv(scores / "quarantine.csv")) == 1
    assert "8 rows read, 7 scored, 1 quarantined, 0 duplicates" in printed
    assert "1 of 7 patients lack a value" in printed
    assert str(scores / "quarantine.csv") in printed


def scored_at_the_terminal(workspace, file, monkeypatch):
    """What `tdrop score` prints for a file."""
    monkeypatch.setenv("TDROP_HOME", workspace.home)
    with redirect_stdout(io.StringIO()) as printed:
        score_command(SITE, file, contracts=Path(workspace.contracts))
    return printed.getvalue()


def test_the_list_goes_where_it_can_go_and_replaces_nothing_else(workspace, tmp_path, monkeypatch):
    patients(rows=20).to_csv(batch := tmp_path / "batch.csv", index=False)
    settle(tmp_path)
    monkeypatch.setenv("TDROP_HOME", workspace.home)
    before = batch.read_bytes()

    def score_to(output):
        score_command(SITE, batch, output=output, contracts=Path(workspace.contracts))

    (tmp_path / "link.csv").symlink_to(batch)
    for output, says in (
        (tmp_path, "is no file"),
        (tmp_path / "absent" / "list.csv", "there is no folder"),
        (batch, "the batch itself"),
        (tmp_path / "link.csv", "the batch itself"),
        (workspace.root / "mlflow.db", "lies below"),
        (Path("/dev/full"), "is no file"),
    ):
        with pytest.raises(UsageError, match=says):
            score_to(output)
    assert batch.read_bytes() == before
    score_to(tmp_path / "list.csv")
    assert (tmp_path / "list.csv").stat().st_mode & 0o777 == 0o600
    assert len(pd.read_csv(tmp_path / "list.csv")) == 20


def test_the_list_of_those_who_were_not_scored_is_named(workspace, tmp_path, monkeypatch):
    batch = patients(rows=120)
    batch.loc[0, "age"] = 300
    batch.to_csv(tmp_path / "batch.csv", index=False)
    settle(tmp_path)
    listed = workspace.site(SITE) / "scores" / "quarantine.csv"
    assert str(listed) in scored_at_the_terminal(workspace, tmp_path / "batch.csv", monkeypatch)
    assert len(pd.read_csv(listed)) == 1


# The batch beside the patients that the model was made for.


@pytest.mark.parametrize("seed", [5, 6, 7])
def test_other_patients_of_the_same_site_call_for_nothing(workspace, tmp_path, seed):
    assert besides_watch(score(workspace, tmp_path, patients(seed=seed))) == []


# What is newer than the champion.


def test_a_changed_site_file_is_said(workspace, tmp_path):
    with edited(site_file(workspace), lambda text: text.replace("Harbour Hospital", "Harbour Clinic")):
        (said,) = besides_watch(score(workspace, tmp_path, patients()))
    assert said == (
        "the contract or site file changed since version 1 was trained; run `tdrop transfer harbour` and promote again"
    )


def test_a_changed_contract_is_said(workspace, tmp_path):
    table = workspace.network().folder / "tables" / "prostate.yaml"
    with edited(table, lambda text: text.replace("plausible: [35, 100]", "plausible: [30, 100]")):
        (said,) = besides_watch(score(workspace, tmp_path, patients()))
    assert said.startswith("the contract or site file changed since version 1 was trained")


def test_a_champion_of_an_older_source_says_so_until_the_next_is_promoted(workspace, tmp_path):
    registry = workspace.root / "demo" / "registry.csv"
    old = find_champion(workspace, SITE).described.digests.source
    advice = "; run `tdrop transfer harbour` and promote again"
    changed = [f"version 1 was trained on an older source extract than there is now{advice}"]
    with edited(registry, without_last_row):
        assert about_source(score(workspace, tmp_path, patients())) == changed
        transfer(workspace)
        assert about_source(score(workspace, tmp_path, patients())) == changed
        # The last run knows the newer extract when the source is out of reach.
        away = registry.rename(registry.with_suffix(".away"))
        assert about_source(score(workspace, tmp_path, patients())) == changed
        away.rename(registry)
        for stage in stages(workspace):
            if old in (stage.digest, *stage.inputs.values()):
                shutil.rmtree(stage.folder)
        (said,) = about_source(score(workspace, tmp_path, patients()))
        assert "than the last transfer" in said
        promote_candidate(workspace, SITE, by="Dr Chen", note="newer registry")
        assert besides_watch(score(workspace, tmp_path, patients())) == []
