"""Scores a batch of new patients with a site's champion, and counts it in the champion's watch."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from tasks.prune import stages
from tasks.registry import Champion, find_champion, made_for
from tasks.run import last_run
from tasks.watch import watch_batch
from tdrop.base import (
    Cohort,
    SiteStopped,
    Summary,
    TdropError,
    Unwritable,
    UsageError,
    write_json,
    write_record,
)
from tdrop.contracts import Prepared, Validation
from tdrop.data import fingerprint, prepare, write_patients
from tdrop.disclosure import conceal_validation
from tdrop.evaluate import patients_table
from tdrop.home import Workspace, read_status, replace_folder, write_private
from tdrop.served import Served
from tdrop.watch import stand_of

#: Shown if the patients that the model was made for were pruned.
NOT_COMPARED = (
    "the patients that the model was made for are not on this machine: nobody can say who is unlike anyone the model "
    "learned from"
)


@dataclass(frozen=True)
class ScoreResult:
    """The result of scoring a batch.

    Attributes:
        folder: The folder with the lists.
        scored: Number of patients with a prediction.
        referred: How many of them are to be referred.
        unlike: How many are unlike anyone the model learned from; None if that is unknown.
        filled_in: How many have a value that was filled in.
        champion: The version that predicted.
        sentences: Warnings about the batch.
    """

    folder: str
    scored: int
    referred: int
    unlike: int | None
    filled_in: int
    champion: str
    sentences: tuple[str, ...]


def what_changed(workspace: Workspace, site: str, champion: Champion) -> list[str]:
    """Warnings if the contract or the source's extract is newer than the champion."""
    network = workspace.network()
    advice = f"run `tdrop transfer {site}` and promote again"
    sentences = []
    if network.digest_of(network.site(site)) != champion.described.contract_digest:
        sentences.append(f"the contract or site file changed since version {champion.version} was trained; {advice}")
    older = _older_source(workspace, site, champion)
    if older is not None:
        sentences.append(f"version {champion.version} was trained on {older}; {advice}")
    return sentences


def last_verdict(workspace: Workspace, site: str) -> list[str]:
    """A warning if the site's last report, which may be newer than the promotion, says stop."""
    try:
        # Read as plain JSON: the record would import the code that draws reports.
        verdict = json.loads((workspace.latest(site) / "summary.json").read_text(encoding="utf-8"))["verdict"]
    except (OSError, ValueError, KeyError):
        return []
    return ["the site's last report says: stop; read it before anybody uses these risks"] if verdict == "stop" else []


def _older_source(workspace: Workspace, site: str, champion: Champion) -> str | None:
    """What the champion learned from, if the source's extract has changed since.

    The stages with the champion's source rows name the extract that they were read from. After those were pruned, the
    rows are compared with the last transfer's.
    """
    rows = champion.described.digests.source
    read_from = {stage.inputs["data"] for stage in stages(workspace) if rows == stage.digest and "data" in stage.inputs}
    extracts = _source_extracts(workspace, site)
    if read_from and extracts is not None:
        return None if read_from.issuperset(extracts) else "an older source extract than there is now"
    try:
        same = last_run(workspace, site).stages.source.digest == rows
    except UsageError:
        return None
    return None if same else "an older source extract, or by older rules for it, than the last transfer"


def _source_extracts(workspace: Workspace, site: str) -> tuple[str, ...] | None:
    """Fingerprints of the sources' extracts, or of those that the last run read; None if both are unknown."""
    network = workspace.network()
    sources = network.sources_of(network.site(site))
    try:
        return tuple(fingerprint(source, home=workspace.root, base=network.base) for source in sources)
    except TdropError:
        # Scoring does not need the source, which may be out of reach.
        status = read_status(workspace, site)
        return None if status is None or status.inputs is None else status.inputs.source_data


def unseen_sentences(unseen: dict[str, int], scored: int) -> list[str]:
    """Warnings with counts, never with the category, which may identify a patient."""
    return [
        f"column '{column}': {count:,} of {scored:,} values are a category that the source never showed; "
        "the model has learned nothing about it"
        for column, count in unseen.items()
    ]


def score_batch(workspace: Workspace, site: str, file: str) -> ScoreResult:
    """Scores a batch that came as a file, into `sites/<site>/scores/`."""
    network = workspace.network()
    # First, because without a champion the file need not be read.
    champion = find_champion(workspace, site)
    prepared = prepare(network.site(site), network, home=workspace.root, file=Path(file))
    return score_prepared(workspace, site, champion, prepared)


def score_prepared(
    workspace: Workspace, site: str, champion: Champion, prepared: Prepared, folder: Path | None = None
) -> ScoreResult:
    """Scores checked patients and updates the watch.

    Writes patients.csv, quarantine.csv and validation.json to the folder, by default `sites/<site>/scores/`.
    """
    if prepared.validation.stopped:
        raise SiteStopped(_refusal(workspace, site, prepared.validation))
    served = Served.load(champion.folder)
    cohort, encoder = served.encoder.encode(prepared.frame, site), served.encoder
    those = made_for(workspace, champion)
    unlike = None if those is None else those.unlike(workspace, cohort)
    summary = served.summarise(cohort)
    table = patients_table(cohort.ids, summary, served.decision, unlike, classes=served.fitted.classes)
    table = table.assign(filled_in=encoder.filled_in(prepared.frame))
    unseen = {column: count for column, count in encoder.unseen(prepared.frame).items() if count}
    sentences = [
        *last_verdict(workspace, site),
        *what_changed(workspace, site, champion),
        *unseen_sentences(unseen, len(cohort)),
        *([NOT_COMPARED] if those is None else []),
    ]
    folder = folder or workspace.site(site) / "scores"
    with replace_folder(folder) as incoming:
        write_patients(incoming / "patients.csv", table)
        write_patients(incoming / "quarantine.csv", prepared.quarantine)
        write_record(incoming / "validation.json", prepared.validation)
        write_json(incoming / "score.json", {"champion": champion.version, "sentences": sentences})
    lacking = (table["filled_in"] != "").to_numpy()
    sentences += _watched(workspace, champion, served, cohort, prepared, summary, lacking)
    return ScoreResult(
        folder=str(folder),
        scored=len(cohort),
        referred=int(table["refer"].sum()),
        unlike=None if unlike is None else int(unlike.sum()),
        filled_in=int(lacking.sum()),
        champion=champion.version,
        sentences=tuple(sentences),
    )


def _watched(
    workspace: Workspace,
    champion: Champion,
    served: Served,
    cohort: Cohort,
    prepared: Prepared,
    summary: Summary,
    lacking: NDArray[Any],
) -> list[str]:
    """Updates the site's watch; returns warnings, also if that failed."""
    from tdrop.report import watch_in_short

    try:
        state = watch_batch(workspace, champion, served, cohort, prepared, summary, lacking)
    except Unwritable:
        raise
    except TdropError as error:
        return [f"the batch was scored and not counted by the watch: {error}"]
    sentences = []
    last = state.history[-1]
    if last.read and not last.patients:
        sentences.append("the watch counted none of these patients: it had counted all of them before")
    return sentences if stand_of(state) == "quiet" else [*sentences, watch_in_short(state)]


def _refusal(workspace: Workspace, site: str, validation: Validation) -> str:
    """Writes the whole message for the site to a file; returns the sentence without counts for Prefect."""
    file = workspace.site(site) / "refused" / "batch.txt"
    write_private(file, validation.message())
    shown = conceal_validation(validation, workspace.network().site(site).disclosure)
    return f"the batch for site '{site}' is stopped: {shown.reason}; the whole message for the site is in {file}"
