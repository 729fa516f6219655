"""What leaves of validation, shift, matching, trials, labels and summary: rounded numbers, and no sentence.

Sentences are written from what these functions return, by `tdrop.report`; none of them reads a word of prose.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tdrop.contracts.findings import Finding
from tdrop.disclosure.cells import (
    Policy,
    coarse,
    gives_away,
    is_small,
    limit,
    shown_count,
    shown_parts,
    shown_share,
    step_of,
    to_grid,
)

#: Decimals of what rests on no count: enough to read.
DECIMALS = 3


def disclose_validation(validation: Mapping[str, Any], policy: Policy) -> dict[str, Any]:
    """Returns a validation with rounded counts; facts about the file, such as a missing column, stay as they are."""
    threshold = limit(policy)
    if not threshold:
        return dict(validation)
    counts = {name: shown_count(validation[name], threshold) for name in ("read", "used", "quarantined", "duplicates")}
    return {**validation, **counts, "findings": [_finding(item, threshold) for item in validation["findings"]]}


def _finding(item: Mapping[str, Any], threshold: int) -> dict[str, Any]:
    if item.get("about") == "file":
        return dict(item)
    shown = {
        **item,
        "count": shown_count(item["count"], threshold),
        "total": shown_count(item["total"], threshold),
        "others": {name: shown_count(value, threshold) for name, value in item.get("others", {}).items()},
    }
    return Finding.from_dict(shown).to_dict()


def disclose_shift(shift: Mapping[str, Any], policy: Policy) -> dict[str, Any]:
    """Returns a shift with every count rounded and every share and mean no finer than that."""
    threshold = limit(policy)
    if not threshold:
        return dict(shift)
    rows = {"source": int(shift["source_rows"]), "target": int(shift["target_rows"])}
    features = [_feature(item, rows, threshold) for item in shift["features"]]
    _complete(features)
    shown = {
        **shift,
        "reason": "",
        "notes": [],
        "features": features,
        "drivers": [_driver(item, features) for item in shift.get("drivers", ())],
        "propensity": _density(shift.get("propensity"), threshold),
        "domain_auroc": _rested(shift.get("domain_auroc"), threshold),
        "aurocs": [_rested(item, threshold) for item in shift.get("aurocs", ())],
        "permutation": _rested(shift.get("permutation"), threshold),
        "grounds": [_ground(item, threshold) for item in shift.get("grounds", ())],
        **{f"{side}_rows": shown_count(number, threshold) for side, number in rows.items()},
    }
    for name, side in (("outside_overlap", "target"), ("weights_capped_share", "source")):
        if shift.get(name) is not None:
            shown[name] = shown_share(round(shift[name] * rows[side]), rows[side], threshold)
    if shift.get("weights_effective_n") is not None:
        shown["weights_effective_n"] = coarse(shift["weights_effective_n"], threshold)
    return shown


def _rested(item: Mapping[str, Any] | None, threshold: int) -> dict[str, Any] | None:
    """Rounds a record of real numbers and of the rows behind them."""
    if item is None:
        return None
    shown = dict(item)
    for name, value in item.items():
        if name in ("rows_fitted", "source_rows", "target_rows"):
            shown[name] = shown_count(value, threshold)
        elif isinstance(value, float):
            shown[name] = round(value, DECIMALS)
    return shown


def _feature(item: Mapping[str, Any], rows: Mapping[str, int], threshold: int) -> dict[str, Any]:
    shown = {**item, "density": _density(item.get("density"), threshold), "missing_difference": None}
    outside = item.get("outside_range")
    if outside is not None:
        shown["outside_range"] = shown_share(round(outside * rows["target"]), rows["target"], threshold)
    if item.get("kind") == "continuous":
        return shown | _means(item, rows, threshold)
    parts = {side: item.get(f"{side}_mean") for side in rows}
    shares = {
        side: None if mean is None else shown_share(round(mean * rows[side]), rows[side], threshold)
        for side, mean in parts.items()
    }
    return shown | {f"{side}_mean": mean for side, mean in shares.items()} | _difference(shares)


def _means(item: Mapping[str, Any], rows: Mapping[str, int], threshold: int) -> dict[str, float | None]:
    """Means so coarse that moving `threshold` patients by a standard deviation would not show."""
    sd = item.get("pooled_sd") or 1.0
    steps = {side: step_of(number, threshold) for side, number in rows.items()}
    widest = max(steps.values())
    means = {f"{side}_mean": to_grid(item.get(f"{side}_mean"), steps[side] * sd) for side in rows}
    # Four digits of a spread say nothing of a single patient among these many.
    return means | {
        "smd": to_grid(item.get("smd"), widest),
        "distance": to_grid(item.get("distance"), widest),
        "pooled_sd": None if item.get("pooled_sd") is None else float(f"{item['pooled_sd']:.2g}"),
    }


def _difference(shares: Mapping[str, float | None]) -> dict[str, float | None]:
    """What follows from two shown shares; a difference of exact ones would give them away."""
    here, there = shares["target"], shares["source"]
    if here is None or there is None:
        return dict.fromkeys(("source_mean", "target_mean", "pooled_sd", "smd", "distance"))
    pooled = ((here * (1 - here) + there * (1 - there)) / 2) ** 0.5
    smd = 0.0 if here == there else (here - there) / pooled if pooled else None
    return {"pooled_sd": pooled, "smd": smd, "distance": abs(here - there)}


def _complete(features: list[dict[str, Any]]) -> None:
    """Fills in what belongs to a whole column, from what its features show."""
    for item in features:
        if item.get("kind") == "level":
            levels = [one["distance"] for one in features if one["column"] == item["column"] and one["kind"] == "level"]
            item["column_distance"] = None if None in levels else sum(levels) / 2
        missing = [one for one in features if one["column"] == item["column"] and one.get("kind") == "missing"]
        if missing and missing[0]["target_mean"] is not None:
            item["missing_difference"] = missing[0]["target_mean"] - missing[0]["source_mean"]
    for item in features:
        if "column_distance" in item:
            item["distance"] = item.pop("column_distance")


def _driver(item: Mapping[str, Any], features: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    members = [one for one in features if one["column"] == item["column"]]
    smds = [one["smd"] for one in members if one["smd"] is not None]
    distances = [one["distance"] for one in members if one["distance"] is not None]
    shown = {name: round(value, DECIMALS) if isinstance(value, float) else value for name, value in item.items()}
    return shown | {"largest_smd": max(smds, key=abs, default=None), "distance": max(distances, default=None)}


def _ground(item: Mapping[str, Any], threshold: int) -> dict[str, Any]:
    """A ground as rounded counts; what chance allows is left out, since it is known from the others."""
    counts = {name: item.get(name) for name in ("count", "of", "expected")}
    shown = {name: None if value is None else shown_count(round(value), threshold) for name, value in counts.items()}
    return {**item, **shown, "low": None, "high": None}


def _density(density: Mapping[str, Any] | None, threshold: int) -> dict[str, Any] | None:
    """Rounds bars; those of few patients, and what would give them away, are None."""
    if density is None:
        return None
    shown = dict(density)
    for side in ("source", "target"):
        bars = shown_parts(density[side], threshold)
        shown[side] = [None if isinstance(bar, str) else bar for bar in bars]
    return shown


def disclose_matching(matching: Mapping[str, Any], shift: Mapping[str, Any], policy: Policy) -> dict[str, Any]:
    """Returns a matching without its rows; what `shift` (already disclosed) hides of a feature is hidden here too."""
    threshold = limit(policy)
    if not threshold or not matching:
        return dict(matching)
    before = {item["feature"]: item["smd"] for item in shift.get("features", ())}
    step = step_of(min(matching["retained"], _number(shift["target_rows"])), threshold)
    shown: dict[str, Any] = {**matching, "rows": [], "fallback": None}
    shown["balance"] = [_balance(item, before.get(item["feature"]), step) for item in matching.get("balance", ())]
    for name in ("retained", "wanted", "effective_n"):
        if matching.get(name) is not None:
            shown[name] = shown_count(matching[name], threshold)
    rows = _number(shift["target_rows"])
    shown["overlap"] = shown_share(round(matching["overlap"] * rows), rows, threshold) if rows else None
    return shown


def _number(value: int | str) -> int:
    return value if isinstance(value, int) else 0


def _balance(item: Mapping[str, Any], before: float | None, step: float) -> dict[str, Any]:
    if before is None:
        return {name: value if name == "feature" else None for name, value in item.items()}
    shown = {name: to_grid(value, step) if isinstance(value, float) else value for name, value in item.items()}
    return {**shown, "before": before}


def disclose_trials(trials: Sequence[Mapping[str, Any]], policy: Policy) -> list[dict[str, Any]]:
    """Returns trials with rounded counts, without their losses by block."""
    threshold = limit(policy)
    if not threshold:
        return [dict(trial) for trial in trials]
    shown = []
    for trial in trials:
        kept = {key: value for key, value in trial.items() if key not in ("losses", "matched_losses")}
        errors, n = trial.get("errors"), trial.get("n")
        if is_small(errors, threshold) or is_small(n, threshold) or gives_away(errors, n, threshold):
            kept["error_auroc"] = None
        if is_small(trial.get("matched_n"), threshold):
            kept["matched_log_loss"] = None
        for name in ("errors", "n", "rows", "matched_n"):
            if trial.get(name) is not None:
                kept[name] = shown_count(trial[name], threshold)
        for name in ("log_loss", "standard_error", "error_auroc", "auroc", "brier", "matched_log_loss"):
            if kept.get(name) is not None:
                kept[name] = round(kept[name], DECIMALS)
        shown.append(kept)
    return shown


def disclose_choice(choice: Mapping[str, Any], policy: Policy) -> dict[str, Any]:
    """Returns a choice with rounded counts; its reason is written anew from its table."""
    threshold = limit(policy)
    if not threshold:
        return dict(choice)
    table = []
    for row in choice.get("table", ()):
        kept = dict(row)
        for name in ("n", "effective_n"):
            if row.get(name) is not None:
                kept[name] = shown_count(row[name], threshold)
        table.append(kept)
    return {**choice, "reason": "", "table": table}


def disclose_labels(labels: Mapping[str, Any], policy: Policy) -> dict[str, Any]:
    """Returns the rounded counts of a label file, without sentences."""
    threshold = limit(policy)
    if not threshold:
        return dict(labels)
    counts = {key: shown_count(value, threshold) for key, value in labels.items() if isinstance(value, int)}
    return {**labels, **counts, "sentences": []}


def disclose_summary(summary: Mapping[str, Any], policy: Policy) -> dict[str, Any]:
    """Returns a report's summary with rounded counts, without the sentences that were made from whole ones.

    `report_summary` of data that were disclosed as a whole keeps its sentences and needs this no more.
    """
    threshold = limit(policy)
    if not threshold:
        return dict(summary)
    shown = {**summary, "reason": "", "use": "", "things": []}
    for key in ("patients", "referred", "labelled", "outcomes"):
        if isinstance(summary.get(key), int | float):
            shown[key] = shown_count(summary[key], threshold)
    reasons = summary.get("reasons") or {}
    shown["reasons"] = {key: shown_count(n, threshold) if isinstance(n, int) else n for key, n in reasons.items()}
    if isinstance(shown.get("outcomes"), str):
        shown["auroc"] = None
    shown["methods"] = [_method(item, threshold) for item in summary.get("methods", ())]
    return shown


def _method(item: Mapping[str, Any], threshold: int) -> dict[str, Any]:
    counts = {
        key: shown_count(item[key], threshold) for key in ("referrals", "referred", "inpt") if item.get(key) is not None
    }
    return {**item, **counts}
