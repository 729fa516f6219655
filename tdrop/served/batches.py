"""The batches that a site had scored, one line each: how its population drifts while a model is in use."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from tdrop.base import Cohort

#: Fewer patients than this say nothing about a population.
FEWEST = 30
#: Batches that are remembered, the newest.
MOST = 24


@dataclass(frozen=True)
class Batch:
    """What is remembered of one scored batch: no patient, only how they are on average.

    Attributes:
        when: When it was scored (ISO 8601, UTC).
        digest: Of its patients' features: the same list scored again is the same batch.
        champion: Version of the model that scored it.
        patients: How many.
        risk: Their mean risk.
        referred: How many of them were referred.
        differences: By feature, mean minus that of the patients the model was made for, in these patients' standard
            deviations; empty where those are not on this machine.
    """

    when: str
    digest: str
    champion: str
    patients: int
    risk: float
    referred: int
    differences: Mapping[str, float]


def feature_differences(batch: Cohort, made_for: Cohort) -> dict[str, float]:
    """By feature, how far a batch's mean is from that of the patients a model was made for, in their deviations."""
    means, spread = made_for.X.mean(axis=0, dtype=np.float64), made_for.X.std(axis=0, dtype=np.float64)
    away = batch.X.mean(axis=0, dtype=np.float64) - means
    # A feature that never varied there has no deviation to count in.
    return {name: float(away[i] / spread[i]) for i, name in enumerate(batch.features) if spread[i] > 0}


def remember(before: Sequence[Batch], new: Batch) -> tuple[Batch, ...]:
    """Returns the batches with a new one, which takes the place of the same patients' scored before."""
    kept = [batch for batch in before if (batch.digest, batch.champion) != (new.digest, new.champion)]
    return tuple([*kept, new][-MOST:])


def drawable(batches: Sequence[Batch]) -> tuple[Batch, ...]:
    """Returns the batches of enough patients; nothing where there are not several to compare."""
    enough = tuple(batch for batch in batches if batch.patients >= FEWEST)
    return enough if len(enough) > 1 else ()
