"""Disclosure control, tested by trying to work hidden counts out of what leaves the site."""

from __future__ import annotations

import itertools
import json
import re
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from report_cases import report_data, summarise

from tdrop.contracts.schema import Disclosure
from tdrop.disclosure import (
    disclose,
    disclose_evaluation,
    disclose_labels,
    disclose_matching,
    disclose_rows,
    disclose_shift,
    disclose_summary,
    disclose_trials,
    disclose_validation,
    protect,
    space_out,
)
from tdrop.evaluate import ALL, METRICS, Evaluation, Row, evaluate
from tdrop.report import render_report, report_summary

POLICY = Disclosure(threshold=10)
EXEMPT = Disclosure(threshold=10, exempt=True)


def solutions(counts: list[int], small: set[int], beside: set[int], threshold: int) -> list[tuple[int, ...]]:
    """Everything that a reader who knows the rule holds possible: the hidden counts that add up to their sum."""
    total = sum(counts[index] for index in small | beside)
    order = sorted(small) + sorted(beside)
    ranges = [range(1, threshold) for _ in small]
    ranges += [[0, *range(threshold, total + 1)] for _ in beside]
    return [values for values in itertools.product(*ranges) if sum(values) == total] if order else []


@settings(max_examples=300, deadline=None)
@given(st.lists(st.integers(0, 25), min_size=1, max_size=4))
def test_no_small_count_can_be_worked_out_of_a_sum(counts: list[int]) -> None:
    small, beside = protect(counts, 5)
    assert small == {index for index, value in enumerate(counts) if 0 < value < 5}
    assert not small & beside
    shown = set(range(len(counts))) - small - beside
    if not small or not shown:
        return  # nothing to protect, or nothing left that could be hidden beside it
    possible = solutions(counts, small, beside, 5)
    for place in range(len(small)):
        assert len({values[place] for values in possible}) > 1


def test_protect_hides_the_one_count_that_would_give_it_away() -> None:
    assert protect([3, 50, 20], 10) == ({0}, {2})
    assert protect([3, 4, 50], 10) == ({0, 1}, set())
    assert protect([1, 1, 50], 10) == ({0, 1}, {2})
    assert protect([30, 50, 0], 10) == (set(), set())
    assert protect([3, 10, 500], 10) == ({0}, {1})
    assert protect([1, 10, 500], 10) == ({0}, {1, 2}), "11 = 1 + 10 alone has one solution"


def test_a_curve_tells_of_no_small_gain() -> None:
    first, second = [0.0, 3, 12, 14, 30, 41, 41], [0.0, 20, 40, 60, 61, 90, 120]
    kept = space_out(first, second, 10)
    ends = [(0.0, 0.0), *((first[i], second[i]) for i in kept), (first[-1], second[-1])]
    for before, after in itertools.pairwise(ends):
        assert all(gain == 0 or gain >= 10 for gain in np.subtract(after, before))
    assert len(kept) > 2


# Rows of an evaluation ----------------------------------------------------------------------------


def draw(rows: int = 400, wrong: int = 40, seeds: int = 2, outcomes: int | None = None) -> tuple[Any, np.ndarray]:
    """Predictions of two methods with a chosen number of errors."""
    random = np.random.default_rng(0)
    y = (np.arange(rows) % 3 == 0).astype(float) if outcomes is None else (np.arange(rows) < outcomes).astype(float)
    found = {}
    for method, extra in (("mc_dropout", 0), ("logistic_regression", 25)):
        flipped = np.zeros(rows, dtype=bool)
        flipped[random.permutation(rows)[: wrong + extra]] = True
        sign = np.where((y == 1) != flipped, 1.0, -1.0)
        found[method] = [
            summarise(sign * random.uniform(0.3, 3, rows), random.uniform(0.2, 0.9, rows)) for _ in range(seeds)
        ]
    return found, y


def assess(predictions: Any, y: np.ndarray | None, groups: Any = None) -> Evaluation:
    decision = type("Decision", (), {"risk_level": 0.15, "threshold": 0.5, "interval_level": 0.95, "capacity": 0.1})()
    seeds = range(len(next(iter(predictions.values()))))
    return evaluate("a", predictions, y, decision, seeds=seeds, bootstrap=20, subgroups=groups)


def attack(shown: Evaluation) -> dict[tuple[str, str, str], set[int]]:
    """Works counts out of an export: values, ratios times n, means over seeds, sums over groups, differences."""
    found: dict[tuple[str, str, str], set[int]] = {}

    def learn(method: str, what: str, group: str, value: float) -> None:
        found.setdefault((method, what, group), set()).add(round(value))

    numbers = re.compile(r"(\d[\d,]*) (?:errors|outcomes|without)")
    for row in shown.rows:
        for text in numbers.findall(row.note):
            learn(row.method, "note", row.group, int(text.replace(",", "")))
        if row.events is not None:
            learn(row.method, row.metric, row.group, row.events)
        if row.value is None:
            continue
        if METRICS[row.metric].shape == "count":
            learn(row.method, row.metric, row.group, row.value)
        elif row.n is not None and row.metric.startswith(("outcome_rate", "error_rate", "retained_error")):
            learn(row.method, row.metric, row.group, row.value * row.n)
    _from_differences(shown, learn)
    _from_groups(shown, learn)
    return found


def _from_differences(shown: Evaluation, learn: Any) -> None:
    for row in shown.rows:
        if row.metric == "error_rate_difference" and row.value is not None and row.n is not None:
            reference = shown.row(row.note.removeprefix("minus "), "error_rate")
            if reference is not None and reference.value is not None:
                learn(row.method, "error_rate", row.group, (row.value + reference.value) * row.n)


def _from_groups(shown: Evaluation, learn: Any) -> None:
    """The one missing group of a title is the total less the others."""
    titles = {group.split(": ")[0] for group in shown.groups}
    for method, title in itertools.product(shown.methods, titles):
        groups = [group for group in shown.groups if group.startswith(f"{title}: ")]
        for metric in ("patients", "referrals", "referred"):
            _missing(shown, method, metric, groups, learn)


def _missing(shown: Evaluation, method: str, metric: str, groups: list[str], learn: Any) -> None:
    total = shown.value(method, metric)
    values = {group: shown.value(method, metric, group=group) for group in groups}
    unknown = [group for group, value in values.items() if value is None]
    if total is not None and len(unknown) == 1:
        learn(method, metric, unknown[0], total - sum(value for value in values.values() if value is not None))


def small_counts(evaluation: Evaluation) -> dict[tuple[str, str, str], int]:
    """The counts that must stay hidden."""
    counted = {}
    for row in evaluation.rows:
        value = row.events if row.events is not None else row.value if METRICS[row.metric].shape == "count" else None
        if value is not None and 0 < value < 10:
            counted[row.method, row.metric, row.group] = round(value)
    return counted


def test_few_errors_cannot_be_worked_out() -> None:
    predictions, y = draw(wrong=4)
    evaluation = assess(predictions, y)
    secret = small_counts(evaluation)
    assert ("mc_dropout", "errors", ALL) in secret
    shown = disclose_evaluation(evaluation, POLICY)
    found = attack(shown)
    for key, value in secret.items():
        assert value not in found.get(key, set()), key
    assert 4 not in found.get(("mc_dropout", "error_rate", ALL), set())
    for name in ("errors", "error_rate", "misclassified_sd", "error_auroc_sd", "error_rate_difference"):
        assert shown.value("mc_dropout", name) is None, name
    assert shown.row("mc_dropout", "errors").note == "<10"
    assert shown.value("logistic_regression", "errors") == evaluation.value("logistic_regression", "errors")
    assert shown.value("mc_dropout", "auroc") == pytest.approx(evaluation.value("mc_dropout", "auroc"), abs=5e-4)


def test_nearly_all_wrong_is_as_telling_as_few_wrong() -> None:
    predictions, y = draw(wrong=396)
    shown = disclose_evaluation(assess(predictions, y), POLICY)
    assert shown.value("mc_dropout", "errors") is None


@pytest.mark.parametrize("outcomes", [1, 7, 393, 399])
def test_few_outcomes_take_everything_that_rests_on_them(outcomes: int) -> None:
    predictions, y = draw(outcomes=outcomes)
    evaluation = assess(predictions, y)
    shown = disclose_evaluation(evaluation, POLICY)
    assert shown.outcomes is None
    few = min(outcomes, 400 - outcomes)
    for row in shown.rows:
        if row.metric in ("outcome_rate", "auroc", "brier", "log_loss", "calibration_intercept", "net_benefit"):
            assert row.value is None
        assert not re.search(rf"\b{few}\b", row.note)
    assert not any(re.search(rf"\b{few}\b", warning) for warning in shown.warnings)
    assert any("Fewer than 10" in warning for warning in shown.warnings)
    assert shown.value("mc_dropout", "mean_risk") is not None


@pytest.mark.parametrize("sizes", [(3, 197, 200), (3, 4, 393), (9, 10, 381), (0, 5, 395)])
def test_small_subgroups_cannot_be_worked_out(sizes: tuple[int, ...]) -> None:
    predictions, y = draw()
    groups = {"Stage": np.repeat([f"T{index + 1}" for index in range(3)], sizes)}
    evaluation = assess(predictions, y, groups)
    shown = disclose_evaluation(evaluation, POLICY)
    found = attack(shown)
    secret = small_counts(evaluation)
    assert any(key[2] != ALL for key in secret)
    for key, value in secret.items():
        assert value not in found.get(key, set()), (key, found.get(key))
    for size, group in zip(sizes, ("Stage: T1", "Stage: T2", "Stage: T3"), strict=True):
        if 0 < size < 10:
            rows = [row for row in shown.rows if row.group == group]
            assert all(row.value is None and row.n is None and row.events is None for row in rows)
    hidden = [group for group in evaluation.groups if shown.value("mc_dropout", "patients", group=group) is None]
    assert len(hidden) >= 2, "one hidden group alone is the total less the others"


def test_a_count_hidden_for_one_seed_is_not_left_in_the_mean() -> None:
    def row(seed: int | str, value: float) -> Row:
        return Row("a", "m", seed, "referrals", value, None, None, 400)

    shown = disclose_rows([row(0, 4), row(1, 20), row(ALL, 12)], POLICY)
    assert [item.value for item in shown] == [None, None, None]


def test_referrals_without_the_outcome_are_a_count_too() -> None:
    rows = [
        Row("a", "m", 0, "referrals", 50, None, None, 400),
        Row("a", "m", 0, "inpt", 47, 40, 50, 400, events=47),
        Row("a", "m", 0, "referred", 395, None, None, 400),
    ]
    referrals, inpt, referred = disclose_rows(rows, POLICY)
    assert referrals.value == 50
    assert (inpt.value, inpt.low, inpt.high) == (None, None, None)
    assert referred.value is None


def test_errors_among_the_referred_cannot_be_subtracted() -> None:
    predictions, y = draw(rows=300, wrong=30)
    evaluation = assess(predictions, y)
    shown = disclose_evaluation(evaluation, POLICY)
    for seed in (0, 1):
        left = [shown.row("mc_dropout", "error_rate", seed)]
        left += [shown.row("mc_dropout", f"retained_error_{share}_expected", seed) for share in (5, 10, 20)]
        known = [row.events for row in left if row.events is not None]
        assert len(known) >= 1
        for before, after in itertools.pairwise(known):
            assert before - after == 0 or before - after >= 10


def test_a_few_unknown_outcomes_cannot_be_counted() -> None:
    predictions, y = draw()
    y[:3] = np.nan
    evaluation = assess(predictions, y)
    shown = disclose_evaluation(evaluation, POLICY)
    assert shown.labelled is None
    assert shown.patients == 400
    assert not any(row.n == 397 for row in shown.rows)
    assert not any("397" in warning or "3 " in warning for warning in shown.warnings)
    labels = disclose_labels({"known": 397, "missing": 3, "unknown_ids": 0, "sentences": ["3 are missing"]}, POLICY)
    assert labels == {"known": "hidden", "missing": "<10", "unknown_ids": 0, "sentences": []}


def test_an_exempt_site_shows_everything() -> None:
    predictions, y = draw(wrong=4)
    evaluation = assess(predictions, y)
    assert disclose_evaluation(evaluation, EXEMPT) == evaluation
    assert disclose_rows(evaluation.rows, EXEMPT) == evaluation.rows
    validation = {"read": 103, "used": 100, "quarantined": 3, "duplicates": 0, "findings": []}
    assert disclose_validation(validation, EXEMPT) == validation


def test_disclosed_evaluation_is_still_a_valid_file() -> None:
    predictions, y = draw(wrong=4)
    y[:3] = np.nan
    shown = disclose_evaluation(assess(predictions, y, {"Stage": np.repeat(["T1", "T2"], [3, 397])}), POLICY)
    assert Evaluation.from_dict(json.loads(json.dumps(shown.to_dict(), allow_nan=False))) == shown


# Other documents ----------------------------------------------------------------------------------


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
