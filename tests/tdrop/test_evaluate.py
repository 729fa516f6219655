"""Evaluation: every number against its definition, what is not estimable, seeds, subgroups, files."""

from __future__ import annotations

import json
import runpy
import stat
from dataclasses import replace
from importlib import import_module
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from conftest import PROJECT
from report_cases import predict, summarise

from tdrop import metrics
from tdrop.base import DataError, Summary, plain, read
from tdrop.contracts import Decision
from tdrop.data import write_patients
from tdrop.evaluate import Evaluation, Recalibration, evaluate_methods, patients_table, suggest_recalibration
from tdrop.metrics import METRICS
from tdrop.report import evaluation_warnings, row_text

METHODS = ("mlp", "mc_dropout", "logistic_regression")


def draw(rows: int = 600, seeds: int = 3, seed: int = 0) -> tuple[dict[str, list[Summary]], np.ndarray]:
    random = np.random.default_rng(seed)
    truth = 1 / (1 + np.exp(-random.normal(-1.2, 1.3, rows)))
    return predict(truth, METHODS, seeds), (random.uniform(size=rows) < truth).astype(float)


@pytest.fixture(scope="module")
def labelled() -> tuple[Evaluation, dict[str, list[Summary]], np.ndarray]:
    predictions, y = draw()
    groups = {"Age": np.where(np.arange(600) % 3 == 0, "under 65", "65 and over")}
    found = evaluate_methods("a", predictions, y, Decision(), seeds=(0, 1, 2), bootstrap=100, subgroups=groups)
    return found, predictions, y


def test_every_value_follows_its_definition(labelled: tuple) -> None:
    evaluation, predictions, y = labelled
    summary = predictions["mc_dropout"][1]
    risk, sd = summary.mean.astype(float), summary.sd
    low, high = summary.interval(0.95)
    wrong = (risk >= 0.5) != (y == 1)
    stretched = metrics.lowest(metrics.stretch_to_level(risk, high, 0.15), 60)
    referred = ((risk < 0.15) & (high >= 0.15)) | metrics.highest(metrics.expected_loss(risk, 0.15), 60)
    acted = (risk >= 0.15) != (y == 1)
    expected = {
        "patients": 600,
        "mean_risk": risk.mean(),
        "predicted_positive": (risk >= 0.5).sum(),
        "mean_sd": sd.mean(),
        "interval_width": (high - low).mean(),
        "referrals": ((risk < 0.15) & (high >= 0.15)).sum(),
        "capacity_referrals": 60,
        "unlike_referrals": 0,
        "referred": referred.sum(),
        "left_out": 0,
        "outcome_rate": y.mean(),
        "auroc": metrics.auroc(y, risk),
        "errors": wrong.sum(),
        "error_auroc_sd": metrics.auroc(wrong, sd),
        "error_auroc_risk": metrics.auroc(wrong, risk * (1 - risk)),
        "misclassified_sd": sd[wrong].mean(),
        "inpt": ((risk < 0.15) & (high >= 0.15) & (y == 1)).sum(),
        "inpt_equal": (stretched & (y == 1)).sum(),
        "inpt_equal_risk": (metrics.lowest(np.where(risk < 0.15, -risk, np.inf), 60) & (y == 1)).sum(),
        "error_rate": acted.mean(),
        "brier": metrics.brier(y, risk),
        "log_loss": metrics.log_loss(y, risk),
        "calibration_intercept": metrics.calibration_intercept(y, risk),
        "calibration_slope": metrics.calibration_line(y, risk)[1],
        "ece": metrics.CalibrationError.measure(y, risk).value,
        "net_benefit": metrics.per_row_benefit(y, risk, 0.15).mean(),
        "net_benefit_refer": metrics.per_row_benefit(y, risk, 0.15, referred).mean(),
    }
    for share in (0.05, 0.10, 0.20):
        for by, score in (("expected", metrics.expected_loss(risk, 0.15)), ("sd", sd)):
            kept = metrics.highest(score, round(600 * share))
            expected[f"retained_error_{100 * share:.0f}_{by}"] = metrics.retained_error(y, risk, kept, 0.15)
    gain = expected["net_benefit_refer"] - expected["net_benefit"]
    expected["referrals_per_gain"] = referred.mean() / gain
    for name, value in expected.items():
        assert evaluation.value("mc_dropout", name, 1) == pytest.approx(value, rel=1e-5), name
    differences = {name for name in METRICS if name.endswith("_difference")}
    assert set(expected) == {name for name, metric in METRICS.items() if "binary" in metric.tasks} - differences


def test_the_row_of_all_seeds_is_their_mean_with_its_spread(labelled: tuple) -> None:
    evaluation, _, _ = labelled
    for name in ("auroc", "inpt", "referred", "interval_width", "log_loss"):
        values = [evaluation.value("mc_dropout", name, seed) for seed in (0, 1, 2)]
        row = evaluation.row("mc_dropout", name)
        # Patients are whole: a count is the first seed's, whose patients are on the list.
        assert row.value == (values[0] if METRICS[name].shape == "count" else pytest.approx(np.mean(values)))
        assert row.seed_sd == pytest.approx(np.std(values, ddof=1))


def test_intervals_hold_their_value_and_narrow_with_more_patients(labelled: tuple) -> None:
    evaluation, _, _ = labelled
    for row in evaluation.rows:
        if row.low is not None and METRICS[row.metric].shape != "count":
            assert row.low <= row.value <= row.high, row
    predictions, y = draw(rows=4800)
    large = evaluate_methods("a", predictions, y, Decision(), seeds=(0, 1, 2), bootstrap=100)
    widths = [(row.high - row.low) for row in (evaluation.row("mc_dropout", "auroc"), large.row("mc_dropout", "auroc"))]
    assert widths[1] < 0.6 * widths[0]


def test_one_prediction_a_patient_has_no_spread(labelled: tuple) -> None:
    evaluation, _, _ = labelled
    for name, metric in METRICS.items():
        row = evaluation.row("mlp", name)
        if metric.spread and "binary" in metric.tasks:
            assert row.value is None
            assert row.why == "no spread"
        elif row is not None:
            assert row.value is not None, name


def test_differences_are_paired(labelled: tuple) -> None:
    evaluation, _, _ = labelled
    row = evaluation.row("mc_dropout", "auroc_difference")
    mine, reference = evaluation.row("mc_dropout", "auroc"), evaluation.row("logistic_regression", "auroc")
    assert row.value == pytest.approx(mine.value - reference.value)
    assert row.high - row.low < 0.7 * ((mine.high - mine.low) + (reference.high - reference.low))
    assert evaluation.row("logistic_regression", "auroc_difference") is None


def test_subgroups_are_the_evaluation_of_their_patients(labelled: tuple) -> None:
    evaluation, predictions, y = labelled
    assert evaluation.groups == ("Age: under 65", "Age: 65 and over")
    rows = np.arange(600) % 3 == 0
    values = [metrics.auroc(y[rows], summary.mean[rows]) for summary in predictions["mc_dropout"]]
    row = evaluation.row("mc_dropout", "auroc", group="Age: under 65")
    assert row.value == pytest.approx(np.mean(values))
    assert (row.n, row.events) == (200, int(y[rows].sum()))
    parts = [evaluation.value("mc_dropout", "referrals", group=group) for group in evaluation.groups]
    assert sum(parts) == pytest.approx(evaluation.value("mc_dropout", "referrals"))


def test_without_labels_only_label_free_numbers() -> None:
    predictions, _ = draw()
    evaluation = evaluate_methods("a", predictions, None, Decision(), seeds=(0, 1, 2))
    assert (evaluation.labelled, evaluation.outcomes) == (0, None)
    assert {row.metric for row in evaluation.rows} == {n for n, m in METRICS.items() if m.needs == "patients"}
    assert evaluation.value("mc_dropout", "referrals") > 0


def test_unknown_outcomes_are_left_out_and_counted() -> None:
    predictions, y = draw()
    some = y.copy()
    some[::2] = np.nan
    evaluation = evaluate_methods("a", predictions, some, Decision(), seeds=(0, 1, 2), bootstrap=20)
    risk = predictions["mc_dropout"][0].mean[1::2]
    assert evaluation.value("mc_dropout", "auroc", 0) == pytest.approx(metrics.auroc(y[1::2], risk))
    assert evaluation.row("mc_dropout", "auroc").n == evaluation.labelled == 300
    assert evaluation.row("mc_dropout", "referrals").n == 600
    assert any("300 of 600" in warning for warning in evaluation_warnings(evaluation))


@pytest.mark.parametrize(
    ("events", "words"),
    [(0, "did not have it"), (7, "Only 7 had the outcome"), (593, "Only 7 did not"), (600, " had it")],
)
def test_too_few_outcomes_are_said_and_not_estimated(events: int, words: str) -> None:
    predictions, _ = draw()
    y = np.zeros(600)
    y[:events] = 1
    evaluation = evaluate_methods("a", predictions, y, Decision(), seeds=(0, 1, 2), bootstrap=20)
    told = evaluation_warnings(evaluation)
    assert any(words in warning for warning in told), told
    row = evaluation.row("mc_dropout", "auroc")
    assert row.value is None
    assert row_text(row).startswith("not estimable (")
    assert evaluation.value("mc_dropout", "calibration_slope") is None
    assert evaluation.value("mc_dropout", "brier") is not None
    json.dumps(plain(evaluation), allow_nan=False)


@pytest.mark.parametrize(("events", "own"), [(12, True), (80, False)])
def test_few_events_get_an_interval_on_the_logit_scale(events: int, own: bool) -> None:
    random = np.random.default_rng(3)
    y = np.repeat([1.0, 0.0], [events, 400 - events])
    summaries = [summarise(2.2 * y - 2 + random.normal(size=400), np.full(400, 0.2)) for _ in range(2)]
    found = evaluate_methods("a", {"mc_dropout": summaries}, y, Decision(), seeds=(0, 1), bootstrap=100)
    logit_scale = [
        metrics.auroc_interval(*metrics.delong(s.mean[y == 0], s.mean[y == 1]), fewest=events) for s in summaries
    ]
    row, pooled = found.row("mc_dropout", "auroc", 1), found.row("mc_dropout", "auroc")
    assert ((row.low, row.high) == pytest.approx(logit_scale[1])) == own
    assert (row.over, pooled.over) == ("patients", "patients and fits")
    assert pooled.low <= pooled.value <= pooled.high
    if own:
        assert pooled.high - pooled.low >= np.mean([high - low for low, high in logit_scale]) - 1e-9


def test_with_few_labels_right_risks_do_not_look_wrong() -> None:
    errors = []
    for seed in range(40):
        random = np.random.default_rng(seed)
        truth = 1 / (1 + np.exp(-random.normal(-0.5, 1.2, 50)))
        found = suggest_recalibration((random.uniform(size=50) < truth).astype(float), truth)
        errors.append((found.adjustments[0].ece, found.adjustments[0].ece_low))
    value, low = np.array(errors).T
    assert np.median(value) <= 0.05
    assert (low == 0).mean() >= 0.9


def test_three_errors_are_not_estimable() -> None:
    y = np.repeat([0.0, 1.0], 50)
    logit = np.where(y == 1, 2.0, -2.0)
    logit[:3] = 2.0
    summary = summarise(logit + np.linspace(0, 0.1, 100), np.linspace(0.1, 0.4, 100))
    evaluation = evaluate_methods("a", {"mc_dropout": [summary]}, y, Decision(), seeds=(0,), bootstrap=20)
    row = evaluation.row("mc_dropout", "error_auroc_sd")
    assert (row.value, row.events, row.why) == (None, 3, "few events")
    assert row_text(row) == "not estimable (3 errors)"
    assert evaluation.row("mc_dropout", "misclassified_sd").events == 3
    assert evaluation.value("mc_dropout", "auroc") is not None


def test_the_same_call_gives_the_same_numbers_and_another_seed_others() -> None:
    predictions, y = draw(300, seeds=1)
    one, two, other = (
        plain(evaluate_methods("a", predictions, y, Decision(), seeds=(0,), bootstrap=50, seed=seed))
        for seed in (0, 0, 1)
    )
    assert one == two
    assert one != other
    assert [row["value"] for row in one["rows"]] == [row["value"] for row in other["rows"]]


def test_a_file_comes_back_as_it_was_and_another_form_is_refused(labelled: tuple) -> None:
    evaluation, _, _ = labelled
    written = json.loads(json.dumps(plain(evaluation), allow_nan=False))
    assert read(Evaluation, written) == evaluation
    with pytest.raises(DataError, match="form"):
        read(Evaluation, {**written, "form": 7})


def test_a_damaged_file_is_refused_by_the_field_that_does_not_fit(labelled: tuple) -> None:
    evaluation, _, _ = labelled
    written = plain(evaluation)
    with pytest.raises(DataError, match="rows"):
        read(Evaluation, {**written, "rows": [{**written["rows"][0], "value": "many"}]})


def test_the_documentation_has_the_definition_of_every_metric() -> None:
    page = PROJECT / "docs" / "EVALUATION.md"
    writer = runpy.run_path(str(page.with_name("write_metrics.py")))
    text = page.read_text(encoding="utf-8")
    assert text == writer["written"](text), "run: python docs/write_metrics.py"
    assert all(metric.definition and f"| {metric.definition} |" in text for metric in METRICS.values())


def test_what_counts_patients_is_disclosed_as_a_count() -> None:
    predictions, y = draw(seeds=1)
    summary = predictions["mc_dropout"][0]
    patients = metrics.Patients(summary, Decision(), metrics.refer(summary, Decision()), y)
    for name, metric in METRICS.items():
        part = metric.part(patients) if metric.part and "binary" in metric.tasks else None
        if isinstance(part, metrics.Total | metrics.Mean):
            # A quotient of counts that were taken for a mean of values would be told to the last patient.
            parts = [part.each, getattr(part, "among", None)]
            counts = all(np.isin(each, (0, 1)).all() for each in parts if each is not None)
            assert counts == (metric.tells in ("counts", "shares")), name


def test_a_subgroup_has_the_events_of_its_patients(monkeypatch: pytest.MonkeyPatch) -> None:
    predictions, y = draw(seeds=1)
    groups = {"Age": np.where(np.arange(600) % 3 == 0, "under 65", "65 and over")}
    wider = {name: replace(METRICS[name], subgroups=True) for name in ("brier", "errors")}
    statistics = import_module("tdrop.evaluate.numbers")
    monkeypatch.setattr(statistics, "METRICS", {**METRICS, **wider})
    found = evaluate_methods("a", predictions, y, Decision(), seeds=(0,), bootstrap=0, subgroups=groups)
    young, risk = np.arange(600) % 3 == 0, predictions["mc_dropout"][0].mean
    for name, value in (("brier", ((risk - y)[young] ** 2).mean()), ("errors", ((risk >= 0.5) != y)[young].sum())):
        row = found.row("mc_dropout", name, group="Age: under 65")
        assert (row.n, row.value) == (200, pytest.approx(value))
        assert row.events == (y[young].sum() if name == "brier" else value)
    monkeypatch.setattr(statistics, "METRICS", {**METRICS, "ece": replace(METRICS["ece"], subgroups=True)})
    with pytest.raises(TypeError, match="totals, means and rankings only"):
        evaluate_methods("a", predictions, y, Decision(), seeds=(0,), bootstrap=0, subgroups=groups)


def test_bad_input_is_said_in_one_sentence() -> None:
    predictions, y = draw(seeds=1)
    with pytest.raises(DataError, match="no method"):
        evaluate_methods("a", {}, None, Decision(), seeds=(0,))
    with pytest.raises(DataError, match="cover"):
        evaluate_methods("a", predictions, y[:-1], Decision(), seeds=(0,))
    with pytest.raises(DataError, match="1 predictions for 2 seeds"):
        evaluate_methods("a", predictions, y, Decision(), seeds=(0, 1))
    with pytest.raises(DataError, match="subgroup 'Age'"):
        evaluate_methods("a", predictions, y, Decision(), seeds=(0,), subgroups={"Age": np.array(["x"])})
    with pytest.raises(DataError, match=r"no interval at level 0\.42"):
        evaluate_methods("a", predictions, y, Decision(interval_level=0.42), seeds=(0,))


def test_patients_list_says_who_and_why() -> None:
    summary = summarise(np.array([-1.9, -6.0, -1.6, 4.0]), np.array([0.3, 0.1, 0.1, 0.1]))
    table = patients_table(np.array(["a", "b", "c", "d"]), summary, Decision(capacity=0.25))
    assert table.columns.tolist() == ["id", "risk", "sd", "low", "high", "refer", "why"]
    assert table["refer"].tolist() == [True, False, True, False]
    assert table["why"].tolist() == [
        "interval reaches the 15% risk level", "", "among the 25% with most expected loss", "",
    ]  # fmt: skip
    both = patients_table(np.array(["a"]), summarise(np.array([-1.9]), np.array([0.3])), Decision(capacity=1.0))
    assert both["why"][0] == "interval reaches the 15% risk level; among the 100% with most expected loss"
    with pytest.raises(DataError, match="2 patients but 4 predictions"):
        patients_table(np.array(["a", "b"]), summary, Decision())


def test_patients_list_agrees_with_the_evaluation() -> None:
    predictions, _ = draw(seeds=1)
    evaluation = evaluate_methods("a", predictions, None, Decision(), seeds=(0,))
    table = patients_table(np.arange(600), predictions["mc_dropout"][0], Decision())
    assert table["refer"].sum() == evaluation.value("mc_dropout", "referred")
    single = patients_table(np.arange(600), predictions["mlp"][0], Decision())
    assert single["sd"].isna().all()
    assert single["refer"].sum() == 60


def test_a_third_reason_and_a_capacity_that_bounds_them_all() -> None:
    predictions, _ = draw(seeds=1)
    unlike = np.arange(600) % 50 == 0
    for decision, most in ((Decision(), 600), (Decision(within_capacity=True), 60)):
        evaluation = evaluate_methods("a", predictions, None, decision, seeds=(0,), unlike=unlike)
        table = patients_table(np.arange(600), predictions["mc_dropout"][0], decision, unlike)
        assert table["refer"].sum() == evaluation.value("mc_dropout", "referred") <= most
        assert (table["why"] != "").equals(table["refer"])
        assert evaluation.value("mc_dropout", "unlike_referrals") == unlike.sum()
        open_list = patients_table(np.arange(600), predictions["mc_dropout"][0], Decision(), unlike)
        assert evaluation.value("mc_dropout", "left_out") == open_list["refer"].sum() - table["refer"].sum()
        named = table["why"].str.contains("unlike anyone the model learned from")
        assert named.equals(pd.Series(unlike) & table["refer"])
    # Who has more reasons comes first.
    reasons = open_list["why"].str.count(";") + open_list["refer"]
    assert reasons[table["refer"]].min() >= reasons[open_list["refer"] & ~table["refer"]].max()


def test_expected_loss_puts_those_first_who_are_in_doubt_where_the_site_acts() -> None:
    risk = np.array([0.02, 0.14, 0.16, 0.5, 0.95])
    assert metrics.expected_loss(risk, 0.15) == pytest.approx([0.017, 0.119, 0.126, 0.075, 0.0075])
    assert metrics.expected_loss(risk, 0.5) == pytest.approx(np.minimum(risk, 1 - risk) / 2)


@pytest.mark.parametrize("fits", [2, 3, 5])
def test_a_method_compared_with_itself_on_other_fits_shows_no_difference(
    fits: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Fits scatter far more than patients do: intervals over patients alone would cover 0 in few draws."""
    # One metric of the table: all of them for 60 draws cost a minute.
    monkeypatch.setattr(import_module("tdrop.evaluate.numbers"), "METRICS", {"log_loss": METRICS["log_loss"]})
    covered, narrow = 0, 0
    for seed in range(60):
        random = np.random.default_rng(seed)
        truth = random.normal(-0.5, 1.2, 400)
        y = (random.uniform(size=400) < 1 / (1 + np.exp(-truth))).astype(float)

        def refit(random: np.random.Generator = random, truth: np.ndarray = truth) -> Summary:
            return summarise(truth + 0.3 * random.normal() * truth + 0.4 * random.normal(), np.full(400, 0.2))

        predictions = {name: [refit() for _ in range(fits)] for name in ("one", "other")}
        found = evaluate_methods("a", predictions, y, Decision(), seeds=range(fits), bootstrap=60, reference="other")
        row = found.row("one", "log_loss_difference")
        assert row.over == "patients and fits"
        covered += row.low <= 0 <= row.high
        first = {name: summaries[:1] for name, summaries in predictions.items()}
        single = evaluate_methods("a", first, y, Decision(), seeds=(0,), bootstrap=60, reference="other")
        single = single.row("one", "log_loss_difference")
        assert single.over == "patients"
        narrow += single.low <= 0 <= single.high
    assert covered >= 0.9 * 60
    assert narrow < 0.7 * 60


def test_sd_ranks_the_capacity_share_where_a_site_says_so() -> None:
    summary = summarise(np.array([-1.7, 4.0, 3.0, 3.0]), np.array([0.001, 2.5, 0.01, 0.01]))
    ids = np.arange(4)
    assert patients_table(ids, summary, Decision(capacity=0.25, rank_by="sd"))["refer"].tolist() == [
        False,
        True,
        False,
        False,
    ]
    assert patients_table(ids, summary, Decision(capacity=0.25))["refer"].tolist() == [True, False, False, False]


def test_written_patients_are_private_and_harmless(tmp_path: Path) -> None:
    ids = ["=1+1", "+A1", "-2", "@x", "plain", "\tx"]
    table = pd.DataFrame({"id": ids, "risk": np.linspace(0, 1, 6), "why": ["=cmd|' /C calc'!A0", "", "", "", "a", ""]})
    path = tmp_path / "patients.csv"
    path.write_text("old")
    path.chmod(0o644)
    write_patients(path, table)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    cells = pd.read_csv(path, dtype=str, keep_default_na=False)
    for column in ("id", "why"):
        assert not any(value.startswith(("=", "+", "-", "@", "\t")) for value in cells[column])
    assert cells["id"][0] == "'=1+1"
    assert cells["id"][4] == "plain"
    assert [item.name for item in tmp_path.iterdir()] == ["patients.csv"]


def test_recalibration_finds_a_shifted_intercept() -> None:
    random = np.random.default_rng(0)
    truth = 1 / (1 + np.exp(-random.normal(-0.5, 1, 4000)))
    y = (random.uniform(size=4000) < truth).astype(float)
    risk = metrics.recalibrated(truth, -0.8)
    found = suggest_recalibration(np.where(np.arange(4000) % 7, y, np.nan), risk)
    before, intercept, both = found.adjustments
    assert intercept.intercept == pytest.approx(0.8, abs=0.1)
    assert both.slope == pytest.approx(1.0, abs=0.1)
    assert before.calibration_intercept == pytest.approx(0.8, abs=0.1)
    assert intercept.log_loss < before.log_loss
    assert found.helps in ("intercept", "intercept and slope")
    # Risks that are right are mostly left alone; a hundred outcomes are now and then off by luck.
    right = [suggest_recalibration(y[i : i + 100], truth[i : i + 100]).helps for i in range(0, 4000, 100)]
    assert right.count(None) >= 0.5 * len(right)
    assert intercept.ece < 0.3 * before.ece
    assert found.n == int((np.arange(4000) % 7 > 0).sum())
    assert read(Recalibration, json.loads(json.dumps(plain(found)))) == found


def test_recalibration_weighs_patients_who_were_likelier_to_be_looked_up() -> None:
    """Risks that are off by more the higher they are: the line for everybody is not that of a draw of high risks."""
    random = np.random.default_rng(2)
    score = random.normal(-0.5, 1.2, 20_000)
    y = (random.uniform(size=len(score)) < metrics.recalibrated(1 / (1 + np.exp(-score)), 0.8, 1.6)).astype(float)
    risk = 1 / (1 + np.exp(-score))
    everybody = suggest_recalibration(y, risk).adjustments[1].intercept
    chance = np.where(score > 0, 0.16, 0.02)
    known = np.where(random.uniform(size=len(score)) < chance, y, np.nan)
    plainly, weighed = suggest_recalibration(known, risk), suggest_recalibration(known, risk, 1 / chance)
    assert abs(plainly.adjustments[1].intercept - everybody) > 0.2
    assert weighed.adjustments[1].intercept == pytest.approx(everybody, abs=0.12)
    before = suggest_recalibration(y, risk).adjustments[0].log_loss
    assert weighed.adjustments[0].log_loss == pytest.approx(before, abs=0.03)


def test_recalibration_is_honest_about_noise() -> None:
    """On few outcomes a fitted slope must not look better than it is out of fold."""
    random = np.random.default_rng(1)
    truth = np.full(240, 0.3)
    risk = np.clip(truth + random.normal(0, 0.05, 240), 0.01, 0.99)
    y = (random.uniform(size=240) < truth).astype(float)
    found = suggest_recalibration(y, risk)
    line = metrics.calibration_line(y, risk)
    apparent = metrics.log_loss(y, metrics.recalibrated(risk, *line))
    assert found.adjustments[2].log_loss > apparent
