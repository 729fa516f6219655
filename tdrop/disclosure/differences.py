"""Two reports of nearly the same patients: what differs between them tells of those few, whatever each one hides.

A state is one number a patient, made of everything that is known about the patient. A state may leave when it is one
that left before, or when at least `threshold` patients tell it from every one that did. That must hold for the patients
with what is known of their outcomes, for the patients alone (outcomes that arrive would else cover who came), and for
those of the source.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

Prints = NDArray[np.uint64]
#: By name, one number a row (rows,): `known`, `patients`, `source`.
State = Mapping[str, Prints]


def state_of(
    frame: pd.DataFrame,
    outcomes: NDArray[Any] | None,
    *,
    aside: Mapping[str, int] | None = None,
    source: pd.DataFrame | None = None,
) -> State:
    """Returns the state of a site's patients.

    Args:
        frame: Ids and features of those who are used.
        outcomes: What is known of their outcomes (rows,), NaN where nothing is.
        aside: By rule, how many other rows a report counts.
        source: The source's rows.
    """
    known = np.full(len(frame), np.nan) if outcomes is None else np.asarray(outcomes, dtype=np.float64)
    counted = [f"{rule} {number}" for rule, count in (aside or {}).items() for number in range(count)]
    others = _prints(pd.DataFrame({"": pd.Series(counted, dtype="str")}))
    state = {
        "known": np.union1d(_prints(frame.assign(**{"": known})), others),
        "patients": np.union1d(_prints(frame), others),
    }
    return state if source is None else {**state, "source": _prints(source)}


def _prints(frame: pd.DataFrame) -> Prints:
    whole = frame.astype("str")
    return np.sort(pd.util.hash_pandas_object(whole, index=False).to_numpy(np.uint64))


def patients_apart(now: State, then: State) -> int:
    """Returns how many patients tell two states apart: who came, who went, or of whom something else is known."""
    return max(_apart(now, then))


def may_leave(now: State, left: Iterable[State], threshold: int) -> bool:
    """Whether a state tells nothing of few patients to someone who has every state that left."""
    return not any(0 < apart < threshold for then in left for apart in _apart(now, then))


def _apart(now: State, then: State) -> list[int]:
    """For each part that both have, how many rows only one of them has."""
    both = [name for name in now if name in then]
    return [max(len(np.setdiff1d(now[name], then[name])), len(np.setdiff1d(then[name], now[name]))) for name in both]
