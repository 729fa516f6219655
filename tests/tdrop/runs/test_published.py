"""Two exports of nearly the same patients: the second is the first, byte for byte."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from disclosure_attack import Attack

from tdrop.disclosure import Published, may_leave, patients_apart, shown_count, state_of
from tdrop.report import SiteSummary

THRESHOLD = 10


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
    now = state_of(frame, y)
    if published.permits(now, THRESHOLD):
        published.keep(now, write(frame))
    published.copy(folder)
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
    published.keep(left, write(cohort(400)))
    outcomes = np.arange(401) % 2
    assert published.permits(left, THRESHOLD)
    assert published.permits(state_of(cohort(400), outcomes[:400], aside={"age.range": 3}, source=source), THRESHOLD)
    assert not published.permits(state_of(cohort(401), outcomes, aside={"age.range": 3}, source=source), THRESHOLD)
    assert not published.permits(state_of(cohort(400), None, aside={"age.range": 4}, source=source), THRESHOLD)
    assert not published.permits(state_of(cohort(400), None, aside={"age.range": 3}, source=source[1:]), THRESHOLD)
    others = state_of(cohort(400, first=500), outcomes[:400], aside={"age.range": 5}, source=source[10:])
    assert published.permits(others, THRESHOLD)


def test_what_left_before_there_were_parts_still_counts(published: Published) -> None:
    published.keep(state_of(cohort(400), None), write(cohort(400)))
    (kept,) = published.folder.glob("*/rows.npz")
    np.save(kept.with_name("rows.npy"), state_of(cohort(400), None)["known"])
    kept.unlink()
    assert published.permits(state_of(cohort(400), None), THRESHOLD)
    assert not published.permits(state_of(cohort(401), None), THRESHOLD)


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
    assert published.before(state_of(cohort(400), None), SiteSummary).patients == 410


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
        published.keep(state_of(cohort(500), None), fails)
    published.copy(tmp_path / "2")
    assert (tmp_path / "2" / "numbers.txt").read_text() == first
    assert published.permits(state_of(cohort(500), None), THRESHOLD)
