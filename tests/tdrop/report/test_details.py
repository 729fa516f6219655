"""details.html: every table and figure that a report rests on, and the list for a publication."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from page_text import Page
from report_cases import make_choice, predict, report_data
from scipy.special import expit

from tdrop.choose import Trial
from tdrop.contracts import Disclosure, Step
from tdrop.disclosure import disclose
from tdrop.evaluate import compare_risks, evaluate_methods, suggest_recalibration
from tdrop.forecast import split_drop
from tdrop.methods import build
from tdrop.metrics import METRICS, metrics_in_view
from tdrop.report import ReportData, render_details

METHOD = "transductive_ensemble"
AUTHORS = "to be written by the authors"


def test_every_column_of_table_one_is_there(labelled: ReportData, details: Page) -> None:
    table = details.table("main")
    for column, name in enumerate(metrics_in_view("main"), start=1):
        assert table[0][column] == METRICS[name].title
        row = labelled.evaluation.row("ensemble", name)
        digits = 0 if METRICS[name].shape == "count" else 3
        (line,) = [line for line in table if line[0] == "Ensemble"]
        assert f"{row.value:.{digits}f}" in line[column], name
    start = details.source.index('id="table-main"')
    assert details.source[start : details.source.index("</table>", start)].count('class="chosen"') == 1
    assert any("n/a" in cell for line in table for cell in line), "a plain network has no spread"


@pytest.mark.usefixtures("undrawn")
def test_without_outcomes_no_table_is_about_being_right(unlabelled: ReportData) -> None:
    page = Page(render_details(unlabelled))
    assert "Test AUROC" not in page.text
    assert METRICS["referrals"].title in page.text
    assert page.has("table-choice")
    assert not page.has("table-scores")


@pytest.mark.usefixtures("undrawn")
def test_too_few_outcomes_are_not_estimated(labelled: ReportData) -> None:
    y = np.zeros(400)
    y[:4] = 1
    evaluation = evaluate_methods(
        "harbour", labelled.predictions, y, labelled.site.decision, seeds=(0, 1), bootstrap=10
    )
    data = replace(labelled, y=y, evaluation=evaluation)
    assert "not estimable 4 outcomes" in Page(render_details(data)).text
    shown = disclose(data, data.site.disclosure.model_copy(update={"exempt": False}))
    assert "not estimable 4" not in Page(render_details(shown)).text


@pytest.mark.usefixtures("undrawn")
def test_a_failed_method_is_named_with_its_reason(labelled: ReportData) -> None:
    data = replace(labelled, failed_methods={"mixmatch": "the loss was not finite"}, y=None)
    assert "MixMatch could not be fitted: the loss was not finite" in Page(render_details(data)).text


def test_how_it_was_made_is_complete(details: Page) -> None:
    for words in ("prostate 1", "tdrop 0.1.0", "seeds 0, 1", "run.json"):
        assert words in details.text, words


def test_recalibration_is_shown_before_and_after(details: Page) -> None:
    names = [line[0] for line in details.table("recalibration")]
    assert {"as it is", "after: intercept and slope"} <= set(names)


@pytest.mark.usefixtures("undrawn")
def test_optional_parts_may_be_missing(unlabelled: ReportData) -> None:
    bare = replace(
        unlabelled, source_frame=None, target_frame=None, provenance=None, previous=None, tuning={},
        matching=None, shift=replace(unlabelled.shift, drivers=(), propensity=None),
    )  # fmt: skip
    assert "Rows read 420 = used 400" in Page(render_details(bare)).text


@pytest.mark.usefixtures("undrawn")
def test_a_method_of_another_version_does_not_break_a_page(labelled: ReportData) -> None:
    methods = ("mc_dropout", "logistic_regression")
    predictions: dict[str, Any] = predict(np.linspace(0.05, 0.95, 400), methods, 2)
    predictions["a_new_one"] = predictions["mc_dropout"]
    evaluation = evaluate_methods("harbour", predictions, None, labelled.site.decision, seeds=(0, 1))
    data = replace(
        labelled, evaluation=evaluation, predictions=predictions, y=None, labels=None, tuning={},
        choice=make_choice("mc_dropout", (*methods, "a_new_one")), observations=(),
    )  # fmt: skip
    assert "a_new_one" in Page(render_details(data)).text


@pytest.mark.usefixtures("undrawn")
def test_outcomes_may_disagree_with_a_choice_made_without_them(labelled: ReportData) -> None:
    losses = {method: labelled.evaluation.value(method, "log_loss") for method in labelled.predictions}
    best = min(losses, key=losses.__getitem__)
    other = next(method for method in losses if method not in (best, "mlp"))
    bare = replace(labelled, y=None)
    wrong, right = (
        Page(render_details(replace(bare, choice=replace(bare.choice, method=method)))).text for method in (other, best)
    )
    assert f"({losses[best]:.3f}, against {losses[other]:.3f})" in wrong
    assert "Judged by them, it has the lowest log loss" in right


def test_the_forecast_stands_beside_what_was_observed(details: Page) -> None:
    rows = {line[0]: line[1] for line in details.table("forecast")}
    assert "observed" in rows["Transductive dropout"]
    assert "as forecast" in rows["Transductive dropout"]
    assert "observed" not in rows["Ensemble"]


@pytest.mark.usefixtures("undrawn")
def test_an_audit_says_why_the_loss_changed(labelled: ReportData) -> None:
    losses = np.linspace(0.1, 0.7, 100), np.linspace(0.2, 0.9, 80)
    split = split_drop(losses, (np.linspace(0.2, 0.6, 100), np.linspace(0.4, 0.9, 80)), resamples=100)
    data = replace(labelled, y=None, split=split)
    said = [f"{part.low:.3f} to {part.high:.3f}) is due to different" for part in (split.patients, split.outcomes)]
    text = Page(render_details(data)).text
    assert all(words.replace("-", "−") in text for words in said)
    assert "is due to different" not in Page(render_details(disclose(data, Disclosure()))).text, "it may not leave"


def test_rows_are_drawn_where_some_were_lost(labelled: ReportData, details: Page) -> None:
    drawn = details.figure("attrition")
    for words in ("Rows read", "Set aside", "420", "14"):
        assert words in drawn
    whole = replace(labelled.validation, quarantined=0, duplicates=0)
    assert not Page(render_details(replace(labelled, validation=whole))).has("figure-attrition")


@pytest.mark.usefixtures("undrawn")
def test_the_way_from_a_database_to_rows_is_told_with_small_counts_hidden(labelled: ReportData) -> None:
    steps = (Step("persons in the database", 9003), Step("persons with an index record", 4))
    data = replace(labelled, validation=replace(labelled.validation, attrition=steps))
    lines = dict(Page(render_details(disclose(data, Disclosure()))).table("database"))
    assert lines == {"persons in the database": "9,000", "persons with an index record": "<10"}


# For a publication --------------------------------------------------------------------------------


def items(data: ReportData) -> dict[int, str]:
    """What is stated of each item of TRIPOD+AI."""
    return {int(line[0].split(".")[0]): line[1] for line in Page(render_details(data)).table("tripod")[1:]}


def test_all_27_items_are_stated_or_left_to_the_authors(labelled: ReportData, details: Page) -> None:
    stated = {int(line[0].split(".")[0]): line[1] for line in details.table("tripod")[1:]}
    assert list(stated) == list(range(1, 28))
    assert all(text == AUTHORS or text.startswith("stated: ") for text in stated.values())
    assert "None" not in " ".join(stated.values())
    for number in (1, 2, 3, 4, 6, 17, 18, 19, 25):
        assert stated[number] == AUTHORS
    assert f"AUROC {labelled.evaluation.value(labelled.method, 'auroc'):.3f}" in stated[23]
    assert "800 source patients, 400 patients here" in stated[10]
    events = int(np.nansum(labelled.y))
    assert f"evaluated on 400 patients with a known outcome, {events} of whom had it" in stated[21]
    assert "matched" in stated[21]
    assert "the source's median" in stated[11]
    assert "neither resampled" in stated[13]
    for number in (5, 8, 9, 10, 27):
        assert stated[number].endswith(AUTHORS), "what of the item no run can know"
    assert "c3c3" in stated[22]
    assert stated[24] == AUTHORS


@pytest.mark.parametrize(("helps", "said"), [(True, "a recalibration to the known outcomes ("), (False, "as they are")])
@pytest.mark.usefixtures("undrawn")
def test_updating_is_stated_from_the_run(labelled: ReportData, helps: bool, said: str) -> None:
    risk = np.clip(labelled.predictions["ensemble"][0].mean / 3, 0.01, 0.99)
    recalibration = suggest_recalibration(labelled.y, risk)
    recalibration = recalibration if helps else replace(recalibration, helps=None)
    assert said in items(replace(labelled, recalibration=recalibration, y=None))[24]


@pytest.mark.usefixtures("undrawn")
def test_without_outcomes_no_performance_is_stated(unlabelled: ReportData) -> None:
    stated = items(replace(unlabelled, provenance=None, tuning={}))
    assert stated[22] == AUTHORS
    assert stated[23] == AUTHORS


def test_a_disclosed_site_states_rounded_counts(labelled: ReportData) -> None:
    validation = replace(labelled.validation, duplicates=3, read=417)
    shown = disclose(
        replace(labelled, validation=validation), labelled.site.disclosure.model_copy(update={"exempt": False})
    )
    page = Page(render_details(shown))
    for text in (" ".join(line[1] for line in page.table("tripod")[1:]), page.figure("attrition")):
        assert "417" not in text
        assert "<10" in text.replace("&lt;", "<")


# The unlabelled patients --------------------------------------------------------------------------


def make_trial(lambda_: float, log_loss: float, *, folds: int = 3, picked: bool = False) -> Trial:
    settings = build(METHOD, lambda_=lambda_, weight_decay=1e-2).settings()
    return Trial(METHOD, settings, folds, log_loss, errors=100, n=900, picked=picked)


@pytest.fixture(scope="module")
def small() -> ReportData:
    methods = ("logistic_regression", METHOD)
    data = report_data(source_rows=800, target_rows=400, methods=methods, method=METHOD, seeds=1, bootstrap=20)
    return replace(data, y=None)


@pytest.fixture(scope="module")
def moved() -> Any:
    generator = np.random.default_rng(0)
    score = generator.normal(size=500)
    y = (generator.random(500) < expit(score)).astype(np.float64)
    likeness = generator.random(500)
    # The further from the source, the more a risk that was too certain is moved towards the truth.
    return compare_risks(METHOD, 0.1, expit(3 * score), expit((3 - 2 * likeness) * score), likeness, y)


def unlabelled_text(data: ReportData) -> str:
    source = render_details(data)
    start = source.index('id="unlabelled"')
    return Page(source[start : source.index("</section>", start)]).text


@pytest.mark.parametrize(
    ("others", "because"),
    [
        (
            [make_trial(0.1, 0.431), make_trial(0.03, 0.412)],
            "was better for left-out source patients (log loss 0.400, at best 0.412",
        ),
        (
            [make_trial(0.1, 0.300, folds=1), make_trial(0.03, 0.300, folds=1)],
            "none of the 2 settings that used them",
        ),
    ],
)
@pytest.mark.usefixtures("undrawn")
def test_lambda_0_says_why_from_the_trials(small: ReportData, others: list[Trial], because: str) -> None:
    text = unlabelled_text(replace(small, tuning={METHOD: [make_trial(0.0, 0.400, picked=True), *others]}))
    assert "Transductive ensemble did not use this site's unlabelled patients, because" in text
    assert because in text


def test_what_they_did_is_told_near_and_far_and_by_outcomes(small: ReportData, moved: Any) -> None:
    used = make_trial(0.1, 0.4, picked=True)
    tuning = {METHOD: [used], "tdnr": [make_trial(0.0, 0.4, picked=True)], "mlp": [replace(used, settings={})]}
    near, far = moved.groups[0], moved.groups[-1]
    text = unlabelled_text(replace(small, tuning=tuning, moved=(moved,)))
    assert text.count("used this site's unlabelled patients") == 1, "only methods that could use them"
    assert "unlabelled patients (lambda 0.1), which moved risks by" in text
    assert f"{100 * near.moved:.1f} percentage points among the patients most like the source" in text
    assert f"{100 * far.moved:.1f} percentage points among those least like it" in text
    before, after = moved.reliability
    assert after.log_loss < before.log_loss
    assert f"log loss is {after.log_loss:.3f} with them and {before.log_loss:.3f} without" in text
    without = unlabelled_text(replace(small, tuning=tuning))
    assert "used this site's unlabelled patients (lambda 0.1)." in without, "without a fit to compare with"


def test_what_leaves_holds_nothing_of_outcomes(small: ReportData, moved: Any) -> None:
    data = replace(small, moved=(moved,))
    shown = disclose(data, Disclosure(threshold=30)).moved[0]
    assert shown.reliability is None
    assert [group.n for group in shown.groups] == [90] * 5, "100 patients to the nearest 30"
    assert all(group.moved == round(group.moved, 2) for group in shown.groups)
    assert disclose(data, Disclosure(threshold=101)).moved[0].groups == ()


def test_a_page_without_any_of_it_has_no_such_section(details: Page) -> None:
    assert "The unlabelled patients" not in details.text
