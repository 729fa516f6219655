"""Everything that a report shows, read from the stages of a run."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path

import numpy as np
import pandas as pd

from tasks.audit import (
    AUDIT,
    Audit,
    compare_with_observed,
    find_support,
    recalibration_prior,
    usable_list,
    weighed_outcomes,
)
from tasks.evidence import fitted_propensity, load_predictions, load_propensity, unlike_patients
from tasks.labels import OUTCOMES, KnownLabels, read_list
from tasks.registry import CARD_PAGE, champion_folder
from tasks.run import Run
from tdrop.base import DataError, Indices, read_record, write_json, write_record
from tdrop.choose import Trial
from tdrop.contracts import Contract, Validation
from tdrop.data import CensoringSummary, Encoder, FollowUp, LabelCounts, follow_up_of
from tdrop.evaluate import (
    LeftOut,
    Moved,
    Recalibration,
    compare_risks,
    explain_risks,
    measure_left_out,
    name_moves,
    suggest_recalibration,
    typical_patient,
)
from tdrop.forecast import REHEARSAL, Forecast, Observation, Rehearsal
from tdrop.home import (
    REHEARSALS,
    Ref,
    ResolvedSite,
    Workspace,
    code_digest,
    files,
    load_cohort,
    load_pair,
    load_summary,
    now,
    rows_of,
    site_stage,
    stage,
)
from tdrop.methods import load
from tdrop.report import Provenance, ReportData, SiteSummary, describe_rehearsal
from tdrop.served import Promotion
from tdrop.shift import (
    SUPPORTED,
    Ground,
    Matching,
    Shift,
    judge_benefit,
    judge_known_outcomes,
    judge_known_predictions,
    judge_known_ranking,
)

#: The summary in a report's folder.
SUMMARY = "summary.json"
PACKAGES = ("tdrop", "torch", "scikit-learn", "numpy", "pandas", "great-expectations", "prefect", "mlflow")


def gather(workspace: Workspace, run: Run, promotion: Promotion | None) -> ReportData:
    """Reads everything that a report shows from the run's stages."""
    site = workspace.resolve(run.site)
    stages = run.stages
    known = KnownLabels.load(stages.evaluation.path / OUTCOMES)
    y = None if known is None else known.y
    forecast = None if stages.forecast is None else stages.forecast.record(Forecast, files.FORECAST)
    audit = None if stages.audit is None else stages.audit.record(Audit, AUDIT)
    refused = stages.evaluation.path / files.REFUSED
    small_sources = stages.encoded.json(files.SMALL_SOURCES)
    return ReportData(
        site=site.site,
        source_title=site.source_title(left_out=small_sources),
        small_sources=small_sources,
        source_titles={own.name: own.title for own in site.sources},
        contract=site.contract,
        validation=stages.target.record(Validation, "validation.json"),
        source_validation=stages.source.record(Validation, "validation.json"),
        shift=_judged(workspace, run, known, site.site.decision.threshold),
        matching=stages.matching.record(Matching, "matching.json"),
        tuning=_marked_trials(run),
        choice=run.choice,
        evaluation=run.evaluation,
        predictions=load_predictions(run.trained.fits),
        y=y,
        weight=None if known is None else known.weight,
        follow_up=None if known is None else known.follow_up,
        followed=_followed(site, stages.source),
        censoring=stages.encoded.find(CensoringSummary, files.CENSORING),
        unlike=unlike_patients(fitted_propensity(workspace, stages.encoded)),
        source_frame=pd.read_parquet(stages.source.path / files.FRAME),
        target_frame=pd.read_parquet(stages.target.path / files.FRAME),
        moved=moved_risks(workspace, run, known) if site.contract.task == "binary" else (),
        failed_methods=run.trained.failed,
        labels=stages.evaluation.find(LabelCounts, "labels.json"),
        refused_labels=stages.evaluation.json(files.REFUSED)["sentence"] if refused.is_file() else "",
        provenance=_provenance(site, run),
        previous=last_summary(workspace, run.site),
        rehearsal=rehearsal_sentences(workspace).get(site.contract.name, ""),
        promotion=promotion,
        has_card=promotion is not None
        and (champion_folder(workspace, run.site, promotion.version) / CARD_PAGE).is_file(),
        forecast=forecast,
        observations=_observations(workspace, run, forecast, known),
        recalibration=None
        if known is None or site.contract.task != "binary"
        else _recalibration(workspace, run, known),
        ladder=None if audit is None else audit.ladder,
        split=None if audit is None else audit.split,
        left_out=left_out(site, stages.source, stages.encoded),
        unseen_classes=_unseen_classes(run),
    )


def _followed(site: ResolvedSite, source: Ref) -> dict[str, FollowUp]:
    """By source, how long its patients were followed, if its extract says so."""
    frame = pd.read_parquet(source.path / files.FRAME)
    followed: dict[str, FollowUp] = {}
    for one in site.resolved_sources():
        if one.site.role == "source" and set(site.contract.outcome.columns) <= set(frame):
            rows = follow_up_of(frame[rows_of(frame, one.name)], site.contract)
            followed |= {} if rows is None else {one.site.title or one.name: rows}
    return followed


def _recalibration(workspace: Workspace, run: Run, known: KnownLabels) -> Recalibration:
    """The recalibration that the known outcomes suggest; those of a label list are weighted."""
    outcomes, weights = weighed_outcomes(read_list(workspace, run.site), run.stages.target.digest, known)
    prior = recalibration_prior(workspace, run.site, stopped=run.shift.verdict == "stop")
    return suggest_recalibration(outcomes, run.predictions.mean, weights, left_early=known.weight, prior=prior)


def _observations(
    workspace: Workspace, run: Run, forecast: Forecast | None, known: KnownLabels | None
) -> tuple[Observation, ...]:
    """Forecast and observed numbers: of the last audit, or by outcomes that the site had itself."""
    if forecast is None or known is None:
        return ()
    if run.stages.audit is not None:
        return run.stages.audit.record(Audit, AUDIT).observations
    listed = read_list(workspace, run.site) if forecast.threshold is not None else None
    if listed is not None and listed.target == run.stages.target.digest and usable_list(listed, known.y) is not None:
        # A label list is not a random sample: only an audit weights its outcomes.
        return ()
    return compare_with_observed(forecast, run.evaluation, run.chosen, ())


def _judged(workspace: Workspace, run: Run, labels: KnownLabels | None, threshold: float) -> Shift:
    """The shift with the verdict after known outcomes; its stage, made before they were read, does not change."""
    summary, shift = run.predictions, run.shift
    risk = summary.mean
    if summary.task != "binary":
        level = workspace.network().site(run.site).decision.interval_level
        return shift if labels is None else shift.judged(judge_known_predictions(labels.y, summary, level))
    if labels is None:
        return shift.judged(judge_benefit(None, risk, threshold))
    given = (labels.y, risk, labels.weight)
    off = judge_known_outcomes(*given)
    support = find_support(workspace, run, labels, threshold)
    if support is not None and support.enough:
        ends = {"low": support.benefit_low, "high": support.benefit_high}
        stopped = shift.verdict == "stop"
        expected = None if stopped or off is None else off.expected
        ground = Ground(SUPPORTED, "caution", support.events, support.n, expected, **ends)
        # The model is then recalibrated, so the error of its present risks no longer counts.
        return (shift.overruled(ground) if stopped else shift.judged(ground)).judged(judge_known_ranking(*given))
    return shift.judged(judge_benefit(labels.y, risk, threshold, labels.weight), off, judge_known_ranking(*given))


def _unseen_classes(run: Run) -> tuple[str, ...]:
    """Classes that no source patient has, so that no method can predict them."""
    source = load_cohort(run.stages.encoded.path / files.SOURCE)
    if source.y is None:
        return ()
    return tuple(name for code, name in enumerate(source.classes) if not (source.y == code).any())


def _marked_trials(run: Run) -> dict[str, list[Trial]]:
    """Every method's trials, with the refitted one marked as picked."""
    return {
        method: [replace(trial, picked=trial == run.trained.picked.get(method)) for trial in trials]
        for method, trials in run.trained.trials.items()
    }


def moved_risks(
    workspace: Workspace, run: Run, known: KnownLabels | None, rows: Indices | None = None
) -> tuple[Moved, ...]:
    """How unlabelled patients changed the risks of the methods that used them.

    Counts the patients at `rows`, by default all; `known` are their outcomes.
    """
    fitted = load_propensity(fitted_propensity(workspace, run.stages.encoded))
    if fitted is None:
        return ()
    counted = np.arange(len(fitted.target)) if rows is None else rows
    return tuple(
        compare_risks(
            method,
            float(run.trained.picked[method].settings["lambda_"]),
            load_summary(ablation.path / files.PREDICTIONS).mean[counted],
            load_summary(run.trained.fits[method][0].path / files.PREDICTIONS).mean[counted],
            fitted.target[counted],
            None if known is None else known.y,
            None if known is None else known.weight,
        )
        for method, ablation in run.trained.ablations.items()
    )


def _provenance(site: ResolvedSite, run: Run) -> Provenance:
    return Provenance(
        created=now(),
        contract=f"{site.contract.name} {site.contract.version}",
        digests={
            "contract and site": site.digest,
            "source rows": run.stages.source.digest,
            "target rows": run.stages.target.digest,
            "models": run.stages.models.digest,
            "program": code_digest(),
        },
        settings=run.settings.model_dump(mode="json"),
        seeds=tuple(range(run.settings.seeds)),
        versions={package: version(package) for package in PACKAGES},
    )


def last_summary(workspace: Workspace, site: str) -> SiteSummary | None:
    """The summary of a site's last report, or None."""
    try:
        return read_record(SiteSummary, workspace.latest(site) / SUMMARY)
    except (OSError, ValueError, DataError):
        return None


LEFT_OUT = "left_out.json"


@site_stage("left_out")
def measured_left_out(folder: Path, site: ResolvedSite, source: Ref, encoded: Ref) -> None:
    """Writes left_out.json."""
    encoder = encoded.record(Encoder, files.ENCODER)
    frame = pd.read_parquet(source.path / files.FRAME)
    write_record(folder / LEFT_OUT, measure_left_out(frame, site.contract, encoder))


def left_out(site: ResolvedSite, source: Ref, encoded: Ref) -> LeftOut | None:
    """The features that a site does not record, and what that costs; None if nothing is left out."""
    encoder = encoded.record(Encoder, files.ENCODER)
    if not encoder.left_out and not encoder.without_indicator:
        return None
    return measured_left_out(site, source, encoded).record(LeftOut, LEFT_OUT)


def rehearsal_sentences(workspace: Workspace) -> dict[str, str]:
    """By table, the result of its last rehearsal in a sentence; files of earlier versions are left out."""
    sentences = {}
    for file in sorted((workspace.root / REHEARSALS).glob(f"*/{REHEARSAL}")):
        with suppress(DataError):
            sentences[file.parent.name] = describe_rehearsal(read_record(Rehearsal, file))[0]
    return sentences


#: What moves each referred patient's risk, and the samples per risk: few, since only differences count.
MOVED_BY, EXPLAINING_PASSES = "moved_by.json", 20


@stage("explained", in_worker=True)
def explained_risks(folder: Path, encoded: Ref, fit: Ref, target: Ref, contract: Contract, rows: list[int]) -> None:
    """Writes moved_by.json: in words, the features with the most influence on the risks of the patients at `rows`."""
    names = [feature.column for feature in encoded.record(Encoder, files.ENCODER).features]
    columns = [contract.column(name) for name in dict.fromkeys(names)]
    groups = [[number for number, name in enumerate(names) if name == column.name] for column in columns]
    model, (source, patients) = load(fit.path / files.MODEL), load_pair(encoded.path)
    values = explain_risks(
        lambda X: model.summarise(X.astype(np.float32), EXPLAINING_PASSES, seed=0).mean,
        patients.X[rows].astype(np.float64),
        typical_patient(source.X.astype(np.float64), groups),
        groups,
    )
    write_json(folder / MOVED_BY, name_moves(values, pd.read_parquet(target.path / files.FRAME).iloc[rows], columns))


def explain_referrals(workspace: Workspace, run: Run, data: ReportData) -> list[str] | None:
    """Per patient for review, the features with the most influence on the risk; empty for others (rows,), or None."""
    if data.target_frame is None or data.contract.task != "binary":
        return None
    if any(feature.column not in data.target_frame for feature in run.encoder.features):
        return None
    referred = data.referrals.referred
    rows, moved = np.flatnonzero(referred).tolist(), [""] * len(referred)
    if rows:
        stages, fit = run.stages, run.trained.fits[run.chosen][0]
        explained = explained_risks(workspace, stages.encoded, fit, stages.target, data.contract, rows)
        for row, words in zip(rows, explained.json(MOVED_BY), strict=True):
            moved[row] = words
    return moved
