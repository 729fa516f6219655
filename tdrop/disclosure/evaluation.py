"""Hides the numbers of an evaluation that rest on few patients."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import replace

from tdrop.disclosure.cells import HIDDEN, Policy, gives_away, is_small, limit, mark, protect
from tdrop.evaluate import ALL, METRICS, Evaluation, Row
from tdrop.evaluate.catalogue import SHARES
from tdrop.evaluate.rows import NO_SPREAD

#: A count and the count that holds it: both shown, they give away the rest.
_INSIDE = {"inpt": "referrals"}

#: Decimals of what leaves: enough to read, too few to work a hidden count out of a ratio.
_DECIMALS = 3

_Key = tuple[str, str, str]


def disclose_rows(rows: Sequence[Row], policy: Policy) -> tuple[Row, ...]:
    """Returns the rows with every number hidden that rests on fewer patients than the site allows."""
    threshold = limit(policy)
    if not threshold:
        return tuple(rows)
    hidden = _hidden_keys(rows, threshold)
    partly = _partly_labelled(rows, threshold)
    return tuple(_show(row, _key(row) in hidden, (row.group in partly) and _labelled(row), threshold) for row in rows)


def _key(row: Row) -> _Key:
    return row.method, row.metric, row.group


def _labelled(row: Row) -> bool:
    return row.events is not None


def _hidden_keys(rows: Sequence[Row], threshold: int) -> set[_Key]:
    """Finds what must go; a number that is hidden for one seed is hidden for all, and so is their mean."""
    counts = {(*_key(row), row.seed): row.value for row in rows if METRICS[row.metric].shape == "count"}
    hidden = {_key(row) for row in rows if _rests_on_few(row, counts, threshold)}
    hidden |= _beside(rows, threshold) | _steps(rows, threshold)
    groups = {(method, group) for method, metric, group in hidden if metric == "patients"}
    hidden |= {_key(row) for row in rows if (row.method, row.group) in groups}
    return hidden | _differences(rows, hidden)


def _rests_on_few(row: Row, counts: dict[tuple[str, str, str, int | str], float | None], threshold: int) -> bool:
    if is_small(row.n, threshold):
        return True
    if row.events is not None and (is_small(row.events, threshold) or gives_away(row.events, row.n, threshold)):
        return True
    if METRICS[row.metric].shape != "count" or row.value is None:
        return False
    if is_small(row.value, threshold) or (row.metric != "patients" and gives_away(row.value, row.n, threshold)):
        return True
    whole = _INSIDE.get(row.metric)
    return whole is not None and gives_away(row.value, counts.get((row.method, whole, row.group, row.seed)), threshold)


def _beside(rows: Iterable[Row], threshold: int) -> set[_Key]:
    """Finds subgroups to hide because they add up to a known number of patients or events."""
    tables: dict[tuple[str, str, str, str], list[tuple[_Key, int]]] = defaultdict(list)
    for row in rows:
        if row.group == ALL:
            continue
        title = row.group.split(": ")[0]
        if METRICS[row.metric].shape == "count" and row.value is not None:
            tables[row.method, row.metric, title, "value"].append((_key(row), round(row.value)))
        if row.events is not None and row.n is not None:
            tables[row.method, row.metric, title, "events"].append((_key(row), row.events))
            tables[row.method, row.metric, title, "others"].append((_key(row), row.n - row.events))
    hidden = set()
    for cells in tables.values():
        _, beside = protect([value for _, value in cells], threshold)
        hidden |= {cells[index][0] for index in beside}
    return hidden


def _steps(rows: Iterable[Row], threshold: int) -> set[_Key]:
    """Finds retained errors that, set against the one before, tell how few errors the referred patients held."""
    events = {(row.method, row.metric, row.seed): row.events for row in rows if row.group == ALL}
    hidden: set[_Key] = set()
    for by in ("expected", "sd"):
        names = [f"retained_error_{100 * part:.0f}_{by}" for part in SHARES]
        for method, seed in {(method, seed) for method, metric, seed in events if metric == names[0]}:
            before = events.get((method, "error_rate", seed))
            for name in names:
                here = events.get((method, name, seed))
                if before is not None and here is not None and is_small(before - here, threshold):
                    hidden.add((method, name, ALL))
                else:
                    before = here
    return hidden


def _differences(rows: Iterable[Row], hidden: set[_Key]) -> set[_Key]:
    """Finds differences to a reference of which one side is hidden."""
    found = set()
    for row in rows:
        if row.metric.endswith("_difference"):
            metric, reference = row.metric.removesuffix("_difference"), row.note.removeprefix("minus ")
            if (row.method, metric, row.group) in hidden or (reference, metric, row.group) in hidden:
                found.add(_key(row))
    return found


def _partly_labelled(rows: Iterable[Row], threshold: int) -> set[str]:
    """Finds groups of which all but a few patients have a known outcome: there, how many is hidden."""
    everyone = {row.group: row.n for row in rows if row.metric == "patients"}
    known = {row.group: row.n for row in rows if row.metric == "outcome_rate"}
    return {group for group, n in known.items() if gives_away(n, everyone.get(group), threshold)}


def _show(row: Row, hide: bool, hide_n: bool, threshold: int) -> Row:
    n = None if hide_n else row.n
    if hide:
        small = METRICS[row.metric].shape == "count" and is_small(row.value, threshold)
        note = row.note if row.note == NO_SPREAD else mark(threshold) if small else HIDDEN
        few = is_small(row.n, threshold) or row.metric == "patients"
        return replace(row, value=None, low=None, high=None, seed_sd=None, events=None, n=None if few else n, note=note)
    digits = 1 if METRICS[row.metric].shape == "count" else _DECIMALS
    return replace(
        row,
        value=_round(row.value, digits),
        low=_round(row.low, digits),
        high=_round(row.high, digits),
        seed_sd=_round(row.seed_sd, digits),
        n=n,
        events=None if hide_n else row.events,
    )


def _round(value: float | None, digits: int) -> float | None:
    return None if value is None else round(value, digits)


def disclose_evaluation(evaluation: Evaluation, policy: Policy) -> Evaluation:
    """Returns the evaluation with small counts hidden."""
    threshold = limit(policy)
    if not threshold:
        return evaluation
    rows = disclose_rows(evaluation.rows, policy)
    labelled, outcomes = evaluation.labelled, evaluation.outcomes
    few = outcomes is not None and (is_small(outcomes, threshold) or gives_away(outcomes, labelled, threshold))
    unknown = gives_away(labelled, evaluation.patients, threshold)
    return replace(
        evaluation,
        rows=rows,
        patients=None if is_small(evaluation.patients, threshold) else evaluation.patients,
        outcomes=None if few or unknown else outcomes,
        labelled=None if unknown else labelled,
        warnings=_warn(evaluation, few, unknown, threshold),
    )


def _warn(evaluation: Evaluation, few: bool, unknown: bool, threshold: int) -> tuple[str, ...]:
    """Rewrites sentences that hold a hidden count."""
    if not few and not unknown:
        return evaluation.warnings
    told = []
    if few:
        told.append(f"Fewer than {threshold} patients had the outcome, or did not: too few to judge the model by.")
    if unknown:
        told.append(f"The outcome is known for all but fewer than {threshold} patients.")
    return tuple(told)
