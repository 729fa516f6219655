"""Three classes and a continuous outcome, from two CSV files to an approved model."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from conftest import SMALL_NET, at, on_server, transfer
from page_text import Page
from sklearn.metrics import accuracy_score, log_loss, mean_absolute_error, roc_auc_score, root_mean_squared_error

from flows.audit import audit_site
from flows.rehearse import require_rehearsable
from tasks.labels import write_list
from tasks.recalibrate import recalibrate_site
from tasks.registry import promote_candidate
from tasks.run import TransferSettings, last_run
from tasks.score import score_batch
from tdrop.base import UsageError
from tdrop.evaluate import Evaluation
from tdrop.home import Place

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


def write_network(folder: Path, kind: str) -> Place:
    """Two sites of one table, the target's outcomes in a file of their own, and a batch of new patients."""
    contracts, column = folder / "data_contracts", "urgency" if kind == "classes" else "stay"
    for part in ("tables", "sites"):
        (contracts / part).mkdir(parents=True)
    (contracts / "tables" / "ward.yaml").write_text(
        "name: ward\nversion: '1'\ntitle: Ward\ncolumns:\n  - {name: id, role: id}\n  - {name: age, unit: years}\n"
        f"  - {{name: sex, type: categorical, categories: [female, male]}}\n  - {OUTCOMES[kind]}\n"
        "subgroups:\n  - {name: sex, title: Sex, column: sex}\n"
    )
    north, south, new = draw(300, 1), draw(150, 2), draw(40, 3)
    for name, role, frame in (("north", "role: source", north), ("south", "role: target\nsource: north", south)):
        features = ["id", "age", "sex", *([column] if name == "north" else [])]
        frame[features].to_csv(folder / f"{name}.csv", index=False)
        text = f"name: {name}\ntitle: {name.title()}\ntable: ward\n{role}\nlocation: {name}.csv\nsettle_seconds: 0\n"
        (contracts / "sites" / f"{name}.yaml").write_text(text)
    south[["id", column]].to_csv(folder / "outcomes.csv", index=False)
    new[["id", "age", "sex"]].to_csv(folder / "new.csv", index=False)
    return Place.at(folder / "home", contracts)


@pytest.fixture(scope="module", params=["classes", "continuous"])
def audited(request, tmp_path_factory, session_server):
    """A transfer, a label list and an audit of one kind of outcome: kind, place and what was known before."""
    folder = tmp_path_factory.mktemp(request.param)
    place = write_network(folder, request.param)
    settings = TransferSettings(
        methods=tuple(METHODS), method_settings=METHODS, seeds=1, trials=1, passes=10, folds=2, bootstrap=50
    )
    with on_server(session_server):
        done = transfer(place, "south", settings)
    assert done.not_recorded is None
    latest = place.latest("south")
    before = {name: (latest / name).read_text(encoding="utf-8") for name in ("report.html", "details.html")}
    with at(place):
        listed = write_list(place, last_run(place, "south"), 30, seed=0)
        assert audit_site(place, "south", str(folder / "outcomes.csv")).not_recorded is None
    return request.param, place, before, listed


def test_patients_are_told_what_the_outcome_is(audited):
    kind, place, before, listed = audited
    table = pd.read_csv(place.latest("south") / "patients.csv")
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
    kind, place, _, _ = audited
    latest = place.latest("south")
    told = pd.read_csv(latest / "patients.csv")
    known = pd.read_csv(place.root.parent / "outcomes.csv").set_index("id").loc[told["id"]]
    evaluation = Evaluation.from_dict(json.loads((latest / "evaluation.json").read_text()))
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


def test_it_is_approved_scored_and_recalibrated(audited):
    kind, place, _, _ = audited
    folder = place.root.parent
    with at(place):
        promote_candidate(place, "south", by="somebody", note="a try")
        scored = score_batch(place, "south", str(folder / "new.csv"))
        found = recalibrate_site(place, "south", str(folder / "outcomes.csv"))
    assert scored.scored == 40
    table = pd.read_csv(Path(scored.folder) / "patients.csv")
    assert ("class" if kind == "classes" else "value") in table
    assert found.labels == 150
    assert found.name in ("as it is", "temperature", "intercept", "intercept and slope")


def test_a_watch_and_a_rehearsal_say_that_they_need_risks(audited):
    from tasks.watch import require_champion

    _, place, _, _ = audited
    with at(place), pytest.raises(UsageError, match="several classes or a number"):
        require_champion(place, "south")
    with at(place), pytest.raises(UsageError, match="several classes or a number"):
        require_rehearsable(place.network(), "ward")
