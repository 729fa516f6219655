"""Two methods that source patients cannot tell apart, used together from fit to score."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from conftest import compared_network, transfer

from tasks.registry import promote_candidate
from tasks.run import last_run
from tasks.score import score_batch
from tasks.settings import TransferSettings
from tdrop.base import UsageError
from tdrop.home import files, load_summary
from tdrop.methods import COMMITTEE

pytestmark = pytest.mark.usefixtures("prefect_server")

MEMBERS = ("logistic_regression", "gradient_boosting")
SETTINGS = TransferSettings(
    methods=MEMBERS,
    method_settings={
        "logistic_regression": {"refits": 4},
        "gradient_boosting": {"refits": 3, "steps": 20, "leaves": 4},
    },
    seeds=2,
    trials=1,
    passes=10,
    bootstrap=50,
)


@pytest.fixture(scope="module")
def workspace(tmp_path_factory):
    found = compared_network(tmp_path_factory.mktemp("committee"))
    transfer(found, "harbour", SETTINGS)
    return found


def test_it_is_chosen_and_its_risks_are_the_members_mean(workspace):
    run = last_run(workspace, "harbour")
    assert (run.chosen, run.choice.members) == (COMMITTEE, MEMBERS)
    assert set(run.trained.fits) == {*MEMBERS, COMMITTEE}
    for seed in range(2):
        risks = [
            load_summary(run.trained.fits[name][seed].path / files.PREDICTIONS).mean for name in (*MEMBERS, COMMITTEE)
        ]
        assert np.allclose(np.mean(risks[:2], axis=0), risks[2], atol=1e-6)
        assert not np.allclose(risks[0], risks[1], atol=1e-3)


def test_it_is_shown_beside_the_methods(workspace):
    folder = workspace.latest("harbour")
    rows = json.loads((folder / "evaluation.json").read_text())["rows"]
    assert {row["method"] for row in rows} == {*MEMBERS, COMMITTEE}
    assert "The average of Logistic regression and Gradient boosting" in (folder / "report.html").read_text()
    details = (folder / "details.html").read_text()
    assert "do not settle which of them serves this site best" in details
    assert "the average of Logistic regression and Gradient boosting" in details


def test_what_is_promoted_scores_as_the_report_did(workspace):
    promote_candidate(workspace, "harbour", by="Ann", note="looked at it")
    batch = str(workspace.root / "demo" / "harbour.csv")
    scored = pd.read_csv(Path(score_batch(workspace, "harbour", batch).folder) / "patients.csv")
    reported = pd.read_csv(workspace.latest("harbour") / "patients.csv")
    pd.testing.assert_frame_equal(scored.drop(columns="filled_in"), reported.drop(columns="moved_by"))


def test_one_method_alone_is_taken_where_that_is_asked_for(workspace):
    transfer(workspace, "harbour", SETTINGS.model_copy(update={"committee": False}))
    run = last_run(workspace, "harbour")
    assert run.chosen == "logistic_regression"
    assert COMMITTEE not in run.trained.fits


@pytest.mark.parametrize("asked", [{"methods": (COMMITTEE,)}, {"method_settings": {COMMITTEE: {"members": ["mlp"]}}}])
def test_who_asks_for_it_by_name_is_told_what_it_is_made_of(asked):
    with pytest.raises(UsageError, match="name two methods or none"):
        TransferSettings(**asked).chosen_methods()


def test_a_method_that_is_never_chosen_is_refused_alone_before_anything_is_trained():
    with pytest.raises(UsageError, match="'mlp' alone is only reported"):
        TransferSettings(methods=("mlp",)).chosen_methods()
    assert TransferSettings(method_settings={"mlp": {"steps": 10}}).chosen_methods()
