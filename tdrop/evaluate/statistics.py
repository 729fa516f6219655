"""Turns one method's predictions into numbers, with and without outcomes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tdrop import metrics
from tdrop.evaluate.catalogue import SHARES
from tdrop.evaluate.referrals import (
    Decision,
    capacity_score,
    has_spread,
    refer,
    referred_by_capacity,
    referred_by_level,
    take,
)
from tdrop.metrics.referral import Mask
from tdrop.types import Doubles, Indices, Summary

__all__ = [
    "Decision",
    "capacity_score",
    "has_spread",
    "labelled_statistics",
    "refer",
    "referred_by_capacity",
    "referred_by_level",
    "subgroup_statistics",
    "take",
    "unlabelled_values",
]


def unlabelled_values(summary: Summary, decision: Decision, unlike: Mask | None = None) -> dict[str, Doubles]:
    """Returns, by metric, what each patient adds to a number that needs no outcome (rows,)."""
    found = refer(summary, decision, unlike)
    low, high = summary.interval(decision.interval_level)
    values = {
        "patients": np.ones(len(summary.mean)),
        "mean_risk": summary.mean,
        "predicted_positive": summary.mean >= metrics.CLASS_THRESHOLD,
        "mean_sd": summary.sd,
        "interval_width": high - low,
        "referrals": found.by_level,
        "capacity_referrals": found.by_capacity,
        "unlike_referrals": found.unlike,
        "referred": found.referred,
        "left_out": found.left_out,
    }
    return {name: np.asarray(value, dtype=np.float64) for name, value in values.items()}


def labelled_statistics(summary: Summary, y: Doubles, decision: Decision, referred: Mask) -> list[metrics.Statistic]:
    """Returns every statistic of the patients with known outcomes.

    Args:
        summary: Their predictions.
        y: Their outcomes (rows,).
        decision: What the site decides by.
        referred: Who of them is on the site's referral list (rows,).
    """
    wrong = metrics.misclassified(y, summary.mean)
    risk = summary.mean.astype(np.float64)
    return [
        _sums(summary, y, wrong, decision, referred),
        metrics.RankedPairs.of(y, risk),
        metrics.RankedPairs.of(wrong, risk * (1 - risk), name="error_auroc_risk"),
        metrics.RankedPairs.of(wrong, summary.sd, name="error_auroc_sd"),
        metrics.ResampledCalibration.of(y, risk),
        metrics.MeasuredError.of(y, risk),
    ]


def _sums(summary: Summary, y: Doubles, wrong: Mask, decision: Decision, referred: Mask) -> metrics.Sums:
    risk, one = summary.mean.astype(np.float64), np.ones(len(y))
    plain = np.full(len(y), np.nan)
    _, high = summary.interval(decision.interval_level)
    level, equal = decision.risk_level, metrics.capacity_count(len(y), decision.capacity)
    by_level = referred_by_level(summary, decision)
    stretched = metrics.fewest(metrics.stretch_to_level(risk, high, level), equal)
    closest = metrics.fewest(np.where(risk < level, level - risk, np.inf), equal)
    acted = metrics.misclassified(y, risk, decision.threshold)
    pairs: dict[str, tuple[Any, Any]] = {
        "outcome_rate": (y, one),
        "errors": (wrong, plain),
        "misclassified_sd": (wrong * summary.sd, wrong),
        "inpt": (by_level * y, plain),
        "inpt_equal": (stretched * y, plain),
        "inpt_equal_risk": (closest * y, plain),
        "error_rate": (acted, one),
        "brier": ((risk - y) ** 2, one),
        "log_loss": (metrics.per_row_log_loss(y, risk), one),
        **_retained(summary, acted, decision.threshold),
        "net_benefit": (metrics.per_row_benefit(y, risk, level), one),
        "net_benefit_refer": (metrics.per_row_benefit(y, risk, level, referred), one),
        "labelled_referred": (referred, one),
    }
    tops, bottoms = (np.stack([pair[side] for pair in pairs.values()]).astype(np.float64) for side in (0, 1))
    return metrics.Sums(tuple(pairs), tops, bottoms, int(y.sum()))


def _retained(summary: Summary, wrong: Mask, threshold: float) -> dict[str, tuple[Any, Any]]:
    scores: dict[str, NDArray[Any]] = {"expected": metrics.expected_loss(summary.mean, threshold), "sd": summary.sd}
    kept = {
        f"retained_error_{100 * share:.0f}_{by}": ~metrics.most(score, metrics.capacity_count(len(wrong), share))
        for share in SHARES
        for by, score in scores.items()
    }
    return {name: (mask * wrong, mask) for name, mask in kept.items()}


def subgroup_statistics(
    summary: Summary, y: Doubles, decision: Decision, groups: Mapping[str, Indices]
) -> list[metrics.Statistic]:
    """Returns the statistics of subgroups; their names are `metric@group`.

    Args:
        summary: Predictions of the patients with known outcomes.
        y: Outcomes (rows,).
        decision: What the site decides by.
        groups: By subgroup, its rows.
    """
    risk = summary.mean.astype(np.float64)
    wrong = metrics.misclassified(y, risk, decision.threshold).astype(np.float64)
    names, tops, bottoms, ranked = [], [], [], []
    for group, rows in groups.items():
        member = np.zeros(len(y))
        member[rows] = 1.0
        for name, top in (("outcome_rate", y), ("error_rate", wrong)):
            names.append(f"{name}@{group}")
            tops.append(top * member)
            bottoms.append(member)
        ranked.append(metrics.RankedPairs.of(y, risk, name=f"auroc@{group}", rows=rows))
    if not names:
        return []
    return [metrics.Sums(tuple(names), np.stack(tops), np.stack(bottoms), int(y.sum())), *ranked]
