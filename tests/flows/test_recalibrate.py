"""Known outcomes move the champion's risks, in a version that a person promotes."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from conftest import TWO_PATIENTS, finished_network, transfer
from scipy.special import expit, logit

from tasks.labels import DRAW, store_labels, write_list
from tasks.models import CANDIDATE, LINE, METHOD, RECALIBRATED_FROM
from tasks.publish import refresh_report
from tasks.recalibrate import KNOWN, LABELS, recalibrate_site
from tasks.registry import find_champion, promote_candidate, restore_champion
from tasks.run import last_run
from tasks.score import score_batch
from tasks.tracking import connect, version_at
from tdrop.base import UsageError
from tdrop.evaluate import REFIT
from tdrop.forecast import draw_list
from tdrop.home import files, load_cohort, load_summary
from tdrop.served import Served

pytestmark = pytest.mark.usefixtures("prefect_server")


@pytest.fixture(scope="module")
def workspace(tmp_path_factory):
    """One tiny site, transferred but not promoted."""
    return finished_network(tmp_path_factory.mktemp("recalibrate"), "logistic_regression")


def recalibrate(workspace, labels=None, rung=None):
    return recalibrate_site(workspace, "harbour", None if labels is None else str(labels), rung)


def scored(workspace):
    score_batch(workspace, "harbour", str(workspace.root / "demo" / "harbour.csv"))
    return pd.read_csv(workspace.site("harbour") / "scores" / "patients.csv")


def labels_by(workspace, file, chance):
    """Writes outcomes that happen with a chance made of the champion's log odds."""
    risk = pd.read_csv(workspace.latest("harbour") / "patients.csv", dtype={"id": str}).set_index("id")["risk"]
    known = pd.read_csv(workspace.root / "demo" / "harbour_outcomes.csv", dtype=str)
    key, outcome = known.columns[0], known.columns[-1]
    known = known[known[key].isin(risk.index)].drop_duplicates(key)
    draws = np.random.default_rng(0).random(len(known))
    known[outcome] = (draws < chance(logit(risk[known[key]].to_numpy()))).astype(int)
    known.to_csv(file, index=False)
    return file


def what_changed(workspace):
    """The words of the report that is made now."""
    refresh_report(workspace, "harbour")
    return (workspace.latest("harbour") / "report.html").read_text()


def test_without_a_champion_the_candidate_is_recalibrated(workspace, tmp_path):
    first = version_at(workspace, "harbour", CANDIDATE).version
    new = recalibrate(
        workspace, labels_by(workspace, tmp_path / "low.csv", lambda score: expit(score + 1.2)), "intercept"
    )
    assert (new.champion, new.intercept > 0.5) == (str(first), True)
    assert version_at(workspace, "harbour", CANDIDATE).tags[RECALIBRATED_FROM] == str(first)
    transfer(workspace, "harbour", last_run(workspace, "harbour").settings, again=True)
    assert version_at(workspace, "harbour", CANDIDATE).tags.get(RECALIBRATED_FROM) is None
    with pytest.raises(UsageError, match=r"no model to recalibrate.*tdrop label-list hillside"):
        recalibrate_site(workspace, "hillside", str(tmp_path / "low.csv"))


def test_what_would_not_help_leaves_the_candidate(workspace, tmp_path):
    promote_candidate(workspace, "harbour", by="Dr Chen", note="review clinics only")
    with pytest.raises(UsageError, match="tdrop audit harbour"):
        recalibrate(workspace)
    before = version_at(workspace, "harbour", CANDIDATE).version
    right = recalibrate(workspace, labels_by(workspace, tmp_path / "right.csv", expit))
    assert (right.version, right.name) == (None, "as it is")
    assert right.gain_low < 0
    assert version_at(workspace, "harbour", CANDIDATE).version == before


def test_a_recalibrated_model_is_promoted_scored_and_rolled_back_like_any_other(workspace, tmp_path):
    import mlflow

    first = scored(workspace)
    file = labels_by(workspace, tmp_path / "more.csv", lambda odds: expit(odds + 1.5))
    store_labels(workspace, "harbour", file)
    found = recalibrate(workspace, rung="intercept and slope")
    assert found.intercept > 0.5
    assert found.log_loss_after < found.log_loss_before
    candidate = version_at(workspace, "harbour", CANDIDATE)
    assert (found.champion, found.version) == (candidate.tags[RECALIBRATED_FROM], str(candidate.version))
    assert candidate.tags[METHOD] == found.name
    assert candidate.tags[KNOWN] == str(found.labels)
    assert len(candidate.tags[LABELS]) == 64
    pd.testing.assert_frame_equal(scored(workspace), first)  # nobody has promoted it yet
    again = recalibrate(workspace, file, "intercept and slope")
    assert again.version == found.version  # the same again is no other version

    assert "Approved since the last report by Dr Chen." in what_changed(workspace)
    promote_candidate(workspace, "harbour", by="Dr Wu", note="risks were too low")
    assert "Approved since the last report by Dr Wu." in what_changed(workspace)
    assert "Approved since" not in what_changed(workspace)
    moved = scored(workspace)
    for column in ("risk", "low", "high"):
        wanted = expit(found.intercept + found.slope * logit(first[column].to_numpy()))
        np.testing.assert_allclose(moved[column], wanted, atol=2e-4)
    assert (moved["sd"] != first["sd"]).any()
    model = mlflow.pyfunc.load_model("models:/tdrop-harbour@champion")
    served = Served.load(find_champion(workspace, "harbour").folder)
    plainly = replace(served, recalibration=None).predict(pd.DataFrame(TWO_PATIENTS))
    wanted = expit(found.intercept + found.slope * logit(plainly["risk"]))
    np.testing.assert_allclose(model.predict(pd.DataFrame(TWO_PATIENTS))["risk"], wanted, atol=1e-5)

    assert recalibrate(workspace, file).version is None
    assert restore_champion(workspace, "harbour").version == found.champion
    assert f"version {found.champion}, approved earlier by Dr Chen, is in use again" in " ".join(
        what_changed(workspace).split()
    )
    pd.testing.assert_frame_equal(scored(workspace), first)


def test_revised_effects_and_a_refit_are_promoted_and_scored(workspace, tmp_path):
    """Old patients fare far better than the model says: no line mends that."""
    promote_candidate(workspace, "harbour", by="Dr Chen", note="before outcomes")
    first = scored(workspace).sort_values("id", key=lambda ids: ids.astype(str))
    target = load_cohort(last_run(workspace, "harbour").stages.encoded.path / files.TARGET)
    target = target.take(np.argsort(target.ids.astype(str)))
    old = target.X[:, target.features.index("age")] > 70
    known = pd.read_csv(workspace.root / "demo" / "harbour_outcomes.csv", dtype=str)
    chance = pd.Series(expit(logit(first["risk"].to_numpy()) - 3 * old), index=target.ids.astype(str))
    known = known[known["patient_id"].isin(chance.index)]
    happened = np.random.default_rng(1).random(len(known)) < chance[known["patient_id"]].to_numpy()
    file = tmp_path / "old.csv"
    known.assign(**{known.columns[-1]: happened.astype(int)}).to_csv(file, index=False)
    with pytest.raises(UsageError, match="there is no rung 'slope'"):
        recalibrate(workspace, file, "slope")

    found = recalibrate(workspace, file)
    assert (found.name, found.gain_low > 0, found.effects["age"] < -0.1) == ("revised effects", True, True)
    promote_candidate(workspace, "harbour", by="Dr Wu", note="old patients")
    champion = find_champion(workspace, "harbour")
    line, before = champion.described.recalibration, first["risk"].to_numpy()
    wanted = expit(found.intercept + found.slope * logit(before) + line.scale.apply(target.X) @ line.effects)
    moved = scored(workspace).sort_values("id", key=lambda ids: ids.astype(str))["risk"].to_numpy()
    np.testing.assert_allclose(moved, wanted, atol=2e-4)

    refit = recalibrate(workspace, file, REFIT)
    assert (refit.name, refit.effects, refit.log_loss_after < 0.7) == (REFIT, {}, True)
    version = version_at(workspace, "harbour", CANDIDATE)
    assert (version.tags[METHOD], version.tags[RECALIBRATED_FROM]) == (REFIT, found.version)
    metrics = connect(workspace).get_run(version.run_id).data.metrics
    assert metrics["out_of_fold/log_loss"] == pytest.approx(refit.log_loss_after, abs=1e-3)
    promote_candidate(workspace, "harbour", by="Dr Wu", note="a new model")
    assert find_champion(workspace, "harbour").described.outcomes_used
    assert Served.load(find_champion(workspace, "harbour").folder).recalibration is None
    assert np.abs(scored(workspace).sort_values("id", key=lambda ids: ids.astype(str))["risk"] - moved).max() > 0.01


def test_outcomes_of_a_list_are_weighed(workspace, tmp_path):
    """Low risks are right and high ones too low; the list asks more of whom it can learn most from."""
    everybody = labels_by(
        workspace, tmp_path / "all.csv", lambda odds: expit(odds + 1.5 + 2 * (odds > np.median(odds)))
    )
    run = last_run(workspace, "harbour")
    with pytest.raises(UsageError, match="every patient's outcome is known"):
        write_list(workspace, run, 60, seed=0)
    risk = load_summary(run.trained.fits[run.chosen][0].path / files.PREDICTIONS).mean.astype(float)
    drawn = draw_list(risk, risk, 0.15, 60, seed=0)
    facts = {"method": run.chosen, "target": run.stages.target.digest, "true": risk}
    np.savez(workspace.site("harbour") / DRAW, rows=drawn.rows, probability=drawn.probability, **facts)
    known = pd.read_csv(everybody, dtype=str)
    back = known[known[known.columns[0]].isin(load_cohort(run.stages.encoded.path / files.TARGET).ids[drawn.rows])]
    back.to_csv(tmp_path / "back.csv", index=False)
    weighed = recalibrate(workspace, tmp_path / "back.csv")
    (workspace.site("harbour") / DRAW).unlink()
    alike = recalibrate(workspace, tmp_path / "back.csv")
    assert weighed.labels == alike.labels == len(back)
    assert weighed.intercept != alike.intercept


def test_a_transfer_does_not_take_a_recalibrated_version_for_its_own(workspace):
    transfer(workspace, "harbour", last_run(workspace, "harbour").settings, again=True)
    assert RECALIBRATED_FROM not in version_at(workspace, "harbour", CANDIDATE).tags


def test_where_counts_are_hidden_a_line_leaves_with_two_decimals(workspace, tmp_path):
    """Of all digits it would tell the outcomes that it was fitted to."""
    file = Path(workspace.contracts) / "sites" / "harbour.yaml"
    file.write_text(file.read_text().replace("{exempt: true}", "{threshold: 10}"))
    promote_candidate(workspace, "harbour", by="Dr Chen", note="what leaves is rounded")
    recalibrate(workspace, labels_by(workspace, tmp_path / "fewer.csv", lambda odds: expit(odds - 1.2)))
    told = json.loads(version_at(workspace, "harbour", CANDIDATE).tags[LINE])
    assert {name: round(value, 2) for name, value in told.items()} == told
    assert told["intercept"] < -0.5
