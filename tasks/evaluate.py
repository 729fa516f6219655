"""Locks the models, then opens the labels."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import pandas as pd

from tasks.held_pages import leave_numbers
from tasks.step import step, when_unavailable
from tdrop.base import LeakError, write_json
from tdrop.data import subgroups_of
from tdrop.disclosure import disclose_rows
from tdrop.evaluate import Evaluation, evaluate_methods
from tdrop.home import FRAME, REFUSED, Ref, ResolvedSite, compute, load_cohort, report, stage
from tdrop.runs import (
    OutcomeFile,
    evaluation_page,
    find_labels,
    fitted_propensity,
    load_predictions,
    open_or_refuse,
    unlike_patients,
)

MODELS = "models.json"
Fits = Mapping[str, Sequence[Ref]]


@stage("models")
def locked_models(folder: Path, choice: Ref, models: Fits) -> None:
    """Writes models.json."""
    write_json(folder / MODELS, {"choice": choice.same_anywhere, "models": _digests(models)})


@step("lock models", "lock models {site.name}")
def lock_models(site: ResolvedSite, fits: Fits, choice: Ref) -> Ref:
    """Writes down the digest of every model and of the choice.

    Evaluation demands this stage, and only evaluation opens the file of target labels: nothing
    that the labels say can reach a model or the choice between them.
    """
    return locked_models(site.place, choice, fits)


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
) -> None:
    """Writes evaluation.json and, with labels, labels.json, label_problems.csv and outcomes.npz, or why not."""
    cohort = load_cohort(encoded.path / "target.npz")
    y = None if labels is None else open_or_refuse(site, folder, cohort.ids, labels)
    frame = pd.read_parquet(target.path / FRAME)
    evaluation = compute(
        evaluate_methods,
        site.name,
        load_predictions(fits),
        y,
        site.site.decision,
        seeds=range(seeds),
        subgroups=subgroups_of(frame, site.contract),
        bootstrap=bootstrap,
        unlike=unlike_patients(fitted),
        persons=cohort.persons,
    )
    write_json(folder / "evaluation.json", evaluation.to_dict())


@step("evaluate", "evaluate {site.name}", retry=when_unavailable)
def evaluate_site(
    site: ResolvedSite,
    encoded: Ref,
    target: Ref,
    fits: Fits,
    models: Ref,
    bootstrap: int,
    labels_path: str | None = None,
    labels_needed: bool = False,
) -> Ref:
    """Evaluates every method.

    Args:
        site: The target site.
        encoded: The encoded cohorts.
        target: The target's prepared rows.
        fits: By method, one fit a seed.
        models: The lock on exactly these fits.
        bootstrap: Resamples of patients.
        labels_path: A file of outcomes to use instead of the site's own.
        labels_needed: Whether a label file that is refused is an error; else it costs the outcomes alone.
    """
    if models.json(MODELS)["models"] != _digests(fits):
        raise LeakError(
            f"site '{site.name}': the models are not those that were locked before labels are read; run again"
        )
    seeds = max(map(len, fits.values()))
    labels = find_labels(site, labels_path, labels_needed)
    fitted = fitted_propensity(site.place, encoded)
    ref = judged_methods(site.place, site, encoded, fitted, target, fits, models, labels, seeds, bootstrap)
    _show(site, ref)
    return ref


def _digests(fits: Fits) -> dict[str, list[str]]:
    return {method: [ref.same_anywhere for ref in refs] for method, refs in fits.items()}


def _show(site: ResolvedSite, ref: Ref) -> None:
    evaluation = Evaluation.from_dict(ref.json("evaluation.json"))
    rows = disclose_rows(evaluation.rows, site.policy)
    page = evaluation_page(site.name, evaluation.methods, rows, labelled=evaluation.labelled != 0)
    leave_numbers(site, "evaluation", page)
    known = f"{evaluation.patients:,} patients, {evaluation.labelled:,} with known outcome"
    if (ref.path / REFUSED).is_file():
        known += "; the label file was refused, its report says why"
    report(site.name, "evaluate", detail=known)
