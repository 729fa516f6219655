"""From candidate to champion to scores: a person promotes, and only then a patient is scored."""

from __future__ import annotations

import json

import pandas as pd
import pytest
from conftest import TINY_METHODS, settle, write_tiny_network

from tdrop.errors import SiteStopped, UsageError


@pytest.fixture(scope="module")
def place(tmp_path_factory, prefect_server):
    """One tiny site, transferred but not promoted."""
    from flows.transfer import transfer_site
    from tasks.settings import TransferSettings

    place = write_tiny_network(tmp_path_factory.mktemp("champion"))
    settings = TransferSettings(
        methods=("logistic_regression", "transductive_dropout"),
        method_settings={name: TINY_METHODS[name] for name in ("logistic_regression", "transductive_dropout")},
        seeds=1,
        trials=1,
        passes=10,
        folds=2,
        bootstrap=50,
    )
    transfer_site("harbour", settings, place.contracts, place.home, processes=0)
    return place


def score(place, file, site="harbour"):
    from flows.score import score_site

    return score_site(site, str(file), place.contracts, place.home)


def test_nobody_is_scored_before_a_person_promoted(place):
    with pytest.raises(UsageError, match="tdrop promote harbour"):
        score(place, place.root / "demo" / "harbour.csv")


def test_a_site_without_a_candidate_cannot_be_promoted(place):
    from tasks.registry import promote

    with pytest.raises(UsageError, match="no candidate"):
        promote(place, "hillside", by="Dr Chen", note="too early")


def test_a_promotion_needs_a_name_and_a_note(place):
    from tasks.registry import promote

    with pytest.raises(UsageError, match="--by"):
        promote(place, "harbour", by=" ", note="why")


def test_the_champion_scores_as_the_report_did(place, tmp_path):
    from tasks.registry import promote
    from tasks.report import refresh_report

    promote(place, "harbour", by="Dr Chen", note="review clinics only")
    refresh_report(place, "harbour")
    report = (place.latest("harbour") / "report.html").read_text()
    assert "Dr Chen" in report
    assert "review clinics only" in report
    result = score(place, place.root / "demo" / "harbour.csv")
    scored = pd.read_csv(place.site("harbour") / "scores" / "patients.csv")
    reported = pd.read_csv(place.latest("harbour") / "patients.csv")
    pd.testing.assert_frame_equal(scored, reported)
    assert result["scored"] == len(reported)
    assert not any("differ from the source more" in sentence for sentence in result["sentences"])


def test_a_batch_that_moved_further_away_asks_for_a_new_transfer(place, tmp_path):
    batch = pd.read_csv(place.root / "demo" / "harbour.csv")
    batch["age"], batch["psa"] = 92.0, 95.0
    file = tmp_path / "older.csv"
    batch.to_csv(file, index=False)
    settle(tmp_path)
    result = score(place, file)
    assert any("new transfer is recommended" in sentence for sentence in result["sentences"])


def test_bad_rows_of_a_batch_are_quarantined_and_counted(place, tmp_path):
    batch = pd.read_csv(place.root / "demo" / "harbour.csv").head(110)
    batch.loc[0, "age"] = 300
    file = tmp_path / "batch.csv"
    batch.to_csv(file, index=False)
    settle(tmp_path)
    result = score(place, file)
    validation = json.loads((place.site("harbour") / "scores" / "validation.json").read_text())
    assert (validation["quarantined"], result["scored"]) == (1, 109)


def test_a_batch_without_a_column_is_refused(place, tmp_path):
    file = tmp_path / "short.csv"
    pd.read_csv(place.root / "demo" / "harbour.csv").drop(columns="stage").to_csv(file, index=False)
    settle(tmp_path)
    with pytest.raises(SiteStopped, match="stage"):
        score(place, file)


def test_the_registered_model_predicts_from_contract_columns(place):
    import mlflow

    from tasks.tracking import connect

    connect(place)
    model = mlflow.pyfunc.load_model("models:/tdrop-harbour@champion")
    rows = pd.DataFrame(
        {
            "age": [61.0, 84.0],
            "psa": [5.0, 40.0],
            "grade_group": ["1", "5"],
            "stage": ["T1", "T3"],
            "comorbidity": [0.0, 1.0],
            "treatment": ["prostatectomy", "hormone"],
        }
    )
    predicted = model.predict(rows)
    assert list(predicted.columns) == ["risk", "sd", "low", "high", "refer"]
    assert predicted["risk"].between(0, 1).all()
    assert predicted["risk"][1] > predicted["risk"][0]
    alone = model.predict(rows.tail(1))
    assert alone["risk"].iloc[0] == pytest.approx(predicted["risk"][1], abs=0)


def test_rollback_goes_back_one_champion(place):
    from flows.transfer import transfer_site
    from tasks.registry import champion_record, promote, rollback
    from tasks.run import last_run

    with pytest.raises(UsageError, match="no earlier champion"):
        rollback(place, "harbour")
    first = champion_record(place, "harbour")
    settings = last_run(place, "harbour").settings.model_copy(update={"passes": 12})
    transfer_site("harbour", settings, place.contracts, place.home, processes=0)
    second = promote(place, "harbour", by="Dr Osei", note="after the audit")
    assert second.version != first.version
    assert rollback(place, "harbour") == first


def test_the_export_hides_what_the_site_wants_hidden(place, tmp_path):
    from tasks.export import export_site
    from tasks.run import last_run

    yaml = place.network().folder / "sites" / "harbour.yaml"
    text = yaml.read_text()
    yaml.write_text(text.replace("disclosure: {exempt: true}", "disclosure: {threshold: 20}"))
    try:
        export_site(place, last_run(place, "harbour"), tmp_path / "mail")
    finally:
        yaml.write_text(text)
    exported = (tmp_path / "mail" / "report.html").read_text()
    assert "&lt;20" in exported
    names = {path.name for path in (tmp_path / "mail").iterdir()}
    assert "patients.csv" not in names
    assert "quarantine.csv" not in names
