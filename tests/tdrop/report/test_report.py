"""report.html: complete in every situation a site can be in, in words for a clinical lead."""

from __future__ import annotations

import itertools
import json
import re
from dataclasses import replace

import numpy as np
import pytest
from page_text import Page
from report_cases import make_choice, make_observations

from tdrop.base import plain, read
from tdrop.disclosure import disclose
from tdrop.evaluate import evaluate_methods
from tdrop.report import ReportData, SiteSummary, evaluation_warnings, render_report, report_summary
from tdrop.served import Promotion

MAX_BYTES = 300_000
PROMOTION = Promotion("harbour", "1", "ensemble", by="Dr A", note="agreed in the board", when="2026-11-14T08:00")


def first_screen(data: ReportData) -> str:
    return Page(render_report(data).split("</header>")[0]).text


def test_nothing_comes_from_outside(page: Page, details: Page) -> None:
    for shown in (page, details):
        policy = next(meta["content"] for meta in shown.all("meta") if meta.get("http-equiv"))
        assert policy is not None
        assert policy.startswith("default-src 'none'; img-src data:;")
        assert "unsafe" not in policy
        for _, attributes in shown.tags:
            assert not {"srcset", "data", "action", "style"} & set(attributes)
            assert not any(name.startswith("on") for name in attributes)
            assert re.match(r"#|report\.html|details\.html|patients\.csv", attributes.get("href") or "#")
            assert (attributes.get("src") or "data:image/svg+xml;base64,").startswith("data:image/svg+xml;base64,")
        assert not re.search(r"https?://", shown.source)
        assert "@import" not in shown.source


def test_headings_tables_and_figures_are_accessible(page: Page, details: Page) -> None:
    for shown in (page, details):
        assert len(shown.all("h1")) == 1
        levels = [int(tag[1]) for tag, _ in shown.tags if re.fullmatch("h[1-6]", tag)]
        assert all(after - before <= 1 for before, after in itertools.pairwise(levels))
        assert shown.all("html")[0]["lang"] == "en"
        assert len(shown.all("table")) == len(shown.all("caption"))
        assert all(cell.get("scope") in ("col", "row") for cell in shown.all("th"))
        assert all(image.get("alt") for image in shown.all("img"))
        ids = [attributes["id"] for _, attributes in shown.tags if attributes.get("id")]
        assert len(ids) == len(set(ids))
        links = {link["href"][1:] for link in shown.all("a") if (link.get("href") or "").startswith("#")}
        assert links <= set(ids)


def test_the_report_is_small(page: Page) -> None:
    assert len(page.source.encode()) < MAX_BYTES


def test_first_screen_says_whether_and_for_whom(labelled: ReportData) -> None:
    head = first_screen(labelled)
    referred = labelled.evaluation.value(labelled.method, "referred", 0)
    for words in (
        "Harbour Hospital", "Caution", f"{400 - referred:.0f} of 400 patients", f"the other {referred:.0f}",
        "Transductive dropout", "Three things to know", "What changed", "verdict Go", "Nobody has approved",
        "death from any cause within 10 years",
    ):  # fmt: skip
        assert words in head, words
    assert head.count("guessing gives 50") == 1
    for jargon in ("AUROC", "log loss", "propensity", "epistemic", "calibration", "seed", "Brier", "net benefit"):
        assert jargon not in head


def test_simulated_data_are_never_shown_as_real(labelled: ReportData) -> None:
    assert "Simulated data: no real patients" in first_screen(labelled)
    real = replace(labelled, site=labelled.site.model_copy(update={"simulated": False}))
    assert "Simulated data" not in first_screen(real)


@pytest.mark.parametrize(
    ("verdict", "word", "use"),
    [
        ("go", "Go", "it may be used for"),
        ("caution", "Caution", "it may be used for"),
        ("stop", "Stop", "Do not use the model here."),
        ("too few to say", "Too few to say", "Do not rely on the model here"),
    ],
)
def test_every_verdict_has_its_words(unlabelled: ReportData, verdict: str, word: str, use: str) -> None:
    text = first_screen(replace(unlabelled, shift=replace(unlabelled.shift, verdict=verdict)))
    assert word in text
    assert use in text
    assert ("Stop: do not use the model at this site" in text) == (verdict == "stop")


# Why this method ----------------------------------------------------------------------------------


def test_logistic_regression_may_win_and_the_page_says_so(unlabelled: ReportData) -> None:
    data = replace(unlabelled, choice=make_choice("logistic_regression", tuple(unlabelled.predictions)))
    head = first_screen(data)
    assert "Logistic regression" in head
    assert "no other is clearly better" in head


def test_a_tie_with_logistic_regression_is_not_called_better(unlabelled: ReportData) -> None:
    table = tuple(replace(row, tied=True) for row in unlabelled.choice.table)
    head = first_screen(replace(unlabelled, choice=replace(unlabelled.choice, table=table)))
    assert "clearly better" not in head
    assert "plain logistic regression is as good" in head


@pytest.mark.parametrize(
    ("ahead", "said"),
    [("gradient_boosting", "Leaving out trees, which do not extrapolate, as good"), ("ensemble", "As good as any")],
)
def test_the_chosen_method_is_called_best_only_where_the_table_says_so(
    unlabelled: ReportData, ahead: str, said: str
) -> None:
    assert "Best on source patients" in first_screen(unlabelled)
    choice = unlabelled.choice
    better = replace(choice.table[0], method=ahead, candidate=True, log_loss=0.01)
    others = (row for row in choice.table if row.method != ahead)
    head = first_screen(replace(unlabelled, choice=replace(choice, table=(better, *others))))
    assert said in head
    assert "Best on source patients" not in head


# With, without and with few outcomes --------------------------------------------------------------


def test_without_outcomes_the_page_says_what_cannot_be_known(unlabelled: ReportData) -> None:
    text = Page(render_report(unlabelled)).text
    assert "Outcomes here are not known yet" in text
    assert "is an assumption" in text
    assert "nobody can know how often the model is right here" in text


@pytest.mark.parametrize("outcomes", [0, 4, 400])
def test_a_site_with_too_few_outcomes_gets_a_page_that_says_so(labelled: ReportData, outcomes: int) -> None:
    y = np.zeros(400)
    y[:outcomes] = 1
    evaluation = evaluate_methods(
        "harbour", labelled.predictions, y, labelled.site.decision, seeds=(0, 1), bootstrap=10
    )
    data = replace(labelled, y=y, evaluation=evaluation)
    assert evaluation_warnings(evaluation)[0] in first_screen(data)


def test_the_first_screen_gives_the_forecast_and_what_it_cannot_know(unlabelled: ReportData) -> None:
    text = first_screen(unlabelled)
    assert unlabelled.forecast is not None
    for quantity in ("auroc", "error_rate", "outcomes"):
        answer = unlabelled.forecast.find(unlabelled.method, quantity)
        assert answer is not None
        ends = f"({100 * answer.low:.0f} to {100 * answer.high:.0f})"
        assert f"{100 * answer.value:.0f} in 100 {ends}" in text
    assert "if we act at 15% risk or more" in text
    assert "only outcomes show that" in text
    assert "shift" not in text, "a word for statisticians"
    assert "nothing here has checked" in text
    assert "observed" not in text


def test_without_a_forecast_nothing_is_promised(unlabelled: ReportData) -> None:
    bare = replace(unlabelled, forecast=None)
    assert "What to expect here" not in first_screen(bare)
    assert report_summary(bare).forecast is None


def test_known_outcomes_stand_beside_the_forecast(labelled: ReportData) -> None:
    assert first_screen(labelled).count(": inside the interval") == 3
    missed = replace(labelled, observations=make_observations(labelled.forecast, labelled.method, 400, 0.02))
    assert first_screen(missed).count("observed 2: outside the interval") == 3


def test_the_first_screen_tells_one_observed_ranking(labelled: ReportData) -> None:
    (ranking,) = [seen for seen in labelled.observations if seen.quantity == "auroc" and seen.method == labelled.method]
    others = [seen for seen in labelled.observations if seen is not ranking]
    text = first_screen(replace(labelled, observations=(*others, replace(ranking, observed=0.87))))
    assert "observed 87" in text
    assert "the right one gets the higher risk 87 times in 100" in text


def test_a_disclosed_site_hides_what_was_observed_of_few(labelled: ReportData) -> None:
    policy = labelled.site.disclosure.model_copy(update={"exempt": False})
    shown = disclose(labelled, policy)
    assert all(seen.n % policy.threshold == 0 for seen in shown.observations)
    assert "inside the interval" in first_screen(shown)
    few = replace(labelled, observations=make_observations(labelled.forecast, labelled.method, 400, 3 / 400))
    assert not {"error_rate", "outcomes"} & {seen.quantity for seen in disclose(few, policy).observations}
    tiny = replace(labelled, observations=make_observations(labelled.forecast, labelled.method, 7))
    assert not disclose(tiny, policy).observations


# Approval, and what changed -----------------------------------------------------------------------


def test_who_promoted_the_model_and_with_which_note(labelled: ReportData) -> None:
    text = Page(render_report(replace(labelled, promotion=PROMOTION))).text
    assert "Ensemble was approved by Dr A on 2026-11-14 08:00" in text
    assert "agreed in the board" in text
    assert "It may be used for" in text


def test_summary_is_plain_json_and_feeds_the_next_report(labelled: ReportData) -> None:
    summary = report_summary(labelled)
    assert read(SiteSummary, json.loads(json.dumps(plain(summary), allow_nan=False))) == summary
    assert summary.method == "transductive_dropout"
    assert summary.referred == labelled.evaluation.value("transductive_dropout", "referred", 0)
    assert "Nothing since the last report (2026-11-16)" in first_screen(replace(labelled, previous=summary))
    other = replace(summary, referred=7, verdict="stop")
    assert "had verdict Stop, 7 for review." in first_screen(replace(labelled, previous=other))
    assert "This is the first report" in first_screen(replace(labelled, previous=None))


def test_an_approval_is_what_changed(labelled: ReportData) -> None:
    text = first_screen(replace(labelled, previous=report_summary(labelled), promotion=PROMOTION))
    assert "Approved since the last report by Dr A." in text
    assert "Nothing since" not in text
    approved = report_summary(replace(labelled, promotion=PROMOTION))
    assert "The approval was withdrawn since the last report." in first_screen(replace(labelled, previous=approved))


def test_going_back_is_no_new_approval(labelled: ReportData) -> None:
    second = replace(PROMOTION, by="Dr B", when="2026-11-16T08:00", version="2")
    summary = report_summary(replace(labelled, promotion=second))
    text = first_screen(replace(labelled, previous=summary, promotion=PROMOTION))
    assert "Gone back since the last report: version 1, approved earlier by Dr A, is in use again." in text
    assert "Approved since" not in text


def test_the_same_data_give_the_same_page(labelled: ReportData, page: Page) -> None:
    assert render_report(labelled) == page.source
