"""Two reports of nearly the same patients: what differs between them tells of those few, whatever each one hides.

A state is one number a patient, made of everything that is known about the patient. A state may leave when it is one
that left before, or when at least `threshold` patients tell it from every one that did.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

State = NDArray[np.uint64]


def state_of(frame: pd.DataFrame, outcomes: NDArray[Any] | None) -> State:
    """Returns the state (rows,) of a site's patients: ids, features and what is known of the outcome."""
    known = np.full(len(frame), np.nan) if outcomes is None else np.asarray(outcomes, dtype=np.float64)
    whole = frame.astype("str").assign(**{"": pd.Series(known, index=frame.index).astype("str")})
    return np.sort(pd.util.hash_pandas_object(whole, index=False).to_numpy(np.uint64))


def patients_apart(now: State, then: State) -> int:
    """Returns how many patients tell two states apart: who came, who went, or of whom something else is known."""
    return max(len(np.setdiff1d(now, then)), len(np.setdiff1d(then, now)))


def may_leave(now: State, left: Iterable[State], threshold: int) -> bool:
    """Whether a state tells nothing of few patients to someone who has every state that left."""
    return not any(0 < patients_apart(now, then) < threshold for then in left)
