"""A report's numbers once more, over the patients whom `tdrop.disclosure.pick_stand_ins` lets count in what leaves."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd

from tasks.audit import AUDIT, Audit, observe
from tasks.evaluate import Fits
from tasks.evidence import SEED, fitted_propensity, load_predictions, unlike_patients
from tasks.gather import moved_risks
from tasks.labels import OUTCOMES, KnownLabels
from tasks.run import Run
from tdrop.base import Floats, Indices, write_json, write_record
from tdrop.data import CensoringModel, subgroups_of
from tdrop.disclosure import disclose, disclose_evaluation, limit, pick_stand_ins
from tdrop.evaluate import Evaluation, evaluate_methods
from tdrop.home import FRAME, Place, Ref, ResolvedSite, compute, keyed, load_pair, site_stage
from tdrop.report import ReportData
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


def leaving_data(place: Place, run: Run, whole: ReportData) -> ReportData:
    """A report's data as it may leave: over stand-ins, with small counts hidden; whole where the site is exempt."""
    policy = whole.site.disclosure
    return disclose(_over_stand_ins(place, run, whole), policy) if limit(policy) else whole


def leaving_evaluation(place: Place, run: Run) -> Evaluation:
    """A run's evaluation as it may leave, the same as in `leaving_data`."""
    policy = place.resolve(run.site).site.disclosure
    ref = _again(place, run) if limit(policy) else run.stages.evaluation
    return disclose_evaluation(Evaluation.from_dict(ref.json("evaluation.json")), policy)


def _again(place: Place, run: Run) -> Ref:
    """The stage of a run's numbers over stand-ins."""
    site, stages = place.resolve(run.site), run.stages
    fitted = fitted_propensity(place, stages.encoded)
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
    frame = pd.read_parquet(target.path / FRAME)
    rows = _rows(site.place, frame, site.contract.person or site.contract.id_column)
    known, unlike = _taken(KnownLabels.load(evaluation.path / OUTCOMES), rows), unlike_patients(fitted)
    source, everybody = load_pair(encoded.path)
    # Whoever is counted twice is one person, in the folds of a classifier and in the resamples of an interval.
    patients = everybody.take(rows)
    patients = replace(patients, persons=rows if patients.persons is None else patients.persons)
    numbers = compute(
        evaluate_methods,
        site.name,
        {method: [one.take(rows) for one in seeds] for method, seeds in load_predictions(fits).items()},
        None if known is None else known.y,
        site.site.decision,
        seeds=range(max(map(len, fits.values()))),
        subgroups=subgroups_of(frame.iloc[rows].reset_index(drop=True), site.contract),
        bootstrap=bootstrap,
        unlike=None if unlike is None else unlike[rows],
        persons=patients.persons,
        weight=None if known is None else known.weight,
        tolerance=tolerance,
        censoring=None
        if known is None or known.follow_up is None
        else CensoringModel(known.follow_up, patients.X, patients.persons),
    )
    write_json(folder / "evaluation.json", numbers.to_dict())
    like = propensity(source, patients, seed=SEED) if min(len(source), len(patients)) >= 2 else None
    write_record(folder / "shift.json", estimate_shift(source, patients, seed=SEED, fitted=like))
    write_record(folder / "matching.json", match(source, patients, seed=SEED, fitted=like))


def _rows(place: Place, frame: pd.DataFrame, column: str) -> Indices:
    return pick_stand_ins(frame[column], keyed(place.main, "stand-ins")[:16])


def _taken(known: KnownLabels | None, rows: Indices) -> KnownLabels | None:
    if known is None:
        return None
    followed = None if known.follow_up is None else known.follow_up.take(rows)
    return KnownLabels(known.y[rows], None if known.weight is None else known.weight[rows], followed)


def _over_stand_ins(place: Place, run: Run, whole: ReportData) -> ReportData:
    """The report's data over stand-ins, under the same verdict.

    Trials, choice and forecast stay: they are of the source's patients and of all risks, and no outcome of the site is
    in them.
    """
    assert whole.target_frame is not None, "a run's report has its patients"
    stages, again = run.stages, _again(place, run)
    rows = _rows(place, whole.target_frame, whole.contract.person or whole.contract.id_column)
    known = _taken(KnownLabels.load(stages.evaluation.path / OUTCOMES), rows)
    evaluation = Evaluation.from_dict(again.json("evaluation.json"))
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
        moved=moved_risks(place, run, known, rows) if binary else (),
        observations=observe(whole.forecast, evaluation, run.chosen, ()) if observed and whole.forecast else (),
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
