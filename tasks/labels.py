"""A target's outcomes: its label file, which is opened or refused, and the list of patients to look up."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Self

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from tasks.errors import refuse_labels
from tasks.evidence import assumed_risks, load_evidence
from tasks.run import Run
from tdrop.base import (
    Cohort,
    DataError,
    Doubles,
    Indices,
    Mask,
    Summary,
    Unavailable,
    UsageError,
    read_arrays,
    write_json,
    write_record,
)
from tdrop.contracts import Contract
from tdrop.data import (
    CensoringModel,
    FollowUp,
    LabelCounts,
    Labels,
    read_labels,
    subgroups_of,
    weigh_outcomes,
    write_patients,
)
from tdrop.evaluate import Evaluation, evaluate_methods
from tdrop.forecast import Drawn, draw_list, size_list
from tdrop.home import PRIVATE, ResolvedSite, Workspace, compute, digest_of, files, load_cohort

#: A target's outcomes beside its evaluation.
OUTCOMES = "outcomes.npz"


@dataclass(frozen=True)
class OutcomeFile:
    """A label file.

    Attributes:
        path: Its path; None for the one that the site's YAML names.
        digest: Digest of its content.
        needed: Whether a refused file ends the evaluation, or the evaluation goes on without outcomes.
    """

    path: str | None
    digest: str
    needed: bool


@dataclass(frozen=True)
class KnownLabels:
    """A target's outcomes, after the models were locked.

    Attributes:
        y: Outcomes (rows,), NaN where unknown.
        weight: Weights that make up for patients who left before the horizon (rows,), 0 where unknown; None if all
            patients count alike.
        follow_up: How long patients were followed, if the outcome is a time and an event.
    """

    y: Doubles
    weight: Doubles | None = None
    follow_up: FollowUp | None = None

    @property
    def censored(self) -> Mask | None:
        """Who left before the horizon, if the others are weighted for it (rows,)."""
        return None if self.weight is None or self.follow_up is None else self.follow_up.censored

    def save(self, path: Path) -> None:
        """Writes outcomes.npz."""
        arrays: dict[str, Any] = {"y": self.y}
        if self.follow_up is not None:
            arrays |= vars(self.follow_up)
        if self.weight is not None:
            arrays["weight"] = self.weight
        np.savez(path, **arrays)

    @classmethod
    def load(cls, path: Path) -> Self | None:
        """Reads what `save` wrote; None without a file."""
        if not path.is_file():
            return None
        data = read_arrays(path)
        if "time" not in data:
            return cls(data["y"])
        follow_up = FollowUp(data["time"], data["event"], data["competing"], float(data["horizon"]))
        return cls(data["y"], data.get("weight"), follow_up)


def weigh_labels(labels: Labels, contract: Contract, cohort: Cohort, where: str) -> tuple[KnownLabels, LabelCounts]:
    """Weighted outcomes, and their counts with how patients who left before the horizon were handled.

    Args:
        labels: Labels of the cohort's patients.
        contract: The table.
        cohort: The encoded patients: leaving is modelled by their features.
        where: Whose labels they are, for messages.
    """
    if labels.follow_up is None:
        return KnownLabels(labels.y), labels.counts
    # A list has few outcomes; whether they are enough is judged where they are used.
    asked = contract.outcome.censoring
    weight, summary = weigh_outcomes(labels.follow_up, cohort.X, where, asked=asked, persons=cohort.persons, fewest=1)
    counts = replace(
        labels.counts,
        censoring=summary.handling,
        effective_n=summary.effective_n if weight is not None else None,
        largest_weight=summary.largest_weight if weight is not None else None,
    )
    return KnownLabels(labels.y, weight, labels.follow_up), counts


def open_or_refuse(site: ResolvedSite, folder: Path, cohort: Cohort, labels: OutcomeFile) -> KnownLabels | None:
    """The outcomes; None if the file cannot be used, with the reason in refused_labels.json."""
    try:
        return _open_labels(site, folder, cohort, labels.path)
    except DataError as error:
        # A file that cannot be reached is tried again, not refused.
        if isinstance(error, Unavailable):
            raise
        if labels.needed:
            raise refuse_labels(site, error) from None
        write_json(folder / files.REFUSED, {"sentence": str(error)})
        return None


def _open_labels(site: ResolvedSite, folder: Path, cohort: Cohort, path: str | None) -> KnownLabels:
    """Reads the outcomes and writes their counts to labels.json."""
    file, like = (site.site, None) if path is None else (Path(path), site.site)
    labels = read_labels(file, site.contract, cohort.ids, **site.where, like=like)
    if path is not None and not labels.counts.known:
        raise DataError(f"label file of '{path}' gives no patient's outcome; fill outcomes in, or give another file")
    known, counts = weigh_labels(labels, site.contract, cohort, f"label file of '{path or site.name}'")
    write_record(folder / "labels.json", counts)
    write_patients(folder / "label_problems.csv", labels.problems)
    known.save(folder / OUTCOMES)
    return known


def measure_methods(
    site: ResolvedSite,
    predictions: Mapping[str, Sequence[Summary]],
    patients: Cohort,
    known: KnownLabels | None,
    frame: pd.DataFrame,
    unlike: Mask | None,
    bootstrap: int,
    tolerance: float,
) -> Evaluation:
    """Evaluates every method, in a worker process.

    Args:
        site: The site.
        predictions: By method, what each fit predicts for the patients.
        patients: The patients, encoded.
        known: Their outcomes, or None.
        frame: Their rows in the contract's columns.
        unlike: Who is unlike anyone the model learned from (patients,).
        bootstrap: Resamples of patients.
        tolerance: Largest error of a predicted continuous value that does not count as wrong.
    """
    followed = None if known is None else known.follow_up
    return compute(
        evaluate_methods,
        site.name,
        predictions,
        None if known is None else known.y,
        site.site.decision,
        seeds=range(max(map(len, predictions.values()))),
        subgroups=subgroups_of(frame, site.contract),
        bootstrap=bootstrap,
        unlike=unlike,
        persons=patients.persons,
        weight=None if known is None else known.weight,
        tolerance=tolerance,
        censoring=None if followed is None else CensoringModel(followed, patients.X, patients.persons),
    )


def labels_folder(workspace: Workspace, site: str) -> Path:
    """The folder with the labels of a site's audits."""
    return workspace.site(site) / "labels"


def store_labels(workspace: Workspace, site: str, labels: Path) -> Path:
    """Stores a copy of a label file, named by its digest, on which the next transfer evaluates; returns the copy."""
    content = labels.read_bytes()
    folder = labels_folder(workspace, site)
    folder.mkdir(parents=True, exist_ok=True, mode=PRIVATE)
    kept = folder / f"{hashlib.sha256(content).hexdigest()}{labels.suffix}"
    kept.touch(mode=0o600)
    kept.write_bytes(content)
    current = folder / "current"
    current.unlink(missing_ok=True)
    current.symlink_to(kept.name)
    return kept


def stored_labels(workspace: Workspace, site: str) -> str | None:
    """The labels of the site's last audit, or None."""
    current = labels_folder(workspace, site) / "current"
    return str(current.resolve()) if current.exists() else None


#: The list for a reviewer, and the probabilities by which its outcomes are weighted later.
SHEET, DRAW = "label_list.csv", "label_list.npz"


@dataclass(frozen=True)
class LabelList:
    """A label list.

    Attributes:
        method: The method it was drawn for.
        target: Digest of the extract it was drawn from.
        rows: Rows of the drawn patients (drawn,).
        probability: Probability with which each was drawn (drawn,).
        true: The true risks that the draw assumed (target rows,).
        known: Rows of patients who were not drawn because their outcome was known.
    """

    method: str
    target: str
    rows: Indices
    probability: Doubles
    true: Doubles
    known: Indices

    @property
    def drawn(self) -> Drawn:
        """Rows and probabilities."""
        return Drawn(self.rows, self.probability)

    def known_before(self, rows: int) -> Mask:
        """Whose outcome was known when it was drawn (rows,)."""
        return np.isin(np.arange(rows), self.known)

    @cached_property
    def digest(self) -> str:
        """Digest that differs between lists."""
        return digest_of([self.method, self.target, self.rows.tolist(), self.probability.tolist()])


@dataclass(frozen=True)
class WrittenList:
    """A label list as a file.

    Attributes:
        sheet: The file.
        n: Number of patients on it.
        outcomes: How many of them are expected to have the outcome; None if the outcome is not binary.
        enough: How many patients are expected to bring ENOUGH_OUTCOMES.
    """

    sheet: Path
    n: int
    outcomes: float | None
    enough: int


#: A list is so long that it brings this many outcomes of the rarer kind, within bounds: fewer allow no new model.
ENOUGH_OUTCOMES = 10
SHORTEST_LIST, LONGEST_LIST = 50, 400


def write_list(workspace: Workspace, run: Run, n: int | None, *, seed: int) -> WrittenList:
    """Draws n patients and writes the sheet: one line per patient with an id and an empty outcome.

    The sheet shows no risks, and its lines are shuffled, so that a half-finished review covers no particular group.
    Patients whose outcome is known are not drawn.
    """
    if run.chosen not in run.folds:
        raise UsageError(
            f"site '{run.site}' has no out-of-fold risks to draw a list by; run `tdrop transfer {run.site} --again`"
        )
    network = workspace.network()
    spec = network.site(run.site)
    if network.contract_of(spec).task != "binary":
        return _write_random_list(workspace, run, n, seed)
    risk = run.predictions.mean.astype(np.float64)
    true = assumed_risks(load_evidence(run.stages.encoded, run.folds, run.trained.fits), run.chosen)
    threshold, known = spec.decision.threshold, _known_already(workspace, run, len(risk))
    enough = size_list(risk, true, threshold, ENOUGH_OUTCOMES)
    left = int((~known).sum())
    size = n or min(left, max(SHORTEST_LIST, min(LONGEST_LIST, enough)))
    drawn = draw_list(risk, true, threshold, size, seed=seed, known=known if known.any() else None)
    sheet = _keep_list(workspace, run, drawn, true, known, seed)
    return WrittenList(sheet, size, float(true[drawn.rows].sum()), enough)


def _write_random_list(workspace: Workspace, run: Run, n: int | None, seed: int) -> WrittenList:
    """Draws n patients with equal probability: for classes and numbers no patient is more useful than another."""
    patients = len(load_cohort(run.stages.encoded.path / files.TARGET).ids)
    known = _known_already(workspace, run, patients)
    left = np.flatnonzero(~known)
    size = min(len(left), n or 2 * SHORTEST_LIST)
    if not size:
        raise UsageError(f"site '{run.site}' has no patient without a known outcome to list")
    rows = np.sort(np.random.default_rng([seed, 34]).choice(left, size, replace=False))
    drawn = Drawn(rows, np.full(size, size / len(left)))
    sheet = _keep_list(workspace, run, drawn, np.zeros(patients), known, seed)
    return WrittenList(sheet, size, None, size)


def _keep_list(workspace: Workspace, run: Run, drawn: Drawn, true: Doubles, known: Mask, seed: int) -> Path:
    """Writes the sheet, and beside it the probabilities for later weights; returns the sheet."""
    network = workspace.network()
    ids = load_cohort(run.stages.encoded.path / files.TARGET).ids[drawn.rows]
    sheet = workspace.site(run.site) / SHEET
    contract = network.contract_of(network.site(run.site))
    write_sheet(sheet, np.random.default_rng([seed, 33]).permutation(ids), contract)
    kept = workspace.site(run.site) / DRAW
    kept.touch(mode=0o600)
    digest = run.stages.target.digest
    listed = LabelList(run.chosen, digest, drawn.rows, drawn.probability, true, np.flatnonzero(known))
    arrays: dict[str, Any] = vars(listed)
    np.savez(kept, **arrays)
    return sheet


def _known_already(workspace: Workspace, run: Run, patients: int) -> Mask:
    """Whose outcome is known from an earlier audit (patients,)."""
    known = KnownLabels.load(run.stages.evaluation.path / OUTCOMES)
    if stored_labels(workspace, run.site) is None or known is None:
        return np.zeros(patients, dtype=np.bool_)
    # Patients who left early were looked up already; a list would bring nothing new.
    return np.isfinite(known.y) if known.censored is None else np.isfinite(known.y) | known.censored


def write_sheet(sheet: Path, ids: NDArray[Any], contract: Contract) -> None:
    """Writes the ids with empty outcomes, safe to open in a spreadsheet."""
    write_patients(sheet, pd.DataFrame({contract.id_column: ids} | dict.fromkeys(contract.outcome.columns, "")))


def read_list(workspace: Workspace, site: str) -> LabelList | None:
    """The site's last list, or None."""
    kept = workspace.site(site) / DRAW
    if not kept.is_file():
        return None
    data = read_arrays(kept)
    known = data.get("known", np.zeros(0, dtype=np.int64))
    return LabelList(str(data["method"]), str(data["target"]), data["rows"], data["probability"], data["true"], known)
