"""What may leave a site's folder: the report, figures and numbers after disclosure control.

Its numbers are made once more, over the patients whom `tdrop.disclosure.pick_stand_ins` lets count in what leaves.
"""

from __future__ import annotations

import shutil
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from tasks.audit import AUDIT, Audit, compare_with_observed
from tasks.evidence import SEED, fitted_propensity, load_predictions, unlike_patients
from tasks.gather import moved_risks
from tasks.labels import OUTCOMES, KnownLabels, measure_methods
from tasks.run import EARLIER, Fits, Run
from tasks.tracking import EXPERIMENTS, connect
from tdrop.base import DataError, Floats, Indices, TdropError, plain, write_record
from tdrop.disclosure import (
    Published,
    Question,
    State,
    disclose,
    disclose_evaluation,
    limit,
    outcomes_state,
    pick_stand_ins,
    state_of,
    to_number,
)
from tdrop.evaluate import Evaluation
from tdrop.home import (
    Ref,
    ResolvedSite,
    Workspace,
    digest_of,
    files,
    keyed_digest,
    load_pair,
    make_folder,
    site_stage,
    write_private,
)
from tdrop.report import ReportData, SiteSummary, report_summary, write_pages
from tdrop.shift import (
    Ground,
    Matching,
    Shift,
    estimate_shift,
    judge_benefit,
    judge_known_outcomes,
    judge_known_ranking,
    match,
    propensity,
)

#: Below the home, what it remembers of what left; in a site's folder and as a tag in MLflow, by which memory it left.
PUBLISHED, MARK, MEMORY = "published", "published.txt", "published_by"
#: Tag of a record in MLflow that holds no number of the site, and says why.
WITHHELD = "withheld"


@dataclass(frozen=True)
class Leaving:
    """What may leave of a run.

    Attributes:
        data: The report's data after disclosure.
        withheld: Why the report that left last stands instead, in a sentence; empty where this one leaves.
    """

    data: ReportData
    withheld: str = ""


def export_site(workspace: Workspace, run: Run, whole: ReportData, folder: Path, word: str = "") -> Leaving:
    """Writes a run's report and its numbers, with small counts hidden, into an empty folder.

    `word` says who wants another question about the same patients answered, and why.
    """
    threshold = limit(whole.site.disclosure)
    make_folder(folder)
    if threshold:
        return _write_disclosed(workspace, run, whole, threshold, folder, word)
    # Nothing to hide: the site's own page may leave as it is.
    for name in ("report.html", "details.html", EARLIER):
        if (workspace.latest(run.site) / name).is_file():
            shutil.copyfile(workspace.latest(run.site) / name, folder / name)
    write_numbers(whole, folder)
    return Leaving(whole)


def published_in(workspace: Workspace) -> Published:
    """What has left of the sites of a home."""
    return Published(workspace.main / PUBLISHED, keyed_digest(workspace.main, MEMORY)[:16])


def left_elsewhere(workspace: Workspace, site: str) -> dict[str, str]:
    """What shows that something of a site left, in its folder and in MLflow, with the memory that each names.

    MLflow's record that is out of reach shows nothing: a report is written without it too.
    """
    mark = workspace.site(site) / MARK
    marks = {MARK: mark.read_text(encoding="utf-8")} if mark.is_file() else {}
    try:
        client = connect(workspace)
        experiments = [one.experiment_id for one in client.search_experiments(filter_string=EXPERIMENTS)]
        wanted = f"tags.kind = 'site' AND tags.site = '{site}'"
        runs = client.search_runs(experiments, wanted) if experiments else []
    except TdropError:
        return marks
    recorded = (run for run in runs if WITHHELD not in run.data.tags and MEMORY in run.data.tags)
    return marks | {run.info.run_id: run.data.tags[MEMORY] for run in recorded}


def _write_disclosed(
    workspace: Workspace, run: Run, whole: ReportData, threshold: int, folder: Path, word: str
) -> Leaving:
    """Writes what may leave, or once more what left last where the two together would tell of few patients."""
    published, now, question = published_in(workspace), patients_of(whole, workspace), _asked(whole, workspace, run)
    elsewhere, data = left_elsewhere(workspace, run.site), leaving_data(workspace, run, whole)
    # Of two reports of nearly the same patients that are written at once, one comes after the other.
    with published.alone():
        # What is said of the report before must be what left, not what stayed.
        data = replace(data, previous=published.before(now, question, SiteSummary))
        objection = published.objection(now, question, threshold, word=bool(word), elsewhere=elsewhere)
        if not objection:
            published.keep(now, question, lambda files: write_export(data, files), word, elsewhere)
            write_private(workspace.site(run.site) / MARK, published.memory)
        left = published.copy(question.site, folder)
    if not objection:
        return Leaving(data)
    return Leaving(data, f"{objection}, so {'the report that left last stands' if left else 'no report leaves'}")


def is_withheld(workspace: Workspace, run: Run, whole: ReportData) -> bool:
    """Whether a run's report may not leave beside those that did: nor may anything else that is made of it."""
    threshold = limit(whole.site.disclosure)
    if not threshold:
        return False
    now, question, elsewhere = (
        patients_of(whole, workspace),
        _asked(whole, workspace, run),
        left_elsewhere(workspace, run.site),
    )
    return bool(published_in(workspace).objection(now, question, threshold, elsewhere=elsewhere))


def let_outcomes_leave(workspace: Workspace, site: str, ids: NDArray[Any], outcomes: NDArray[Any]) -> None:
    """Remembers that a model with these outcomes (rows,) in it leaves; a DataError where few differ from before."""
    threshold = limit(workspace.resolve(site).policy)
    if not threshold:
        return
    published, question = published_in(workspace), Question(published_names(site)[2])
    now = outcomes_state(ids, outcomes, keyed_digest(workspace.main, PUBLISHED)[:16])
    elsewhere = left_elsewhere(workspace, site)
    with published.alone():
        objection = published.objection(now, question, threshold, elsewhere=elsewhere)
        if objection:
            raise DataError(
                f"site '{site}' is not recalibrated: {objection}, and two models with few outcomes between them would "
                f"tell these; wait until {threshold} more outcomes are known"
            )
        published.keep(now, question, lambda files: None)


def copy_what_left(workspace: Workspace, site: str, folder: Path) -> str:
    """Copies the report that left last of a site whose home may only be read, and says so in a sentence.

    A new report must be remembered, so that none of nearly the same patients leaves after it.
    """
    make_folder(folder)
    memory = workspace.main / PUBLISHED
    if not Published(memory).copy(site, folder):
        raise DataError(
            f"no report of site '{site}' can leave: it must be remembered in '{memory}', which may only be read, so "
            f"that none of nearly the same patients leaves later; run `tdrop export {site}` where "
            f"'{workspace.root}' may be written"
        )
    return (
        f"the report that left last is copied, because a new one must be remembered in '{memory}', which may only be "
        f"read; for a new one run `tdrop export {site}` where '{workspace.root}' may be written"
    )


def patients_of(data: ReportData, workspace: Workspace | None = None) -> State:
    """The state of everyone whom a report is about; its digests are keyed by the secret of the home."""
    assert data.target_frame is not None, "a run's report has its patients"
    target, source = data.validation, data.source_validation
    counts = {"quarantined": target.quarantined, "duplicates": target.duplicates}
    counts |= {item.rule: item.count for item in target.findings if item.about == "patients"}
    aside = {rule: to_number(count) for rule, count in counts.items()}
    theirs = None if source.simulated or source.public else data.source_frame
    secret = {} if workspace is None else {"key": keyed_digest(workspace.main, PUBLISHED)[:16]}
    ids = data.contract.id_column
    return state_of(data.target_frame, data.y, aside=aside, source=theirs, ids=ids, **secret)


def _asked(data: ReportData, workspace: Workspace, run: Run) -> Question:
    return question_of(data, run.stages.models.digest, rehearsed=workspace.main != workspace.root)


def question_of(data: ReportData, models: str = "", *, rehearsed: bool = False) -> Question:
    """What a report asks about its patients: all that decides who is counted where, and the models that say a risk."""
    words = {"columns": {"__all__": {"title", "category_titles", "aliases"}}, "subgroups": {"__all__": {"title"}}}
    named = dict.fromkeys(("name", "version", "title", "description", "limits"), True)
    contract = data.contract.model_dump(mode="json", exclude={**named, **words, "outcome": {"title"}})
    asked = [contract, plain(data.site.decision), data.site.disclosure.threshold]
    return Question(published_names(data.site.name)[rehearsed], digest_of(asked), models)


def published_names(site: str) -> tuple[str, str, str]:
    """What a site is called among what left: as itself, where it played in a rehearsal, and its recalibrations."""
    return site, f"rehearsal of {site}", f"recalibration of {site}"


def write_export(data: ReportData, folder: Path) -> SiteSummary:
    """Writes a report that passed disclosure, and its numbers; returns its summary."""
    write_pages(data, folder)
    write_numbers(data, folder)
    return report_summary(data)


def write_numbers(data: ReportData, folder: Path) -> None:
    """Writes the numbers of a report, which passed disclosure, beside its page."""
    write_record(folder / "evaluation.json", data.evaluation)
    write_record(folder / "shift.json", data.shift)
    write_record(folder / "validation.json", data.validation)
    write_record(folder / "choice.json", data.choice)


def leaving_data(workspace: Workspace, run: Run, whole: ReportData) -> ReportData:
    """A report's data as it may leave: over stand-ins, with small counts hidden; whole where the site is exempt."""
    policy = whole.site.disclosure
    return disclose(_over_stand_ins(workspace, run, whole), policy) if limit(policy) else whole


def leaving_evaluation(workspace: Workspace, run: Run) -> Evaluation:
    """A run's evaluation as it may leave, the same as in `leaving_data`."""
    policy = workspace.resolve(run.site).site.disclosure
    ref = _again(workspace, run) if limit(policy) else run.stages.evaluation
    return disclose_evaluation(ref.record(Evaluation, "evaluation.json"), policy)


def _again(workspace: Workspace, run: Run) -> Ref:
    """The stage of a run's numbers over stand-ins."""
    site, stages = workspace.resolve(run.site), run.stages
    fitted = fitted_propensity(workspace, stages.encoded)
    counted = (stages.encoded, stages.target, stages.evaluation, fitted, run.trained.fits)
    return counted_again(site, *counted, run.settings.bootstrap, run.tolerance(site.contract))


@site_stage("stand_ins")
def counted_again(
    folder: Path,
    site: ResolvedSite,
    encoded: Ref,
    target: Ref,
    evaluation: Ref,
    fitted: Ref,
    fits: Fits,
    bootstrap: int,
    tolerance: float,
) -> None:
    """Writes evaluation.json, shift.json and matching.json over stand-ins."""
    frame = pd.read_parquet(target.path / files.FRAME)
    rows = stand_in_rows(site.workspace, frame, site.contract.person or site.contract.id_column)
    known, unlike = _taken(KnownLabels.load(evaluation.path / OUTCOMES), rows), unlike_patients(fitted)
    source, everybody = load_pair(encoded.path)
    # Whoever is counted twice is one person, in the folds of a classifier and in the resamples of an interval.
    patients = everybody.take(rows)
    patients = replace(patients, persons=rows if patients.persons is None else patients.persons)
    predictions = {method: [one.take(rows) for one in seeds] for method, seeds in load_predictions(fits).items()}
    frame, unlike = frame.iloc[rows].reset_index(drop=True), None if unlike is None else unlike[rows]
    numbers = measure_methods(site, predictions, patients, known, frame, unlike, bootstrap, tolerance)
    write_record(folder / "evaluation.json", numbers)
    like = propensity(source, patients, seed=SEED) if min(len(source), len(patients)) >= 2 else None
    write_record(folder / "shift.json", estimate_shift(source, patients, seed=SEED, fitted=like))
    write_record(folder / "matching.json", match(source, patients, seed=SEED, fitted=like))


def stand_in_rows(workspace: Workspace, frame: pd.DataFrame, column: str) -> Indices:
    return pick_stand_ins(frame[column], keyed_digest(workspace.main, "stand-ins")[:16])


def _taken(known: KnownLabels | None, rows: Indices) -> KnownLabels | None:
    if known is None:
        return None
    followed = None if known.follow_up is None else known.follow_up.take(rows)
    return KnownLabels(known.y[rows], None if known.weight is None else known.weight[rows], followed)


def _over_stand_ins(workspace: Workspace, run: Run, whole: ReportData) -> ReportData:
    """The report's data over stand-ins, under the same verdict.

    Trials, choice and forecast stay: they are of the source's patients and of all risks, and no outcome of the site is
    in them.
    """
    assert whole.target_frame is not None, "a run's report has its patients"
    stages, again = run.stages, _again(workspace, run)
    rows = stand_in_rows(workspace, whole.target_frame, whole.contract.person or whole.contract.id_column)
    known = _taken(KnownLabels.load(stages.evaluation.path / OUTCOMES), rows)
    evaluation = again.record(Evaluation, "evaluation.json")
    predictions = {method: [summary.take(rows) for summary in seeds] for method, seeds in whole.predictions.items()}
    binary = whole.contract.task == "binary"
    # Outcomes of a list were weighed by how its patients were picked, which stand-ins were not.
    listed = stages.audit is not None and stages.audit.record(Audit, AUDIT).listed
    observed = whole.forecast is not None and whole.observations and not listed
    grounds = (
        _ground(ground, known, predictions[run.chosen][0].mean, whole.site.decision.threshold)
        for ground in whole.shift.grounds
    )
    return replace(
        whole,
        evaluation=evaluation,
        shift=replace(again.record(Shift, "shift.json"), verdict=whole.shift.verdict, grounds=tuple(grounds)),
        matching=None if whole.matching is None else again.record(Matching, "matching.json"),
        predictions=predictions,
        y=None if known is None else known.y,
        weight=None if known is None else known.weight,
        unlike=None if whole.unlike is None else whole.unlike[rows],
        target_frame=whole.target_frame.iloc[rows].reset_index(drop=True),
        moved=moved_risks(workspace, run, known, rows) if binary else (),
        observations=compare_with_observed(whole.forecast, evaluation, run.chosen, ())
        if observed and whole.forecast
        else (),
        labels=None
        if whole.labels is None or known is None
        else replace(whole.labels, known=int(np.isfinite(known.y).sum())),
    )


def _ground(ground: Ground, known: KnownLabels | None, risk: Floats, threshold: float) -> Ground:
    """What speaks in the verdict with its numbers over stand-ins; what it says stays."""
    y, weight = (None, None) if known is None else (known.y, known.weight)
    again: Ground | None = ground
    if ground.kind == "benefit":
        again = judge_benefit(y, risk, threshold, weight)
    elif y is not None and ground.kind == "known_ranking":
        again = judge_known_ranking(y, risk, weight)
    elif y is not None and ground.kind in ("known_outcomes", "outcome_support"):
        again = judge_known_outcomes(y, risk, weight)
    # What the other kinds count is not of the site's patients, or is the same for all of them.
    return ground if again is None else replace(again, kind=ground.kind, verdict=ground.verdict)
