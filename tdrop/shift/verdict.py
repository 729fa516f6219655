"""Whether a transfer is sensible, by how large the difference is and never by a p-value."""

from __future__ import annotations

from typing import Literal

from tdrop.shift.overlap import DomainAuroc, neighbours_needed

Verdict = Literal["go", "caution", "stop", "too few to say"]

#: From here on (lower end of the interval) patients differ noticeably: .65 is what two normal
#: populations half a standard deviation apart give (Phi(.545 / sqrt 2)), the usual "medium" effect.
CAUTION_AUROC = 0.65
#: From here on nearly every patient's site is known from the features: .975 is 2.8 standard deviations apart,
#: where two normal populations share less than a sixth of their mass.
STOP_AUROC = 0.975
#: One target patient in ten with hardly any source patient alike is worth a look, one in four is
#: no longer the population that the model was made for.
CAUTION_OUTSIDE = 0.10
STOP_OUTSIDE = 0.25
#: An interval wider than this cannot tell "alike" from "noticeably different" (.5 from .65).
WIDEST_INTERVAL = 0.15


def judge(auroc: DomainAuroc | None, outside: float | None, rows: tuple[int, int]) -> tuple[Verdict, str]:
    """Returns the verdict and its reason in one sentence; `rows` are those of source and target."""
    counts = f"{rows[0]:,} source and {rows[1]:,} target patients"
    if auroc is None or outside is None:
        return "too few to say", f"with {counts} no classifier can be cross-fitted."
    told = f"a source-vs-target classifier reaches AUROC {auroc.value:.3f} ({auroc.low:.3f} to {auroc.high:.3f})"
    without = (
        f"{outside:.1%} of the target patients have fewer than {neighbours_needed(rows[0])} source patients like them"
    )
    if auroc.low >= STOP_AUROC:
        return "stop", f"{told}: the two sites hardly share any patients; {without}."
    if auroc.high - auroc.low > WIDEST_INTERVAL:
        return "too few to say", f"{told}: with {counts} that does not tell alike from different."
    if outside >= STOP_OUTSIDE:
        return "stop", f"{without}: for them any model would guess beyond its data; {told}."
    if outside >= CAUTION_OUTSIDE:
        return "caution", f"{without}; {told}."
    if auroc.low >= CAUTION_AUROC:
        return "caution", f"{told}: the patients differ noticeably, but {without}."
    return "go", f"{told}: the patients are much alike; {without}."
