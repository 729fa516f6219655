"""The watch of a site's champion, in the sealed file `sites/<site>/watch.json`; every champion begins a new one.

`tdrop score` and `tdrop audit` update it. A patient counts once, also if scored twice: an interrupted update can
simply be repeated.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from filelock import FileLock
from numpy.typing import NDArray

from tasks.registry import Champion, find_champion, made_for
from tasks.tracking import version_at
from tdrop.base import Cohort, DataError, Summary, TdropError, Unavailable, UsageError, plain, read
from tdrop.contracts import Contract, Prepared, Site
from tdrop.data import observed_to_horizon, read_labels, subgroups_of
from tdrop.disclosure import limit, to_number
from tdrop.home import SealedFile, Workspace, files, keyed_digest, load_cohort, now
from tdrop.served import CHAMPION, WHEN, Served
from tdrop.watch import (
    Moment,
    WatchState,
    begin_watch,
    describe_patients,
    freeze_scale,
    sorted_doubts,
)

#: The file in the site's folder, and an altered one that was replaced by a new watch.
FILE, ALTERED = "watch.json", "watch-altered.json"


@dataclass(frozen=True)
class Watched:
    """A site's watch with its champion.

    Attributes:
        state: The watch.
        champion: The champion.
        begun_late: Whether the watch began only after the promotion, so that earlier batches are not counted.
    """

    state: WatchState
    champion: Champion
    begun_late: bool = False


def _file(workspace: Workspace, site: str) -> SealedFile:
    return SealedFile(workspace.root, workspace.site(site) / FILE, "state", "watch")


def read_watch(workspace: Workspace, site: str) -> WatchState | None:
    """The site's watch, of any champion; None without one; raises a DataError if it was altered."""
    state = _file(workspace, site).read(site)
    return None if state is None else read(WatchState, state)


def _write(workspace: Workspace, state: WatchState) -> None:
    _file(workspace, state.site).write(plain(state))


@contextmanager
def _alone(workspace: Workspace, site: str) -> Iterator[None]:
    """Lets one process at a time update a site's watch."""
    workspace.site(site).mkdir(parents=True, exist_ok=True, mode=0o700)
    with FileLock(workspace.site(site) / "watch.lock", mode=0o600):
        yield


def begin(workspace: Workspace, site: str) -> WatchState:
    """Begins the watch of the site's champion, unless it has one; called at a promotion or a rollback."""
    champion = find_champion(workspace, site)
    with _alone(workspace, site):
        try:
            current = read_watch(workspace, site)
        except DataError:
            # The altered file is kept for an investigation.
            (workspace.site(site) / FILE).replace(workspace.site(site) / ALTERED)
            current = None
        return _of_champion(workspace, site, champion, current).state


def open_watch(workspace: Workspace, site: str) -> Watched:
    """The watch of the site's champion; begins one if there is none.

    Raises:
        UsageError: The site has no champion.
        DataError: The record was altered.
    """
    champion = find_champion(workspace, site)
    with _alone(workspace, site):
        return _of_champion(workspace, site, champion, read_watch(workspace, site))


def _of_champion(
    workspace: Workspace, site: str, champion: Champion, current: WatchState | None, served: Served | None = None
) -> Watched:
    """The current watch if it is of this champion and promotion; else writes and returns a new one."""
    if current is not None and (current.champion, current.promoted) == (champion.version, champion.promoted):
        return Watched(current, champion)
    history = () if current is None else current.history
    state = _begin(workspace, site, champion, served or Served.load(champion.folder), history)
    _write(workspace, state)
    return Watched(state, champion, begun_late=current is None)


def _begin(
    workspace: Workspace, site: str, champion: Champion, served: Served, history: tuple[Moment, ...]
) -> WatchState:
    those = made_for(workspace, champion)
    scale = reference = doubts = None
    if those is not None:
        scale = freeze_scale(those.source, those.target, those.kind(workspace))
        summary = served.summarise(those.target)
        doubts = sorted_doubts(summary)
        rows, persons = _reference_identities(workspace, site, those.target)
        reference = describe_patients(rows, persons, those.target.X, summary, served.decision, doubts)
    return begin_watch(
        site,
        champion.version,
        now(),
        promoted=champion.promoted,
        scale=scale,
        made_for=reference,
        forecast_low=_forecast_low(workspace, site, champion),
        outcomes_used=champion.described.outcomes_used,
        history=history,
        features=served.encoder.features,
        threshold=limit(workspace.network().site(site).disclosure),
        task=served.fitted.task,
        doubts=doubts,
    )


def _reference_identities(workspace: Workspace, site: str, target: Cohort) -> tuple[NDArray[Any], NDArray[Any]]:
    """Keyed digests of the rows that the champion was made for and of the persons they are (rows,)."""
    rows = _digests(workspace, site, target.ids)
    if target.persons is None:
        return rows, rows
    return rows, _digests(workspace, site, (f"person {number} of the extract" for number in target.persons))


def _forecast_low(workspace: Workspace, site: str, champion: Champion) -> float | None:
    """Lower end of the forecast that was sealed for the champion: its AUROC, or the accuracy of classes; or None."""
    from tasks.audit import read_entries
    from tdrop.forecast import find_forecast

    try:
        sealed = find_forecast(read_entries(workspace), site, champion.described.digests.models)
    except DataError:
        return None
    if sealed is None or sealed.forecast is None:
        return None
    if workspace.resolve(site).contract.task == "binary":
        ranking = sealed.forecast.find(champion.described.method)
        return None if ranking is None else ranking.low
    errors = sealed.forecast.find(champion.described.method, "error_rate")
    return None if errors is None or errors.high is None else 1 - errors.high


def watch_batch(
    workspace: Workspace,
    champion: Champion,
    served: Served,
    cohort: Cohort,
    prepared: Prepared,
    summary: Summary,
    filled_in: NDArray[Any],
) -> WatchState:
    """Counts the patients of a scored batch, except those who were counted before.

    `prepared` has their rows in the contract's columns, `filled_in` says who lacks a value (patients,).
    """
    name, validation = cohort.site, prepared.validation
    rows, persons = patient_identities(workspace, prepared.site, prepared.contract, cohort, prepared.frame)
    with _alone(workspace, name):
        if not _in_use(workspace, name, champion.version, champion.promoted):
            raise UsageError(f"version {champion.version} was replaced while it predicted; score the batch again")
        state = _of_champion(workspace, name, champion, read_watch(workspace, name), served).state
        batch = replace(
            describe_patients(rows, persons, cohort.X, summary, served.decision, state.doubts),
            filled_in=filled_in,
            set_aside=to_number(validation.quarantined),
            groups=subgroups_of(prepared.frame, prepared.contract),
            findings={item.rule: to_number(item.count) for item in validation.findings if item.about == "patients"},
        )
        state = state.add_batch(batch, now())
        _write(workspace, state)
    return state


def patient_identities(
    workspace: Workspace, site: Site, contract: Contract, cohort: Cohort, frame: pd.DataFrame
) -> tuple[NDArray[Any], NDArray[Any]]:
    """Keyed digests of the batch's rows and of the persons they are (rows,).

    At a site that numbers its rows patients have no ids: there a list is recognised as a whole, in any order.
    """
    if site.number_rows:
        content = [row.tobytes() for row in cohort.X]
        order = sorted(range(len(content)), key=content.__getitem__)
        whole = hashlib.sha256(b"".join(content[row] for row in order)).hexdigest()
        rank = np.argsort(np.asarray(order, dtype=np.int64))
        rows = _digests(workspace, site.name, (f"list {whole} {number}" for number in rank))
        return rows, rows
    rows = _digests(workspace, site.name, cohort.ids)
    if contract.person is None or contract.person not in frame:
        return rows, rows
    named = frame[contract.person]
    persons = _digests(workspace, site.name, (f"person {person}" for person in named.astype("str")))
    return rows, np.where(named.isna().to_numpy(), rows, persons)


def _digests(workspace: Workspace, site: str, texts: Iterable[Any]) -> NDArray[Any]:
    """Keyed digests (texts,), which identify a patient within this home only."""
    key = bytes.fromhex(keyed_digest(workspace.root, f"patients of {site}"))
    digests = (hashlib.blake2b(str(text).encode(), digest_size=8, key=key).digest() for text in texts)
    return np.frombuffer(b"".join(digests), dtype="<u8")


@dataclass(frozen=True)
class OutcomeUpdate:
    """The result of adding outcomes to a watch.

    Attributes:
        state: The watch with them.
        added: How many outcomes were new.
        of_batches: Whether none of them is of the last report's patients, so that there is nothing else to audit.
    """

    state: WatchState
    added: int
    of_batches: bool


def watch_outcomes(workspace: Workspace, site: str, labels: Path) -> OutcomeUpdate | None:
    """Compares outcomes with the champion's predictions; None for a site without a champion."""
    if version_at(workspace, site, CHAMPION) is None:
        return None
    watched, resolved = open_watch(workspace, site), workspace.resolve(site)
    outcomes = read_labels(labels, resolved.contract, None, **resolved.where, like=resolved.site)
    rows = _digests(workspace, site, outcomes.ids)
    y = outcomes.y
    if outcomes.follow_up is not None and resolved.contract.outcome.censoring != "drop":
        # Early events are known before other patients reach the horizon, but must not count earlier than these.
        y = np.where(observed_to_horizon(outcomes.follow_up, rows / 2.0**64), y, np.nan)
    with _alone(workspace, site):
        before = read_watch(workspace, site) or watched.state
        state = before.add_outcomes(rows, y, now())
        if state.outcomes.patients != before.outcomes.patients:
            _write(workspace, state)
    extract = workspace.store / watched.champion.described.encoded / files.TARGET
    reported = set(load_cohort(extract).ids.astype(str)) if extract.is_file() else set()
    return OutcomeUpdate(
        state=state if state.outcomes.patients != before.outcomes.patients else before,
        added=state.outcomes.patients - before.outcomes.patients,
        of_batches=not reported & set(outcomes.ids.astype(str)),
    )


def watch_sentence(workspace: Workspace, site: str) -> str | None:
    """The state of a site's watch in one sentence for `tdrop status`; None without a champion or a watch."""
    from tdrop.report import watch_in_short

    try:
        state = read_watch(workspace, site)
        version = None if state is None else version_at(workspace, site, CHAMPION)
        if state is None or version is None:
            return None
        if not _in_use(workspace, site, state.champion, state.promoted):
            return f"the watch of version {version.version} begins with its next batch"
    except Unavailable:
        return None
    except TdropError as error:
        return str(error)
    return watch_in_short(state)


def _in_use(workspace: Workspace, site: str, version: str, promoted: str) -> bool:
    """Whether this promotion of a version is the site's last one."""
    champion = version_at(workspace, site, CHAMPION)
    return champion is not None and (str(champion.version), champion.tags.get(WHEN, "")) == (version, promoted)
