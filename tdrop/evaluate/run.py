"""Evaluates every method of a site on the same patients and the same resamples, and lists its patients."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from tdrop.base import DataError, Indices, Mask, Summary, by_first_number
from tdrop.contracts import Decision
from tdrop.data import CensoringModel
from tdrop.evaluate.numbers import (
    KnownOutcomes,
    difference_rows,
    resample_all,
    rows_with_outcomes,
    rows_without_outcomes,
)
from tdrop.evaluate.records import Evaluation
from tdrop.metrics import has_spread, likeliest, refer

#: The method whose results the others are compared with, where it was run.
REFERENCE_METHOD = "logistic_regression"
#: Up to this many patients every resample has censoring weights of its own.
MOST_REFITTED = 5_000


def evaluate_methods(
    site: str,
    predictions: Mapping[str, Sequence[Summary]],
    y: NDArray[Any] | None,
    decision: Decision,
    *,
    seeds: Sequence[int],
    subgroups: Mapping[str, NDArray[Any]] | None = None,
    bootstrap: int = 1000,
    seed: int = 0,
    reference: str = REFERENCE_METHOD,
    unlike: Mask | None = None,
    persons: Indices | None = None,
    weight: NDArray[Any] | None = None,
    tolerance: float = 0.0,
    censoring: CensoringModel | None = None,
) -> Evaluation:
    """Computes every number of a site.

    Args:
        site: Name of the site.
        predictions: By method, one Summary per seed, all of the same patients in the same order.
        y: Outcomes (rows,), NaN where unknown; None without labels.
        decision: The site's risk level, decision threshold, interval level and capacity.
        seeds: The seeds that the summaries belong to.
        subgroups: By title, each patient's group (rows,), for instance {"Age": ["under 60", ...]}.
        bootstrap: Number of patient resamples behind the intervals; 0 leaves them out.
        seed: Seed of the resamples.
        reference: The method that others are compared with on the same resamples.
        unlike: Who is unlike anyone the model learned from (rows,), as `Propensity.unlike`.
        persons: Whose row it is (rows,), where a person has several: they are resampled together.
        weight: For how many patients each known outcome stands (rows,); None where all count alike.
        tolerance: Of a continuous outcome, by how much a prediction may be off before it counts as an error.
        censoring: What the weights were made from; with it, and up to MOST_REFITTED patients, they are made anew for
            every resample, so that intervals hold that the chances of leaving are estimated too.
    """
    rows = _check(site, predictions, y, seeds)
    groups = _group_rows(subgroups, rows)
    task = next(iter(predictions.values()))[0].task
    labels = None
    if y is not None and np.isfinite(y).any():
        known = np.flatnonzero(np.isfinite(y))
        labels = KnownOutcomes(
            rows=known,
            y=np.asarray(y, dtype=np.float64)[known],
            resamples=bootstrap,
            seed=seed,
            persons=None if persons is None else persons[known],
            weight=None if weight is None else np.asarray(weight, dtype=np.float64)[known],
            tolerance=tolerance,
            task=task,
            censoring=censoring if weight is not None and rows <= MOST_REFITTED else None,
        )
    tidy = {
        method: rows_without_outcomes(site, method, summaries, decision, seeds, groups, unlike)
        for method, summaries in predictions.items()
    }
    if labels is not None:
        numbers = resample_all(predictions, labels, decision, groups, unlike)
        for method, summaries in predictions.items():
            tidy[method] += rows_with_outcomes(site, method, summaries, numbers[method], seeds)
            if reference in numbers and method != reference:
                tidy[method] += difference_rows(site, method, reference, numbers, labels)
    # The settings that matter to the numbers: without a risk there is no level to act at.
    levels = ("risk_level", "threshold") if task == "binary" else ()
    settings = {name: getattr(decision, name) for name in (*levels, "interval_level", "capacity")}
    return Evaluation(
        site=site,
        seeds=tuple(int(s) for s in seeds),
        patients=rows,
        labelled=0 if labels is None else len(labels.y),
        outcomes=None if labels is None or task != "binary" else labels.events,
        decision=settings | ({"tolerance": tolerance} if tolerance else {}),
        rows=tuple(row for rows_of_method in tidy.values() for row in rows_of_method),
    )


def _check(
    site: str, predictions: Mapping[str, Sequence[Summary]], y: NDArray[Any] | None, seeds: Sequence[int]
) -> int:
    if not predictions:
        raise DataError(f"site '{site}': no method left predictions to evaluate; train at least one")
    lengths = {len(summary.mean) for summaries in predictions.values() for summary in summaries}
    if y is not None:
        lengths.add(len(y))
    if len(lengths) != 1:
        raise DataError(
            f"site '{site}': predictions and outcomes cover {sorted(lengths)} patients; give one per patient"
        )
    for method, summaries in predictions.items():
        if len(summaries) != len(seeds):
            raise DataError(f"site '{site}', method '{method}': {len(summaries)} predictions for {len(seeds)} seeds")
    return lengths.pop()


def _group_rows(subgroups: Mapping[str, NDArray[Any]] | None, rows: int) -> dict[str, Indices]:
    groups: dict[str, Indices] = {}
    for title, members in (subgroups or {}).items():
        labels = np.asarray(members, dtype=object)
        if labels.shape != (rows,):
            raise DataError(f"subgroup '{title}' covers {len(labels):,} patients and {rows:,} were predicted")
        for label in sorted({str(label) for label in labels}, key=by_first_number):
            groups[f"{title}: {label}"] = np.flatnonzero(labels.astype(str) == label)
    return groups


def patients_table(
    ids: NDArray[Any],
    summary: Summary,
    decision: Decision,
    unlike: Mask | None = None,
    moved_by: Sequence[str] | None = None,
    classes: Sequence[str] = (),
) -> pd.DataFrame:
    """Returns id, risk, sd, low, high, refer, why and moved_by, one row per patient in the order given.

    Of several classes the likeliest one and a column `p_<class>` for each stand in place of risk and interval; of a
    continuous outcome the value in place of the risk.

    Args:
        ids: Patient identifiers (rows,).
        summary: Predictions of the first seed.
        decision: The site's level, interval level and capacity.
        unlike: Who is unlike anyone the model learned from (rows,); nobody where that is not known.
        moved_by: What moves each risk most (rows,); without it there is no such column.
        classes: Names of the classes, where the outcome has several.
    """
    if len(ids) != len(summary.mean):
        raise DataError(f"{len(ids):,} patients but {len(summary.mean):,} predictions; give one prediction per patient")
    referrals = refer(summary, decision, unlike)
    cost = "loss" if summary.task == "binary" else "error"
    reasons = {
        f"interval reaches the {decision.risk_level:.0%} risk level": referrals.by_level,
        f"among the {decision.capacity:.0%} with most expected {cost}": referrals.by_capacity,
        "unlike anyone the model learned from": referrals.unlike,
    }
    why = [
        "; ".join(reason for reason, mask in reasons.items() if mask[row]) if referrals.referred[row] else ""
        for row in range(len(ids))
    ]
    return pd.DataFrame(
        {
            "id": ids,
            **prediction_columns(summary, decision.interval_level, classes),
            "refer": referrals.referred,
            "why": why,
            **({} if moved_by is None else {"moved_by": list(moved_by)}),
        }
    )


def prediction_columns(summary: Summary, level: float, classes: Sequence[str] = ()) -> dict[str, NDArray[Any]]:
    """Returns by column what each patient is told (rows,): risk or value with sd and interval, or class and chances.

    Without spread, sd and interval are NaN.
    """
    nothing = np.full(len(summary.mean), np.nan)
    spread = has_spread(summary)
    sd = summary.sd.astype(np.float64) if spread else nothing
    if summary.task == "classes":
        chances = {f"p_{name}": summary.mean[:, place].astype(np.float64) for place, name in enumerate(classes)}
        return {"class": np.asarray(classes, dtype=object)[likeliest(summary.mean)], **chances, "sd": sd}
    low, high = (end.astype(np.float64) if spread else nothing for end in summary.interval(level))
    name = "risk" if summary.task == "binary" else "value"
    return {name: summary.mean.astype(np.float64), "sd": sd, "low": low, "high": high}
