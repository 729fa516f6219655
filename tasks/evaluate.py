"""Chooses the method, locks the models and forecasts; only then opens the target's labels and evaluates.

Nothing before `evaluate_site` reads a label of the target, and it requires the lock on exactly these models.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pandas as pd
from prefect import task
from prefect.cache_policies import NO_CACHE

from tasks.errors import RETRY_UNAVAILABLE, sanitize_errors
from tasks.evidence import (
    SEED,
    load_evidence,
    load_predictions,
    summarise_coverage,
    unlike_patients,
)
from tasks.labels import OutcomeFile, measure_methods, open_or_refuse
from tasks.run import Fits
from tdrop.base import LeakError, write_json, write_record
from tdrop.choose import Criterion, FoldScore, Score, Trial, make_choice
from tdrop.data import label_fingerprint
from tdrop.forecast import forecast_methods, measure_influence
from tdrop.home import Ref, ResolvedSite, compute, file_digest, files, load_cohort, load_pair, site_stage, stage
from tdrop.methods import have_samples

MODELS = "models.json"


@task(task_run_name="choose {site.name}", cache_policy=NO_CACHE)
@sanitize_errors
@stage("choice")
def choose_method(folder: Path, picked: Mapping[str, Trial], folds: Mapping[str, Ref], criterion: Criterion) -> None:
    """Writes choice.json: the methods compared by the criterion."""
    write_record(folder / "choice.json", make_choice(score_methods(picked, folds), criterion=criterion))


def score_methods(picked: Mapping[str, Trial], folds: Mapping[str, Ref]) -> list[Score]:
    """The scores of every method before the choice."""
    spread = compute(have_samples, tuple(picked))
    return [
        Score(
            method,
            spread[method],
            trial,
            folds[method].record(FoldScore, "score.json") if method in folds else None,
        )
        for method, trial in picked.items()
    ]


@task(task_run_name="lock models {site.name}", cache_policy=NO_CACHE)
@sanitize_errors
@stage("models")
def lock_models(folder: Path, choice: Ref, fits: Fits) -> None:
    """Writes models.json: the digest of every model and of the choice.

    The evaluation requires this stage, and only the evaluation opens the target's label file: labels can reach neither
    a model nor the choice.
    """
    write_json(folder / MODELS, {"choice": choice.content_digest, "models": model_digests(fits)})


def model_digests(fits: Fits) -> dict[str, list[str]]:
    """By method, one digest per seed."""
    return {method: [ref.content_digest for ref in refs] for method, refs in fits.items()}


@task(task_run_name="forecast {site.name}", cache_policy=NO_CACHE)
@sanitize_errors
@site_stage("forecast")
def forecast_site(
    folder: Path, site: ResolvedSite, encoded: Ref, folds: Mapping[str, Ref], fits: Fits, models: Ref
) -> None:
    """Writes forecast.json and, for a binary outcome, sets.json: how good every method is expected to be here.

    Args:
        folder: Where to write.
        site: The target site.
        encoded: The encoded cohorts; the target's carries no labels.
        folds: By method, the stage with its out-of-fold risks.
        fits: By method, one fit per seed; patients get the first seed's risks.
        models: The lock on exactly these fits.
    """
    evidence = load_evidence(encoded, folds, fits)
    threshold, task_kind = site.site.decision.threshold, site.contract.task
    expected = compute(forecast_methods, site.name, evidence, threshold, task=task_kind, seed=SEED)
    if task_kind == "binary":
        expected = replace(expected, influence=compute(measure_influence, *load_pair(encoded.path)))
        write_record(folder / files.SETS, summarise_coverage(site.workspace, encoded, folds, evidence))
    write_record(folder / files.FORECAST, expected)


@task(task_run_name="find labels {site.name}", **RETRY_UNAVAILABLE)
@sanitize_errors
def find_labels(site: ResolvedSite, path: str | None = None, needed: bool = False) -> OutcomeFile | None:
    """The given label file, or the one that the site names; None without one."""
    if path is not None:
        return OutcomeFile(path, file_digest(Path(path)), needed)
    digest = label_fingerprint(site.site, **site.where)
    return None if digest is None else OutcomeFile(None, digest, needed)


@task(task_run_name="evaluate {site.name}", **RETRY_UNAVAILABLE)
@sanitize_errors
@site_stage("evaluation")
def evaluate_site(
    folder: Path,
    site: ResolvedSite,
    encoded: Ref,
    fitted: Ref,
    target: Ref,
    fits: Fits,
    models: Ref,
    labels: OutcomeFile | None,
    bootstrap: int,
    tolerance: float,
) -> None:
    """Writes evaluation.json and, with labels, labels.json, label_problems.csv and outcomes.npz, or why not.

    Args:
        folder: Where to write.
        site: The target site.
        encoded: The encoded cohorts.
        fitted: The propensity of the target's patients.
        target: The target's prepared rows.
        fits: By method, one fit per seed.
        models: The lock on exactly these fits.
        labels: The outcomes, opened here and nowhere before; None without any.
        bootstrap: Resamples of patients.
        tolerance: Of a continuous outcome, by how much a prediction may be off before it counts as an error.
    """
    if models.json(MODELS)["models"] != model_digests(fits):
        raise LeakError(
            f"site '{site.name}': the models are not those that were locked before labels are read; run again"
        )
    cohort = load_cohort(encoded.path / files.TARGET)
    known = None if labels is None else open_or_refuse(site, folder, cohort, labels)
    frame, unlike = pd.read_parquet(target.path / files.FRAME), unlike_patients(fitted)
    evaluation = measure_methods(site, load_predictions(fits), cohort, known, frame, unlike, bootstrap, tolerance)
    write_record(folder / "evaluation.json", evaluation)
