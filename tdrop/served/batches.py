"""The batches that a site had scored: how its population drifts while a model is in use.

Whether one is still of the population that the model was made for, and one line of each to remember.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from filelock import FileLock
from pydantic import TypeAdapter

from tdrop.base import Cohort
from tdrop.home import write_private
from tdrop.shift import DomainAuroc, Propensity, judge_shift, propensity

#: Fewer patients than this say nothing about a population.
FEWEST = 30
#: Batches that are remembered, the newest.
MOST = 24
#: Below the site's folder; it stays at the site.
FILE = "batches.json"


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


_BATCHES = TypeAdapter(tuple[Batch, ...])


def patients_digest(batch: Cohort) -> str:
    """Digest of a batch's patients by their features, in whatever order the file has them."""
    return hashlib.sha256(b"".join(sorted(row.tobytes() for row in batch.X))).hexdigest()


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


#: A batch smaller than this says too little about a shift.
FEWEST_TO_COMPARE = 100


@dataclass(frozen=True)
class Comparison:
    """A batch beside the patients that a model was made for.

    Attributes:
        rows: The batch's patients.
        those_rows: The patients that the model was made for.
        apart: What tells the two apart; None where one has too few patients.
        then: How far those patients were from the model's source; None where nobody could say.
        now: How far the batch is from the model's source; None where it was not asked or nobody can say.
    """

    rows: int
    those_rows: int
    apart: Propensity | None
    then: DomainAuroc | None = None
    now: DomainAuroc | None = None

    @property
    def further(self) -> bool:
        """Whether the batch is clearly further from the source than those patients were."""
        return self.then is not None and self.now is not None and self.now.low > self.then.high

    def sentence(self) -> str | None:
        """What a person must know, or None when the patients are alike."""
        these = f"these {self.rows:,} patients"
        those = f"the {self.those_rows:,} that the model was made for"
        if self.then is not None and self.now is not None and self.further:
            return (
                f"{these} differ from the source more ({_interval(self.now)}) than {those} ({self.then.value:.2f}): "
                "a new transfer is recommended"
            )
        if self.apart is None or self.apart.auroc is None:
            return f"{these} and {those} are too few to say whether they are alike"
        auroc, outside = _interval(self.apart.auroc), self.apart.outside
        verdict = judge_shift(self.apart.auroc, outside)
        if verdict == "go":
            return None
        if verdict == "too few to say":
            return f"{these} and {those} are too few to say whether they are alike ({auroc})"
        auroc += f"; {outside:.0%} have hardly anybody like them there"
        if verdict == "caution":
            return f"{these} differ noticeably from {those} ({auroc})"
        return f"{these} are not like {those} ({auroc}): a new transfer is recommended"


def compare_batch(batch: Cohort, target: Cohort, source: Cohort, then: DomainAuroc | None) -> Comparison:
    """Compares a batch with the patients that a model was made for, and then with its source.

    With those patients first: as far from the source as they were may be elsewhere. By what tells patients apart
    alone: the rest of a shift is not asked for, and somebody waits.

    Args:
        batch: New patients.
        target: Those that the model was made for.
        source: Those that it learned from.
        then: How far the target was from the source when the model was made.
    """
    rows = (len(batch), len(target))
    apart = propensity(target, batch) if min(rows) >= 2 else None
    if apart is None or then is None or judge_shift(apart.auroc, apart.outside) == "stop":
        return Comparison(*rows, apart, then)
    return Comparison(*rows, apart, then, propensity(source, batch).auroc)


def _interval(auroc: DomainAuroc) -> str:
    return f"AUROC {auroc.value:.2f}, {auroc.low:.2f} to {auroc.high:.2f}"


def read_batches(folder: Path) -> tuple[Batch, ...]:
    """The batches of a site, oldest first, from its folder."""
    file = folder / FILE
    return _BATCHES.validate_json(file.read_bytes()) if file.is_file() else ()


def keep_batch(folder: Path, batch: Batch) -> None:
    """Remembers one more batch in a site's folder."""
    file = folder / FILE
    with FileLock(file.with_suffix(".lock"), mode=0o600):
        write_private(file, _BATCHES.dump_json(remember(read_batches(folder), batch), indent=1).decode())
