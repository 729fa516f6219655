"""Disclosure of documents and of the whole report: what leaves holds no small count and no way to one."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from report_cases import report_data

from tdrop.contracts.findings import Finding
from tdrop.contracts.schema import Disclosure
from tdrop.disclosure import (
    disclose,
    disclose_matching,
    disclose_shift,
    disclose_summary,
    disclose_trials,
    disclose_validation,
    shown_count,
)
from tdrop.report import render_report, report_summary
from tdrop.report.extract import LABEL_COUNTS, rows_sentence
from tdrop.report.sentences import label_sentences, matching_sentences, shift_sentence
from tdrop.report.words import changes, things_to_know, use_sentence

POLICY = Disclosure(threshold=10)
EXEMPT = Disclosure(threshold=10, exempt=True)


def make_validation(read: int, quarantined: int, duplicates: int, count: int | None = None) -> dict[str, Any]:
    count = quarantined if count is None else count
    words = "PSA: {count} of {total} values are outside 0 to 10,000 ng/mL"
    finding = {"rule": "psa.range", "column": "psa", "severity": "row_critical", "count": count, "total": read,
               "words": words, "fix": "check its unit", "sure": "certain"}  # fmt: skip
    return {"read": read, "used": read - quarantined - duplicates, "quarantined": quarantined,
            "duplicates": duplicates, "findings": [finding], "stopped": False}  # fmt: skip


def test_a_finding_is_told_with_what_is_left_of_its_counts() -> None:
    shown = disclose_validation(make_validation(1004, 100, 50, count=4), POLICY)
    (finding,) = shown["findings"]
    assert finding["sentence"] == "PSA: <10 of 1,000 values are outside 0 to 10,000 ng/mL"


def test_a_fact_about_the_file_stays_readable() -> None:
    validation = make_validation(1004, 100, 50)
    missing = Finding("stage.present", "stage", "table_stop", 1, 1004, "column 'stage' is missing", about="file")
    shown = disclose_validation({**validation, "findings": [missing.to_dict()]}, POLICY)
    assert shown["findings"][0]["sentence"] == "column 'stage' is missing"


def feature(name: str, kind: str, column: str, target: list[int], source: list[int]) -> dict[str, Any]:
    edges = [-0.5 + index for index in range(len(target) + 1)]
    means = [counts[-1] / sum(counts) for counts in (source, target)]
    return {"feature": name, "column": column, "kind": kind, "source_mean": means[0], "target_mean": means[1],
            "pooled_sd": 0.1, "smd": 0.2, "distance": 0.1, "distance_kind": "total_variation",
            "missing_difference": None, "outside_range": 0.0, "note": "",
            "density": {"edges": edges, "source": source, "target": target}}  # fmt: skip


def make_shift(**changes: Any) -> dict[str, Any]:
    features = [
        feature("stage=T1", "level", "stage", [300, 100], [500, 500]),
        feature("stage=T2", "level", "stage", [103, 297], [500, 500]),
        feature("stage=T3", "level", "stage", [397, 3], [1000, 0]),
        feature("smoker", "binary", "smoker", [200, 200], [600, 400]),
        {**feature("age", "continuous", "age", [3, 197, 195, 5], [250] * 4), "outside_range": 3 / 400},
    ]
    shift = {"source": "a", "target": "b", "source_rows": 1000, "target_rows": 400, "verdict": "go",
             "reason": "0.8% of the target patients have fewer than 10 source patients like them.",
             "outside_overlap": 3 / 400, "features": features, "propensity": None, "weights_capped_share": 0.2,
             "drivers": [{"column": "stage", "auroc_drop": 0.1, "largest_smd": 0.2, "distance": 0.1}],
             "notes": []}  # fmt: skip
    return {**shift, **changes}


def test_shares_of_few_patients_leave_a_shift() -> None:
    shown = disclose_shift(make_shift(), POLICY)
    rows = {row["feature"]: row for row in shown["features"]}
    assert rows["stage=T3"]["target_mean"] is None
    assert rows["stage=T3"]["smd"] is None
    assert rows["stage=T2"]["target_mean"] == 300 / 400, "a quotient of rounded counts"
    assert rows["stage=T2"]["smd"] == pytest.approx(0.25 / ((0.75 * 0.25 + 0.25) / 2) ** 0.5)
    assert rows["smoker"]["target_mean"] == 0.5
    assert rows["age"]["density"]["target"] == [None, 200, 200, None]
    assert rows["age"]["outside_range"] is None
    assert shown["outside_overlap"] is None
    assert (shown["reason"], shown["notes"]) == ("", [])


def test_a_mean_is_too_coarse_to_count_a_bar_by() -> None:
    lone = make_shift(features=[feature("age", "continuous", "age", [3, 190, 207], [300] * 3)])
    (shown,) = disclose_shift(lone, POLICY)["features"]
    assert shown["density"]["target"] == [None, 190, 210]
    assert shown["target_mean"] != lone["features"][0]["target_mean"]


def test_matching_leaves_without_rows_and_without_hidden_features() -> None:
    balance = [{"feature": name, "before": 0.3, "after": 0.1} for name in ("stage=T3", "smoker")]
    matching = {"rows": [1, 2, 3], "balance": balance, "retained": 103, "wanted": 104, "overlap": 0.5,
                "effective_n": 57.3, "fallback": "only 3 of 100 source rows lie within the caliper"}  # fmt: skip
    shown = disclose_matching(matching, disclose_shift(make_shift(), POLICY), POLICY)
    assert (shown["rows"], shown["fallback"]) == ([], None)
    assert (shown["retained"], shown["effective_n"]) == (100, 60)
    assert shown["balance"][0] == {"feature": "stage=T3", "before": None, "after": None}
    assert shown["balance"][1]["after"] == 0.1


def test_trials_lose_few_errors() -> None:
    trials = [{"errors": 4, "n": 200, "error_auroc": 0.9, "log_loss": 0.1, "losses": {"a": 1}},
              {"errors": 40, "n": 200, "error_auroc": 0.7, "log_loss": 0.2, "losses": None}]  # fmt: skip
    few, enough = disclose_trials(trials, POLICY)
    assert (few["errors"], few["error_auroc"], few["log_loss"]) == ("<10", None, 0.1)
    assert "losses" not in few
    assert (enough["errors"], enough["error_auroc"]) == (40, 0.7)


def test_summary_of_an_undisclosed_report_is_reduced_to_what_is_safe() -> None:
    summary = {"patients": 400, "referred": 4, "labelled": 397, "outcomes": 100, "use": "4 patients", "things": ["4"],
               "reason": "0.8%", "auroc": 0.8,
               "methods": [{"method": "m", "referrals": 3, "inpt": 2, "auroc": 0.8}]}  # fmt: skip
    shown = disclose_summary(summary, POLICY)
    assert (shown["referred"], shown["labelled"], shown["use"], shown["things"]) == ("<10", 400, "", [])
    assert shown["methods"][0]["referrals"] == "<10"
    assert "4 patients" not in json.dumps(shown)


# The whole report ---------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def secret_report() -> Any:
    """A site with small counts wherever a report counts anything."""
    data = report_data(
        target_rows=300, source_rows=1500, methods=("mc_dropout", "logistic_regression"), method="mc_dropout"
    )
    validation = make_validation(303, 3, 0)
    labels = {"known": 300, "missing": 0, "unknown_ids": 7, "duplicates": 0, "sentences": ["7 unknown"]}
    return replace(data, validation=validation, source_validation=validation, labels=labels, previous=None)


def test_export_is_readable_and_holds_no_small_count(secret_report: Any) -> None:
    shown = disclose(secret_report, POLICY)
    page = render_report(shown)
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
    assert "7 unknown" not in page
    assert not re.search(r"(?<![\d.])303(?!\d)", text), "rows read less rows used are the rows set aside"
    assert disclose(secret_report, EXEMPT) is secret_report


def test_no_sentence_of_the_export_holds_a_small_count(secret_report: Any) -> None:
    """Every count of every record is 1 to 9 in turn, and no sentence of the page says so."""
    for few in (3, 7, 9):
        labels = dict.fromkeys(LABEL_COUNTS, few)
        matching = {**secret_report.matching, "retained": few, "wanted": few, "caliper": None}
        finding = {**make_validation(303, few, few)["findings"][0], "others": {"conflicting": few},
                   "words": "{count} of {total} rows repeat a patient, {conflicting} differ"}  # fmt: skip
        validation = {**make_validation(303, few, few), "findings": [finding]}
        shift = {**secret_report.shift, "outside_overlap": few / 300}
        previous = {"patients": few, "referred": few, "labelled": few, "method_label": "Ensemble", "verdict": "stop"}
        data = replace(secret_report, labels=labels, matching=matching, validation=validation, shift=shift,
                       previous=previous)  # fmt: skip
        shown = disclose(data, POLICY)
        told = [*label_sentences(shown.labels), shift_sentence(shown.shift), *matching_sentences(shown.matching, {}),
                shown.validation["findings"][0]["sentence"], rows_sentence(shown.validation),
                changes(shown, report_summary(shown)), *things_to_know(shown), use_sentence(shown)]  # fmt: skip
        for sentence in told:
            assert not re.search(rf"(?<![\d.,<]){few}(?![\d.,%])", sentence), sentence


def test_an_export_draws_no_curve_of_single_patients(secret_report: Any) -> None:
    page = render_report(disclose(secret_report, POLICY))
    for name in ("calibration-title", "benefit-title", "recalibration-title", "sweep-title"):
        assert name not in page
    assert 'id="table-scores"' in page
    assert "risks-title" in page


def test_summary_of_a_disclosed_report_keeps_its_sentences(secret_report: Any) -> None:
    summary = report_summary(disclose(secret_report, POLICY))
    assert len(summary["things"]) == 3
    json.dumps(summary, allow_nan=False)


def test_figures_of_the_export_draw_no_small_bar(secret_report: Any) -> None:
    """Bars of the risk histogram: heights in patients, read back from the drawing, are 0 or at least ten."""
    from tdrop.figures import draw_risk_histogram

    summary = secret_report.predictions["mc_dropout"][0]
    referred = np.zeros(len(summary.mean), dtype=bool)
    svg = draw_risk_histogram(summary, referred, 0.15, 10)
    heights = [
        abs(float(path[1][1]) - float(path[0][1]))
        for block in re.findall(r'<path d="(M [^"]*?)"[^>]*fill="#0072b2"', svg, flags=re.S)
        if len(path := [pair.split()[1:] for pair in re.findall(r"[ML] [\d.-]+ [\d.-]+", block)][1:3]) == 2
    ]
    counts = np.histogram(summary.mean, np.linspace(0, 1, 21))[0]
    assert (counts[counts > 0] < 10).any(), "the scenario needs a small bar"
    # The last rectangle of that colour is the legend's.
    drawn = np.round(np.array(heights[:-1]) * shown_count(int(counts.max()), 10) / max(heights))
    assert len(drawn[drawn > 0])
    assert (drawn % 10 == 0).all()
