"""The watch of a model in use: begun at promotion, updated by score and audit, sealed, shown and acted upon."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from command import tdrop
from conftest import at, cheap, settle, transfer, write_tiny_network
from leaving_numbers import against_the_rules

from flows.watch import watch_site
from tasks import registry
from tasks.batches import pick_up, retrain_due
from tasks.governance import CARD_TAG, put_to_use, read_plan
from tasks.models import CANDIDATE
from tasks.score import score_batch, score_prepared
from tasks.tracking import connect, experiment_id, version_at
from tasks.watch import begin, open_watch, patient_identities, read_watch, watch_outcomes
from tdrop.base import DataError, TdropError, UsageError
from tdrop.data import prepare, simulate
from tdrop.home import Workspace, worker_processes

pytestmark = pytest.mark.usefixtures("prefect_server")

SITE = "harbour"
ROWS = {"registry": 1200, "harbour": 500, "hillside": 50, "lakeside": 50}


SETTINGS = cheap("logistic_regression")


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """A home with a candidate; every test works on a copy of it."""
    workspace = write_tiny_network(tmp_path_factory.mktemp("watch"), ROWS)
    transfer(workspace, SITE, SETTINGS)
    return workspace


@pytest.fixture(scope="module")
def in_use(finished, tmp_path_factory):
    """The same with a champion."""
    copy = copy_of(finished, tmp_path_factory.mktemp("in-use"))
    with at(copy):
        promote_candidate(copy)
    return copy


def copy_of(workspace, folder):
    shutil.copytree(workspace.root.parent, folder / "copy", symlinks=True)
    return Workspace.at(folder / "copy" / "home", folder / "copy" / "network" / "data_contracts")


@pytest.fixture
def workspace(finished, tmp_path):
    copy = copy_of(finished, tmp_path)
    with at(copy):
        yield copy


@pytest.fixture
def promoted(in_use, tmp_path):
    copy = copy_of(in_use, tmp_path)
    with at(copy):
        yield copy


def promote_candidate(workspace):
    registry.promote_candidate(workspace, SITE, by="Dr Chen", note="review clinics only")
    return put_to_use(workspace, SITE)


def patients(rows=200, seed=5, population="mild", prefix="N"):
    """New patients of a simulated hospital, in the columns of the site's extract, with their outcomes."""
    frame = simulate(population, rows, seed=seed)
    return frame.assign(patient_id=[f"{prefix}{seed}-{row}" for row in range(rows)])


def score(workspace, batch, folder):
    file = folder / "batch.csv"
    batch.drop(columns=["died_10y", "true_risk"]).to_csv(file, index=False)
    return score_batch(workspace, SITE, str(file))


def state_of(workspace):
    return read_watch(workspace, SITE)


def test_there_is_nothing_to_watch_before_a_promotion(workspace):
    with pytest.raises(UsageError, match="has no champion; after `tdrop transfer"):
        open_watch(workspace, SITE)
    assert state_of(workspace) is None


def test_a_watch_begins_at_the_promotion_and_batches_count_once(promoted, tmp_path):
    begun = state_of(promoted)
    assert begun.champion == "1"
    assert len(begun.scale.scores) == pytest.approx(250, abs=5)
    assert begun.made_for == 500
    assert (promoted.site(SITE) / "watch.json").stat().st_mode & 0o077 == 0
    batch = patients()
    score(promoted, batch, tmp_path)
    once = state_of(promoted)
    assert once.patients == 200
    again = score(promoted, batch.sample(frac=1, random_state=1), tmp_path)
    assert state_of(promoted).further == once.further
    assert any("it had counted all of them before" in sentence for sentence in again.sentences)
    score(promoted, patients(1, seed=6), tmp_path)
    assert state_of(promoted).patients == 201


def test_a_batch_whose_model_was_replaced_meanwhile_leaves_the_new_watch_alone(promoted, tmp_path):
    file = tmp_path / "batch.csv"
    patients(50).drop(columns=["died_10y", "true_risk"]).to_csv(file, index=False)
    before = registry.find_champion(promoted, SITE)
    network = promoted.network()
    batch = prepare(network.site(SITE), network, home=promoted.root, file=file)
    promote_candidate(promoted)
    begun = state_of(promoted)
    assert begun.promoted != before.promoted
    result = score_prepared(promoted, SITE, before, batch)
    assert "not counted by the watch: version 1 was replaced while it predicted" in " ".join(result.sentences)
    assert (state_of(promoted).promoted, state_of(promoted).patients) == (begun.promoted, 0)


def test_no_patient_is_in_the_record(promoted, tmp_path):
    batch = patients(50)
    score(promoted, batch, tmp_path)
    text = (promoted.site(SITE) / "watch.json").read_text()
    assert not [patient for patient in batch["patient_id"] if patient in text]


def test_an_altered_record_is_refused_and_scoring_goes_on(promoted, tmp_path):
    file = promoted.site(SITE) / "watch.json"
    document = json.loads(file.read_text())
    document["state"]["further"]["log_wealth"] = -9.0
    file.write_text(json.dumps(document))
    with pytest.raises(DataError, match="was altered or damaged since it was written"):
        state_of(promoted)
    result = score(promoted, patients(60), tmp_path)
    assert result.scored == 60
    assert any("not counted by the watch" in sentence for sentence in result.sentences)
    for damaged in ("", "[]", "{}", '{"state": 1, "seal": "x"}'):
        file.write_text(damaged)
        with pytest.raises(DataError, match="altered or damaged"):
            state_of(promoted)
    begin(promoted, SITE)
    assert state_of(promoted).patients == 0
    assert (promoted.site(SITE) / "watch-altered.json").is_file()


def test_another_population_raises_an_alarm_that_command_status_and_page_show(promoted, tmp_path):
    contracts = ["--contracts", promoted.contracts]
    result = score(promoted, patients(600, population="severe"), tmp_path)
    assert any("alarm" in sentence for sentence in result.sentences), result.sentences
    document = json.loads(tdrop("watch", SITE, "--json", *contracts))
    assert document["stand"] == "alarm"
    assert "retrain" in document["actions"]
    page = Path(document["page"]).read_text()
    assert "further from the source than" in page
    assert "figure-evidence" in page
    assert "alarm (further" in tdrop("status", *contracts)
    said = tdrop("watch", SITE, *contracts)
    assert f"tdrop transfer {SITE}" in said
    assert "What moved: " in said
    assert (
        '<a href="sites/harbour/watch.html"><span class="pill stop">alarm' in (promoted.root / "index.html").read_text()
    )
    [recorded] = watch_runs(promoted)
    assert recorded.data.metrics["watch/patients"] == 600
    assert recorded.data.metrics["watch/evidence/further"] > 1.6


def watch_runs(workspace):
    """The runs in MLflow that hold a watch over time."""
    return connect(workspace).search_runs([experiment_id(workspace, "prostate")], "tags.kind = 'watch'")


def test_what_leaves_of_a_watch_is_rounded_and_every_number_has_a_rule(workspace, tmp_path):
    contracts = ["--contracts", workspace.contracts]
    site = Path(workspace.contracts) / "sites" / f"{SITE}.yaml"
    site.write_text(site.read_text().replace("exempt: true", "threshold: 10"))
    promote_candidate(workspace)
    for seed, rows in ((5, 33), (6, 4), (7, 3), (8, 29)):
        score(workspace, patients(rows, seed=seed), tmp_path)
        tdrop("watch", SITE, *contracts)
    assert state_of(workspace).patients == 69
    tdrop("export", SITE, "--folder", tmp_path / "out", *contracts)
    document = json.loads((tmp_path / "out" / "watch.json").read_text())
    assert against_the_rules("watch.json", document, 10) == []
    assert document["patients"] == 70
    page = (tmp_path / "out" / "watch.html").read_text()
    assert "70 new patients" in page
    assert "69 new" not in page
    [recorded] = watch_runs(workspace)
    assert against_the_rules("metrics", recorded.data.metrics, 10) == []

    steps = connect(workspace).get_metric_history(recorded.info.run_id, "watch/patients")
    assert [step.value for step in steps] == [30, 40], "batches of few are put together"


def outcomes(frame, file):
    frame[["patient_id", "died_10y"]].to_csv(file, index=False)
    return file


def test_outcomes_of_batches_are_compared_with_what_those_patients_were_told(promoted, tmp_path):
    batch = patients(400)
    score(promoted, batch, tmp_path)
    strangers = patients(20, seed=9, prefix="X")
    known = outcomes(pd.concat([batch, strangers]), tmp_path / "known.csv")
    watched = watch_outcomes(promoted, SITE, known)
    assert watched.added == 400
    assert watched.of_batches
    assert watched.state.outcomes.events == batch["died_10y"].sum()
    assert watch_outcomes(promoted, SITE, known).added == 0
    with pytest.raises(DataError, match="rows are of none of the cohort"):
        tdrop("audit", SITE, known, "--contracts", promoted.contracts)


def test_an_audit_of_batches_alone_says_how_the_watch_stands(promoted, tmp_path):
    batch = patients(150)
    score(promoted, batch, tmp_path)
    known = outcomes(batch, tmp_path / "known.csv")
    said = tdrop("audit", SITE, known, "--contracts", promoted.contracts)
    assert "150 outcomes of patients who were scored since" in said


def test_the_watch_begins_anew_when_the_same_version_is_promoted_again(promoted, tmp_path):
    from tasks.registry import promote_candidate

    score(promoted, patients(), tmp_path)
    before = state_of(promoted)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("tasks.registry.now", lambda: "2099-01-01T00:00:00+00:00")
        promote_candidate(promoted, SITE, by="Dr Chen", note="again")
    begin(promoted, SITE)
    after = state_of(promoted)
    assert (after.patients, after.promoted) == (0, "2099-01-01T00:00:00+00:00")
    assert [moment.kind for moment in after.history] == [*(moment.kind for moment in before.history), "champion"]


def test_a_champion_from_before_the_watch_is_watched_from_its_next_batch(workspace, tmp_path):
    from tasks.registry import promote_candidate

    promote_candidate(workspace, SITE, by="Dr Chen", note="review clinics only")
    assert open_watch(workspace, SITE).begun_late
    score(workspace, patients(30), tmp_path)
    assert state_of(workspace).patients == 30


def test_a_batch_that_the_contract_stops_or_of_another_table_changes_nothing(promoted, tmp_path):
    before = state_of(promoted)

    for name, frame in (
        ("empty", patients(10).drop(columns=["died_10y", "true_risk"]).head(0)),
        ("other", pd.DataFrame({"petals": [1, 2], "colour": ["red", "blue"]})),
    ):
        file = tmp_path / f"{name}.csv"
        frame.to_csv(file, index=False)
        with pytest.raises(TdropError):
            score_batch(promoted, SITE, str(file))
    assert json.dumps(state_of(promoted).history, default=vars) == json.dumps(before.history, default=vars)


KILLED = """
import os, sys
sys.path[:0] = {path!r}
import tdrop.home.workspace as files
replace = os.replace
def die(source, destination, **options):
    if str(destination).endswith("watch.json"):
        os.kill(os.getpid(), 9)
    return replace(source, destination, **options)
os.replace = die
from tasks.score import score_batch, score_prepared
from tdrop.home import Workspace
score_batch(Workspace.at({home!r}, {contracts!r}), {site!r}, {file!r})
"""


def test_a_record_survives_a_kill_at_the_moment_it_is_replaced(promoted, tmp_path):
    batch = patients(80)
    file = tmp_path / "batch.csv"
    batch.drop(columns=["died_10y", "true_risk"]).to_csv(file, index=False)
    given = {"home": promoted.home, "contracts": promoted.contracts, "site": SITE, "file": str(file)}
    code = KILLED.format(path=sys.path[:], **given)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == -9, done.stderr
    assert state_of(promoted).patients == 0
    score(promoted, batch, tmp_path)
    assert state_of(promoted).patients == 80


def write_batches(workspace, folder, batches, retrain="propose"):
    """Puts batches as files into a folder that the site's YAML names."""
    folder.mkdir(exist_ok=True)
    for name, batch in batches.items():
        batch.drop(columns=["died_10y", "true_risk"]).to_csv(folder / name, index=False)
    settle(folder)
    site = Path(workspace.contracts) / "sites" / f"{SITE}.yaml"
    if "batches:" not in site.read_text():
        site.write_text(f"{site.read_text()}batches: {{location: {folder}, retrain: {retrain}}}\n")


def run_flow(name="watch"):
    """Runs the flow in this process; returns its last state and what came of it."""
    with worker_processes(0):
        return watch_site(SITE, SETTINGS, return_state=True)


def test_the_flow_picks_up_batches_raises_an_alarm_once_and_proposes_a_candidate(workspace, tmp_path):
    inbox, promoted = tmp_path / "inbox", workspace
    write_batches(promoted, inbox, {})
    promote_candidate(promoted)
    write_batches(promoted, inbox, {"a.csv": patients(40), "b.csv": patients(30, seed=6), "c.tmp": patients(5)})
    first = run_flow()
    assert (first.name, first.message) == ("Quiet, unchanged", "2 batches scored; watch of version 1: quiet")
    assert (promoted.site(SITE) / "batches" / "a.csv" / "patients.csv").is_file()
    assert state_of(promoted).patients == 70
    write_batches(promoted, inbox, {"d.csv": patients(300, seed=7, population="severe")})
    alarm = run_flow()
    assert alarm.name == "Alarm"
    assert "further" in alarm.message
    assert "a candidate for the new patients was trained" in alarm.message
    assert "370" not in alarm.message, "no number of patients is in Prefect"
    assert version_at(promoted, SITE, CANDIDATE).version != version_at(promoted, SITE, "champion").version
    again = run_flow()
    assert (again.name, again.message[:16]) == ("Alarm, unchanged", "0 batches scored")
    assert "done" in tdrop("status", "--contracts", promoted.contracts), "the run for new patients stands"
    extract = transfer(promoted, SITE, SETTINGS)
    assert extract.unchanged, "the extract is as it was: the proposal is what a person looks at"
    assert int(extract.summary.patients) == 370
    promote_candidate(promoted)
    begun = state_of(promoted)
    assert (begun.made_for, begun.patients) == (370, 0)
    assert run_flow().name == "Quiet, unchanged"


def test_a_batch_that_cannot_be_scored_is_told_and_the_others_are_scored(promoted, tmp_path):
    write_batches(promoted, tmp_path / "inbox", {"a.csv": patients(40).drop(columns="psa"), "b.csv": patients(30, 6)})
    (tmp_path / "inbox" / "empty.csv").write_text("")
    os.utime(tmp_path / "inbox" / "empty.csv", (0, 0))
    state = run_flow()
    assert state.name == "Stopped"
    assert "psa" in state.message
    assert "empty" in state.message
    assert "1 batch scored" in state.message
    picked = pick_up(promoted, SITE)
    assert (picked.scored, len(picked.refused), state_of(promoted).patients) == (0, 2, 30)


def test_patients_of_a_table_count_once_however_often_it_is_read(promoted, tmp_path, monkeypatch):
    from sqlalchemy import create_engine

    engine = create_engine(f"sqlite:///{tmp_path / 'ward.db'}")
    monkeypatch.setenv("WARD", f"sqlite:///{tmp_path / 'ward.db'}")
    site = Path(promoted.contracts) / "sites" / f"{SITE}.yaml"
    site.write_text(f"{site.read_text()}batches: {{reader: {{kind: sql, url_env: WARD, table: admissions}}}}\n")
    rows = patients(60).drop(columns=["died_10y", "true_risk"])
    counts = []
    for end in (1, 1, 60):
        rows[:end].to_sql("admissions", engine, if_exists="replace", index=False)
        counts.append((pick_up(promoted, SITE).scored, state_of(promoted).patients))
    assert counts == [(1, 1), (0, 1), (1, 60)]


def test_picking_up_without_a_place_or_a_folder_is_one_sentence(promoted, tmp_path):
    with pytest.raises(UsageError, match="add `batches:` with a folder"):
        pick_up(promoted, SITE)
    write_batches(promoted, tmp_path / "inbox", {})
    shutil.rmtree(tmp_path / "inbox")
    with pytest.raises(DataError, match="there is no folder"):
        pick_up(promoted, SITE)
    with pytest.raises(TdropError, match="no batch since version 1 was promoted"):
        tdrop("transfer", SITE, "--new-patients", "--contracts", promoted.contracts)


def test_a_promotion_seals_a_change_plan_that_the_watch_acts_by(workspace, tmp_path):
    folder = promote_candidate(workspace)
    plan = read_plan(workspace, state_of(workspace))
    assert [section.title[:2] for section in plan.sections] == ["1.", "2.", "3.", "Ap"]
    facts = {fact.name: fact for section in plan.sections for fact in section.facts}
    assert facts["3 outcomes"].numbers == {"caution": 20.0, "line": 400.0}
    assert facts["approved by"].value == "Dr Chen"
    blanks = [fact for fact in facts.values() if not fact.record]
    assert blanks
    assert {fact.value for fact in blanks} == {"to be written by the site"}
    assert "propose" not in plan.foreseen
    write_batches(workspace, tmp_path / "inbox", {"a.csv": patients(300, population="severe")})
    alarm = run_flow()
    assert alarm.name == "Alarm"
    assert "the change plan does not foresee it" in alarm.message
    assert not retrain_due(workspace, state_of(workspace))
    file = folder / "change_plan.json"
    file.write_text(file.read_text().replace("Dr Chen", "Dr Who"))
    with pytest.raises(DataError, match="the change plan of site 'harbour' was altered"):
        tdrop("watch", SITE, "--contracts", workspace.contracts)


def test_a_model_card_holds_facts_with_their_records_and_leaves_after_disclosure(workspace, tmp_path):
    contracts = ["--contracts", workspace.contracts]
    site = Path(workspace.contracts) / "sites" / f"{SITE}.yaml"
    site.write_text(site.read_text().replace("exempt: true", "threshold: 10"))
    folder = promote_candidate(workspace)
    score(workspace, patients(33), tmp_path)
    tdrop("watch", SITE, *contracts)
    card = json.loads((folder / "model_card.json").read_text())
    titles = [section["title"] for section in card["sections"]]
    assert titles[-2:] == ["Watch", "Versions and lineage"]
    facts = [fact for section in card["sections"] for fact in section["facts"]]
    assert all(fact["record"] or fact["value"] in ("to be filled by the site", "not begun") for fact in facts)
    assert any(fact["name"] == "approved for" and fact["value"] == "review clinics only" for fact in facts)
    assert any("33 new patients" in fact["value"] for fact in facts)
    auroc = next(fact for fact in facts if fact["name"] == "Test AUROC")
    assert auroc["numbers"]["low"] < auroc["numbers"]["value"] < auroc["numbers"]["high"]
    assert 'href="model_card.html"' in (workspace.latest(SITE) / "report.html").read_text()
    assert (workspace.latest(SITE) / "model_card.html").is_file()
    tdrop("export", SITE, "--folder", tmp_path / "out", *contracts)
    left = json.loads((tmp_path / "out" / "model_card.json").read_text())
    assert against_the_rules("model_card.json", left, 10) == []
    assert "30 new patients" in (tmp_path / "out" / "model_card.html").read_text()
    assert "33 new" not in (tmp_path / "out" / "model_card.html").read_text()
    assert version_at(workspace, SITE, "champion").tags[CARD_TAG].endswith("/model_card.html")


def test_a_list_of_rows_without_ids_is_the_same_in_any_order(tmp_path):
    workspace, site = Workspace.at(tmp_path), SimpleNamespace(number_rows=True, name="a")
    X = np.random.default_rng(4).normal(size=(50, 3)).astype(np.float32)
    order = np.random.default_rng(5).permutation(50)
    rows = [
        patient_identities(workspace, site, None, SimpleNamespace(X=some), None)[0] for some in (X, X[order], X[:49])
    ]
    assert list(rows[0][order]) == list(rows[1])
    assert not set(rows[0].tolist()) & set(rows[2].tolist())
