"""An exported folder of a drawn site, and what it says, as constraints of the solver in `disclosure_attack`."""

from __future__ import annotations

import base64
import html
import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from disclosure_attack import MOST, Attack
from report_cases import frames, report_data

from tasks.export import write_numbers
from tdrop.data import LabelCounts, subgroups_of
from tdrop.disclosure import disclose, round_step, step_of
from tdrop.evaluate import evaluate_methods
from tdrop.metrics import METRICS, refer
from tdrop.report import ReportData, write_pages

METHODS = ("mc_dropout", "logistic_regression")
METHOD = METHODS[0]
SHARES = (5, 10, 20)
#: Rows of the sites that are attacked in the ordinary run: a small one, one below and one above a few hundred.
SIZES = (47, 133, 317)


def draw_report(seed: int, rows: int) -> ReportData:
    """A site with small counts wherever something is counted; none of its counts is round by design."""
    random = np.random.default_rng(seed)
    data = report_data(
        target_rows=rows, source_rows=600, methods=METHODS, method=METHOD, seeds=1, bootstrap=10, exempt=False
    )
    y = np.asarray(data.y, dtype=np.float64).copy()
    missing = int(random.integers(1, 10))
    y[random.permutation(rows)[:missing]] = np.nan
    target = frames(600, rows)[1]
    evaluation = evaluate_methods(
        "harbour", data.predictions, y, data.site.decision, seeds=range(1), bootstrap=10,
        subgroups=subgroups_of(target, data.contract),
    )  # fmt: skip
    aside, twice = (int(number) for number in random.integers(1, 10, 2))
    labels = LabelCounts(known=rows - missing, missing=missing, unknown_ids=3)
    previous = replace(data.previous, patients=rows - 1, labelled=rows - missing - 1)
    read = rows + aside + twice
    validation = replace(data.validation, read=read, quarantined=aside, duplicates=twice, findings=())
    return replace(data, y=y, evaluation=evaluation, validation=validation, labels=labels, previous=previous)


def write_folder(data: ReportData, folder: Path, *, page: bool = True) -> ReportData:
    shown = disclose(data, data.site.disclosure)
    folder.mkdir()
    write_numbers(shown, folder)
    if page:
        write_pages(shown, folder)
    return shown


def confusion(data: ReportData) -> dict[str, int]:
    """The four cells at the decision level, and what the referred have of the wrong ones."""
    assert data.y is not None
    known, level = np.isfinite(data.y), data.site.decision.risk_level
    summary = data.predictions[METHOD][0]
    acts, y = summary.mean[known] >= level, data.y[known] == 1
    away = refer(summary, data.site.decision, data.unlike).referred[known]
    cells = {"TP": acts & y, "FP": acts & ~y, "FN": ~acts & y, "TN": ~acts & ~y}
    cells |= {"FN away": cells["FN"] & away, "FP away": cells["FP"] & away}
    return {name: int(mask.sum()) for name, mask in cells.items()}


def attack_folder(folder: Path, groups: dict[str, list[str]]) -> Attack:
    attack = Attack()
    rows = json.loads((folder / "evaluation.json").read_text())["rows"]
    shown = {
        (row["metric"], row["group"]): row for row in rows if row["method"] == METHOD and row["seed"] in ("all", 0)
    }
    for (metric, group), row in shown.items():
        where = "" if group == "all" else f" {group}"
        if METRICS[metric].shape == "count":
            attack.learn(f"{metric}{where}", row["value"] if row["value"] is not None else mark_of(row))
        elif metric in ("outcome_rate", "error_rate") and row["value"] is not None:
            attack.learn(f"{metric}{where}", row["value"] * row["n"])
        if group == "all" and metric in ("outcome_rate", "error_rate"):
            attack.learn("known", row["n"])
    learn_the_whole(attack, shown)
    learn_groups(attack, groups)
    learn_extract(attack, json.loads((folder / "validation.json").read_text()))
    learn_shift(attack, json.loads((folder / "shift.json").read_text()))
    if (folder / "details.html").exists():
        page = (folder / "details.html").read_text()
        learn_risk_bars(attack, figures_in(page)["Predicted risks and referrals"])
        learn_table_of_groups(attack, page)
    return attack


def figures_in(page: str) -> dict[str, str]:
    """The drawings of a page by title."""
    drawings = [base64.b64decode(code).decode() for code in re.findall(r"data:image/svg\+xml;base64,([^\"]+)", page)]
    return {html.unescape(re.findall(r"<title>(.*?)</title>", svg)[0]): svg for svg in drawings}


def bars_in(svg: str) -> list[list[float]]:
    """By kind of bar, how high each is in units of the vertical axis, read from where its corners are drawn."""
    ticks = [
        (float(y), float(label))
        for y, label in re.findall(r'<g id="ytick_.*?<use [^>]*y="([\d.]+)".*?>([\d.]+)</text>', svg, flags=re.S)
    ]
    (first, low), (last, high) = ticks[0], ticks[-1]
    kinds: dict[str, list[float]] = {}
    for corners, style in re.findall(r'<path d="(M [^"]*?z\s*)" clip-path="[^"]*" style="fill: ([^";]+)', svg, re.S):
        heights = [float(y) for y in re.findall(r"[ML] [\d.-]+ ([\d.-]+)", corners)]
        kinds.setdefault(style, []).append((max(heights) - min(heights)) * (high - low) / (first - last))
    return list(kinds.values())


def learn_risk_bars(attack: Attack, svg: str) -> None:
    """Bars of risks, by whether a patient is reviewed; an empty one is of few patients or of nobody."""
    for kind, bars in zip(("used", "reviewed"), bars_in(svg), strict=True):
        for place, bar in enumerate(bars):
            assert abs(bar - 10 * round(bar / 10)) < 1e-3, "a bar of other than tens of patients"
            attack.learn(f"{kind} {place}", 10 * round(bar / 10) or None)
        whole = {"patients": 1, "referred first": -1} if kind == "used" else {"referred first": 1}
        attack.require({**whole, **{f"{kind} {place}": -1 for place in range(len(bars))}}, 0, 0)


def learn_table_of_groups(attack: Attack, page: str) -> None:
    """Shares of each category and of each binary feature among all patients, and among those for review."""
    (table,) = re.findall(r'id="table-groups".*?</table>', page, flags=re.S)[:1]
    lines = [
        [html.unescape(re.sub(r"<[^>]+>", "", cell)).strip() for cell in re.findall(r"<t[hd].*?</t[hd]>", line, re.S)]
        for line in re.findall(r"<tr.*?</tr>", table, flags=re.S)[1:]
    ]
    whole = {name: _number(text) for name, text in zip(("all", "review"), (lines[0][2], lines[0][3]), strict=True)}
    attack.learn("patients", whole["all"])
    attack.learn("referred first", whole["review"])
    columns: dict[str, list[str]] = {}
    for name, _, everyone, review in lines[1:]:
        shares = {"all": everyone, "review": review}
        if ", mean" in name:
            continue
        columns.setdefault(name.split(": ")[0], []).append(name)
        for group, share in shares.items():
            if share.endswith("%") and isinstance(whole[group], int):
                attack.learn(f"{group} {name}", float(share[:-1]) / 100 * whole[group])
        attack.require({f"all {name}": 1, f"review {name}": -1}, 0, MOST)
    for names in columns.values():
        for group, total in (("all", "patients"), ("review", "referred first")):
            # Missing values are left out; a binary feature has one line.
            attack.require({total: 1, **{f"{group} {name}": -1 for name in names}}, 0, MOST)


def _number(text: str) -> Any:
    return int(text.replace(",", "")) if text[:1].isdigit() else text


def learn_shift(attack: Attack, shift: dict[str, Any]) -> None:
    """Bars, shares and means of every feature; the bars of each are all patients."""
    rows = shift["target_rows"]
    attack.learn("patients", rows)
    for feature in shift["features"]:
        bars, edges = feature["density"]["target"], feature["density"]["edges"]
        names = [f"{feature['feature']} {place}" for place in range(len(bars))]
        for name, bar in zip(names, bars, strict=True):
            attack.learn(name, bar)
        attack.require({"patients": -1, **dict.fromkeys(names, 1)}, 0, 0)
        mean, sd = feature["target_mean"], feature["pooled_sd"]
        if mean is None or not isinstance(rows, int):
            continue
        if feature["kind"] != "continuous":
            attack.learn(names[-1], mean * rows)
        elif len(bars) <= 12:
            half = round_step(step_of(rows, 10) * (sd or 1.0)) / 2 + 1e-9
            values = [(edges[0] + edges[1]) / 2]
            for edge in edges[1:-1]:
                values.append(2 * edge - values[-1])
            for side, sign in ((-half, 1), (half, -1)):
                weights = {name: sign * value for name, value in zip(names, values, strict=True)}
                attack.require({**weights, "patients": -sign * (mean + side)}, 0, 100 * MOST)


def mark_of(row: dict[str, Any]) -> str | None:
    return row["hidden"] if row["hidden"] == "<10" else None


def learn_the_whole(attack: Attack, shown: dict[Any, dict[str, Any]]) -> None:
    """How the cells, the errors, the benefit and the retained errors hang together."""
    attack.require({"TP": 1, "FN": 1, "outcome_rate": -1}, 0, 0)
    attack.require({"TP": 1, "FN": 1, "FP": 1, "TN": 1, "known": -1}, 0, 0)
    attack.require({"FP": 1, "FN": 1, "error_rate": -1}, 0, 0)
    attack.require({"patients": 1, "known": -1, "missing": -1}, 0, 0)
    for part, whole in (("FN away", "FN"), ("FP away", "FP"), ("inpt", "referrals"), ("inpt", "outcome_rate"),
                        ("referrals", "referred"), ("referred", "patients")):  # fmt: skip
        attack.require({whole: 1, part: -1}, 0, MOST)
    weight = 0.15 / 0.85
    plainly = {"TP": 1.0, "FP": -weight}
    for metric, counted in (
        ("net_benefit", plainly),
        ("net_benefit_refer", {**plainly, "FN away": 1, "FP away": weight}),
    ):
        row = shown[metric, "all"]
        if row["value"] is not None:
            half = step_of(row["n"], 10) / 2 + 1e-9
            attack.require({**counted, "known": -(row["value"] - half)}, 0, MOST)
            attack.require({**counted, "known": -(row["value"] + half)}, -MOST, 0)
    for share in SHARES:
        for by in ("expected", "sd"):
            row, name = shown[f"retained_error_{share}_{by}", "all"], f"{share} {by}"
            attack.require({"error_rate": 1, f"left {name}": -1, f"away {name}": -1}, 0, 0)
            # How many are referred is a setting; rounding up may add one.
            attack.require({"known": share / 100, f"away {name}": -1}, -1, MOST)
            if row["value"] is not None:
                attack.learn(f"left {name}", row["value"] * row["n"])


def learn_groups(attack: Attack, groups: dict[str, list[str]]) -> None:
    for names in groups.values():
        for metric in ("patients", "outcome_rate", "error_rate", "referrals", "referred"):
            attack.require({metric: -1, **{f"{metric} {name}": 1 for name in names}}, 0, 0)
        for name in names:
            for part in ("outcome_rate", "error_rate", "referred"):
                attack.require({f"patients {name}": 1, f"{part} {name}": -1}, 0, MOST)
            attack.require({f"referred {name}": 1, f"referrals {name}": -1}, 0, MOST)


def learn_extract(attack: Attack, validation: dict[str, Any]) -> None:
    for name in ("read", "used", "quarantined", "duplicates"):
        attack.learn("patients" if name == "used" else name, validation[name])
    attack.require({"read": 1, "patients": -1, "quarantined": -1, "duplicates": -1}, 0, 0)


def groups_of(data: ReportData) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for group in data.evaluation.groups:
        found.setdefault(group.split(": ")[0], []).append(group)
    return found
