"""Whether a batch of new patients is still of the population that a model was made for."""

from __future__ import annotations

from dataclasses import dataclass

from tdrop.base import Cohort
from tdrop.shift import DomainAuroc, Propensity, judge, propensity

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
                f"{these} differ from the source more ({_told(self.now)}) than {those} ({self.then.value:.2f}): "
                "a new transfer is recommended"
            )
        if self.apart is None or self.apart.auroc is None:
            return f"{these} and {those} are too few to say whether they are alike"
        told, outside = _told(self.apart.auroc), self.apart.outside
        verdict = judge(self.apart.auroc, outside)
        if verdict == "go":
            return None
        if verdict == "too few to say":
            return f"{these} and {those} are too few to say whether they are alike ({told})"
        told += f"; {outside:.0%} have hardly anybody like them there"
        if verdict == "caution":
            return f"{these} differ noticeably from {those} ({told})"
        return f"{these} are not like {those} ({told}): a new transfer is recommended"


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
    if apart is None or then is None or judge(apart.auroc, apart.outside) == "stop":
        return Comparison(*rows, apart, then)
    return Comparison(*rows, apart, then, propensity(source, batch).auroc)


def _told(auroc: DomainAuroc) -> str:
    return f"AUROC {auroc.value:.2f}, {auroc.low:.2f} to {auroc.high:.2f}"
