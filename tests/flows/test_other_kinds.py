"""Three classes and a continuous outcome, from two CSV files to an approved model."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from command import tdrop
from conftest import SMALL_NET, at, on_server, transfer
from page_text import Page
from sklearn.metrics import accuracy_score, log_loss, mean_absolute_error, roc_auc_score, root_mean_squared_error

from flows.audit import audit_site
from flows.rehearse import rehearse_table
from tasks.governance import put_to_use
from tasks.labels import write_list
from tasks.recalibrate import recalibrate_site
from tasks.registry import promote_candidate
from tasks.run import last_run
from tasks.score import score_batch
from tasks.settings import TransferSettings
from tasks.tracking import connect, experiment_id
from tasks.watch import read_watch
from tdrop.base import DataError, read_record
from tdrop.evaluate import Evaluation
from tdrop.home import Workspace, worker_processes
from tdrop.watch import rules_of, stand_of

pytestmark = pytest.mark.drawn

METHODS = {"mlp": SMALL_NET, "transductive_dropout": SMALL_NET, "logistic_regression": {"refits": 5}}
CLASSES = ["green", "yellow", "red"]
OUTCOMES = {
    "classes": "{name: urgency, type: ordinal, categories: [green, yellow, red], role: label}\noutcome: "
    "{name: urgency, title: urgency, kind: classes, column: urgency}",
    "continuous": "{name: stay, unit: days, role: label}\noutcome: "
    "{name: stay, title: length of stay, kind: continuous, column: stay}",
}


def draw(rows: int, seed: int) -> pd.DataFrame:
    """Patients whose urgency and length of stay depend on age and sex."""
    random = np.random.default_rng(seed)
    age, sex = random.normal(60, 10, rows).round(1), random.choice(["female", "male"], rows)
    score = (age - 60) / 5 + (sex == "male") + random.normal(size=rows)
    urgency = np.array(CLASSES)[np.digitize(score, (-1, 1.5))]
    stay = (8 + 2 * score).round(1)
    ids = [f"{seed}-{row}" for row in range(rows)]
    return pd.DataFrame({"id": ids, "age": age, "sex": sex, "urgency": urgency, "stay": stay})


def write_network(folder: Path, kind: str, teachers: int = 0) -> Workspace:
    """Two sites of one table, the target's outcomes in a file of their own, and a batch of new patients.

    With `teachers` further labelled sites, named "east0", "east1" and so on.
    """
    contracts, column = folder / "data_contracts", "urgency" if kind == "classes" else "stay"
    for part in ("tables", "sites"):
        (contracts / part).mkdir(parents=True)
    (contracts / "tables" / "ward.yaml").write_text(
        "name: ward\nversion: '1'\ntitle: Ward\ncolumns:\n  - {name: id, role: id}\n  - {name: age, unit: years}\n"
        f"  - {{name: sex, type: categorical, categories: [female, male]}}\n  - {OUTCOMES[kind]}\n"
        "subgroups:\n  - {name: sex, title: Sex, column: sex}\n"
    )
    north, south, new = draw(300, 1), draw(150, 2), draw(40, 3)
    source = "" if teachers else "\nsource: north"
    more = [(f"east{number}", "role: source", draw(200, 20 + number)) for number in range(teachers)]
    for name, role, frame in (("north", "role: source", north), ("south", f"role: target{source}", south), *more):
        features = ["id", "age", "sex", *([] if name == "south" else [column])]
        frame[features].to_csv(folder / f"{name}.csv", index=False)
        text = f"name: {name}\ntitle: {name.title()}\ntable: ward\n{role}\nlocation: {name}.csv\nsettle_seconds: 0\n"
        (contracts / "sites" / f"{name}.yaml").write_text(text)
    south[["id", column]].to_csv(folder / "outcomes.csv", index=False)
    new[["id", "age", "sex"]].to_csv(folder / "new.csv", index=False)
    return Workspace.at(folder / "home", contracts)


@pytest.fixture(scope="module", params=["classes", "continuous"])
def audited(request, tmp_path_factory, session_server):
    """A transfer, a label list and an audit of one kind of outcome: kind, workspace and what was known before."""
    folder = tmp_path_factory.mktemp(request.param)
    workspace = write_network(folder, request.param)
    settings = TransferSettings(
        methods=tuple(METHODS), method_settings=METHODS, seeds=1, trials=1, passes=10, folds=2, bootstrap=50
    )
    with on_server(session_server):
        done = transfer(workspace, "south", settings)
    assert done.not_recorded is None
    latest = workspace.latest("south")
    before = {name: (latest / name).read_text(encoding="utf-8") for name in ("report.html", "details.html")}
    with at(workspace):
        listed = write_list(workspace, last_run(workspace, "south"), 30, seed=0)
        assert audit_site(workspace, "south", str(folder / "outcomes.csv")).not_recorded is None
    return request.param, workspace, before, listed


def test_patients_are_told_what_the_outcome_is(audited):
    kind, workspace, before, listed = audited
    table = pd.read_csv(workspace.latest("south") / "patients.csv")
    if kind == "classes":
        chances = table[[f"p_{name}" for name in CLASSES]].to_numpy()
        assert np.allclose(chances.sum(axis=1), 1, atol=1e-4)
        assert (table["class"] == np.array(CLASSES)[chances.argmax(axis=1)]).all()
        assert set(table.loc[table["refer"], "class"]) <= set(CLASSES)
        doubt = 1 - chances.max(axis=1)
    else:
        assert ((table["low"] < table["value"]) & (table["value"] < table["high"])).all()
        doubt = table["sd"].to_numpy()
    by_capacity = table["why"].fillna("").str.contains("most expected error").to_numpy()
    assert by_capacity.sum() == 15
    assert doubt[by_capacity].min() >= doubt[~by_capacity].max() - 1e-4
    assert "risk" not in table
    assert len(pd.read_csv(listed.sheet)) == listed.n == 30
    for page in before.values():
        words = Page(page).text.lower()
        for absent in ("net benefit", "risk level", "inpt", "decision level", "true positive"):
            assert absent not in words
    expected = "should get a wrong class" if kind == "classes" else "The mean absolute error should be"
    assert expected in Page(before["report.html"]).text


def test_the_numbers_are_scikit_learns(audited):
    kind, workspace, _, _ = audited
    latest = workspace.latest("south")
    told = pd.read_csv(latest / "patients.csv")
    known = pd.read_csv(workspace.root.parent / "outcomes.csv").set_index("id").loc[told["id"]]
    evaluation = read_record(Evaluation, latest / "evaluation.json")
    method = json.loads((latest / "choice.json").read_text())["method"]

    def value(name: str) -> float:
        return evaluation.value(method, name, 0)

    if kind == "classes":
        y = known["urgency"].map(CLASSES.index).to_numpy()
        p = told[[f"p_{name}" for name in CLASSES]].to_numpy()
        assert value("accuracy") == pytest.approx(accuracy_score(y, p.argmax(axis=1)))
        assert value("log_loss") == pytest.approx(log_loss(y, p / p.sum(axis=1, keepdims=True)), abs=1e-4)
        assert value("auroc") == pytest.approx(roc_auc_score(y, p, multi_class="ovr"), abs=1e-3)
        assert value("brier") == pytest.approx(0.5 * ((p - np.eye(3)[y]) ** 2).sum(axis=1).mean(), abs=1e-4)
        assert value("accuracy") > 0.6
    else:
        y = known["stay"].to_numpy()
        assert value("mae") == pytest.approx(mean_absolute_error(y, told["value"]), abs=1e-4)
        assert value("rmse") == pytest.approx(root_mean_squared_error(y, told["value"]), abs=1e-4)
        assert value("coverage") == pytest.approx(((told["low"] <= y) & (y <= told["high"])).mean())
        assert 0.88 <= value("coverage") <= 1
        assert value("r2") > 0.6
        assert evaluation.decision["tolerance"] > 0
    assert {"risk_level", "threshold"}.isdisjoint(evaluation.decision)
    assert {"net_benefit", "inpt", "mean_risk"}.isdisjoint(row.metric for row in evaluation.rows)
    audit = json.loads((latest / "audit.json").read_text())
    seen = {one["quantity"] for one in audit["observations"]}
    assert {"classes": {"error_rate", "auroc", "log_loss"}, "continuous": {"mae", "rmse"}}[kind] <= seen
    assert audit["split"]["source"] > 0


@pytest.mark.parametrize("kind", ["classes", "continuous"])
def test_labelled_sites_rehearse_and_the_next_report_quotes_them(kind, tmp_path, session_server):
    workspace = write_network(tmp_path, kind, teachers=2)
    settings = TransferSettings(
        methods=("mlp", "logistic_regression"), method_settings=METHODS, seeds=1, trials=1, passes=10, bootstrap=50
    )
    with on_server(session_server), at(workspace), worker_processes(0):
        rehearsal = rehearse_table("ward", settings)
    assert (rehearsal.failed, rehearsal.not_recorded) == ({}, "")
    first, numbers = {
        "classes": ("auroc", {"auroc", "log_loss", "accuracy"}),
        "continuous": ("rmse", {"rmse", "r2", "coverage"}),
    }[kind]
    written = json.loads((workspace.root / "rehearsals" / "ward" / "rehearsal.json").read_text())
    for site, own in zip(rehearsal.sites, written["sites"], strict=True):
        assert set(own["seen"]) == {"site", "n", "variances", *numbers}, "what does not apply is absent"
        assert site.low <= site.expected <= site.high
        assert site.regret >= 0
        evaluation = json.loads(
            (workspace.root / "rehearsals/ward/sites" / site.site / "latest/evaluation.json").read_text()
        )
        rows = [row for row in evaluation["rows"] if (row["metric"], row["method"]) == (first, site.chosen)]
        assert site.observed == rows[0]["value"]
        assert site.error_left is not None
    assert set(rehearsal.next_site()) == numbers
    page = Page((workspace.root / "rehearsals" / "ward" / "rehearsal.html").read_text()).text
    named = {"classes": "forecast AUROC was off by", "continuous": "forecast root mean squared error was off by"}[kind]
    for words in (named, "may expect", {"classes": "Accuracy", "continuous": "Interval coverage"}[kind]):
        assert words in page
    for absent in ("Net benefit", "Observed / expected", "Calibration slope"):
        assert absent not in page
    runs = connect(workspace).search_runs([experiment_id(workspace, "ward")], "tags.kind = 'rehearsed'")
    assert len(runs) == 3
    assert all(first in run.data.metrics and "rehearsal/off" in run.data.metrics for run in runs)
    with on_server(session_server):
        transfer(workspace, "south", settings)
    report = Page((workspace.latest("south") / "report.html").read_text()).text
    assert named in report
    assert "What other sites say" in report
    forecast = json.loads((workspace.latest("south") / "forecast.json").read_text())
    assert len(forecast["held_out"]["mlp"]) == 3
    expected = forecast["next_site"]["mlp"][first]
    assert expected["low"] < expected["mean"] < expected["high"]
    (joined,) = [one for one in forecast["answers"] if (one["method"], one["quantity"]) == ("mlp", first)]
    assert joined["by"]["held_out_sites"] == expected["mean"]


def test_outcomes_in_another_unit_or_of_other_classes_stop_the_site(audited):
    """Label files that are written in another way are not read as if the model were fine."""
    kind, workspace, _, _ = audited
    known = pd.read_csv(workspace.root.parent / "outcomes.csv")
    other = workspace.root.parent / "other.csv"
    if kind == "classes":
        known["urgency"] = known["urgency"].map(dict(zip(CLASSES, ["yellow", "red", "green"], strict=True)))
    else:
        known["stay"] *= 24
    known.to_csv(other, index=False)
    with at(workspace):
        audited_again = audit_site(workspace, "south", str(other))
        words = " ".join([audited_again.summary.reason, *audited_again.summary.things])
        assert audited_again.summary.verdict == "stop"
        assert {"classes": "expected to be wrong for", "continuous": "may be in another unit here"}[kind] in words
        assert audit_site(workspace, "south", str(workspace.root.parent / "outcomes.csv")).summary.verdict != "stop"


def test_a_class_that_the_table_does_not_name_is_refused_with_what_to_do(audited):
    kind, workspace, _, _ = audited
    known = pd.read_csv(workspace.root.parent / "outcomes.csv")
    if kind == "classes":
        known.loc[known.index % 5 == 0, "urgency"] = "black"
        known.to_csv(workspace.root.parent / "black.csv", index=False)
        with at(workspace), pytest.raises(DataError, match="refused"):
            audit_site(workspace, "south", str(workspace.root.parent / "black.csv"))
        why = (workspace.site("south") / "refused" / "labels.txt").read_text()
        assert "30 unreadable outcome" in why
        assert "add a class that the source lacks to the outcome's categories" in why


@pytest.fixture(scope="module")
def in_use(audited):
    """The same with a champion: kind, workspace, and the documents that its promotion sealed."""
    kind, workspace, _, _ = audited
    with at(workspace):
        promote_candidate(workspace, "south", by="somebody", note="a try")
        return kind, workspace, put_to_use(workspace, "south")


def test_it_is_scored_and_recalibrated(in_use):
    kind, workspace, _ = in_use
    folder = workspace.root.parent
    with at(workspace):
        scored = score_batch(workspace, "south", str(folder / "new.csv"))
        found = recalibrate_site(workspace, "south", str(folder / "outcomes.csv"))
    assert scored.scored == 40
    table = pd.read_csv(Path(scored.folder) / "patients.csv")
    assert ("class" if kind == "classes" else "value") in table
    assert found.labels == 150
    assert found.name in ("as it is", "temperature", "intercept", "intercept and slope")


def test_a_promotion_writes_a_card_and_seals_a_plan_without_what_does_not_apply(in_use):
    kind, _, documents = in_use
    card, plan = (Page((documents / name).read_text()).text.lower() for name in ("model_card.html", "change_plan.html"))
    for page in (card, plan):
        for absent in ("net benefit", "a risk of", "decision level", "had the outcome", "calibration slope"):
            assert absent not in page
    assert {"classes": "accuracy", "continuous": "interval coverage"}[kind] in card
    assert {"classes": "log loss", "continuous": "squared error"}[kind] in card
    assert {"classes": "accuracy below", "continuous": "intervals off by more than 0.36"}[kind] in plan
    assert ("3 ranking" in plan) == (kind == "classes")


def new_patients(workspace, kind: str, rows: int, seed: int, changed: bool = False) -> tuple[str, str]:
    """A batch and its outcomes as two files; where something changed, another class came, or stays are longer."""
    frame, folder = draw(rows, seed), workspace.root.parent
    column = "urgency" if kind == "classes" else "stay"
    if changed and kind == "classes":
        frame["urgency"] = frame["urgency"].map(dict(zip(CLASSES, ["yellow", "red", "green"], strict=True)))
    elif changed:
        frame["stay"] += 6
    frame[["id", "age", "sex"]].to_csv(folder / "batch.csv", index=False)
    frame[["id", column]].to_csv(folder / "came.csv", index=False)
    return str(folder / "batch.csv"), str(folder / "came.csv")


def test_a_watch_is_quiet_while_nothing_changes_and_finds_outcomes_that_contradict(in_use, monkeypatch):
    kind, workspace, _ = in_use
    monkeypatch.setenv("TDROP_HOME", workspace.home)
    with at(workspace):
        batch, came = new_patients(workspace, kind, 120, 11)
        score_batch(workspace, "south", batch)
        tdrop("audit", "south", came, "--contracts", workspace.contracts)
        quiet = read_watch(workspace, "south")
        assert quiet.task == ("classes" if kind == "classes" else "regression")
        assert quiet.outcomes.patients == 120
        assert stand_of(quiet) == "quiet", rules_of(quiet)
        told = pd.read_csv(workspace.site("south") / "scores" / "patients.csv").set_index("id")
        known = pd.read_csv(came).set_index("id").loc[told.index]
        if kind == "classes":
            events = (told["class"] != known["urgency"]).sum()
        else:
            events = (~known["stay"].between(told["low"], told["high"])).sum()
        assert quiet.outcomes.events == events
        batch, came = new_patients(workspace, kind, 120, 12, changed=True)
        score_batch(workspace, "south", batch)
        tdrop("audit", "south", came, "--contracts", workspace.contracts)
    document = json.loads(tdrop("watch", "south", "--json", "--contracts", workspace.contracts))
    assert document["stand"] == "alarm"
    assert document["concept_shift"] is True
    stands = {rule["rule"]: rule["stand"] for rule in document["rules"]}
    assert (stands["further"], stands["outcomes"]) == ("quiet", "alarm")
    assert ("ranking" in stands) == (kind == "classes")
    page = Page(Path(document["page"]).read_text()).text
    assert {"classes": "more classes are wrong", "continuous": "intervals are too narrow, or values are off"}[
        kind
    ] in page
    assert "the level" not in page
    assert "alarm (outcomes" in tdrop("status", "--contracts", workspace.contracts)
    runs = connect(workspace).search_runs([experiment_id(workspace, "ward")], "tags.kind = 'watch'")
    assert "watch/evidence/further" in runs[0].data.metrics
