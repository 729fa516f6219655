"""Whether a transfer is sensible, by how large the difference is and never by a p-value."""

from __future__ import annotations

from typing import Literal

from tdrop.shift.overlap import DomainAuroc

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


def judge_shift(auroc: DomainAuroc | None, outside: float | None) -> Verdict:
    """Returns the verdict on how alike the patients are; None where there are too few to measure it."""
    if auroc is None or outside is None:
        return "too few to say"
    if auroc.low >= STOP_AUROC:
        return "stop"
    if auroc.high - auroc.low > WIDEST_INTERVAL:
        return "too few to say"
    if outside >= STOP_OUTSIDE:
        return "stop"
    return "caution" if outside >= CAUTION_OUTSIDE or auroc.low >= CAUTION_AUROC else "go"
