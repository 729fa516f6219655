"""Disclosure of documents and of the whole report: what leaves holds no small count and no way to one."""

from __future__ import annotations

import itertools
import json
import re
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from report_cases import report_data

from tdrop.contracts.schema import Disclosure
from tdrop.disclosure import (
    disclose,
    disclose_matching,
    disclose_shift,
    disclose_summary,
    disclose_trials,
    disclose_validation,
)
from tdrop.report import render_report, report_summary

POLICY = Disclosure(threshold=10)
EXEMPT = Disclosure(threshold=10, exempt=True)


def make_validation(read: int, quarantined: int, duplicates: int, count: int | None = None) -> dict[str, Any]:
    count = quarantined if count is None else count
    sentence = f"PSA: {count:,} of {read:,} values are outside 0 to 10,000 ng/mL"
    finding = {"rule": "psa.range", "column": "psa", "severity": "row_critical", "count": count, "total": read,
               "sentence": sentence, "fix": "check its unit", "sure": "certain"}  # fmt: skip
    return {"read": read, "used": read - quarantined - duplicates, "quarantined": quarantined,
            "duplicates": duplicates, "findings": [finding], "stopped": False}  # fmt: skip


@pytest.mark.parametrize(
    ("quarantined", "duplicates"), [(3, 0), (0, 3), (3, 4), (1, 1), (9, 9), (3, 40), (40, 3), (1, 10)]
)
def test_set_aside_rows_cannot_be_worked_out(quarantined: int, duplicates: int) -> None:
    validation = make_validation(1234, quarantined, duplicates)
    shown = disclose_validation(validation, POLICY)
    parts = {"quarantined": quarantined, "duplicates": duplicates}
    assert shown["used"] == validation["used"]
    for name, value in parts.items():
        if 0 < value < 10:
            assert shown[name] == "<10"
    if shown["read"] == 1234:
        # The sum of the two is known: every small one must still have two possible values.
        total = quarantined + duplicates
        ranges = [[v] if isinstance(v, int) else range(1, 10) if v == "<10" else [0, *range(10, total + 1)]
                  for v in (shown["quarantined"], shown["duplicates"])]  # fmt: skip
        possible = [pair for pair in itertools.product(*ranges) if sum(pair) == total]
        for place, value in enumerate(parts.values()):
            assert not 0 < value < 10 or len({pair[place] for pair in possible}) > 1
    else:
        text = json.dumps(shown)
        assert "1,234" not in text
        assert "1234" not in text


def test_findings_lose_small_counts_and_their_sentences() -> None:
    shown = disclose_validation(make_validation(1000, 100, 50, count=4), POLICY)
    (finding,) = shown["findings"]
    assert finding["count"] == "<10"
    assert finding["sentence"] == "psa.range: in <10 rows"
    shown = disclose_validation(make_validation(1000, 100, 50, count=996), POLICY)
    assert "996" not in json.dumps(shown["findings"])
    untouched = make_validation(1000, 100, 50, count=40)
    assert disclose_validation(untouched, POLICY) == untouched


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
    hidden = [name for name, row in rows.items() if row["column"] == "stage" and row["target_mean"] is None]
    assert len(hidden) == 2, "the levels' shares add up to one"
    assert all(rows[name]["smd"] is None and rows[name]["density"] is None for name in hidden)
    assert rows["smoker"]["target_mean"] == 0.5
    assert rows["age"]["density"]["target"] == [None, 197, 195, None]
    assert rows["age"]["density"]["source"] == [250] * 4
    assert rows["age"]["outside_range"] is None
    assert shown["outside_overlap"] is None
    assert "0.8%" not in shown["reason"]
    assert "fewer than 10 of the target patients" in shown["reason"]
    assert shown["drivers"][0]["largest_smd"] is None


def test_one_small_bar_takes_another_with_it() -> None:
    lone = make_shift(features=[feature("age", "continuous", "age", [3, 190, 207], [300] * 3)])
    bars = disclose_shift(lone, POLICY)["features"][0]["density"]["target"]
    assert bars == [None, None, 207]


def test_matching_leaves_without_rows_and_without_hidden_features() -> None:
    balance = [{"feature": name, "before": 0.3, "after": 0.1} for name in ("stage=T3", "smoker")]
    matching = {"rows": [1, 2, 3], "balance": balance, "retained": 100, "overlap": 0.5,
                "fallback": "only 3 of 100 source rows lie within the caliper"}  # fmt: skip
    shown = disclose_matching(matching, disclose_shift(make_shift(), POLICY), POLICY)
    assert shown["rows"] == []
    assert shown["balance"][0] == {"feature": "stage=T3", "before": None, "after": None}
    assert shown["balance"][1] == balance[1]
    assert "3" not in shown["fallback"]


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
    assert (shown["referred"], shown["labelled"], shown["use"], shown["things"]) == ("<10", "hidden", "", [])
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


def test_stage_t4_of_the_export_cannot_be_worked_out(secret_report: Any) -> None:
    stage = secret_report.target_frame["stage"].to_numpy()
    counts = [int((stage == label).sum()) for label in ("T1", "T2", "T3", "T4")]
    assert 0 < counts[3] < 10, "the scenario needs a small stage"
    shown = disclose(secret_report, POLICY)
    groups = [group for group in shown.evaluation.groups if "stage" in group]
    patients = [shown.evaluation.value("mc_dropout", "patients", group=group) for group in groups]
    assert sum(value is None for value in patients) >= 2
    page = render_report(shown)
    table = page[page.index('id="table-who"') : page.index("</table>", page.index('id="table-who"'))]
    lines = dict(re.findall(r'<th scope="row">([^<]+)</th>(.*?)</tr>', table, flags=re.S))
    here = {name: re.findall(r"<td[^>]*>([^<]*)</td>", cells)[1] for name, cells in lines.items() if "T stage" in name}
    assert sum(value == "hidden" for value in here.values()) >= 2
    assert str(counts[3]) not in [re.sub(r"\D", "", str(value)) for value in patients if value is not None]


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
    drawn = np.round(np.array(heights[:-1]) * counts.max() / max(heights))
    assert len(drawn[drawn > 0])
    assert drawn[drawn > 0].min() >= 10
