"""Who is counted in what leaves: most patients, and in the place of a secret fifth of them some of the others.

Rounding is no protection against someone who knows all patients of a site but one: the program can be run on every
guess about the last, and the numbers that left show which guess is right. Noise on each number would not help either,
because a report has hundreds of numbers, which together average it out. So what leaves is counted over stand-ins: a
fifth of the patients is left out, and others of the site are counted twice in their place. All numbers agree with each
other, none is biased, and none can be computed by someone who does not know the secret of the home.

A patient is left out, or not, in every report alike, so that nothing follows from asking again.
"""

from __future__ import annotations

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from tdrop.base import Indices

#: The share of patients who are left out.
SHARE_LEFT_OUT = 0.2


def pick_stand_ins(patients: pd.Series, key: str) -> Indices:
    """For each row (rows,), which row is counted in its place: its own, or that of a patient who is not left out.

    Args:
        patients: Who it is (rows,), by an id that stays the same from report to report.
        key: Sixteen characters that nobody outside knows.
    """
    names = patients.astype("str").to_numpy(dtype=np.str_)
    left_out = _draw("left out", names, key) < SHARE_LEFT_OUT * 2.0**64
    rows: Indices = np.arange(len(names), dtype=np.int64)
    counted = rows[~left_out]
    if not len(counted):
        return rows
    # Each patient has a place on a circle: a few more patients change a few stand-ins and no others.
    places = _draw("place", names[counted], key)
    order = np.argsort(places, kind="stable")
    after = np.searchsorted(places[order], _draw("stand-in", names[left_out], key)) % len(counted)
    rows[left_out] = counted[order[after]]
    return rows


def _draw(what: str, names: NDArray[np.str_], key: str) -> NDArray[np.uint64]:
    """A number per patient (rows,), as good as random to whoever does not have the key."""
    asked = pd.Series([f"{what} {name}" for name in names], dtype="object")
    return np.asarray(pd.util.hash_pandas_object(asked, index=False, hash_key=key), dtype=np.uint64)
