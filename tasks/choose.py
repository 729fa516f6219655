"""What is settled before any label of the target is opened: the method, the lock on its models, the forecast."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from prefect import task
from prefect.cache_policies import NO_CACHE

from tasks.audit import seal
from tasks.errors import sanitize_errors
from tasks.evidence import SEED, list_promises, load_evidence, load_kind_evidence
from tdrop.base import DataError, write_json, write_record
from tdrop.choose import Choice, Criterion, FoldScore, Score, Trial, make_choice
from tdrop.forecast import Forecast, forecast_kinds, forecast_methods, measure_influence
from tdrop.home import FORECAST, RISKS, SETS, Ref, ResolvedSite, Store, compute, load_pair, stage
from tdrop.methods import have_samples

logger = logging.getLogger(__name__)
MODELS = "models.json"
Fits = Mapping[str, Sequence[Ref]]


@stage("choice")
def chosen_method(folder: Path, picked: Mapping[str, Trial], folds: Mapping[str, Ref], criterion: Criterion) -> None:
    """Writes choice.json."""
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


@task(task_run_name="choose {site.name}", cache_policy=NO_CACHE)
@sanitize_errors
def choose_method(
    site: ResolvedSite, picked: Mapping[str, Trial], folds: Mapping[str, Ref], criterion: Criterion
) -> Ref:
    """Compares the methods by the criterion."""
    return chosen_method(site, picked, folds, criterion)


@stage("models")
def locked_models(folder: Path, choice: Ref, models: Fits) -> None:
    """Writes models.json."""
    write_json(folder / MODELS, {"choice": choice.same_anywhere, "models": model_digests(models)})


@task(task_run_name="lock models {site.name}", cache_policy=NO_CACHE)
@sanitize_errors
def lock_models(site: ResolvedSite, fits: Fits, choice: Ref) -> Ref:
    """Writes down the digest of every model and of the choice.

    Evaluation demands this stage, and only evaluation opens the file of target labels: nothing
    that the labels say can reach a model or the choice between them.
    """
    return locked_models(site, choice, fits)


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
        if site.contract.task != "binary":
            others = load_kind_evidence(encoded, with_risks)
            write_record(folder / FORECAST, compute(forecast_kinds, site.name, others, site.contract.task, seed=SEED))
            return
        evidence = load_evidence(encoded, with_risks, fits)
        expected = compute(forecast_methods, site.name, evidence, threshold, seed=SEED)
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
