"""Disclosure of documents and of the whole report: what leaves holds no small count and no way to one."""

from __future__ import annotations

import dataclasses
import inspect
import json
import re
from dataclasses import fields, replace
from typing import Any

import numpy as np
import pytest
from report_cases import make_forecast, make_observations, report_data

from tdrop.base import Hidden, plain, read
from tdrop.choose import Losses, Trial
from tdrop.choose.choice import Choice, ChoiceRow
from tdrop.contracts import Disclosure, Finding, Validation
from tdrop.data import LabelCounts
from tdrop.disclosure import (
    disclose,
    disclose_choice,
    disclose_matching,
    disclose_shift,
    disclose_trials,
    disclose_validation,
    shown_count,
)
from tdrop.figures import draw_risk_histogram
from tdrop.metrics import METRICS
from tdrop.report import SiteSummary, render_details, render_report, report_summary
from tdrop.shift import Balance, Density, Driver, FeatureShift, Ground, Matching, Shift

POLICY = Disclosure(threshold=10)
EXEMPT = Disclosure(threshold=10, exempt=True)


def make_validation(rows: int, aside: int, twice: int, count: int | None = None) -> Validation:
    words = "PSA: {count} of {total} values are outside 0 to 10,000 ng/mL"
    count = aside if count is None else count
    finding = Finding("psa.range", "psa", "row_critical", count, rows, words, "check its unit")
    return Validation("b", "B", "clinic", "1", rows, rows - aside - twice, aside, twice, (finding,), stopped=False)


def test_a_finding_is_told_with_what_is_left_of_its_counts() -> None:
    shown = disclose_validation(make_validation(1004, 100, 50, count=4), POLICY)
    (finding,) = shown.findings
    assert finding.sentence == "PSA: <10 of 1,000 values are outside 0 to 10,000 ng/mL"


def test_a_fact_about_the_file_stays_readable() -> None:
    validation = make_validation(1004, 100, 50)
    missing = Finding("stage.present", "stage", "table_stop", 1, 1004, "column 'stage' is missing", about="file")
    shown = disclose_validation(replace(validation, findings=(missing,)), POLICY)
    assert shown.findings[0].sentence == "column 'stage' is missing"


def feature(name: str, kind: Any, column: str, target: list[int], source: list[int]) -> FeatureShift:
    edges = tuple(-0.5 + index for index in range(len(target) + 1))
    means = [counts[-1] / sum(counts) for counts in (source, target)]
    density = Density(edges, tuple(source), tuple(target))
    return FeatureShift(name, column, kind, *means, 0.1, 0.2, 0.1, "total_variation", None, 0.0, density)


def make_shift(**changes: Any) -> Shift:
    features = [
        feature("stage=T1", "level", "stage", [300, 100], [500, 500]),
        feature("stage=T2", "level", "stage", [103, 297], [500, 500]),
        feature("stage=T3", "level", "stage", [397, 3], [1000, 0]),
        feature("smoker", "binary", "smoker", [200, 200], [600, 400]),
        replace(feature("age", "continuous", "age", [3, 197, 195, 5], [250] * 4), outside_range=3 / 400),
    ]
    shift = Shift(
        source="a", target="b", source_rows=1000, target_rows=400, verdict="go", domain_auroc=None, aurocs=(),
        permutation=None, weights_effective_n=None, weights_capped_share=0.2, outside_overlap=3 / 400, propensity=None,
        features=tuple(features), drivers=(Driver("stage", 0.1, 0.2, 0.1),),
    )  # fmt: skip
    return replace(shift, **changes)


def test_shares_of_few_patients_leave_a_shift() -> None:
    shown = disclose_shift(make_shift(), POLICY)
    rows = {row.feature: row for row in shown.features}
    assert rows["stage=T3"].target_mean is None
    assert rows["stage=T3"].smd is None
    assert rows["stage=T2"].target_mean == 300 / 400, "a quotient of rounded counts"
    assert rows["stage=T2"].smd == pytest.approx(0.25 / ((0.75 * 0.25 + 0.25) / 2) ** 0.5)
    assert rows["smoker"].target_mean == 0.5
    assert rows["age"].density.target == (Hidden(10), 200, 200, Hidden(10))
    assert rows["age"].outside_range is None
    assert shown.outside_overlap is None
    assert read(Shift, plain(shown)) == shown


def test_a_mean_is_too_coarse_to_count_a_bar_by() -> None:
    lone = make_shift(features=(feature("age", "continuous", "age", [3, 190, 207], [300] * 3),))
    (shown,) = disclose_shift(lone, POLICY).features
    assert shown.density.target == (Hidden(10), 190, 210)
    assert shown.target_mean != lone.features[0].target_mean


def test_matching_leaves_without_rows_and_without_hidden_features() -> None:
    balance = tuple(Balance(name, 0.3, 0.1, 0.3) for name in ("stage=T3", "smoker"))
    matching = Matching(
        rows=np.arange(3), balance=balance, caliper=None, retained=103, wanted=104, effective_n=57.3, overlap=0.5,
        passes=1, orders=1, kind="logistic", balanced=False, fallback="most alike", within=3,
        propensity=Balance("propensity", 0.3123, 0.1, 0.3),
    )  # fmt: skip
    shown = disclose_matching(matching, disclose_shift(make_shift(), POLICY), POLICY)
    assert (len(shown.rows), shown.within) == (0, Hidden(10))
    assert (shown.retained, shown.effective_n) == (100, 60)
    assert shown.balance[0] == Balance("stage=T3", None, None, None)
    assert shown.balance[1].after == 0.1
    assert shown.propensity is not None
    assert shown.propensity.before == 0.3


def test_trials_lose_few_errors() -> None:
    losses = Losses.collect(np.ones(200))
    trials = [Trial("m", {}, errors=4, n=200, error_auroc=0.9, log_loss=0.1, losses=losses, matched_losses=losses),
              Trial("m", {}, errors=40, n=200, error_auroc=0.7, log_loss=0.2)]  # fmt: skip
    few, enough = disclose_trials(trials, POLICY)
    assert (few.errors, few.error_auroc, few.log_loss) == (Hidden(10), None, 0.1)
    assert (few.losses, few.matched_losses) == (None, None)
    assert (enough.errors, enough.error_auroc) == (40, 0.7)


# The whole report ---------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def secret_report() -> Any:
    """A site with small counts wherever a report counts anything."""
    data = report_data(
        target_rows=300, source_rows=1500, methods=("mc_dropout", "logistic_regression"), method="mc_dropout"
    )
    validation = make_validation(303, 3, 0)
    labels = LabelCounts(known=300, unknown_ids=7)
    expected = make_forecast(("mc_dropout", "logistic_regression"), 1500, 300)
    return replace(
        data, validation=validation, source_validation=validation, labels=labels, previous=None, forecast=expected
    )


def test_export_is_readable_and_holds_no_small_count(secret_report: Any) -> None:
    shown = disclose(secret_report, POLICY)
    page = render_report(shown) + render_details(shown)
    text = re.sub(r"<(style|script|svg)\b.*?</\1>", " ", page, flags=re.S)
    for row in re.findall(r"<tr.*?</tr>", text, flags=re.S):
        cells = [
            re.sub(r"<small>.*?</small>|<[^>]+>", " ", cell).strip()
            for cell in re.findall(r"<td.*?</td>", row, flags=re.S)
        ]
        heading = re.sub(r"<[^>]+>", " ", row.split("</th>")[0])
        if heading.strip() in ("Patients", "unknown ids", "missing"):
            assert not any(cell.isdigit() and 0 < int(cell) < 10 for cell in cells), row
    assert "&lt;10" in page
    assert not re.search(r"(?<![\d.])303(?!\d)", text), "rows read less rows used are the rows set aside"
    assert disclose(secret_report, EXEMPT) is secret_report


def with_few(data: Any, few: int) -> Any:
    """The report of a site that counts `few` patients wherever its records count any."""
    words = "{count} of {total} rows repeat a patient, {conflicting} differ"
    whole = make_validation(303, few, few)
    finding = replace(whole.findings[0], others={"conflicting": few}, words=words)
    grounds = [Ground(kind, "caution", few, 300, expected=few + 0.4) for kind in
               ("source_outcomes", "shared_patients", "known_outcomes", "known_ranking")]  # fmt: skip
    counted = [replace(row, n=few, events=few, value=None, why="few events") for row in data.evaluation.rows]
    rows = [replace(row, value=float(few)) if METRICS[row.metric].shape == "count" else row for row in counted]
    expected = replace(
        data.forecast, source_rows=few, source_events=few, effective_n=float(few), target_rows=few
    )  # fmt: skip
    return replace(
        data,
        choice=replace(
            data.choice, table=tuple(replace(row, n=few, effective_n=float(few)) for row in data.choice.table)
        ),
        tuning={name: [replace(trial, n=few, errors=few, matched_n=few) for trial in trials]
                for name, trials in data.tuning.items()},
        forecast=expected,
        observations=make_observations(expected, data.method, 100, few / 100),
        labels=LabelCounts(**{field.name: few for field in fields(LabelCounts)}),
        matching=replace(data.matching, retained=few, wanted=few, within=few, fallback="most alike"),
        # Rows that are used are many: rounded, they may say on which side of five two small counts lie.
        validation=replace(whole, used=300, findings=(finding,)),
        shift=replace(
            data.shift, source_rows=few, target_rows=few, outside_overlap=few / 300, grounds=tuple(grounds),
            aurocs=tuple(replace(one, rows_fitted=few) for one in data.shift.aurocs),
            permutation=replace(data.shift.permutation, source_rows=few, target_rows=few),
        ),
        evaluation=replace(data.evaluation, outcomes=few, rows=tuple(rows)),
        previous=SiteSummary("a", "A", patients=few, referred=few, labelled=few, method="ensemble",
                             method_label="Ensemble", verdict="stop"),
    )  # fmt: skip


@pytest.mark.usefixtures("undrawn")
def test_what_leaves_is_the_same_whatever_a_small_count_is(secret_report: Any) -> None:
    """Every count of every record is small: what is told without them cannot depend on them."""
    few_and_fewer = [with_few(secret_report, few) for few in range(1, 10)]
    assert len({everything(whole) for whole in few_and_fewer}) == 9, "the scenario counts few"
    left = {everything(disclose(whole, POLICY)) for whole in few_and_fewer}
    assert len(left) == 1
    text = left.pop()
    assert text.count("&lt;10") > 20


def everything(data: Any) -> str:
    """All that the pages of a site and its summary say."""
    return render_report(data) + render_details(data) + json.dumps(plain(report_summary(data)))


def test_an_export_draws_no_curve_of_single_patients(secret_report: Any) -> None:
    page = render_details(disclose(secret_report, POLICY))
    for name in ("calibration", "benefit", "recalibration", "sweep", "roc", "precision", "coverage"):
        assert f'id="figure-{name}"' not in page
    assert 'id="table-scores"' in page
    assert 'id="figure-risks"' in page


def test_summary_of_a_disclosed_report_keeps_its_sentences(secret_report: Any) -> None:
    summary = report_summary(disclose(secret_report, POLICY))
    assert len(summary.things) == 3
    json.dumps(plain(summary), allow_nan=False)


def test_figures_of_the_export_draw_no_small_bar(secret_report: Any) -> None:
    """Bars of the risk histogram: heights in patients, read back from the drawing, are 0 or at least ten."""
    summary = secret_report.predictions["mc_dropout"][0]
    referred = np.zeros(len(summary.mean), dtype=bool)
    svg = draw_risk_histogram(summary, referred, 0.15, 10).svg
    heights = [
        abs(float(path[1][1]) - float(path[0][1]))
        for block in re.findall(r'<path d="(M [^"]*?)"[^>]*style="fill: #0072b2', svg, flags=re.S)
        if len(path := [pair.split()[1:] for pair in re.findall(r"[ML] [\d.-]+ [\d.-]+", block)][1:3]) == 2
    ]
    counts = np.histogram(summary.mean, np.linspace(0, 1, 21))[0]
    assert (counts[counts > 0] < 10).any(), "the scenario needs a small bar"
    # The last rectangle of that colour is the legend's.
    drawn = np.round(np.array(heights[:-1]) * shown_count(int(counts.max()), 10) / max(heights))
    assert len(drawn[drawn > 0])
    assert (drawn % 10 == 0).all()


@pytest.mark.parametrize(("matched", "shown"), [(9, None), (30, 0.35), (600, 0.346)])
def test_a_choice_leaves_as_finely_as_its_patients_allow_and_nothing_of_few_matched_rows(
    matched: int, shown: float | None
) -> None:
    loss = 0.3456789
    row = ChoiceRow("mlp", True, loss, loss, loss, loss, True, loss, loss, 123, 45.6, loss)
    choice = Choice("mlp", None, "importance_weighted", (row,), mlp_better=False)
    (left,) = disclose_choice(choice, Disclosure(), matched).table
    means = [getattr(left, name) for name in ("log_loss", "standard_error", "behind", "behind_error")]
    assert {*means, left.weighted_log_loss, left.plain_log_loss} == {0.35}
    assert (left.matched_log_loss, left.n, left.effective_n) == (shown, 120, 50)
    (few,) = disclose_choice(replace(choice, table=(replace(row, n=9),)), Disclosure(), matched).table
    assert (few.log_loss, few.behind, few.standard_error) == (None, None, None)


def test_why_a_method_failed_leaves_without_a_number_of_patients(secret_report: Any) -> None:
    why = {"mlp": "method 'mlp': 7 of 143 rows hold values that are not finite", "mc_dropout": "it did not end"}
    shown = disclose(replace(secret_report, failed_methods=why), Disclosure())
    assert shown.failed_methods == {"mlp": "the site's own report says why", "mc_dropout": "it did not end"}


#: Fields of a report that pass disclosure as they are: no numbers of patients, or rendered only through counts that are
#: hidden. A new field is either disclosed or named here.
PASSED = {
    "site", "source_title", "contract", "predictions", "unlike", "source_frame", "target_frame",
    "refused_labels", "provenance", "promotion", "rehearsal", "source_titles", "small_sources", "has_card",
}  # fmt: skip


def test_every_field_of_a_report_is_disclosed_or_passed_on_purpose(secret_report: Any) -> None:
    source = inspect.getsource(disclose)
    fields = {field.name for field in dataclasses.fields(secret_report)}
    assert {name for name in fields if f"        {name}=" not in source} == PASSED
