"""The method, the lock on its models and the forecast; only then the labels of the target, and the evaluation.

Nothing before `evaluate_site` reads a label of the target, and it demands the lock on exactly these models.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import pandas as pd
from prefect import task
from prefect.cache_policies import NO_CACHE

from tasks.audit import seal
from tasks.errors import RETRY_UNAVAILABLE, sanitize_errors
from tasks.evidence import (
    SEED,
    fitted_propensity,
    list_promises,
    load_evidence,
    load_predictions,
    unlike_patients,
)
from tasks.labels import OutcomeFile, find_labels, open_or_refuse
from tdrop.base import DataError, LeakError, write_json, write_record
from tdrop.choose import Choice, Criterion, FoldScore, Score, Trial, make_choice
from tdrop.data import CensoringModel, subgroups_of
from tdrop.evaluate import evaluate_methods
from tdrop.forecast import Forecast, forecast_methods, measure_influence
from tdrop.home import (
    FORECAST,
    FRAME,
    RISKS,
    SETS,
    TARGET,
    Ref,
    ResolvedSite,
    Store,
    compute,
    load_cohort,
    load_pair,
    site_stage,
    stage,
)
from tdrop.methods import have_samples

logger = logging.getLogger(__name__)
MODELS = "models.json"
Fits = Mapping[str, Sequence[Ref]]


@task(task_run_name="choose {site.name}", cache_policy=NO_CACHE)
@sanitize_errors
@stage("choice")
def choose_method(folder: Path, picked: Mapping[str, Trial], folds: Mapping[str, Ref], criterion: Criterion) -> None:
    """Writes choice.json: the methods compared by the criterion."""
    write_record(folder / "choice.json", make_choice(score_methods(picked, folds), criterion=criterion))


def score_methods(picked: Mapping[str, Trial], folds: Mapping[str, Ref]) -> list[Score]:
    """What is known of every method before choosing; a worker process has loaded the methods."""
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

    Evaluation demands this stage, and only evaluation opens the file of target labels: nothing
    that the labels say can reach a model or the choice between them.
    """
    write_json(folder / MODELS, {"choice": choice.same_anywhere, "models": model_digests(fits)})


def model_digests(fits: Fits) -> dict[str, list[str]]:
    """By method, one digest per seed."""
    return {method: [ref.same_anywhere for ref in refs] for method, refs in fits.items()}


@task(task_run_name="forecast {site.name}", cache_policy=NO_CACHE)
@sanitize_errors
def forecast_site(
    site: ResolvedSite, encoded: Ref, folds: Mapping[str, Ref], fits: Fits, models: Ref, choice: Ref
) -> Ref | None:
    """Forecasts every method and seals the result with the models' digest; None where no out-of-fold risks were kept.

    Args:
        site: The target site.
        encoded: The encoded cohorts; the target's carries no labels.
        folds: By method, the stage with its out-of-fold risks.
        fits: By method, one fit per seed; the first seed's risks are what patients are told.
        models: The lock on exactly these fits.
        choice: The chosen method.
    """
    with_risks = {
        method: folds[method] for method in fits if method in folds and (folds[method].path / RISKS).is_file()
    }
    if not with_risks:
        return None
    threshold = site.site.decision.threshold

    def build(folder: Path) -> None:
        evidence = load_evidence(encoded, with_risks, fits)
        expected = compute(forecast_methods, site.name, evidence, threshold, task=site.contract.task, seed=SEED)
        if site.contract.task != "binary":
            write_record(folder / FORECAST, expected)
            return
        influence = compute(measure_influence, *load_pair(encoded.path))
        write_record(folder / FORECAST, replace(expected, influence=influence))
        write_record(folder / SETS, list_promises(site.place, encoded, with_risks, evidence))

    inputs = {
        "models": models.digest,
        "encoded": encoded.digest,
        "folds": {method: ref.digest for method, ref in with_risks.items()},
        "threshold": threshold,
    }
    ref = Store(site.place.root).make("forecast", inputs, build)
    chosen = choice.record(Choice, "choice.json").method
    try:
        seal(site.place, site.name, models.digest, chosen, ref.record(Forecast, FORECAST))
    except DataError as error:
        # A ledger that somebody changed costs the entry and not the site's report.
        logger.warning("site %s: the forecast was not sealed: %s", site.name, error)
    return ref


@site_stage("evaluation")
def judged_methods(
    folder: Path,
    site: ResolvedSite,
    encoded: Ref,
    fitted: Ref,
    target: Ref,
    fits: Fits,
    models: Ref,
    labels: OutcomeFile | None,
    seeds: int,
    bootstrap: int,
    tolerance: float,
) -> None:
    """Writes evaluation.json and, with labels, labels.json, label_problems.csv and outcomes.npz, or why not."""
    cohort = load_cohort(encoded.path / TARGET)
    known = None if labels is None else open_or_refuse(site, folder, cohort, labels)
    frame = pd.read_parquet(target.path / FRAME)
    evaluation = compute(
        evaluate_methods,
        site.name,
        load_predictions(fits),
        None if known is None else known.y,
        site.site.decision,
        seeds=range(seeds),
        subgroups=subgroups_of(frame, site.contract),
        bootstrap=bootstrap,
        unlike=unlike_patients(fitted),
        persons=cohort.persons,
        weight=None if known is None else known.weight,
        tolerance=tolerance,
        censoring=None
        if known is None or known.follow_up is None
        else CensoringModel(known.follow_up, cohort.X, cohort.persons),
    )
    write_json(folder / "evaluation.json", evaluation.to_dict())


@task(task_run_name="evaluate {site.name}", **RETRY_UNAVAILABLE)
@sanitize_errors
def evaluate_site(
    site: ResolvedSite,
    encoded: Ref,
    target: Ref,
    fits: Fits,
    models: Ref,
    bootstrap: int,
    labels_path: str | None = None,
    labels_needed: bool = False,
    tolerance: float = 0.0,
) -> Ref:
    """Evaluates every method.

    Args:
        site: The target site.
        encoded: The encoded cohorts.
        target: The target's prepared rows.
        fits: By method, one fit per seed.
        models: The lock on exactly these fits.
        bootstrap: Resamples of patients.
        labels_path: A file of outcomes to use instead of the site's own.
        labels_needed: Whether a label file that is refused is an error; else it costs the outcomes alone.
        tolerance: Of a continuous outcome, by how much a prediction may be off before it counts as an error.
    """
    if models.json(MODELS)["models"] != model_digests(fits):
        raise LeakError(
            f"site '{site.name}': the models are not those that were locked before labels are read; run again"
        )
    seeds = max(map(len, fits.values()))
    labels = find_labels(site, labels_path, labels_needed)
    fitted = fitted_propensity(site.place, encoded)
    return judged_methods(site, encoded, fitted, target, fits, models, labels, seeds, bootstrap, tolerance)
