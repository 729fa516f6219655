"""Two exports of nearly the same patients: the second is the first, byte for byte."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from disclosure_attack import Attack

from tdrop.disclosure import (
    FREE_MODELS,
    Published,
    Question,
    State,
    may_leave,
    outcomes_state,
    patients_apart,
    shown_count,
    state_of,
)
from tdrop.report import SiteSummary

THRESHOLD = 10
QUESTION = Question("a", "age below 65")
#: By the number in the id.
AGES = 40.0 + np.random.default_rng(5).integers(50, size=10_000)


def permits(published: Published, now: State, question: Question = QUESTION, *, word: bool = False) -> bool:
    return not published.objection(now, question, THRESHOLD, word=word)


def cohort(rows: int, first: int = 0) -> pd.DataFrame:
    ids = np.arange(first, first + rows)
    return pd.DataFrame({"patient_id": [f"P{number}" for number in ids], "age": AGES[ids]})


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


#: How an extract may come again, and whether a report of it may leave.
AGAIN = {
    "as it was": (lambda rows: rows, True),
    "in another order": (lambda rows: rows[::-1], True),
    "measured anew, one of them otherwise": (lambda rows: _one_changed(rows.assign(psa=rows["psa"] + 1e-9)), False),
    "measured anew, three gone and ten come": (lambda rows: _measured_in_part(rows), False),
    "under other ids": (lambda rows: _renamed(rows), False),
    "under other ids, without one": (lambda rows: _renamed(rows)[1:], False),
    "under other ids, without ten": (lambda rows: _renamed(rows)[10:], True),
    "under other ids, a column measured anew": (lambda rows: _renamed(rows.assign(psa=rows["psa"] + 1e-9)), False),
    "under other ids, a column measured anew, without one": (
        lambda rows: _renamed(rows.assign(psa=rows["psa"] + 1e-9))[1:],
        False,
    ),
    "of other patients": (lambda rows: measured(400, first=5000), True),
    "with one outcome the other way round": (lambda rows: _flipped(rows, 1), False),
    "with ten outcomes the other way round": (lambda rows: _flipped(rows, 10), True),
    "numbered in another order": (lambda rows: rows.assign(patient_id=rows["patient_id"].to_numpy()[::-1]), False),
}


def _one_changed(rows: pd.DataFrame) -> pd.DataFrame:
    return rows.assign(age=rows["age"].where(rows.index != 7, 90.5))


def _measured_in_part(rows: pd.DataFrame) -> pd.DataFrame:
    """All have another value; three of those of before are not there, and ten are new."""
    return pd.concat([rows[3:], measured(10, first=400)]).assign(psa=lambda one: one["psa"] + 1e-9)


def _renamed(rows: pd.DataFrame) -> pd.DataFrame:
    return rows.assign(patient_id=[f"new{number}" for number in range(len(rows))])


def _flipped(rows: pd.DataFrame, number: int) -> pd.DataFrame:
    return rows.assign(outcome=rows["outcome"].where(rows.index >= number, 1 - rows["outcome"]))


def measured(rows: int, first: int = 0) -> pd.DataFrame:
    numbers = np.arange(first, first + rows)
    return cohort(rows, first).assign(psa=np.sqrt(2.0 + numbers), outcome=numbers % 2)


def seen(rows: pd.DataFrame) -> State:
    return state_of(rows.drop(columns="outcome"), rows["outcome"].to_numpy(), ids="patient_id")


@pytest.mark.parametrize("again", AGAIN)
def test_an_extract_that_comes_again_in_another_form_is_recognised(published: Published, again: str) -> None:
    """A column that changed for all, other ids and another order cover neither one patient nor a second draw."""
    published.keep(seen(measured(400)), QUESTION, write(measured(400)))
    change, allowed = AGAIN[again]
    now = seen(change(measured(400)))
    assert permits(published, now) == allowed
    assert permits(published, now, Question("b", QUESTION.digest)) == allowed, "under another site's name"
    if again in ("under other ids", "under other ids, a column measured anew"):
        assert permits(published, now, word=True)


def few_values(rows: int, random: np.random.Generator) -> pd.DataFrame:
    """Patients whose columns have four values each, so that none alone tells them apart."""
    values = {f"item {number}": random.integers(4, size=rows) for number in range(8)}
    return pd.DataFrame({"patient_id": [f"P{number}" for number in range(rows)], **values})


def test_rows_under_other_ids_are_recognised_without_the_column_that_changed(published: Published) -> None:
    random = np.random.default_rng(0)
    rows = few_values(200, random)
    published.keep(state_of(rows, None, ids="patient_id"), QUESTION, write(cohort(200)))
    changed = _renamed(rows.assign(**{"item 3": rows["item 3"] + 4}))
    assert "under other ids" in published.objection(state_of(changed, None, ids="patient_id"), QUESTION, THRESHOLD)
    # The same people are asked about their item 3 anew, and other people are no old acquaintances.
    again = rows.assign(**{"item 3": rows["item 3"] + 4})
    assert permits(published, state_of(again, None, ids="patient_id"))
    others = (few_values(200, random) for _ in range(8))
    assert all(permits(published, state_of(_renamed(one), None, ids="patient_id")) for one in others)


def test_other_patients_of_the_same_ages_are_not_taken_for_the_same(published: Published) -> None:
    """A column of many values is as distinct as its patients are few."""
    random = np.random.default_rng(0)
    for size in (30, 50, 100, 400):
        for time in range(8):
            rows = pd.DataFrame({"patient_id": [f"{size} {time} {number}" for number in range(size)]})
            rows["age"], rows["psa"] = np.round(random.normal(66, 8, size)), np.round(random.gamma(2, 5, size))
            now = state_of(rows, None, ids="patient_id")
            assert permits(published, now), (size, time)
            if time < 2:
                published.keep(now, QUESTION, write(rows))


def test_one_patient_of_the_source_does_not_leave_by_another_target(published: Published) -> None:
    """394 source patients leave as 390 and 395 as 400, whichever site's report says so."""
    source = measured(395, first=1000)
    first = state_of(cohort(400), None, source=source[:394], ids="patient_id")
    published.keep(first, QUESTION, write(cohort(400)))
    other, asked = cohort(300, first=5000), Question("b", "sex")
    for rows, allowed in ((source[:394], True), (source, False), (source[:384], True)):
        assert permits(published, state_of(other, None, source=rows, ids="patient_id"), asked) == allowed
    flipped = source[:394].assign(outcome=lambda rows: rows["outcome"].where(rows.index != 3, 1 - rows["outcome"]))
    assert not permits(published, state_of(other, None, source=flipped, ids="patient_id"), asked)


def test_a_person_lets_a_report_leave_by_a_source_that_few_patients_tell_from_another(published: Published) -> None:
    """A registry that grows by three rows a week would else end every report at all its targets."""
    source = measured(397, first=1000)
    published.keep(state_of(cohort(400), None, source=source[:394], ids="patient_id"), QUESTION, write(cohort(400)))
    asked = Question("b", "sex")
    now, later = (state_of(cohort(300, first), None, source=source, ids="patient_id") for first in (5000, 6000))
    assert "(a person lets this one leave" in published.objection(now, asked, THRESHOLD)
    assert permits(published, now, asked, word=True)
    published.keep(now, asked, write(cohort(300)), "Dr Chen: the registry's last week")
    assert permits(published, now, asked), "it left"
    assert permits(published, later, Question("c", "sex")), "so did these patients of the source"
    fewer = state_of(cohort(300, first=6000), None, source=source[:396], ids="patient_id")
    assert not permits(published, fewer, Question("c", "sex")), "the word was about no others"
    one_more = state_of(cohort(301, first=5000), None, source=source, ids="patient_id")
    assert not permits(published, one_more, asked, word=True), "the site's own patients are another matter"


def test_one_outcome_more_leaves_in_no_second_recalibration(published: Published) -> None:
    """Nor does it where the first left in a report."""
    people, outcomes = cohort(400)["patient_id"].to_numpy(), np.full(400, np.nan)
    outcomes[:300] = np.arange(300) % 2
    recalibration = Question("recalibration of a")
    published.keep(state_of(cohort(400), outcomes, ids="patient_id"), QUESTION, write(cohort(400)))
    assert permits(published, outcomes_state(people, outcomes), recalibration), "the same as in the report"
    published.keep(outcomes_state(people, outcomes), recalibration, lambda folder: None)
    one_more = np.where(np.arange(400) == 300, 1.0, outcomes)
    assert not permits(published, outcomes_state(people, one_more), recalibration)
    ten_more = np.where((np.arange(400) >= 300) & (np.arange(400) < 310), 1.0, outcomes)
    assert permits(published, outcomes_state(people, ten_more), recalibration)
    published.keep(outcomes_state(people, ten_more), recalibration, lambda folder: None)
    assert permits(published, state_of(cohort(400), ten_more, ids="patient_id"))
    one_flipped = np.where(np.arange(400) == 7, 1 - ten_more, ten_more)
    assert not permits(published, state_of(cohort(400), one_flipped, ids="patient_id"))


def test_what_left_by_another_memory_needs_a_persons_word(tmp_path: Path) -> None:
    """The secret was lost, or the list of what left, or the home is a second one: MLflow and the site's folder tell."""
    first, second = (Published(tmp_path / "published", memory) for memory in ("one", "another"))
    people, others = (state_of(cohort(400, number), None, ids="patient_id") for number in (0, 5000))
    export(first, cohort(400), tmp_path / "out")
    for site in ("a", "b"):
        assert "not remembered" in second.objection(others, Question(site, QUESTION.digest), THRESHOLD), "another key"
    elsewhere = {"run 1": "one"}
    empty = Published(tmp_path / "empty", "one")
    assert "not remembered" in empty.objection(people, QUESTION, THRESHOLD, elsewhere=elsewhere), "no list"
    assert not first.objection(people, QUESTION, THRESHOLD, elsewhere=elsewhere)
    # A person's word holds for what was there to be seen, and for nothing that comes later.
    assert not second.objection(people, QUESTION, THRESHOLD, word=True, elsewhere=elsewhere)
    second.keep(people, QUESTION, write(cohort(400)), "Dr Chen: the key was lost", elsewhere)
    assert not second.objection(people, QUESTION, THRESHOLD, elsewhere=elsewhere)
    assert not permits(second, state_of(cohort(401), None, ids="patient_id"))
    assert "not remembered" in second.objection(people, QUESTION, THRESHOLD, elsewhere={**elsewhere, "run 2": "one"})


def test_a_source_that_changed_in_one_column_covers_no_patient_of_it(published: Published) -> None:
    source = measured(300, first=1000)
    published.keep(state_of(cohort(400), None, source=source, ids="patient_id"), QUESTION, write(cohort(400)))
    moved = source.assign(psa=source["psa"] + 1e-9)
    for now, allowed in ((moved, True), (_one_changed(moved.reset_index(drop=True)), False)):
        assert permits(published, state_of(cohort(400), None, source=now, ids="patient_id")) == allowed


def test_models_upon_models_are_another_question(published: Published, tmp_path: Path) -> None:
    """Each set of models counts the same patients in another way; enough of them tell every outcome."""
    people = state_of(cohort(400), None, ids="patient_id")
    for number in range(FREE_MODELS):
        question = Question("a", QUESTION.digest, f"models {number}")
        assert permits(published, people, question)
        published.keep(people, question, write(cohort(400)))
    assert permits(published, people, Question("a", QUESTION.digest, "models 1")), "these have left"
    assert not permits(published, people, Question("a", QUESTION.digest, "one more"))
    assert permits(published, people, Question("a", QUESTION.digest, "one more"), word=True)
    assert permits(published, state_of(cohort(410), None, ids="patient_id"), Question("a", QUESTION.digest, "one more"))


def test_a_report_that_a_kill_left_half_written_goes_with_its_site(published: Published, tmp_path: Path) -> None:
    export(published, cohort(400), tmp_path / "first")
    (published.folder / ".000002" / "files").mkdir(parents=True)
    published.forget("a")
    assert not list(published.folder.glob(".[0-9]*"))


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
