"""Whether a batch of new patients is still of the population that a model was made for."""

from __future__ import annotations

from dataclasses import dataclass

from tdrop.shift import DomainAuroc, Shift, estimate_shift
from tdrop.types import Cohort

#: A batch smaller than this says too little about a shift.
FEWEST_TO_COMPARE = 100


@dataclass(frozen=True)
class Comparison:
    """A batch beside the patients that a model was made for.

    Attributes:
        shift: From those patients (its source) to the batch (its target).
        then: How far those patients were from the model's source; None where nobody could say.
        now: How far the batch is from the model's source; None where it was not asked or nobody can say.
    """

    shift: Shift
    then: DomainAuroc | None = None
    now: DomainAuroc | None = None

    @property
    def further(self) -> bool:
        """Whether the batch is clearly further from the source than those patients were."""
        return self.then is not None and self.now is not None and self.now.low > self.then.high

    def sentence(self) -> str | None:
        """What a person must know, or None when the patients are alike."""
        these = f"these {self.shift.target_rows:,} patients"
        those = f"the {self.shift.source_rows:,} that the model was made for"
        if self.then is not None and self.now is not None and self.further:
            return (
                f"{these} differ from the source more ({_told(self.now)}) than {those} ({self.then.value:.2f}): "
                "a new transfer is recommended"
            )
        if self.shift.verdict == "go":
            return None
        if self.shift.domain_auroc is None or self.shift.outside_overlap is None:
            return f"{these} and {those} are too few to say whether they are alike"
        told = _told(self.shift.domain_auroc)
        if self.shift.verdict == "too few to say":
            return f"{these} and {those} are too few to say whether they are alike ({told})"
        told += f"; {self.shift.outside_overlap:.0%} have hardly anybody like them there"
        if self.shift.verdict == "caution":
            return f"{these} differ noticeably from {those} ({told})"
        return f"{these} are not like {those} ({told}): a new transfer is recommended"


def compare_batch(batch: Cohort, target: Cohort, source: Cohort, then: DomainAuroc | None) -> Comparison:
    """Compares a batch with the patients that a model was made for, and then with its source.

    With those patients first: as far from the source as they were may be elsewhere.

    Args:
        batch: New patients.
        target: Those that the model was made for.
        source: Those that it learned from.
        then: How far the target was from the source when the model was made.
    """
    shift = estimate_shift(target, batch)
    if shift.verdict == "stop" or then is None:
        return Comparison(shift, then)
    return Comparison(shift, then, estimate_shift(source, batch).domain_auroc)


def _told(auroc: DomainAuroc) -> str:
    return f"AUROC {auroc.value:.2f}, {auroc.low:.2f} to {auroc.high:.2f}"
