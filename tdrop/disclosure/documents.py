"""Hides small counts in what the other rooms write: validation, shift, matching, trials, labels, summary."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

from tdrop.disclosure.cells import (
    HIDDEN,
    Policy,
    gives_away,
    hide_parts,
    is_ambiguous,
    is_small,
    limit,
    mark,
    protect,
)


def disclose_validation(validation: Mapping[str, Any], policy: Policy) -> dict[str, Any]:
    """Returns a validation with small counts hidden; read = used + quarantined + duplicates gives none away.

    The rows used are the site's patients and stand in every table, so it is the rows read that are hidden
    where they would tell.
    """
    threshold = limit(policy)
    if not threshold:
        return dict(validation)
    parts = [int(validation["quarantined"]), int(validation["duplicates"])]
    tells = not is_ambiguous(parts, *protect(parts, threshold), threshold)
    quarantined, duplicates = hide_parts(parts, threshold)
    read = HIDDEN if tells else validation["read"]
    findings = [
        _finding(item, threshold, int(validation["read"]) if tells else None) for item in validation["findings"]
    ]
    return {**validation, "read": read, "quarantined": quarantined, "duplicates": duplicates, "findings": findings}


def _finding(finding: Mapping[str, Any], threshold: int, secret: int | None) -> dict[str, Any]:
    """Hides a finding's small count, and the number of rows read where that is hidden."""
    count, total = finding["count"], finding["total"]
    shown = dict(finding)
    if is_small(count, threshold):
        shown |= {"count": mark(threshold), "sentence": f"{finding['rule']}: in {mark(threshold)} rows"}
    elif gives_away(count, total, threshold):
        shown |= {"count": HIDDEN, "sentence": f"{finding['rule']}: in nearly all rows"}
    if secret is not None:
        shown["total"] = HIDDEN if total == secret else total
        shown["sentence"] = re.sub(rf"(?<![\d,]){re.escape(f'{secret:,}')}(?![\d,])", HIDDEN, str(shown["sentence"]))
    return shown


def disclose_shift(shift: Mapping[str, Any], policy: Policy) -> dict[str, Any]:
    """Returns a shift with every share and histogram bar hidden that stands for few patients."""
    threshold = limit(policy)
    if not threshold:
        return dict(shift)
    rows = {"source": int(shift["source_rows"]), "target": int(shift["target_rows"])}
    secret = _secret_features(shift, rows, threshold)
    features = [_feature(item, rows, item["feature"] in secret, threshold) for item in shift["features"]]
    outside = shift.get("outside_overlap")
    shown = {**shift, "features": features, "propensity": _density(shift.get("propensity"), threshold)}
    shown["drivers"] = [
        {**item, "largest_smd": None, "distance": None} if item["column"] in _columns(shift, secret) else item
        for item in shift.get("drivers", ())
    ]
    if _few(shift.get("weights_capped_share"), rows["source"], threshold):
        shown["weights_capped_share"] = None
    for side, number in rows.items():
        shown[f"{side}_rows"] = mark(threshold) if is_small(number, threshold) else number
    if _few(outside, rows["target"], threshold):
        shown["outside_overlap"] = None
        few = f"fewer than {threshold} of the target patients"
        shown["reason"] = re.sub(r"[\d.]+% of the target patients", few, str(shift.get("reason", "")))
    return shown


def _few(part: float | None, rows: int, threshold: int) -> bool:
    """Whether a share stands for few patients, or for all but few."""
    if part is None:
        return False
    count = round(part * rows)
    return is_small(count, threshold) or is_small(rows - count, threshold)


def _columns(shift: Mapping[str, Any], features: set[str]) -> set[str]:
    return {item["column"] for item in shift["features"] if item["feature"] in features}


def _secret_features(shift: Mapping[str, Any], rows: Mapping[str, int], threshold: int) -> set[str]:
    """Finds shares (binary features, levels) that stand for few patients at a site, and what must go beside them."""
    secret: set[str] = set()
    levels: dict[str, list[Mapping[str, Any]]] = defaultdict(list)
    for item in shift["features"]:
        if item.get("kind") == "continuous":
            continue
        if any(_few(item.get(f"{side}_mean"), rows[side], threshold) for side in rows):
            secret.add(item["feature"])
        if item.get("kind") == "level":
            levels[item["column"]].append(item)
    for items in levels.values():
        for side in rows:
            _, beside = protect([round((item.get(f"{side}_mean") or 0) * rows[side]) for item in items], threshold)
            secret |= {items[index]["feature"] for index in beside}
    return secret


def _feature(item: Mapping[str, Any], rows: Mapping[str, int], secret: bool, threshold: int) -> dict[str, Any]:
    shown = {**item, "density": _density(item.get("density"), threshold)}
    if _few(item.get("outside_range"), rows["target"], threshold):
        shown["outside_range"] = None
    if item.get("missing_difference") is not None:
        shown["missing_difference"] = round(item["missing_difference"], 2)
    if secret:
        shown |= dict.fromkeys(("source_mean", "target_mean", "pooled_sd", "smd", "distance", "missing_difference"))
        shown["density"] = None
    return shown


def _density(density: Mapping[str, Any] | None, threshold: int) -> dict[str, Any] | None:
    """Hides bars of few patients, and those beside them, as None."""
    if density is None:
        return None
    shown = dict(density)
    for side in ("source", "target"):
        small, beside = protect(density[side], threshold)
        shown[side] = [None if index in small | beside else value for index, value in enumerate(density[side])]
    return shown


def disclose_matching(matching: Mapping[str, Any], shift: Mapping[str, Any], policy: Policy) -> dict[str, Any]:
    """Returns a matching without its rows; features that `shift` (already disclosed) hides are hidden here too."""
    threshold = limit(policy)
    if not threshold:
        return dict(matching)
    secret = {item["feature"] for item in shift.get("features", ()) if item.get("source_mean") is None}
    balance = [
        {**item, **{key: None for key in item if key != "feature"}} if item["feature"] in secret else dict(item)
        for item in matching.get("balance", ())
    ]
    shown = {**matching, "rows": [], "balance": balance}
    if is_small(matching.get("retained"), threshold):
        shown["retained"] = mark(threshold)
    if isinstance(shift.get("target_rows"), str) or _few(matching.get("overlap"), int(shift["target_rows"]), threshold):
        shown["overlap"] = None
    if any(is_small(int(found), threshold) for found in re.findall(r"\b\d+\b", str(matching.get("fallback") or ""))):
        shown["fallback"] = "too few source patients are like this site's, so another rule picked them"
    return shown


def disclose_trials(trials: Sequence[Mapping[str, Any]], policy: Policy) -> list[dict[str, Any]]:
    """Returns trials with figures hidden that rest on few errors, and without their losses by block."""
    threshold = limit(policy)
    if not threshold:
        return [dict(trial) for trial in trials]
    shown = []
    for trial in trials:
        kept = {key: value for key, value in trial.items() if key not in ("losses", "matched_losses")}
        if is_small(trial.get("errors"), threshold) or gives_away(trial.get("errors"), trial.get("n"), threshold):
            kept |= {"errors": mark(threshold), "error_auroc": None}
        if is_small(trial.get("matched_n"), threshold):
            kept |= {"matched_n": mark(threshold), "matched_log_loss": None}
        shown.append(kept)
    return shown


def disclose_labels(labels: Mapping[str, Any], policy: Policy) -> dict[str, Any]:
    """Returns the counts of a label file with small ones hidden; its sentences hold counts and go with them."""
    threshold = limit(policy)
    if not threshold:
        return dict(labels)
    shown = {key: mark(threshold) if is_small(value, threshold) else value for key, value in labels.items()}
    if any(shown[key] != labels[key] for key in labels):
        shown["sentences"] = []
        # Known and missing add up to the site's patients.
        if shown.get("missing") != labels.get("missing") and "known" in labels:
            shown["known"] = HIDDEN
    return shown


def disclose_summary(summary: Mapping[str, Any], policy: Policy) -> dict[str, Any]:
    """Returns a report's summary with small counts hidden, without the sentences that were made from them.

    `report_summary` of data that were disclosed as a whole keeps its sentences and needs this no more.
    """
    threshold = limit(policy)
    if not threshold:
        return dict(summary)
    shown = dict(summary)
    patients = summary.get("patients")
    for key in ("patients", "referred", "labelled", "outcomes"):
        value = summary.get(key)
        if is_small(value, threshold) or (isinstance(value, int) and gives_away(value, patients, threshold)):
            shown[key] = mark(threshold) if is_small(value, threshold) else HIDDEN
    if shown != dict(summary):
        shown |= {"use": "", "auroc": None}
    shown |= {"reason": "", "things": []}
    shown["methods"] = [_method(item, patients, threshold) for item in summary.get("methods", ())]
    return shown


def _method(item: Mapping[str, Any], patients: Any, threshold: int) -> dict[str, Any]:
    shown = dict(item)
    for key in ("referrals", "inpt"):
        value = item.get(key)
        if is_small(value, threshold) or (isinstance(patients, int) and gives_away(value, patients, threshold)):
            shown[key] = mark(threshold)
    if gives_away(item.get("inpt"), item.get("referrals"), threshold):
        shown["inpt"] = HIDDEN
    return shown
