"""Two exports of nearly the same patients: the second is the first, byte for byte."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from disclosure_attack import Attack

from tdrop.disclosure import Published, Question, State, may_leave, patients_apart, shown_count, state_of
from tdrop.report import SiteSummary

THRESHOLD = 10
QUESTION = Question("a", "age below 65")


def permits(published: Published, now: State, question: Question = QUESTION, *, word: bool = False) -> bool:
    return not published.objection(now, question, THRESHOLD, word=word)


def cohort(rows: int, first: int = 0) -> pd.DataFrame:
    ids = np.arange(first, first + rows)
    return pd.DataFrame({"patient_id": [f"P{number}" for number in ids], "age": 40.0 + ids % 50})


def write(frame: pd.DataFrame) -> Any:
    def files(folder: Path) -> SiteSummary:
        (folder / "numbers.txt").write_text(f"{shown_count(len(frame), THRESHOLD)} {frame['age'].mean():.3f}")
        return SiteSummary("a", "A", patients=shown_count(len(frame), THRESHOLD))

    return files


def export(published: Published, frame: pd.DataFrame, folder: Path, y: Any = None) -> str:
    """What a person gets who asks for an export; the same steps as the command's."""
    now = state_of(frame, y, ids="patient_id")
    if permits(published, now):
        published.keep(now, QUESTION, write(frame))
    published.copy("a", folder)
    return (folder / "numbers.txt").read_text()


@pytest.fixture
def published(tmp_path: Path) -> Published:
    return Published(tmp_path / "published")


def test_patients_are_apart_by_who_came_went_or_changed() -> None:
    whole = state_of(cohort(400), None)
    changed = cohort(400)
    changed.loc[7, "age"] += 1
    outcomes = np.full(400, np.nan)
    outcomes[:3] = 1
    assert patients_apart(whole, state_of(cohort(400).sample(frac=1, random_state=0), None)) == 0
    assert patients_apart(whole, state_of(cohort(399), None)) == 1
    assert patients_apart(whole, state_of(changed, None)) == 1
    assert patients_apart(whole, state_of(cohort(400), outcomes)) == 3
    assert patients_apart(whole, state_of(cohort(400, first=400), None)) == 400
    assert may_leave(whole, [], THRESHOLD)


def test_neither_outcomes_nor_rows_set_aside_nor_the_source_cover_who_came(published: Published) -> None:
    source = cohort(300, first=1000)
    left = state_of(cohort(400), None, aside={"age.range": 3}, source=source)
    published.keep(left, QUESTION, write(cohort(400)))
    outcomes = np.arange(401) % 2
    assert permits(published, left)
    assert permits(published, state_of(cohort(400), outcomes[:400], aside={"age.range": 3}, source=source))
    assert not permits(published, state_of(cohort(401), outcomes, aside={"age.range": 3}, source=source))
    assert not permits(published, state_of(cohort(400), None, aside={"age.range": 4}, source=source))
    assert not permits(published, state_of(cohort(400), None, aside={"age.range": 3}, source=source[1:]))
    others = state_of(cohort(400, first=500), outcomes[:400], aside={"age.range": 5}, source=source[10:])
    assert permits(published, others)


def test_the_same_patients_are_not_asked_another_question(published: Published, tmp_path: Path) -> None:
    """Cuts at 64, 65, 66, ... would in the end tell each patient's age."""
    people = state_of(cohort(400), None, ids="patient_id")
    export(published, cohort(400), tmp_path / "first")
    other = Question("a", "age below 66")
    assert not permits(published, people, other)
    # A column more changes every patient's row, and none of the people.
    wider = state_of(cohort(400).assign(smoker=np.arange(400) % 2), None, ids="patient_id")
    assert not permits(published, wider, other)
    assert not permits(published, state_of(cohort(404), None, ids="patient_id"), other)
    assert permits(published, state_of(cohort(410), None, ids="patient_id"), other)
    assert permits(published, people, other, word=True)
    published.keep(people, other, write(cohort(400)), "Dr Chen: the clinic acts from another age on")
    # Both have left: neither tells anything new.
    assert permits(published, people, other)
    assert permits(published, people)
    assert not permits(published, people, Question("a", "age below 67"))


def test_neither_another_name_nor_erasing_makes_a_report_new(published: Published, tmp_path: Path) -> None:
    export(published, cohort(400), tmp_path / "first")
    people, one_more = (state_of(cohort(rows), None, ids="patient_id") for rows in (400, 401))
    twin = Question("b", QUESTION.digest)
    assert permits(published, people, twin), "the same numbers under another name"
    assert not permits(published, one_more, twin)
    assert not permits(published, people, Question("b", "age below 66"))
    published.forget("a")
    assert not any(b'"a"' in file.read_bytes() for file in published.folder.rglob("*.json"))
    published.copy("a", tmp_path / "second")
    assert not (tmp_path / "second").exists()
    assert not permits(published, one_more)
    assert not permits(published, people, Question("a", "age below 66"))
    # Another hospital that shares a few patients is not held up.
    assert permits(published, state_of(cohort(400, first=395), None, ids="patient_id"), Question("c", "sex"))


def test_a_person_may_have_what_left_forgotten(published: Published, tmp_path: Path) -> None:
    export(published, cohort(400), tmp_path / "first")
    published.forget("a", patients=True)
    assert permits(published, state_of(cohort(401), None, ids="patient_id"))


def test_what_is_kept_of_patients_cannot_be_guessed() -> None:
    first, second = (state_of(cohort(40), None, ids="patient_id", key=key * 16) for key in "ab")
    assert not set(first["people"].tolist()) & set(second["people"].tolist())


@pytest.mark.parametrize(("before", "after"), [(399, 400), (394, 395), (395, 394), (400, 409)])
def test_one_patient_more_or_less_does_not_leave(before: int, after: int, published: Published, tmp_path: Path) -> None:
    """394 patients leave as 390 and 395 as 400: who had both would know each to the patient."""
    first = export(published, cohort(before), tmp_path / "first")
    assert export(published, cohort(after), tmp_path / "second") == first
    assert (tmp_path / "second" / "numbers.txt").read_bytes() == (tmp_path / "first" / "numbers.txt").read_bytes()


def test_what_two_exports_would_have_told() -> None:
    """The attack that this prevents: rounded counts of two reports, and the knowledge that one patient was added."""
    attack = Attack()
    attack.learn("before", shown_count(394, THRESHOLD))
    attack.learn("after", shown_count(395, THRESHOLD))
    attack.require({"after": 1, "before": -1}, 1, 1)
    assert attack.possible("before") == (394, 394)


def test_enough_new_patients_leave_and_nothing_near_an_older_export_does(published: Published, tmp_path: Path) -> None:
    first = export(published, cohort(400), tmp_path / "1")
    second = export(published, cohort(410), tmp_path / "2")
    assert second != first
    # One more than the first, nine fewer than the second.
    assert export(published, cohort(401), tmp_path / "3") == second
    # Far from the second, and near the first.
    other = pd.concat([cohort(400), cohort(5, first=9000)])
    assert export(published, other, tmp_path / "4") == second
    assert export(published, cohort(400), tmp_path / "5") == first
    assert published.before(state_of(cohort(400), None, ids="patient_id"), QUESTION, SiteSummary).patients == 410


def test_outcomes_that_come_a_few_at_a_time_wait(published: Published, tmp_path: Path) -> None:
    y = np.full(400, np.nan)
    first = export(published, cohort(400), tmp_path / "1", y)
    y[:9] = 0
    export(published, cohort(400), tmp_path / "2", y)
    assert len(list(published.folder.glob("[0-9]*"))) == 1
    y[:10] = 0
    assert export(published, cohort(400), tmp_path / "3", y) == first
    assert len(list(published.folder.glob("[0-9]*"))) == 2


def test_an_interrupted_write_leaves_what_left_before(published: Published, tmp_path: Path) -> None:
    first = export(published, cohort(400), tmp_path / "1")

    def fails(folder: Path) -> dict[str, Any]:
        (folder / "numbers.txt").write_text("half")
        raise OSError("disk full")

    with pytest.raises(OSError, match="disk full"):
        published.keep(state_of(cohort(500), None), QUESTION, fails)
    published.copy("a", tmp_path / "2")
    assert (tmp_path / "2" / "numbers.txt").read_text() == first
    assert permits(published, state_of(cohort(500), None))
