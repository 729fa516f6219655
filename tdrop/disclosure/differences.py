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
from types import MappingProxyType
from typing import Any, TypeVar

import numpy as np
import pandas as pd
from filelock import FileLock
from numpy.typing import NDArray

from tdrop.base import read_arrays, read_record, write_json, write_record
from tdrop.home import PRIVATE

Prints = NDArray[np.uint64]
#: By name, one number per row (rows,): `known` and `patients` with the rows that were set aside, `outcomes` and `rows`
#: the same without, `people` by their id alone, `features` without it, `value COLUMN` by id and one column,
#: `column COLUMN` by one column alone, `besides COLUMN` by all others; of the source `source`, `source value COLUMN`.
State = Mapping[str, Prints]
#: Of digests that never leave a process, as in tests.
DEFAULT_KEY = "0" * 16
#: Parts of a state that also hold rows that were set aside.
WITH_ASIDE = ("known", "patients")
#: Parts by either of which people are the same: their ids, or all that is known of them under other ids.
WHO = ("people", "features")
#: The threshold of a site that names none.
USUAL_THRESHOLD = 10
#: Parts that only tell whether rows came before, under whatever ids.
COLUMN, BESIDES = "column ", "besides "
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
        state |= _recognisable(frame.drop(columns=ids), key)
    if source is None:
        return state
    named = {} if ids is None or ids not in source else _by_column(source, ids, "source ", key)
    return {**state, "source": _prints(source, key), **named}


def outcomes_state(ids: NDArray[Any], outcomes: NDArray[Any], key: str = DEFAULT_KEY) -> State:
    """Returns the state of patients of whom outcomes (rows,) alone leave, as in a recalibration."""
    frame = pd.DataFrame({"id": ids, "": np.asarray(outcomes, dtype=np.float64)})
    return {"people": _prints(frame[["id"]], key), **_by_column(frame, "id", "", key)}


def _prints(frame: pd.DataFrame, key: str, *, sort: bool = True) -> Prints:
    hashed = pd.util.hash_pandas_object(frame.astype("str"), index=False, hash_key=key)
    prints: Prints = np.asarray(hashed, dtype=np.uint64)
    return np.sort(prints) if sort else prints


def _by_column(frame: pd.DataFrame, ids: str, prefix: str, key: str) -> dict[str, Prints]:
    """Each column with the id: a column that changed for everybody covers no change of another in few."""
    return {f"{prefix}value {name}": _prints(frame[[ids, name]], key) for name in frame if name != ids}


def _without_ids(frame: pd.DataFrame, key: str) -> dict[str, Prints]:
    """The rows whatever their ids, the second of two alike apart from the first; empty where chance repeats many."""
    whole = frame.astype("str")
    if frame.empty or 4 * whole.duplicated(keep=False).sum() > len(frame):
        return {}
    return {"features": _prints(whole.assign(**{"": whole.groupby(list(whole)).cumcount()}), key)}


def _recognisable(frame: pd.DataFrame, key: str) -> dict[str, Prints]:
    """Each column alone, and where fewer than two columns tell rows apart also all columns but one.

    Rows under other ids are recognised by them, also when a column changed for everybody. What chance alone could
    repeat at other patients is left out.
    """
    columns = {name: _prints(frame[[name]].assign(column=str(name)), key, sort=False) for name in frame}
    alone = {f"{COLUMN}{name}": _numbered(prints, key) for name, prints in columns.items() if _tells_apart(prints)}
    if len(alone) >= 2:
        return alone
    whole = np.sum(list(columns.values()), axis=0, dtype=np.uint64)
    others = {f"{BESIDES}{name}": whole - prints for name, prints in columns.items()}
    return alone | {name: _numbered(prints, key) for name, prints in others.items() if _tells_apart(prints)}


def _tells_apart(prints: Prints) -> bool:
    """Whether as many other patients would have other values: by chance clearly more than the threshold differ.

    How many have a value is taken as Poisson in both: of c patients about .564 sqrt(c) differ, in all with a variance
    of .18 a row.
    """
    counts = np.unique(prints, return_counts=True)[1]
    return bool(0.564 * np.sqrt(counts).sum() - 4 * np.sqrt(0.18 * len(prints)) >= USUAL_THRESHOLD)


def _numbered(prints: Prints, key: str) -> Prints:
    """The second of two alike apart from the first."""
    rows = pd.DataFrame({"row": prints})
    return _prints(rows.assign(number=rows.groupby("row").cumcount()), key)


def patients_apart(now: State, then: State) -> int:
    """Returns how many patients tell two states apart: who came, who went, or of whom something else is known."""
    return max(_apart(now, then))


def may_leave(now: State, left: Iterable[State], threshold: int) -> bool:
    """Whether a state tells nothing of few patients to someone who has every state that left."""
    now = {part: prints for part, prints in now.items() if not part.startswith((COLUMN, BESIDES))}
    before = list(left)
    # A person may have let it leave beside one of nearly the same patients.
    if any(now.keys() <= then.keys() and not patients_apart(now, then) for then in before):
        return True
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
            threshold; empty where no report is asked for, as for a recalibration.
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
        memory: Says by which secret the digests are made: what left by another cannot be compared.
    """

    folder: Path
    memory: str = ""

    def objection(
        self,
        now: State,
        question: Question,
        threshold: int,
        *,
        word: bool = False,
        elsewhere: Mapping[str, str] = MappingProxyType({}),
    ) -> str:
        """Why a report may not leave beside all that did, whatever site they named; empty where it may.

        Reports of nearly the same people are compared patient by patient. Another question about the same people needs
        `threshold` of them to be others, a person's `word`, or to have left before; so does a report by nearly the same
        patients of the source. These rules hold across sites, because an extract may be named twice, and after a site
        was erased.

        Args:
            now: The state of the patients.
            question: What is asked about them.
            threshold: Of disclosure.
            word: Whether a person lets it leave.
            elsewhere: What shows that something of the site left, with the memory that it names.
        """
        before = [(_state_in(left), _question_in(left)) for left in self._left() if not self._is_foreign(left)]
        near = [
            (then if _mostly(now, then, ["features"]) else _without_features(then), asked)
            for then, asked in before
            if asked.site == question.site or _mostly(now, then, WHO) or _recognised(now, then, threshold)
        ]
        source = {part: prints for part, prints in now.items() if part.startswith("source")}
        own = {part: prints for part, prints in now.items() if part not in source}
        if not may_leave(own, [then for then, _ in near], threshold):
            return f"fewer than {threshold} patients differ from those of a report that left before"
        if word:
            return ""
        let = "(a person lets this one leave with `tdrop export --by` and `--note`)"
        if not may_leave(source, [then for then, _ in before if _mostly(source, then, source)], threshold):
            return f"fewer than {threshold} patients of the source differ from those of a report that left before {let}"
        if self._not_remembered(question.site, elsewhere):
            return (
                "something left of this site that is not remembered here, because it left another home, or "
                f"'{self.folder.name}' or 'digest.key' was removed from this one {let}"
            )
        if any(_under_other_ids(now, then, threshold) for then, _ in near):
            return f"a report of the same patients under other ids left before {let}"
        if not question.digest:
            return ""
        reports = [(then, asked) for then, asked in near if asked.digest]
        same = [asked for then, asked in reports if _are_the_same(now, then, threshold)]
        if same and question.digest not in {asked.digest for _, asked in reports}:
            return f"a report that left before asked another question about the same patients {let}"
        models = {asked.models for asked in same}
        if question.models not in models and len(models) >= FREE_MODELS:
            return f"reports by {len(models)} other sets of models about the same patients left before {let}"
        return ""

    def _not_remembered(self, site: str, elsewhere: Mapping[str, str]) -> set[str]:
        """What shows that something left which this memory cannot compare with, and no person has let pass."""
        states = [left for left in self._left() if not self._is_foreign(left)]
        ours = {self.memory} if any(_named(_question_in(left).site) == _named(site) for left in states) else set()
        foreign = {left.name for left in self._left() if self._is_foreign(left)}
        passed = {mark for left in states for mark in _about(left).get("passed", ())}
        return foreign.union(mark for mark, memory in elsewhere.items() if memory not in ours) - passed

    def _is_foreign(self, left: Path) -> bool:
        return bool(_about(left).get("memory", self.memory) != self.memory)

    def before(self, now: State, question: Question, kind: type[Summary]) -> Summary | None:
        """The summary that left last of the site's other patients than these."""
        for left in reversed(self._left(question.site)):
            if not self._is_foreign(left) and patients_apart(now, _state_in(left)):
                return read_record(kind, left / _SUMMARY)
        return None

    @contextmanager
    def alone(self) -> Iterator[None]:
        """Lets one process at a time ask whether a report may leave, and keep it."""
        self.folder.mkdir(parents=True, exist_ok=True, mode=PRIVATE)
        with FileLock(self.folder / ".lock", mode=0o600):
            yield

    def keep(
        self,
        now: State,
        question: Question,
        write: Callable[[Path], Any],
        word: str = "",
        elsewhere: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        """Writes what leaves of a state, and keeps it as the last that did; inside `alone`.

        Args:
            now: The state of the patients.
            question: What the report asks about them.
            write: Writes the files and returns their summary.
            word: Who let it leave in spite of an objection, and why.
            elsewhere: What showed that something of the site left; with a word it is let pass.
        """
        passed = sorted(self._not_remembered(question.site, elsewhere)) if word else []
        numbers = [int(left.name) for left in self._left()]
        name = f"{max(numbers, default=0) + 1:06d}"
        incoming = self.folder / f".{name}"
        shutil.rmtree(incoming, ignore_errors=True)
        (incoming / _FILES).mkdir(parents=True, mode=PRIVATE)
        write_record(incoming / _SUMMARY, write(incoming / _FILES))
        about = {**asdict(question), "word": word, "memory": self.memory, "passed": passed}
        write_json(incoming / _ABOUT, about)
        np.savez(incoming / _ROWS, **now)  # type: ignore[arg-type]
        earlier = self._left(question.site)
        incoming.rename(self.folder / name)
        for left in earlier:
            same = not patients_apart(now, _state_in(left)) and _question_in(left) == question
            known = same and not _about(left).get("passed") and not self._is_foreign(left)
            shutil.rmtree(left if known else left / _FILES, ignore_errors=True)

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
            write_json(left / _ABOUT, {**_about(left), "site": "", "word": ""})
            (left / _SUMMARY).unlink(missing_ok=True)
            shutil.rmtree(left / _FILES, ignore_errors=True)

    def _left(self, site: str | None = None) -> list[Path]:
        left = sorted(path.parent for path in self.folder.glob(f"[0-9]*/{_ROWS}"))
        return [folder for folder in left if site is None or _question_in(folder).site == site]


def _state_in(folder: Path) -> State:
    return read_arrays(folder / _ROWS)


def _about(folder: Path) -> dict[str, Any]:
    return dict(json.loads((folder / _ABOUT).read_text(encoding="utf-8")))


def _named(site: str) -> str:
    """A site's own name in what a rehearsal or a recalibration of it is called."""
    return site.rpartition(" ")[2]


def _question_in(folder: Path) -> Question:
    about = _about(folder)
    return Question(about["site"], about["digest"], about.get("models", ""))


def _mostly(now: State, then: State, parts: Iterable[str]) -> bool:
    """Whether at least half of the rows of one state are in the other."""
    both = [name for name in parts if name in now and name in then]
    return any(2 * len(np.intersect1d(now[name], then[name])) >= min(len(now[name]), len(then[name])) for name in both)


def _without_features(state: State) -> State:
    """A state as it is compared with one of other people, where few rows are alike by chance."""
    return {part: prints for part, prints in state.items() if part != "features"}


def _recognised(now: State, then: State, threshold: int) -> list[str]:
    """The parts by which fewer than `threshold` rows differ, whatever their ids."""
    parts = [part for part in now if part == "features" or part.startswith((COLUMN, BESIDES))]
    return [part for part in parts if part in then and _apart(now, then, [part])[0] < threshold]


def _are_the_same(now: State, then: State, threshold: int) -> bool:
    """Whether fewer than `threshold` people differ, by their ids or by what is known of them."""
    return bool(_recognised(now, then, threshold)) or min(_apart(now, then, ["people"]), default=threshold) < threshold


def _under_other_ids(now: State, then: State, threshold: int) -> bool:
    """Whether rows that are recognised have ids that these values did not have before."""
    for part in _recognised(now, then, threshold):
        if part == "features":
            with_ids = ["rows"]
        elif part.startswith(COLUMN):
            with_ids = [f"value {part.removeprefix(COLUMN)}"]
        else:
            left_out = f"value {part.removeprefix(BESIDES)}"
            with_ids = [name for name in now if name.startswith("value ") and name not in ("value ", left_out)]
        if max(_apart(now, then, with_ids), default=0) >= threshold:
            return True
    return False
