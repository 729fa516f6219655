"""Two reports of nearly the same patients: what differs between them tells of those few, whatever each one hides.

`Published` holds what has left of a site, so that a report of nearly the same patients does not leave after it.

A state is one number a patient, made of everything that is known about the patient. A state may leave when it is one
that left before, or when at least `threshold` patients tell it from every one that did. That must hold for the patients
with what is known of their outcomes, for the patients alone (outcomes that arrive would else cover who came), and for
those of the source.

Nor may it part few patients from the others who were in exactly the same states before: a group that is empty in one
report and not in the next would tell of those few, and several reports can be added up and taken from each other.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import pandas as pd
from filelock import FileLock
from numpy.typing import NDArray

from tdrop.base import read_arrays, read_record, write_record
from tdrop.home import PRIVATE

Prints = NDArray[np.uint64]
#: By name, one number a row (rows,): `known` and `patients` with the rows that were set aside, `outcomes` and `rows`
#: the same without, and `source`.
State = Mapping[str, Prints]
#: Parts of a state that hold patients and nothing else.
PATIENTS = ("outcomes", "rows", "source")
#: A state's file, and its file before a state had several parts.
_ROWS, _OLD_ROWS = "rows.npz", "rows.npy"
#: The files that left, and a summary of them that stays when the files are replaced by newer ones.
_FILES, _SUMMARY = "files", "summary.json"

Summary = TypeVar("Summary")


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
    outcome_rows, rows = _prints(frame.assign(**{"": known})), _prints(frame)
    state = {
        "known": np.union1d(outcome_rows, others),
        "patients": np.union1d(rows, others),
        "outcomes": outcome_rows,
        "rows": rows,
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
    before = list(left)
    if any(0 < apart < threshold for then in before for apart in _apart(now, then)):
        return False
    parts = ([now[part], *(then[part] for then in before if part in then)] for part in PATIENTS if part in now)
    return not any(_parts_few(states, threshold) for states in parts)


def _parts_few(states: Sequence[Prints], threshold: int) -> bool:
    """Whether the first of several states parts few patients from those who were in the same of the others."""
    if len(states) == 1:
        return False
    patients = np.unique(np.concatenate(states))
    within = np.column_stack([np.isin(patients, state) for state in states])  # (patients, states)
    alike = np.unique(np.packbits(within[:, 1:], axis=1), axis=0, return_inverse=True)[1].ravel()
    taken = np.bincount(alike, weights=within[:, 0])
    rest = np.bincount(alike) - taken
    # Whoever was in none before is new and parted from nobody, but all the better told from the others.
    rest[alike[~within[:, 1:].any(axis=1)]] = threshold
    parted = (taken > 0) & (rest > 0)
    return bool((parted & (np.minimum(taken, rest) < threshold)).any())


def _apart(now: State, then: State) -> list[int]:
    """For each part that both have, how many rows only one of them has."""
    both = [name for name in now if name in then]
    return [max(len(np.setdiff1d(now[name], then[name])), len(np.setdiff1d(then[name], now[name]))) for name in both]


@dataclass(frozen=True)
class Published:
    """What has left of one site; it stays at the site.

    Attributes:
        folder: Holds one folder per state that left: a digest per patient, and of the last one the files themselves.
    """

    folder: Path

    def permits(self, now: State, threshold: int) -> bool:
        """Whether a state of the patients may leave beside all that did."""
        return may_leave(now, [_state_in(left) for left in self._left()], threshold)

    def before(self, now: State, kind: type[Summary]) -> Summary | None:
        """The summary that left last of other patients than these."""
        for left in reversed(self._left()):
            if patients_apart(now, _state_in(left)):
                return read_record(kind, left / _SUMMARY)
        return None

    def keep(self, now: State, write: Callable[[Path], Any]) -> None:
        """Writes what leaves of a state, and keeps it as the last that did; `write` returns its summary."""
        self.folder.mkdir(parents=True, exist_ok=True, mode=PRIVATE)
        with FileLock(self.folder / ".lock", mode=0o600):
            earlier = self._left()
            number = int(earlier[-1].name) + 1 if earlier else 1
            incoming = self.folder / f".{number:06d}"
            shutil.rmtree(incoming, ignore_errors=True)
            (incoming / _FILES).mkdir(parents=True, mode=PRIVATE)
            write_record(incoming / _SUMMARY, write(incoming / _FILES))
            np.savez(incoming / _ROWS, **now)  # type: ignore[arg-type]
            incoming.rename(self.folder / f"{number:06d}")
            for left in earlier:
                same = not patients_apart(now, _state_in(left))
                shutil.rmtree(left if same else left / _FILES, ignore_errors=True)

    def copy(self, folder: Path) -> None:
        """Copies what left last."""
        shutil.copytree(self._left()[-1] / _FILES, folder, dirs_exist_ok=True)

    def _left(self) -> list[Path]:
        return sorted(path.parent for name in (_ROWS, _OLD_ROWS) for path in self.folder.glob(f"[0-9]*/{name}"))


def _state_in(folder: Path) -> State:
    if (folder / _ROWS).is_file():
        return read_arrays(folder / _ROWS)
    return {"known": np.load(folder / _OLD_ROWS)}
