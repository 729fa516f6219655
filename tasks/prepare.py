"""Before training: check an extract, encode source and target alike, and compare their patients."""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pandas as pd
from prefect import task
from prefect.cache_policies import NO_CACHE

from tasks.errors import RETRY_UNAVAILABLE, refuse_labels, sanitize_errors
from tasks.evidence import SEED, load_propensity
from tasks.new_patients import with_new_patients
from tasks.settings import TransferSettings
from tdrop.base import DataError, Doubles, Mask, SiteStopped, plain, write_json, write_record
from tdrop.contracts import Validation, join_validations
from tdrop.data import (
    CensoringSummary,
    Encoder,
    FollowUp,
    compare_sources,
    follow_up_of,
    join_summaries,
    label_fingerprint,
    learn_encoder,
    not_recorded,
    persons_of,
    prepare,
    read_labels,
    source_outcome,
    unlike_missing,
    weigh_outcomes,
    write_patients,
)
from tdrop.disclosure import conceal_validation
from tdrop.home import (
    PRIVATE,
    Inputs,
    Ref,
    ResolvedSite,
    current_inputs,
    files,
    load_pair,
    rows_of,
    save_cohort,
    site_stage,
    stage,
)
from tdrop.shift import estimate_shift, judge_shared_patients, judge_source_outcomes, match


@task(task_run_name="digest inputs {site.name}", **RETRY_UNAVAILABLE)
@sanitize_errors
def digest_inputs(site: ResolvedSite, settings: TransferSettings) -> Inputs:
    """Digests of everything that a transfer of this site depends on."""
    return current_inputs(site, settings.model_dump(mode="json"))


@task(task_run_name="gather new patients {site.name}", **RETRY_UNAVAILABLE)
@sanitize_errors
def gather_new_patients(site: ResolvedSite) -> ResolvedSite:
    """The site, reading the patients of all batches since the promotion instead of its extract."""
    return with_new_patients(site)


@task(task_run_name="read and check {site.name}", **RETRY_UNAVAILABLE)
@sanitize_errors
@site_stage("prepared")
def read_and_check(folder: Path, site: ResolvedSite, data: str, source: Ref | None = None) -> None:
    """Turns a site's extract into checked rows in the contract's terms.

    Writes frame.parquet, quarantine.csv, validation.json, suite.json and message.txt, also when a table-level rule says
    that the extract must not be used: `require_usable` then stops.

    Args:
        folder: Where to write.
        site: The site.
        data: Fingerprint of its extract.
        source: The source's checked rows, with which a target is compared; None for the source itself.
    """
    beside = None if source is None else pd.read_parquet(source.path / files.FRAME)
    prepared = prepare(site.site, site.network, home=site.workspace.root, source=beside, expected=data)
    prepared.frame.to_parquet(folder / files.FRAME, index=False)
    write_patients(folder / "quarantine.csv", prepared.quarantine)
    write_json(folder / "suite.json", [plain(each) for each in prepared.suite])
    write_record(folder / "validation.json", prepared.validation)
    (folder / files.LETTER).write_text(prepared.validation.message(), encoding="utf-8")


def require_usable(site: ResolvedSite, prepared: Ref, checked: Validation) -> None:
    """Raises `SiteStopped` if the extract broke a table-level rule; the error holds a letter for the site.

    Prefect stores the sentence and the letter, so both are without numbers of patients; the whole message is beside the
    findings.
    """
    if not checked.stopped:
        return
    validation = conceal_validation(checked, site.policy)
    refused = site.workspace.site(site.name) / files.REFUSED_EXTRACT
    refused.mkdir(parents=True, exist_ok=True, mode=PRIVATE)
    for name in ("validation.json", "quarantine.csv", files.LETTER):
        (refused / name).write_bytes((prepared.path / name).read_bytes())
    stopped = SiteStopped(
        f"site '{site.name}' is stopped: {validation.reason}; the whole message for it is in {refused / files.LETTER}"
    )
    stopped.reason, stopped.letter = validation.reason, validation.message()
    raise stopped


@stage("pooled")
def pooled_rows(folder: Path, sources: Sequence[ResolvedSite], prepared: Sequence[Ref]) -> None:
    """Writes frame.parquet with the checked rows of several sources, each with its site, and validation.json."""
    contract = sources[0].contract
    frames = {
        source.name: pd.read_parquet(ref.path / files.FRAME) for source, ref in zip(sources, prepared, strict=True)
    }
    findings = compare_sources(frames, contract, [source.site for source in sources])
    pool = pd.concat([frame.assign(**{files.ORIGIN: name}) for name, frame in frames.items()], ignore_index=True)
    # A patient at two sources could be in a fit and in the fold left out of it: only the first source keeps the row.
    known = [column.name for column in contract.features if column.name in pool]
    elsewhere = pool.duplicated([contract.id_column, *known]) & ~pool.duplicated(
        [files.ORIGIN, contract.id_column, *known]
    )
    pool[~elsewhere].reset_index(drop=True).to_parquet(folder / files.FRAME, index=False)
    joined = join_validations([ref.record(Validation, "validation.json") for ref in prepared])
    write_record(folder / "validation.json", joined.with_findings(findings))


@task(task_run_name="encode sources of {site.name}", cache_policy=NO_CACHE)
@sanitize_errors
@stage("labelled")
def encode_sources(
    folder: Path,
    sources: Sequence[ResolvedSite],
    prepared: Ref,
    labels: Sequence[str | None],
    left_out: Sequence[str],
    without_indicator: Sequence[str],
) -> None:
    """Writes source.npz (labelled), encoder.json and outcomes.json: the sources without the columns in `left_out`.

    Where the outcome is a time and an event, censoring.json says what was done about patients who left before the
    horizon: with weights they are among the rows, without an outcome.

    No target is among the inputs, so that fits on the sources alone are shared by all targets.

    Args:
        folder: Where to write.
        sources: The labelled sites.
        prepared: Their checked rows.
        labels: By source, the fingerprint of its label file where its outcomes are in one.
        left_out: Columns that the target does not record.
        without_indicator: Columns whose being missing means something else at the target.
    """
    frame = pd.read_parquet(prepared.path / files.FRAME)
    contract = sources[0].contract
    encoder = learn_encoder(frame, contract, left_out, without_indicator)
    write_record(folder / files.ENCODER, encoder)
    outcomes = _known_outcomes(frame, sources)
    if not np.isfinite(outcomes.y).any():
        raise DataError(
            f"site '{sources[0].name}' has no known outcome in any row; a source needs labels, "
            f"check the outcome of table '{contract.name}'"
        )
    name = ", ".join(source.name for source in sources)
    y, (weight, summaries) = outcomes.y, _weigh(frame, encoder, outcomes, sources)
    kept = np.isfinite(y) if weight is None else np.isfinite(y) | outcomes.censored
    small = _few_outcomes(frame, y)
    write_json(folder / files.SMALL_SOURCES, small)
    if small:
        kept &= ~frame[files.ORIGIN].isin(small).to_numpy()
    frame = frame[kept].reset_index(drop=True)
    cohort = encoder.encode(frame, name, persons=persons_of(frame, contract))
    cohort = replace(
        cohort,
        y=y[kept].astype(np.float32),
        weight=None if weight is None else weight[kept].astype(np.float32),
        task=contract.task,
        classes=contract.classes,
    )
    if files.ORIGIN in frame:
        cohort = replace(cohort, origins=frame[files.ORIGIN].to_numpy())
    save_cohort(folder / files.SOURCE, cohort)
    write_json(folder / "outcomes.json", outcomes.counts)
    if summaries:
        write_record(folder / files.CENSORING, join_summaries(list(summaries.values())))


#: Fewest patients per outcome that each of several sources needs.
FEWEST_OUTCOMES = 10


def _few_outcomes(frame: pd.DataFrame, y: Doubles) -> list[str]:
    """Of several sources, those with too few patients of one of two outcomes; empty if all have too few."""
    if files.ORIGIN not in frame or not set(np.unique(y[np.isfinite(y)])) <= {0.0, 1.0}:
        return []
    kinds = [pd.Series(y == outcome).groupby(frame[files.ORIGIN].to_numpy()).sum() for outcome in (0, 1)]
    fewest = pd.concat(kinds, axis=1).min(axis=1)
    small = sorted(map(str, fewest.index[fewest < FEWEST_OUTCOMES]))
    return small if len(small) < len(fewest) else []


@dataclass(frozen=True)
class _SourceOutcomes:
    """Outcomes of the sources' rows, NaN where unknown (rows,), their counts, and the follow-up by source."""

    y: Doubles
    counts: Mapping[str, int]
    follow_up: Mapping[str, FollowUp]
    censored: Mask


def _known_outcomes(frame: pd.DataFrame, sources: Sequence[ResolvedSite]) -> _SourceOutcomes:
    y, censored = np.full(len(frame), np.nan), np.zeros(len(frame), dtype=bool)
    total: Counter[str] = Counter()
    follow_up = {}
    for source in sources:
        own = rows_of(frame, source.name)
        rows, contract = frame[own], source.contract
        if source.site.role == "both":
            try:
                labels = read_labels(source.site, contract, rows[contract.id_column].to_numpy(), **source.where)
            except DataError as error:
                raise refuse_labels(source, error) from None
            y[own], followed = labels.y, labels.follow_up
            total.update(known=int(np.isfinite(y[own]).sum()), missing=int(np.isnan(y[own]).sum()))
            if contract.task == "binary":
                total.update(positive=int((y[own] == 1).sum()))
        else:
            y[own], counts = source_outcome(rows, contract)
            followed = follow_up_of(rows, contract)
            total.update(counts)
        if followed is not None:
            follow_up[source.name] = followed
            censored[own] = followed.censored
    return _SourceOutcomes(y, dict(total), follow_up, censored)


def _weigh(
    frame: pd.DataFrame, encoder: Encoder, outcomes: _SourceOutcomes, sources: Sequence[ResolvedSite]
) -> tuple[Doubles | None, dict[str, CensoringSummary]]:
    """Weights of the outcomes (rows,) or None, and by source how patients who left early were handled.

    Each source has its own hazard of leaving: studies follow their patients differently.
    """
    each, summaries = np.isfinite(outcomes.y).astype(np.float64), {}
    weighted = False
    for source in sources:
        followed, own = outcomes.follow_up.get(source.name), rows_of(frame, source.name)
        if followed is None:
            continue
        cohort = encoder.encode(frame[own].reset_index(drop=True), source.name)
        asked, persons = source.contract.outcome.censoring, persons_of(frame[own], source.contract)
        try:
            weight, summary = weigh_outcomes(followed, cohort.X, f"site '{source.name}'", asked=asked, persons=persons)
        except DataError as error:
            raise refuse_labels(source, error) from None
        summaries[source.name] = summary
        if weight is not None:
            each[own], weighted = weight, True
    return each if weighted else None, summaries


@task(task_run_name="encode {site.name}", cache_policy=NO_CACHE)
@sanitize_errors
@site_stage("encoded")
def encode_target(folder: Path, site: ResolvedSite, labelled: Ref, target: Ref) -> None:
    """Encodes the target as its sources were.

    Writes source.npz (labelled), target.npz (never labelled), encoder.json, counts.json and labelled.json. The counts
    are outcomes of the source, and categories that the source never showed.
    """
    frame = pd.read_parquet(target.path / files.FRAME)
    encoder = labelled.record(Encoder, files.ENCODER)
    for name in (files.SOURCE, files.ENCODER, files.CENSORING):
        if (labelled.path / name).is_file():
            shutil.copyfile(labelled.path / name, folder / name)
    cohort = encoder.encode(frame, site.name, persons=persons_of(frame, site.contract))
    save_cohort(folder / files.TARGET, replace(cohort, task=site.contract.task, classes=site.contract.classes))
    write_json(folder / "counts.json", {"outcomes": labelled.json("outcomes.json"), "unseen": encoder.unseen(frame)})
    shutil.copyfile(labelled.path / files.SMALL_SOURCES, folder / files.SMALL_SOURCES)
    write_record(folder / files.LABELLED, labelled)


def columns_to_leave_out(site: ResolvedSite, source: Ref, target: Ref) -> tuple[Sequence[str], Sequence[str]]:
    """Columns that the target does not record, and those whose being missing means something else there."""
    ours, theirs = (pd.read_parquet(ref.path / files.FRAME) for ref in (source, target))
    return not_recorded(theirs, site.contract), unlike_missing(ours, theirs, site.contract)


def fingerprint_labels(site: ResolvedSite) -> list[str | None]:
    """By source, the fingerprint of its label file where its outcomes are in one."""
    return [label_fingerprint(own, **site.where) if own.role == "both" else None for own in site.sources]


def pool_sources(site: ResolvedSite, prepared: Sequence[Ref]) -> Ref:
    """The checked rows of all sources as one stage; of one source its own."""
    return prepared[0] if len(prepared) == 1 else pooled_rows(site, site.resolved_sources(), prepared)


def count_suspected(target: Ref) -> int:
    """How many patients of a target may be in the source's extract too, by the checks."""
    findings = target.record(Validation, "validation.json").findings
    suspected = [one.count for one in findings if one.rule == "table.shared_patients" and one.severity != "info"]
    return max((count for count in suspected if isinstance(count, int)), default=0)


@task(task_run_name="estimate shift {site.name}", cache_policy=NO_CACHE)
@sanitize_errors
@stage("shift", in_worker=True)
def estimate_site_shift(folder: Path, encoded: Ref, fitted: Ref, suspected: int, seed: int = SEED) -> None:
    """Writes shift.json; `suspected` counts patients whom the checks suspect to be in both extracts."""
    source, target = load_pair(encoded.path)
    shift = estimate_shift(source, target, seed=seed, fitted=load_propensity(fitted))
    known = source.known().y
    outcomes = judge_source_outcomes(known) if known is not None else None
    write_record(folder / "shift.json", shift.judged(outcomes, judge_shared_patients(source, target, suspected)))


@task(task_run_name="match {site.name}", cache_policy=NO_CACHE)
@sanitize_errors
@stage("matching", in_worker=True)
def match_validation(folder: Path, encoded: Ref, fitted: Ref, seed: int = SEED) -> None:
    """Writes matching.json: the source rows that look like the target."""
    write_record(folder / "matching.json", match(*load_pair(encoded.path), seed=seed, fitted=load_propensity(fitted)))
