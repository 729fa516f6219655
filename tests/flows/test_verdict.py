""" "Go" is earned: what else than the patients' features speaks in the verdict, and what a refused label file costs."""

from __future__ import annotations

import json
import re
from html import unescape
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from conftest import cheap, compared_network, finished_network, settle, transfer as run_transfer
from scipy.special import expit, logit

from flows.audit import audit_site, next_step
from flows.shift import compare_patients
from tasks.export import export_site
from tasks.models import CANDIDATE
from tasks.publish import assemble
from tasks.registry import promote_candidate
from tasks.run import last_run
from tasks.score import last_verdict, score_batch
from tasks.site_record import LINE, site_record
from tasks.tracking import version_at
from tdrop.base import SiteStopped
from tdrop.home.status import read_status

pytestmark = pytest.mark.usefixtures("prefect_server")

SITE = "harbour"
SETTINGS = cheap("logistic_regression")


@pytest.fixture
def compared(tmp_path):
    """The tiny network, whose source is read and checked."""
    return compared_network(tmp_path / "compared")


@pytest.fixture
def finished(tmp_path):
    """The same after a transfer: other outcomes cost an evaluation and a report."""
    return finished_network(tmp_path / "finished", "logistic_regression")


def rewrite(workspace, name, change):
    """Changes one CSV file of the demo."""
    file = workspace.root / "demo" / name
    change(pd.read_csv(file)).to_csv(file, index=False)
    settle(file.parent)


def transfer(workspace):
    return run_transfer(workspace, SITE, SETTINGS).summary


def page(workspace):
    """The words of the report."""
    text = (workspace.latest(SITE) / "report.html").read_text(encoding="utf-8")
    return unescape(re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", text.split("</style>")[1].split("<script>")[0])))


def not_exempt(workspace):
    """Makes the site one whose small counts are hidden."""
    file = Path(workspace.contracts) / "sites" / f"{SITE}.yaml"
    file.write_text(file.read_text(encoding="utf-8").replace("{exempt: true}", "{threshold: 10}"), encoding="utf-8")


def shift_of(workspace) -> dict:
    """What `tdrop shift` finds."""
    page = Path(compare_patients(workspace.resolve(SITE)).page)
    return json.loads(page.with_name("shift.json").read_text())


def test_two_source_outcomes_are_no_go_and_make_no_candidate(tiny_network, tmp_path):
    rewrite(tiny_network, "registry.csv", lambda frame: frame.assign(died_10y=[1, 1] + [0] * (len(frame) - 2)))
    shift = shift_of(tiny_network)
    assert shift["verdict"] == "too few to say"
    (ground,) = [one for one in shift["grounds"] if one["kind"] == "source_outcomes"]
    assert (ground["count"], ground["of"]) == (2, shift["source_rows"])
    transfer(tiny_network)
    run = last_run(tiny_network, SITE)
    assert site_record(tiny_network, run, assemble(tiny_network, run), tmp_path / "record").candidate is None


def test_a_source_that_nothing_can_be_fitted_on_stops_the_site_before_any_fit(tiny_network):
    rewrite(tiny_network, "registry.csv", lambda frame: frame.assign(died_10y=[1, 1] + [0] * (len(frame) - 2)))
    settings = SETTINGS.model_copy(update={"folds": 3})
    with pytest.raises(SiteStopped, match=r"too few to say, because .* fewer than 10 source patients"):
        run_transfer(tiny_network, SITE, settings)
    assert read_status(tiny_network, SITE).outcome == "stopped"
    assert "too few to say" in (tiny_network.site(SITE) / "stopped.html").read_text(encoding="utf-8")
    assert {"encoded", "shift"} <= (made := {folder.name for folder in tiny_network.store.iterdir()})
    assert not made & {"trial", "fit", "models"}


def test_one_patient_many_times_over_is_no_go(compared):
    rewrite(
        compared,
        "harbour.csv",
        lambda frame: pd.concat([frame.head(1)] * len(frame)).assign(patient_id=list(frame["patient_id"])),
    )
    assert shift_of(compared)["verdict"] == "stop"


def test_a_target_of_the_sources_own_patients_stops_and_makes_no_candidate(compared, tmp_path):
    source = pd.read_csv(compared.root / "demo" / "registry.csv")
    rewrite(compared, "harbour.csv", lambda _: source.drop(columns="died_10y").head(150))
    (compared.root / "demo" / "harbour_outcomes.csv").unlink()
    summary = transfer(compared)
    assert summary.verdict == "stop"
    assert "150 of the 150 patients here are the source's own" in page(compared)
    assert "too different" not in page(compared)
    run = last_run(compared, SITE)
    assert site_record(compared, run, assemble(compared, run), tmp_path / "record").candidate is None


@pytest.mark.parametrize("hidden", [False, True])
def test_outcomes_that_contradict_the_risks_harden_the_verdict(finished, tmp_path, hidden):
    """Nobody had the outcome: the label-free comparison stands, the report's verdict and the record's do not."""
    if hidden:
        not_exempt(finished)
    rewrite(finished, "harbour_outcomes.csv", lambda frame: frame.assign(died_10y=0))
    summary = transfer(finished)
    assert summary.verdict == "stop"
    words = r"expected in \d+ of the 150 patients with a known outcome and happened in none"
    assert re.search(words, page(finished))
    before = (finished.latest(SITE) / "shift.html").read_text(encoding="utf-8")
    assert "without any outcome" in before
    assert "known outcome" not in before, "a page about patients before any outcome tells of outcomes"
    run = last_run(finished, SITE)
    assert run.stages.shift.json("shift.json")["verdict"] != "stop"
    record = site_record(finished, run, assemble(finished, run), tmp_path / "record")
    assert (record.candidate, record.tags["verdict"]) == (None, "stop")
    export_site(finished, run, assemble(finished, run), tmp_path / "export")
    assert "and happened in none" in (tmp_path / "export" / "report.html").read_text(encoding="utf-8")
    ground = json.loads((tmp_path / "export" / "shift.json").read_text())["grounds"][-1]
    assert (ground["kind"], ground["count"]) == ("known_outcomes", 0)
    assert (ground["low"] is None) == hidden


def test_outcomes_overrule_a_stop_and_earn_a_recalibrated_candidate(compared, tmp_path):
    """Patients who are all far older than the source's: stop without outcomes, caution with enough of them."""
    rewrite(compared, "harbour.csv", lambda frame: frame.assign(age=97.0))
    (compared.root / "demo" / "harbour_outcomes.csv").unlink()
    assert transfer(compared).verdict == "stop"
    run = last_run(compared, SITE)
    assert site_record(compared, run, assemble(compared, run), tmp_path / "before").candidate is None
    risk = pd.read_csv(compared.latest(SITE) / "patients.csv", dtype={"id": str}).set_index("id")["risk"]
    score = logit(risk.clip(0.01, 0.99))
    # Far fewer outcomes than expected, and with those of whom most were expected.
    happened = np.random.default_rng(0).random(len(risk)) < expit(4 * (score - score.mean()) / score.std() - 2.5)
    known = pd.DataFrame({"patient_id": risk.index, "died_10y": happened.astype(int)})

    def audited(patients):
        file = tmp_path / "known.csv"
        known.head(patients).to_csv(file, index=False)
        summary = audit_site(compared, SITE, str(file)).summary
        return summary.verdict, next_step(compared, SITE, summary)

    few, enough = audited(12), audited(len(known))
    assert few[0] == "stop", "a dozen outcomes know neither intercept nor benefit well enough"
    assert re.search(r"do not overrule the stop.*tdrop label-list harbour$", few[1])
    assert (enough[0], enough[1].rpartition(": ")[2]) == ("caution", "tdrop promote harbour --by NAME --note TEXT")
    assert "overrule that: recalibrated on them, the risks are worth acting on" in page(compared)
    candidate = version_at(compared, SITE, CANDIDATE)
    assert json.loads(candidate.tags[LINE])["intercept"] < -0.3
    promote_candidate(compared, SITE, by="Dr Chen", note="on known outcomes")
    batch = compared.root / "demo" / "harbour.csv"
    score_batch(compared, SITE, str(batch))
    scored = pd.read_csv(compared.site(SITE) / "scores" / "patients.csv", dtype={"id": str}).set_index("id")["risk"]
    assert scored.mean() < risk.mean() - 0.02


def test_outcomes_of_the_lower_risks_leave_no_candidate(finished, tmp_path):
    """As many outcomes as expected, and all with the patients of whom the fewest were expected."""
    listed = pd.read_csv(finished.latest(SITE) / "patients.csv", dtype={"id": str})
    risk = listed.set_index("id")["risk"]
    lowest = set(risk.nsmallest(round(risk.sum())).index)
    known = pd.DataFrame({"patient_id": risk.index, "died_10y": risk.index.isin(lowest).astype(int)})
    known.to_csv(tmp_path / "known.csv", index=False)
    assert last_verdict(finished, SITE) == []
    audited = audit_site(finished, SITE, str(tmp_path / "known.csv"))
    assert audited.summary.verdict == "stop"
    assert "rank patients here worse than guessing would" in page(finished)
    assert read_status(finished, SITE).sentence.startswith("Do not use the model here.")
    assert "stop" in last_verdict(finished, SITE)[0]
    run = last_run(finished, SITE)
    assert site_record(finished, run, assemble(finished, run), tmp_path / "record").candidate is None


def test_a_refused_label_file_costs_the_labels_and_not_the_report(finished):
    """One transfer after another: only the label file changes, so only the evaluation is made anew."""
    outcomes = pd.read_csv(finished.root / "demo" / "harbour_outcomes.csv")
    refused = {
        "cannot be used": outcomes.assign(died_10y=outcomes["died_10y"].map({0: "value-a", 1: "value-b"})),
        "rows are of none": outcomes.assign(patient_id="X" + outcomes["patient_id"]),
        "contradicts another row": pd.concat([outcomes, outcomes.assign(died_10y=1 - outcomes["died_10y"])]),
    }
    for words, frame in refused.items():
        rewrite(finished, "harbour_outcomes.csv", lambda _, frame=frame: frame)
        assert transfer(finished).labelled == 0
        assert "The outcomes were not used" in page(finished)
        assert words in page(finished)
        assert "value-a" not in page(finished)
    rewrite(finished, "harbour_outcomes.csv", lambda _: outcomes)
    assert transfer(finished).labelled == len(outcomes)
    assert "not used" not in page(finished)


def test_every_place_counts_the_same_referrals(compared):
    """Patients unlike anyone at the source are on the list, in the numbers, the summary and the page."""
    rewrite(compared, "harbour.csv", lambda frame: frame.assign(age=frame["age"].where(frame.index >= 30, 97.0)))
    summary = transfer(compared)
    listed = pd.read_csv(compared.latest(SITE) / "patients.csv", keep_default_na=False)
    unlike = listed["why"].str.contains("unlike anyone the model learned from").sum()
    assert unlike > 0
    assert summary.reasons["unlike_referrals"] == unlike
    assert summary.referred == listed["refer"].sum()
    text = (compared.latest(SITE) / "report.html").read_text(encoding="utf-8")
    assert f"<li>unlike anyone the model learned from: {unlike}</li>" in text
    assert f"Patients on the list: {summary.referred}," in text
