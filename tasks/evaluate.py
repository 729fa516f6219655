"""Opens the labels of a site whose models are locked, and evaluates every method."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
from prefect import task
from prefect.cache_policies import NO_CACHE

from tasks.choose import MODELS, Fits, model_digests
from tasks.errors import RETRY_UNAVAILABLE, sanitize_errors
from tasks.evidence import fitted_propensity, load_predictions, unlike_patients
from tasks.labels import OutcomeFile, find_labels, open_or_refuse
from tdrop.base import LeakError, write_json
from tdrop.data import subgroups_of
from tdrop.evaluate import evaluate_methods
from tdrop.home import FRAME, Ref, ResolvedSite, compute, load_cohort, stage


@stage("evaluation")
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
    cohort = load_cohort(encoded.path / "target.npz")
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
    )
    write_json(folder / "evaluation.json", evaluation.to_dict())


@task(task_run_name="evaluate {site.name}", cache_policy=NO_CACHE, **RETRY_UNAVAILABLE)
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
    return judged_methods(site, site, encoded, fitted, target, fits, models, labels, seeds, bootstrap, tolerance)
