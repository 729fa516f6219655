"""A pair's propensity, fitted once and used by all that weigh, match or ask who is unlike anyone."""

from __future__ import annotations

from pathlib import Path

from tdrop.home import PROPENSITY, Ref, load_pair, stage
from tdrop.shift import Mask, Propensity, propensity

#: The propensity, the shift and the matching are the same for every seed of a run.
SEED = 0


@stage("propensity", in_worker=True)
def fitted_propensity(folder: Path, encoded: Ref, seed: int = SEED) -> None:
    """Writes propensity.npz, fitted once a site and used by all that weigh or match.

    A site of fewer than 2 rows has none, and then the stage is empty.
    """
    source, target = load_pair(encoded.path)
    if min(len(source), len(target)) >= 2:
        propensity(source, target, seed=seed).save(folder / PROPENSITY)


def load_propensity(ref: Ref) -> Propensity | None:
    """The pair's propensity, or None where a site has too few rows for one."""
    path = ref.path / PROPENSITY
    return Propensity.load(path) if path.is_file() else None


def unlike_patients(fitted: Ref) -> Mask | None:
    """Which target patients are unlike anyone the model learned from (rows,), or None where nobody can say."""
    found = load_propensity(fitted)
    return None if found is None else found.unlike
