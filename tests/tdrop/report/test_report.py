"""report.html: complete in every situation a site can be in, in words for a clinical lead."""

from __future__ import annotations

import itertools
import json
import re
from dataclasses import replace

import numpy as np
import pytest
from page_text import Page
from report_cases import learned_from_several, make_choice, make_observations

from tdrop.base import plain, read
from tdrop.disclosure import disclose
from tdrop.evaluate import evaluate_methods
from tdrop.report import ReportData, SiteSummary, evaluation_warnings, render_details, render_report, report_summary
from tdrop.served import Promotion
from tdrop.shift import Ground

MAX_BYTES = 300_000
MAX_WORDS = 1_500
PROMOTION = Promotion("harbour", "1", "ensemble", by="Dr A", note="agreed in the board", when="2026-11-14T08:00")


def first_screen(data: ReportData) -> str:
    return Page(render_report(data).split("</header>")[0]).text


def whole_page(data: ReportData) -> str:
    return Page(render_report(data)).text


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
        "Transductive dropout", "death from any cause within 10 years", "Is it worth it?", "Of 100 patients like these",
    ):  # fmt: skip
        assert words in head, words
    text = whole_page(labelled)
    assert text.count("guessing gives 50") == 1
    for words in ("What to know", "verdict Go", "Nobody has approved", "Signature"):
        assert text.count(words) == 1, words
    for jargon in ("AUROC", "log loss", "propensity", "epistemic", "calibration", "seed", "Brier", "Committee"):
        assert jargon not in text


def test_the_report_is_read_in_minutes(labelled: ReportData, unlabelled: ReportData) -> None:
    for data in (labelled, unlabelled):
        assert len(whole_page(data).split()) < MAX_WORDS


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


def test_a_stop_names_what_differs_and_asks_for_no_signature(labelled: ReportData) -> None:
    stopped = replace(labelled, shift=replace(labelled.shift, verdict="stop"))
    assert re.search(
        r"too different .* Main differences from the source: .*\d+% here, \d+% there", first_screen(stopped)
    )
    text = whole_page(stopped)
    for words in ("Signature", "Is it worth it?", "may be used", "patients.csv"):
        assert words not in text, words
    assert "Main differences" in report_summary(stopped).reason


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
    assert evaluation_warnings(evaluation)[0] in whole_page(data)


def test_a_forecast_is_told_where_it_could_fail_and_its_limits_where_not(unlabelled: ReportData) -> None:
    assert unlabelled.forecast is not None
    wide, narrow = ((0.05, 0.9), (0.7, 0.8))
    for low, high in (wide, narrow):
        answers = tuple(
            replace(answer, value=0.75, low=low, high=high) if answer.quantity == "auroc" else answer
            for answer in unlabelled.forecast.answers
        )
        text = whole_page(replace(unlabelled, forecast=replace(unlabelled.forecast, answers=answers)))
        told = f"75 times in 100 ({100 * low:.0f} to {100 * high:.0f})" in text
        assert told == ((low, high) == narrow)
        assert ("How well it ranks patients" in text) == ((low, high) == wide), "what limits it"
        assert "only outcomes can settle" in text or told
    assert "nothing here has checked" in text
    assert "shift" not in text, "a word for statisticians"


def test_without_a_forecast_nothing_is_promised(unlabelled: ReportData) -> None:
    bare = replace(unlabelled, forecast=None)
    assert "should" not in whole_page(bare)
    assert report_summary(bare).forecast is None


def test_once_outcomes_are_known_there_is_one_yardstick(labelled: ReportData) -> None:
    """The verdict's check of known outcomes; whether the forecast's interval held is in the details."""
    text = whole_page(labelled)
    assert "interval (" not in text
    assert "as forecast" not in text
    (ranking,) = [seen for seen in labelled.observations if seen.quantity == "auroc" and seen.method == labelled.method]
    others = [seen for seen in labelled.observations if seen is not ranking]
    seen = whole_page(replace(labelled, observations=(*others, replace(ranking, observed=0.87))))
    assert "the one with it gets the higher risk 87 times in 100" in seen


def test_a_disclosed_site_hides_what_was_observed_of_few(labelled: ReportData) -> None:
    policy = labelled.site.disclosure.model_copy(update={"exempt": False})
    shown = disclose(labelled, policy)
    assert all(seen.n % policy.threshold == 0 for seen in shown.observations)
    few = replace(labelled, observations=make_observations(labelled.forecast, labelled.method, 400, 3 / 400))
    assert not {"error_rate", "outcomes"} & {seen.quantity for seen in disclose(few, policy).observations}
    tiny = replace(labelled, observations=make_observations(labelled.forecast, labelled.method, 7))
    assert not disclose(tiny, policy).observations


# Is it worth it? ----------------------------------------------------------------------------------


def levels_of(data: ReportData) -> dict[float, list[float]]:
    """By decision level in percent: flagged, found, missed, net benefit and that of acting on everybody, of 100."""
    (section,) = [found for found in Page(render_report(data)).all("section") if "data-levels" in found]
    return {level: numbers for level, *numbers in json.loads(section["data-levels"] or "")}


def test_natural_frequencies_are_those_of_the_known_outcomes(labelled: ReportData) -> None:
    assert labelled.y is not None
    risk = labelled.predictions[labelled.method][0].mean
    levels = levels_of(labelled)
    assert set(levels) == set(range(1, 61))
    for level in (5, 15, 40):
        acted, died = risk >= level / 100, labelled.y == 1
        flagged, found, missed, benefit, everybody = levels[level]
        assert flagged == pytest.approx(100 * acted.mean(), abs=0.5)
        assert found == pytest.approx(100 * (acted & died).mean(), abs=0.5)
        assert missed == pytest.approx(100 * (~acted & died).mean(), abs=1)
        price = level / (100 - level)
        assert benefit == pytest.approx(100 * ((acted & died).mean() - price * (acted & ~died).mean()), abs=0.06)
        assert everybody == pytest.approx(100 * (died.mean() - price * (1 - died.mean())), abs=0.06)
    flagged, found, missed, *_ = levels[15]
    text = first_screen(labelled)
    assert f"flags {flagged}: {found} of them have it, and {missed}" in text
    assert f"Counted among 400 patients with a known outcome, {int(labelled.y.sum())} of whom had it" in whole_page(
        labelled
    )


def test_without_outcomes_the_risks_say_what_to_expect(unlabelled: ReportData) -> None:
    risk = unlabelled.predictions[unlabelled.method][0].mean
    _, found, *_ = levels_of(unlabelled)[15]
    assert found == pytest.approx(100 * np.where(risk >= 0.15, risk, 0).mean(), abs=0.5)
    text = whole_page(unlabelled)
    assert "are expected to have the outcome" in text
    assert "By the predicted risks of 400 patients; no outcome here has checked them" in text


def test_what_leaves_counts_no_more_than_the_bars_of_the_figure_show(labelled: ReportData) -> None:
    shown = disclose(labelled, labelled.site.disclosure.model_copy(update={"exempt": False}))
    assert set(levels_of(shown)) == set(range(5, 65, 5))
    moved = replace(labelled, y=1 - labelled.y)
    assert levels_of(disclose(moved, moved.site.disclosure.model_copy(update={"exempt": False}))) == levels_of(shown)
    text = whole_page(shown)
    assert "patients.csv" not in text
    assert "For example" not in text


def test_where_the_model_adds_nothing_the_first_sentence_says_so(labelled: ReportData) -> None:
    shift = replace(labelled.shift, verdict="go", grounds=(Ground("benefit", "caution", 380, 400),)).judged()
    data = replace(labelled, shift=replace(shift, verdict="caution"))
    head = first_screen(data)
    assert "Caution At this site's decision level the model flags 380 of 400 patients" in head
    assert "hardly better than acting on everybody. At this level there is no point in using it" in head
    assert "may be used for" not in head
    assert "Is it worth it? At this level, hardly. Of 100 patients" in head
    few = replace(data, shift=replace(data.shift, grounds=(Ground("benefit", "caution", 3, 400),)))
    assert "hardly better than acting on nobody" in first_screen(few)


def test_whether_it_is_worth_it_is_answered_first(labelled: ReportData, unlabelled: ReportData) -> None:
    for data, answer in (
        (labelled, "By the known outcomes, yes."),
        (unlabelled, "If the predicted risks are right, yes."),
    ):
        judged = replace(data, shift=replace(data.shift, grounds=(Ground("benefit", "go", 200, 400),)))
        assert f"Is it worth it? {answer} Of 100 patients" in first_screen(judged)
        assert answer not in first_screen(replace(data, shift=replace(data.shift, grounds=()))), "nobody has judged it"


def test_the_worst_subgroup_is_named(labelled: ReportData, unlabelled: ReportData) -> None:
    rates = {
        group: labelled.evaluation.value(labelled.method, "error_rate", group=group)
        for group in labelled.evaluation.groups
        if labelled.evaluation.row(labelled.method, "patients", group=group).value >= 30
    }
    worst = max((group for group in rates if rates[group] is not None), key=rates.__getitem__)
    text = whole_page(labelled)
    assert f"Worst for {worst[0].lower()}{worst[1:].replace(': ', ' ')}: {100 * rates[worst]:.0f} in 100" in text
    assert "Worst for" not in whole_page(unlabelled)


def test_the_list_for_review_is_linked_with_one_example(labelled: ReportData, page: Page) -> None:
    assert {"href": "patients.csv"} in page.all("a")
    row = int(np.flatnonzero(labelled.referrals.referred)[0])
    risk = labelled.predictions[labelled.method][0].mean[row]
    assert f"For example line {row + 2} of that file: risk {100 * risk:.0f}%" in page.text
    moved_by = ["PSA 34 ng/mL: +9; Age 71 years: -4"] * 400
    told = "from a typical source patient's risk, in percentage points: PSA 34 ng/mL: +9, Age 71 years: −4."
    assert told in whole_page(replace(labelled, moved_by=moved_by))
    assert told not in page.text
    policy = labelled.site.disclosure.model_copy(update={"exempt": False})
    assert disclose(replace(labelled, moved_by=moved_by), policy).moved_by is None


def test_a_level_that_nobody_at_the_site_decided_on_is_said_to_be_a_guess(labelled: ReportData, page: Page) -> None:
    guess = "The risk level of 15% is a guess: nobody at this site has decided"
    assert guess in page.text
    for guessed in (False, True):
        decision = labelled.site.decision.model_copy(update={"risk_level": 0.15, "guessed": guessed})
        chosen = replace(labelled, site=labelled.site.model_copy(update={"decision": decision}))
        text = whole_page(chosen)
        assert (guess in text) == guessed
        assert ("The site decided on the risk level of 15%; it is written in sites/harbour.yaml." in text) != guessed


# Approval, and what changed -----------------------------------------------------------------------


def test_who_promoted_the_model_and_with_which_note(labelled: ReportData) -> None:
    text = Page(render_report(replace(labelled, promotion=PROMOTION))).text
    assert "Version 1 (ensemble) was approved by Dr A on 2026-11-14 08:00, with the note" in text
    assert "agreed in the board" in text
    assert "It may be used for" in text


def test_summary_is_plain_json_and_feeds_the_next_report(labelled: ReportData) -> None:
    summary = report_summary(labelled)
    assert read(SiteSummary, json.loads(json.dumps(plain(summary), allow_nan=False))) == summary
    assert summary.method == "transductive_dropout"
    assert summary.referred == labelled.evaluation.value("transductive_dropout", "referred", 0)
    assert "Nothing has changed since the last report (2026-11-16)" in whole_page(replace(labelled, previous=summary))
    other = replace(summary, referred=7, verdict="stop")
    assert "had verdict Stop, 7 for review." in whole_page(replace(labelled, previous=other))
    assert "This is the first report" in whole_page(replace(labelled, previous=None))


def test_an_approval_is_what_changed(labelled: ReportData) -> None:
    text = whole_page(replace(labelled, previous=report_summary(labelled), promotion=PROMOTION))
    assert "Approved since the last report by Dr A." in text
    assert "Nothing has changed" not in text
    approved = report_summary(replace(labelled, promotion=PROMOTION))
    assert "The approval was withdrawn since the last report." in whole_page(replace(labelled, previous=approved))


def test_going_back_is_no_new_approval(labelled: ReportData) -> None:
    second = replace(PROMOTION, by="Dr B", when="2026-11-16T08:00", version="2")
    summary = report_summary(replace(labelled, promotion=second))
    text = whole_page(replace(labelled, previous=summary, promotion=PROMOTION))
    assert "Gone back since the last report: version 1, approved earlier by Dr A, is in use again." in text
    assert "Approved since" not in text


def test_the_same_data_give_the_same_page(labelled: ReportData, page: Page) -> None:
    assert render_report(labelled) == page.source


def test_several_sources_are_told_apart(unlabelled: ReportData) -> None:
    several = learned_from_several(unlabelled, 800, 400)
    page, details = Page(render_report(several)), Page(render_details(several))
    text = " ".join(page.text.split())
    assert "is 60% Bridgeton General, 30% Northgate Clinic and 10% National registry." in text
    assert "Each of 3 sites was left out of the fits once. That decided" in text
    rows = page.table("forest")
    assert [row[0] for row in rows][-2:] == ["Mean of 3 sites", "Harbour Hospital (simulated)"]
    assert {row[0] for row in rows[:-2]} == {"National registry", "Bridgeton General", "Northgate Clinic"}
    held_out = [row[0] for row in details.table("held-out")]
    assert held_out[1:4] == ["Bridgeton General", "Northgate Clinic", "National registry"]
    assert "Without National registry a risk here would change by 4 percentage points on average." in " ".join(
        details.text.split()
    )
    assert "They came from National registry (40)" in " ".join(details.text.split())
    assert not Page(render_report(unlabelled)).has("sites"), "one source has no other sites to tell of"


def test_of_many_sources_the_highest_and_lowest_are_shown_and_all_are_counted(unlabelled: ReportData) -> None:
    several = learned_from_several(unlabelled, 800, 400)
    forecast = several.forecast
    assert forecast is not None
    many = replace(forecast, held_out={method: sites * 4 for method, sites in forecast.held_out.items()})
    rows = [row[0] for row in Page(render_report(replace(several, forecast=many))).table("forest")]
    assert rows[6:] == ["Mean of all 12 sites (the highest and lowest 3 are shown)", "Harbour Hospital (simulated)"]
