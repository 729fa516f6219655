"""Locks the models, then opens the labels."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from tasks.artifacts import table
from tasks.held_pages import leave_numbers
from tasks.step import step, when_unavailable
from tdrop.data.cells import write_patients
from tdrop.data.outcomes import read_labels
from tdrop.data.readers import label_fingerprint
from tdrop.data.subgroups import subgroups_of
from tdrop.disclosure.cells import limit
from tdrop.disclosure.evaluation import disclose_rows
from tdrop.errors import DataError, LeakError, Unavailable
from tdrop.evaluate import Evaluation, evaluate
from tdrop.home.files import FRAME, REFUSED, load_cohort
from tdrop.home.place import ResolvedSite, write_private
from tdrop.home.pool import compute
from tdrop.home.progress import report
from tdrop.home.stage import stage
from tdrop.home.store import Ref
from tdrop.metrics import in_view
from tdrop.records import write_json, write_record
from tdrop.runs.evidence import load_predictions
from tdrop.runs.propensity import fitted_propensity, unlike_patients

MODELS = "models.json"
Fits = Mapping[str, Sequence[Ref]]


@dataclass(frozen=True)
class LabelFile:
    """A target's outcomes.

    Attributes:
        path: Where they are; None for where the site says.
        digest: Of what is there.
        needed: Whether a file that is refused ends the evaluation rather than leaving it without outcomes.
    """

    path: str | None
    digest: str
    needed: bool


@stage("models")
def locked_models(folder: Path, choice: Ref, models: Fits) -> None:
    """Writes models.json."""
    write_json(folder / MODELS, {"choice": choice.digest, "models": _digests(models)})


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
    labels: LabelFile | None,
    seeds: int,
    bootstrap: int,
) -> None:
    """Writes evaluation.json and, with labels, labels.json, label_problems.csv and outcomes.npz, or why not."""
    ids = load_cohort(encoded.path / "target.npz").ids
    y = None if labels is None else _open_or_refuse(site, folder, ids, labels)
    frame = pd.read_parquet(target.path / FRAME)
    evaluation = compute(
        evaluate,
        site.name,
        load_predictions(fits),
        y,
        site.site.decision,
        seeds=range(seeds),
        subgroups=subgroups_of(frame, site.contract),
        bootstrap=bootstrap,
        unlike=unlike_patients(fitted),
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
    labels = _find_labels(site, labels_path, labels_needed)
    fitted = fitted_propensity(site.place, encoded)
    ref = judged_methods(site.place, site, encoded, fitted, target, fits, models, labels, seeds, bootstrap)
    _show(site, ref)
    return ref


def _digests(fits: Fits) -> dict[str, list[str]]:
    return {method: [ref.digest for ref in refs] for method, refs in fits.items()}


def _find_labels(site: ResolvedSite, path: str | None, needed: bool) -> LabelFile | None:
    if path is not None:
        return LabelFile(path, hashlib.sha256(Path(path).read_bytes()).hexdigest(), needed)
    found = label_fingerprint(site.site, home=site.place.root, base=site.network.base)
    return None if found is None else LabelFile(None, found, needed)


def _open_or_refuse(site: ResolvedSite, folder: Path, ids: NDArray[Any], labels: LabelFile) -> NDArray[Any] | None:
    """The outcomes (rows,), or None with the reason in refused_labels.json where the file cannot be used."""
    try:
        return _open_labels(site, folder, ids, labels.path)
    except DataError as error:
        # A file that cannot be reached now is tried again, and was not refused.
        if isinstance(error, Unavailable):
            raise
        if labels.needed:
            raise _refusal(site, error) from None
        write_json(folder / REFUSED, {"sentence": str(error)})
        return None


def _refusal(site: ResolvedSite, error: DataError) -> DataError:
    """The refusal of a label file as Prefect may keep it: its counts stay at a site that hides small ones."""
    if not limit(site.policy):
        return error
    file = site.place.site(site.name) / "refused" / "labels.txt"
    write_private(file, f"{error}\n")
    return DataError(f"the label file for site '{site.name}' was refused; why is in {file}")


def _open_labels(site: ResolvedSite, folder: Path, ids: NDArray[Any], labels_path: str | None) -> NDArray[Any]:
    """Reads the outcomes (rows,), NaN where unknown, and keeps their counts in labels.json."""
    where: Any = site.site if labels_path is None else Path(labels_path)
    like = None if labels_path is None else site.site
    labels = read_labels(where, site.contract, ids, home=site.place.root, base=site.network.base, like=like)
    write_record(folder / "labels.json", labels.counts)
    write_patients(folder / "label_problems.csv", labels.problems)
    np.savez(folder / "outcomes.npz", y=labels.y)
    return labels.y


def _show(site: ResolvedSite, ref: Ref) -> None:
    evaluation = Evaluation.from_dict(ref.json("evaluation.json"))
    rows = disclose_rows(evaluation.rows, site.policy)
    shown = {(row.method, row.metric): row.value for row in rows if row.seed == "all" and row.group == "all"}
    names = in_view("main")
    body = [[method, *(shown.get((method, metric)) for metric in names)] for method in evaluation.methods]
    leave_numbers(site, "evaluation", f"# {site.name}: evaluation\n\n" + table(["method", *names], body))
    known = f"{evaluation.patients:,} patients, {evaluation.labelled:,} with known outcome"
    if (ref.path / REFUSED).is_file():
        known += "; the label file was refused, its report says why"
    report(site.name, "evaluate", detail=known)
