"""Pages: self-contained, escaped, complete in every situation a site can be in."""

from __future__ import annotations

import itertools
import json
import re
from dataclasses import replace
from html.parser import HTMLParser
from typing import Any
from unittest import mock

import numpy as np
import pytest
from report_cases import make_choice, predict, report_data

from tdrop.base import Hidden, plain, read
from tdrop.disclosure import disclose
from tdrop.evaluate import evaluate_methods
from tdrop.metrics import METRICS, metrics_in_view
from tdrop.report import (
    IndexLine,
    ReportData,
    SiteSummary,
    render_index,
    render_report,
    render_shift_page,
    report_summary,
)
from tdrop.report.results import hindsight
from tdrop.report.sections import report_sections
from tdrop.report.sentences import evaluation_warnings
from tdrop.report.text import count, moment, number, share
from tdrop.served.promotion import Promotion

EVIL = '<script>alert("x")</script><img src=x onerror=y>'


class Page(HTMLParser):
    """Collects what a test wants to know of a page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.words: list[str] = []
        self._muted = 0
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        self._muted += tag in ("style", "script", "svg")

    def handle_endtag(self, tag: str) -> None:
        self._muted -= tag in ("style", "script", "svg")

    def handle_data(self, data: str) -> None:
        if not self._muted and data.strip():
            self.words.append(data.strip())

    @property
    def text(self) -> str:
        return " ".join(" ".join(self.words).split())

    def all(self, tag: str) -> list[dict[str, str | None]]:
        return [attributes for name, attributes in self.tags if name == tag]


SOME = ("mlp", "ensemble", "mixmatch", "transductive_dropout", "logistic_regression")


@pytest.fixture(scope="module")
def labelled() -> ReportData:
    return report_data(target_rows=400, source_rows=800, methods=SOME)


@pytest.fixture(scope="module")
def unlabelled() -> ReportData:
    return report_data(target_rows=400, source_rows=800, methods=SOME, labelled=False)


def without_sections(data: ReportData) -> str:
    """Renders a page without its sections, whose figures take most of the time."""
    with mock.patch("tdrop.report.render.report_sections", return_value=[]):
        return render_report(data)


def first_screen(data: ReportData) -> str:
    return Page(without_sections(data).split("</header>")[0]).text


@pytest.fixture(scope="module")
def page(labelled: ReportData) -> str:
    return render_report(labelled)


def test_nothing_comes_from_outside(page: str) -> None:
    found = Page(page)
    policy = next(meta["content"] for meta in found.all("meta") if meta.get("http-equiv") == "Content-Security-Policy")
    assert policy.startswith("default-src 'none'")
    assert "unsafe" not in policy
    for _, attributes in found.tags:
        assert not {"src", "srcset", "data", "action", "style"} & set(attributes)
        assert not any(name.startswith("on") for name in attributes)
        href = attributes.get("href")
        assert href is None or href.startswith("#")
    assert not re.search(r"https?://(?!www\.w3\.org/2000/svg)", page)
    assert "@import" not in page


def test_what_comes_from_outside_is_escaped(labelled: ReportData) -> None:
    site = labelled.site.model_copy(update={"title": EVIL})
    finding = replace(labelled.validation.findings[0], words=EVIL, fix=EVIL)
    data = replace(
        labelled,
        site=site,
        source_title=EVIL,
        validation=replace(labelled.validation, findings=(finding,)),
        failed_methods={"mixmatch": EVIL},
        promotion=Promotion("harbour", "1", "ensemble", by=EVIL, note=EVIL, when="2026-11-16"),
        provenance=replace(labelled.provenance, contract=EVIL),
        choice=replace(labelled.choice, runner_up=EVIL),
    )
    for text in (
        render_report(data),
        render_index([IndexLine(report_summary(data), "a.html")]),
        render_shift_page(site, EVIL, data.shift, data.matching, data.validation, data.contract),
    ):
        assert len(Page(text).all("script")) == 1
        assert not Page(text).all("img")
        assert "&lt;script&gt;" in text


def test_headings_tables_and_figures_are_accessible(page: str) -> None:
    found = Page(page)
    assert len(found.all("h1")) == 1
    levels = [int(tag[1]) for tag, _ in found.tags if re.fullmatch("h[1-6]", tag)]
    assert all(after - before <= 1 for before, after in itertools.pairwise(levels))
    assert found.all("html")[0]["lang"] == "en"
    assert len(found.all("table")) == len(found.all("caption"))
    assert all(cell.get("scope") in ("col", "row") for cell in found.all("th"))
    assert all(svg.get("aria-labelledby") for svg in found.all("svg"))
    ids = [attributes["id"] for _, attributes in found.tags if attributes.get("id")]
    assert len(ids) == len(set(ids))
    links = {attributes["href"][1:] for attributes in found.all("a") if attributes.get("href", "").startswith("#")}
    assert links <= set(ids)


def test_first_screen_says_whether_and_for_whom(labelled: ReportData, page: str) -> None:
    head = Page(page[page.index("<header") : page.index("</header>")]).text
    evaluation = labelled.evaluation
    referred = evaluation.value(labelled.method, "referred", 0)
    for words in (
        "Harbour Hospital", "Caution", f"{400 - referred:.0f} of 400 patients", f"the other {referred:.0f}",
        "Transductive dropout", "Three things to know", "What changed", "verdict Go", "Nobody has approved",
        "death from any cause within 10 years",
    ):  # fmt: skip
        assert words in head, words
    assert head.count("guessing gives 50") == 1
    for jargon in ("AUROC", "log loss", "propensity", "epistemic", "calibration", "seed"):
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


def test_the_index_lists_no_methods_of_a_site_that_never_had_a_report(unlabelled: ReportData) -> None:
    lines = [
        IndexLine(report_summary(unlabelled), "harbour.html"),
        IndexLine(SiteSummary("ferryside", "Ferryside"), "stopped.html"),
    ]
    first, second = render_index(lines).split('id="table-methods"')
    assert "Ferryside" in first
    assert "Ferryside" not in second
    assert "table-methods" not in render_index(lines[1:])


def test_without_outcomes_the_page_says_what_cannot_be_known(unlabelled: ReportData) -> None:
    page = render_report(unlabelled)
    text = Page(page).text
    assert "Outcomes here are not known yet" in text
    assert "is an assumption" in text
    assert "nobody can know how often the model is right here" in text
    assert "Test AUROC" not in text
    assert METRICS["referrals"].title in text
    assert 'id="table-choice"' in page
    assert 'id="table-scores"' not in page


def test_every_column_of_table_one_is_there(labelled: ReportData, page: str) -> None:
    start = page.index('id="table-main"')
    table = page[start : page.index("</table>", start)]
    for name in metrics_in_view("main"):
        assert METRICS[name].title in table
        row = labelled.evaluation.row("ensemble", name)
        digits = 0 if METRICS[name].shape == "count" and row.value >= 20 else 1 if METRICS[name].shape == "count" else 3
        assert f"{row.value:.{digits}f}" in table, name
    assert table.count('class="chosen"') == 1
    assert "n/a" in table


@pytest.mark.parametrize("outcomes", [0, 4, 400])
def test_a_site_with_too_few_outcomes_gets_a_page_that_says_so(labelled: ReportData, outcomes: int) -> None:
    y = np.zeros(400)
    y[:outcomes] = 1
    evaluation = evaluate_methods(
        "harbour", labelled.predictions, y, labelled.site.decision, seeds=(0, 1), bootstrap=10
    )
    data = replace(labelled, y=y, evaluation=evaluation)
    page = render_report(data)
    head, text = Page(page.split("</header>")[0]).text, Page(page).text
    assert evaluation_warnings(evaluation)[0] in head
    assert "not estimable" in text
    shown = render_report(disclose(data, data.site.disclosure.model_copy(update={"exempt": False})))
    assert "not estimable (4" not in shown


def test_a_failed_method_is_named_with_its_reason(labelled: ReportData) -> None:
    data = replace(labelled, failed_methods={"mixmatch": "the loss was not finite"})
    warnings = [warning for section in report_sections(data) for warning in section.warnings]
    assert "MixMatch could not be fitted: the loss was not finite" in warnings


def test_who_promoted_the_model_and_with_which_note(labelled: ReportData) -> None:
    promotion = Promotion("harbour", "1", "ensemble", by="Dr A", note="agreed in the board", when="2026-11-16")
    data = replace(labelled, promotion=promotion)
    text = Page(without_sections(data)).text
    assert "Ensemble was approved by Dr A on 2026-11-16" in text
    assert "agreed in the board" in text
    assert "It may be used for" in text


def test_how_it_was_made_is_complete(page: str) -> None:
    text = Page(page).text
    for words in ("prostate 1", "a1" * 32, "tdrop 0.1.0", "seeds", "learning_rate"):
        assert words in text, words


def test_optional_parts_may_be_missing(unlabelled: ReportData) -> None:
    bare = replace(
        unlabelled, source_frame=None, target_frame=None, dropout_rates={}, provenance=None, previous=None, tuning={},
        matching=None, shift=replace(unlabelled.shift, drivers=(), propensity=None),
    )  # fmt: skip
    text = Page(render_report(bare)).text
    assert "This is the first report" in text


def test_recalibration_is_shown_before_and_after(page: str) -> None:
    start = page.index('id="table-recalibration"')
    table = Page(page[start : page.index("</table>", start)]).text
    assert "as it is" in table
    assert "after: intercept and slope" in table
    assert 'aria-labelledby="recalibration-title' in page


def test_summary_is_plain_json_and_feeds_the_next_report(labelled: ReportData) -> None:
    summary = report_summary(labelled)
    assert read(SiteSummary, json.loads(json.dumps(plain(summary), allow_nan=False))) == summary
    assert summary.method == "transductive_dropout"
    assert summary.referred == labelled.evaluation.value("transductive_dropout", "referred", 0)
    same = first_screen(replace(labelled, previous=summary))
    assert "Nothing since the last report (2026-11-16)" in same
    other = replace(summary, referred=7, verdict="stop")
    text = first_screen(replace(labelled, previous=other))
    assert "had verdict Stop, 7 to refer." in text


def test_index_lists_sites_by_methods_with_links(labelled: ReportData, unlabelled: ReportData) -> None:
    lines = [
        IndexLine(report_summary(data), f"sites/{n}/latest/report.html")
        for n, data in enumerate((labelled, unlabelled))
    ]
    page = render_index(lines)
    found = Page(page)
    assert [a["href"] for a in found.all("a")][:2] == ["sites/0/latest/report.html", "sites/1/latest/report.html"]
    for words in ("Caution", "Transductive dropout", "MixMatch", "400", "nobody yet"):
        assert words in found.text
    assert "No site has a report yet" in render_index([])
    hidden = replace(lines[0].summary, referred=Hidden(10), patients=None, auroc=None)
    assert "&lt;10" in render_index([replace(lines[0], summary=hidden)])


def test_shift_page_stands_alone(labelled: ReportData) -> None:
    page = render_shift_page(labelled.site, "Registry", labelled.shift, None, labelled.validation, labelled.contract)
    text = Page(page).text
    assert "Caution" in text
    assert "Age (years)" in text
    assert "Rows read 420 = used 400" in text
    render_shift_page(labelled.site, "Registry", labelled.shift, labelled.matching, labelled.validation)


def test_the_same_data_give_the_same_page(labelled: ReportData, page: str) -> None:
    assert render_report(labelled) == page


def test_a_large_report_is_small() -> None:
    """10,086 patients, ten methods: at most 3 MB."""
    data = report_data(target_rows=10_086, source_rows=2000, seeds=2, bootstrap=0)
    assert len(render_report(data).encode()) < 3_000_000


def test_a_method_of_another_version_does_not_break_a_page(labelled: ReportData) -> None:
    methods = ("mc_dropout", "logistic_regression")
    predictions: dict[str, Any] = predict(np.linspace(0.05, 0.95, 400), methods, 2)
    predictions["a_new_one"] = predictions["mc_dropout"]
    evaluation = evaluate_methods("harbour", predictions, None, labelled.site.decision, seeds=(0, 1))
    data = replace(
        labelled, evaluation=evaluation, predictions=predictions, y=None, labels=None, dropout_rates={}, tuning={},
        choice=make_choice("mc_dropout", (*methods, "a_new_one")),
    )  # fmt: skip
    assert "a_new_one" in render_report(data)


def test_outcomes_may_disagree_with_a_choice_made_without_them(labelled: ReportData) -> None:
    losses = {method: labelled.evaluation.value(method, "log_loss") for method in SOME}
    best = min(losses, key=losses.__getitem__)
    other = next(method for method in SOME if method not in (best, "mlp"))
    wrong = hindsight(replace(labelled, choice=replace(labelled.choice, method=other)))
    right = hindsight(replace(labelled, choice=replace(labelled.choice, method=best)))
    assert f"({losses[best]:.3f}, against {losses[other]:.3f})" in wrong
    assert "by them it has the lowest log loss" in right


def test_time_stamps_are_written_for_people() -> None:
    assert moment("2026-11-16T02:37:38+00:00") == "2026-11-16 02:37 UTC"
    assert moment("2026-11-16 02:37") == "2026-11-16 02:37"
    assert moment("last week") == "last week"
    assert moment(None) == "–"


@pytest.mark.parametrize(
    ("value", "written"), [(1234, "1,234"), (16.6, "17"), (234.5, "234"), ("<10", "<10"), (None, "–"), (0, "0")]
)
def test_counts_are_written_one_way(value: Any, written: str) -> None:
    assert count(value) == written


def test_numbers_have_a_true_minus_and_zero_has_none() -> None:
    assert number(-0.0123) == "−0.012"
    assert number(-0.0001) == "0.000"
    assert share(-0.051) == "−5.1%"


def test_limits_and_approval_come_before_results(page: str) -> None:
    places = [page.index(f'id="{name}"') for name in ("summary", "limits", "approval", "appendix", "results")]
    assert places == sorted(places)


def test_an_approval_is_what_changed(labelled: ReportData) -> None:
    summary = report_summary(labelled)
    promotion = Promotion("harbour", "2", "ensemble", by="Dr A", note="agreed", when="2026-11-16")
    told = first_screen(replace(labelled, previous=summary, promotion=promotion))
    assert "Approved since the last report by Dr A." in told
    assert "Nothing since" not in told


def test_going_back_is_no_new_approval(labelled: ReportData) -> None:
    first = Promotion("harbour", "1", "ensemble", by="Dr A", note="agreed", when="2026-11-14T08:00")
    second = replace(first, by="Dr B", when="2026-11-16T08:00", version="2")
    summary = report_summary(replace(labelled, promotion=second))
    told = first_screen(replace(labelled, previous=summary, promotion=first))
    assert "Gone back since the last report: version 1, approved earlier by Dr A, is in use again." in told
    assert "Approved since" not in told


def test_no_table_says_none(page: str) -> None:
    assert ">None<" not in page
