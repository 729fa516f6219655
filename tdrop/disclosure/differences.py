"""Two reports of nearly the same patients: what differs between them tells of those few, whatever each one hides.

`Published` holds what has left of a site, so that a report of nearly the same patients does not leave after it.

A state is one number per patient, made of everything that is known about the patient. A state may leave when it is one
that left before, or when at least `threshold` patients tell it from every one that did. That must hold for the patients
with what is known of their outcomes, for the patients alone (outcomes that arrive would else cover who came), and for
those of the source.

Nor may it part few patients from the others who were in exactly the same states before: a group that is empty in one
report and not in the next would tell of those few, and several reports can be added up and taken from each other.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import pandas as pd
from filelock import FileLock
from numpy.typing import NDArray

from tdrop.base import read_arrays, read_record, write_json, write_record
from tdrop.home import PRIVATE

Prints = NDArray[np.uint64]
#: By name, one number per row (rows,): `known` and `patients` with the rows that were set aside, `outcomes` and `rows`
#: the same without, `people` by their id alone, `features` without it, `value COLUMN` by id and one column, `source`.
State = Mapping[str, Prints]
#: Of digests that never leave a process, as in tests.
DEFAULT_KEY = "0" * 16
#: Parts of a state that also hold rows that were set aside.
WITH_ASIDE = ("known", "patients")
#: Parts by either of which people are the same: their ids, or all that is known of them under other ids.
WHO = ("people", "features")
#: So many sets of models may be tried on the same people without a person's word: each is another way to count them.
FREE_MODELS = 5
#: Of what left: its state, its question, its files, and a summary that stays when newer files replace these.
_ROWS, _ABOUT, _FILES, _SUMMARY = "rows.npz", "about.json", "files", "summary.json"

Summary = TypeVar("Summary")


def state_of(
    frame: pd.DataFrame,
    outcomes: NDArray[Any] | None,
    *,
    aside: Mapping[str, int] | None = None,
    source: pd.DataFrame | None = None,
    ids: str | None = None,
    key: str = DEFAULT_KEY,
) -> State:
    """Returns the state of a site's patients.

    Args:
        frame: Ids and features of those who are used.
        outcomes: What is known of their outcomes (rows,), NaN where nothing is.
        aside: By rule, how many other rows a report counts.
        source: The source's rows.
        ids: The column that names people, whatever else is known of them.
        key: Sixteen characters that nobody outside knows: without them no guess about a patient can be tried.
    """
    known = np.full(len(frame), np.nan) if outcomes is None else np.asarray(outcomes, dtype=np.float64)
    counted = [f"{rule} {number}" for rule, count in (aside or {}).items() for number in range(count)]
    others = _prints(pd.DataFrame({"": pd.Series(counted, dtype="str")}), key)
    outcome_rows, rows = _prints(frame.assign(**{"": known}), key), _prints(frame, key)
    state = {
        "known": np.union1d(outcome_rows, others),
        "patients": np.union1d(rows, others),
        "outcomes": outcome_rows,
        "rows": rows,
        "people": rows if ids is None else _prints(frame[[ids]], key),
    }
    if ids is not None:
        state |= _without_ids(frame.drop(columns=ids), key) | _by_column(frame.assign(**{"": known}), ids, "", key)
    if source is None:
        return state
    named = {} if ids is None or ids not in source else _by_column(source, ids, "source ", key)
    return {**state, "source": _prints(source, key), **named}


def _prints(frame: pd.DataFrame, key: str) -> Prints:
    whole = frame.astype("str")
    return np.sort(pd.util.hash_pandas_object(whole, index=False, hash_key=key).to_numpy(np.uint64))


def _by_column(frame: pd.DataFrame, ids: str, prefix: str, key: str) -> dict[str, Prints]:
    """Each column with the id: a column that changed for everybody covers no change of another in few."""
    return {f"{prefix}value {name}": _prints(frame[[ids, name]], key) for name in frame if name != ids}


def _without_ids(frame: pd.DataFrame, key: str) -> dict[str, Prints]:
    """The rows whatever their ids, the second of two alike apart from the first; empty where most are not unique."""
    whole = frame.astype("str")
    if frame.empty or 2 * whole.duplicated(keep=False).sum() > len(frame):
        return {}
    return {"features": _prints(whole.assign(**{"": whole.groupby(list(whole)).cumcount()}), key)}


def patients_apart(now: State, then: State) -> int:
    """Returns how many patients tell two states apart: who came, who went, or of whom something else is known."""
    return max(_apart(now, then))


def may_leave(now: State, left: Iterable[State], threshold: int) -> bool:
    """Whether a state tells nothing of few patients to someone who has every state that left."""
    before = list(left)
    if any(0 < apart < threshold for then in before for apart in _apart(now, then)):
        return False
    parts = ([now[part], *(then[part] for then in before if part in then)] for part in now if part not in WITH_ASIDE)
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


def _apart(now: State, then: State, parts: Iterable[str] | None = None) -> list[int]:
    """For each part that both have, how many rows only one of them has."""
    both = [name for name in parts or now if name in now and name in then]
    return [max(len(np.setdiff1d(now[name], then[name])), len(np.setdiff1d(then[name], now[name]))) for name in both]


@dataclass(frozen=True)
class Question:
    """What a report asks about its patients.

    Attributes:
        site: Whom it is about, by name.
        digest: Of everything that decides groups and counts: columns, rules, cuts of subgroups, outcome, level and
            threshold.
        models: Digest of the models whose risks are counted.
    """

    site: str
    digest: str = ""
    models: str = ""


@dataclass(frozen=True)
class Published:
    """What has left of the sites of a home; it stays there, also when a site is erased.

    Attributes:
        folder: Holds one folder per state that left: a keyed digest per patient, the question, and of every site's
            last one the files themselves.
    """

    folder: Path

    def objection(self, now: State, question: Question, threshold: int, *, word: bool = False) -> str:
        """Why a report may not leave beside all that did, whatever site they named; empty where it may.

        Reports of nearly the same people are compared patient by patient. Another question about the same people needs
        `threshold` of them to be others, a person's `word`, or to have left before. Both rules hold across sites,
        because an extract may be named twice, and after a site was erased.
        """
        before = [(_state_in(left), _question_in(left)) for left in self._left()]
        near = [(then, asked) for then, asked in before if asked.site == question.site or _mostly(now, then)]
        if not may_leave(now, [then for then, _ in near], threshold):
            return f"fewer than {threshold} patients differ from those of a report that left before"
        if word:
            return ""
        same = [(then, asked) for then, asked in near if min(_apart(now, then, WHO)) < threshold]
        let = "(a person lets this one leave with --by and --note)"
        if any(max(_apart(now, then, ("features",)), default=threshold) < threshold <= max(_apart(now, then, ("rows",)))
               for then, _ in same):  # fmt: skip
            return f"a report of the same patients under other ids left before {let}"
        if same and question.digest not in {asked.digest for _, asked in near}:
            return f"a report that left before asked another question about the same patients {let}"
        models = {asked.models for _, asked in same}
        if question.models not in models and len(models) >= FREE_MODELS:
            return f"reports by {len(models)} other sets of models about the same patients left before {let}"
        return ""

    def before(self, now: State, question: Question, kind: type[Summary]) -> Summary | None:
        """The summary that left last of the site's other patients than these."""
        for left in reversed(self._left(question.site)):
            if patients_apart(now, _state_in(left)):
                return read_record(kind, left / _SUMMARY)
        return None

    @contextmanager
    def alone(self) -> Iterator[None]:
        """Lets one process at a time ask whether a report may leave, and keep it."""
        self.folder.mkdir(parents=True, exist_ok=True, mode=PRIVATE)
        with FileLock(self.folder / ".lock", mode=0o600):
            yield

    def keep(self, now: State, question: Question, write: Callable[[Path], Any], word: str = "") -> None:
        """Writes what leaves of a state, and keeps it as the last that did; inside `alone`.

        Args:
            now: The state of the patients.
            question: What the report asks about them.
            write: Writes the files and returns their summary.
            word: Who let it leave in spite of an objection, and why.
        """
        numbers = [int(left.name) for left in self._left()]
        name = f"{max(numbers, default=0) + 1:06d}"
        incoming = self.folder / f".{name}"
        shutil.rmtree(incoming, ignore_errors=True)
        (incoming / _FILES).mkdir(parents=True, mode=PRIVATE)
        write_record(incoming / _SUMMARY, write(incoming / _FILES))
        write_json(incoming / _ABOUT, {**asdict(question), "word": word})
        np.savez(incoming / _ROWS, **now)  # type: ignore[arg-type]
        earlier = self._left(question.site)
        incoming.rename(self.folder / name)
        for left in earlier:
            same = not patients_apart(now, _state_in(left)) and _question_in(left) == question
            shutil.rmtree(left if same else left / _FILES, ignore_errors=True)

    def copy(self, site: str, folder: Path) -> bool:
        """Copies what left last of a site; returns whether anything did."""
        left = self._left(site)[-1:]
        for last in left:
            shutil.copytree(last / _FILES, folder, dirs_exist_ok=True)
        return bool(left)

    def forget(self, site: str, *, patients: bool = False) -> None:
        """Removes a site's name and numbers, and with `patients` also the digests that keep its patients apart."""
        # What a killed process left of a report may be of any site.
        for unfinished in self.folder.glob(".[0-9]*"):
            shutil.rmtree(unfinished, ignore_errors=True)
        for left in self._left(site):
            if patients:
                shutil.rmtree(left, ignore_errors=True)
                continue
            write_json(left / _ABOUT, {**asdict(_question_in(left)), "site": "", "word": ""})
            (left / _SUMMARY).unlink(missing_ok=True)
            shutil.rmtree(left / _FILES, ignore_errors=True)

    def _left(self, site: str | None = None) -> list[Path]:
        left = sorted(path.parent for path in self.folder.glob(f"[0-9]*/{_ROWS}"))
        return [folder for folder in left if site is None or _question_in(folder).site == site]


def _state_in(folder: Path) -> State:
    return read_arrays(folder / _ROWS)


def _question_in(folder: Path) -> Question:
    about = json.loads((folder / _ABOUT).read_text(encoding="utf-8"))
    return Question(about["site"], about["digest"], about.get("models", ""))


def _mostly(now: State, then: State) -> bool:
    """Whether at least half of the people of one state are in the other."""
    both = [name for name in WHO if name in now and name in then]
    return any(2 * len(np.intersect1d(now[name], then[name])) >= min(len(now[name]), len(then[name])) for name in both)
