"""What a forecast, an audit and a label list need of a run's methods, read from its stages.

A pair's propensity is fitted once and used by all that weigh, match or ask who is unlike anyone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tdrop.base import DataError, Doubles, Mask, Summary, read_arrays
from tdrop.forecast import Evidence, SetSummary, reference_risk, summarise_sets, true_risk
from tdrop.home import Ref, Workspace, files, load_pair, load_summary, stage
from tdrop.shift import Propensity, density_ratio_weights, propensity


def load_predictions(fits: Mapping[str, Sequence[Ref]]) -> dict[str, list[Summary]]:
    """By method, one Summary of the target's patients per seed."""
    return {method: [load_summary(ref.path / files.PREDICTIONS) for ref in refs] for method, refs in fits.items()}


def load_evidence(encoded: Ref, folds: Mapping[str, Ref], fits: Mapping[str, Sequence[Ref]]) -> list[Evidence]:
    """The evidence for a forecast of every method."""
    source, target = load_pair(encoded.path)
    evidence = []
    for method, ref in folds.items():
        arrays = read_arrays(ref.path / files.RISKS)
        rows, predicted = arrays["rows"], load_summary(fits[method][0].path / files.PREDICTIONS).mean
        evidence.append(
            Evidence(
                *(method, arrays["risk"], arrays["y"], arrays["weights"], predicted.astype(np.float64)),
                persons=None if source.persons is None else source.persons[rows],
                target_persons=target.persons,
                origins=arrays.get("origins"),
                stands_for=arrays.get("stands_for"),
                features=(source.X[rows], target.X) if source.task == "regression" else None,
            )
        )
    return evidence


def assumed_risks(evidence: Sequence[Evidence], method: str) -> Doubles:
    """The true risks that the forecast of one method's AUROC assumes (target rows,)."""
    own = next(one for one in evidence if one.method == method)
    return true_risk(own, reference_risk(evidence))


def summarise_coverage(
    workspace: Workspace,
    encoded: Ref,
    folds: Mapping[str, Ref],
    evidence: Sequence[Evidence],
    outcomes: NDArray[Any] | None = None,
    weight: NDArray[Any] | None = None,
) -> tuple[SetSummary, ...]:
    """The prediction sets of every method, counted; with outcomes (target rows,), also whether they held.

    Each outcome stands for `weight` (target rows,) patients, for one unless given.
    """
    own, theirs = _ratios(workspace, encoded)
    ids = load_pair(encoded.path)[1].ids
    sets = []
    for one in evidence:
        kept = read_arrays(folds[one.method].path / files.RISKS)
        weights = own[kept["rows"]] * kept.get("stands_for", 1.0)
        given = (one.source, one.y, weights, one.target, theirs)
        sets.append(summarise_sets(one.method, given, outcomes=outcomes, ids=ids, stands_for=weight))
    return tuple(sets)


def site_propensity(workspace: Workspace, encoded: Ref) -> Propensity:
    """P(target | x) of both sites' patients."""
    fitted = load_propensity(fitted_propensity(workspace, encoded))
    if fitted is None:
        raise DataError("a forecast needs at least 2 patients a site; check the extract's counts")
    return fitted


def _ratios(workspace: Workspace, encoded: Ref) -> tuple[Doubles, Doubles]:
    """Density ratios of source and target rows on one scale, capped alike."""
    fitted = site_propensity(workspace, encoded)
    capped = density_ratio_weights(fitted)
    odds = [one / (1 - one) for one in (np.clip(fitted.source, 0, 1 - 1e-12), np.clip(fitted.target, 0, 1 - 1e-12))]
    return capped, np.minimum(odds[1] / odds[0].mean(), capped.max())


#: The propensity, the shift and the matching are the same for every seed of a run.
SEED = 0


@stage("propensity", in_worker=True)
def fitted_propensity(folder: Path, encoded: Ref, seed: int = SEED) -> None:
    """Writes propensity.npz, fitted once per site and used by all that weigh or match.

    A site of fewer than 2 rows has none, and then the stage is empty.
    """
    source, target = load_pair(encoded.path)
    if min(len(source), len(target)) >= 2:
        propensity(source, target, seed=seed).save(folder / files.PROPENSITY)


def load_propensity(ref: Ref) -> Propensity | None:
    """The propensity of source and target; None if one has too few rows."""
    path = ref.path / files.PROPENSITY
    return Propensity.load(path) if path.is_file() else None


def unlike_patients(fitted: Ref) -> Mask | None:
    """Which target patients are unlike anyone the model learned from (rows,); None without a propensity."""
    loaded = load_propensity(fitted)
    return None if loaded is None else loaded.unlike
