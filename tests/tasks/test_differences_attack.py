"""Up to four reports of one site, some patients more, fewer or changed: the solver looks for what tells of few.

The attacker knows who was in which report, and how many of each report's patients are in a group as it left.
"""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from disclosure_attack import Attack
from numpy.typing import NDArray

from tdrop.disclosure import State, may_leave, shown_count, state_of

THRESHOLD = 10
PEOPLE = 400
Members = NDArray[np.bool_]


def state(members: Members) -> State:
    return state_of(pd.DataFrame({"patient_id": np.flatnonzero(members).astype(str)}), None)


def draw_reports(random: np.random.Generator) -> list[Members]:
    """Two to four reports, each of an earlier one's patients with 1 to 24 more, fewer, or both."""
    reports = [np.arange(PEOPLE) < PEOPLE // 2]
    for place in range(random.integers(1, 4)):
        members = reports[random.integers(len(reports))].copy()
        for coming in (True, False):
            if random.random() < 0.7:
                most = 10 if random.random() < 0.5 else 25
                members[random.choice(np.flatnonzero(members != coming), random.integers(1, most), False)] = coming
        if place == 2 and random.random() < 0.5:
            # Both earlier ones' newcomers and a few more: added up and taken away, these stand alone.
            members = reports[1] | reports[2]
            members[random.choice(np.flatnonzero(~members), random.integers(1, 4), False)] = True
        reports.append(members)
    return reports


def leaving(reports: list[Members], *, every: bool = False) -> list[Members]:
    left: list[Members] = []
    for members in reports:
        if every or may_leave(state(members), [state(one) for one in left], THRESHOLD):
            left.append(members)
    return left


def draw_group(random: np.random.Generator, among: list[NDArray[np.int64]]) -> Members:
    """A group of some patients: of all alike, or of a few who were in the same reports."""
    group = random.random(PEOPLE) < random.choice([0.01, 0.05, 0.3])
    few = [people for people in among if len(people) < THRESHOLD]
    if few and random.random() < 0.5:
        group[:] = False
        people = few[random.integers(len(few))]
        group[random.choice(people, random.integers(1, len(people) + 1), False)] = True
    return group


def solve(left: list[Members], random: np.random.Generator) -> tuple[int, int]:
    """Small numbers of group members among patients who were in the same reports: looked for, and found."""
    within = np.column_stack(left)
    patterns, place = np.unique(within, axis=0, return_inverse=True)
    alike = {number: np.flatnonzero(place.ravel() == number) for number in range(len(patterns))}
    alike = {number: people for number, people in alike.items() if patterns[number].any()}
    group = draw_group(random, list(alike.values()))
    attack = Attack()
    for number, people in alike.items():
        attack.ranges[f"part {number}"] = (0, len(people))
    for report, members in enumerate(left):
        attack.learn(f"report {report}", shown_count(int((group & members).sum()), THRESHOLD))
        parts = {f"part {number}": 1.0 for number in alike if patterns[number][report]}
        attack.require({f"report {report}": -1, **parts}, 0, 0)
    small = [number for number, people in alike.items() if 0 < int(group[people].sum()) < THRESHOLD]
    ends = [attack.possible(f"part {number}") for number in small]
    return len(small), sum(low == high for low, high in ends)


def attack_sites(seeds: range, *, every: bool = False) -> tuple[int, int]:
    tried = found = 0
    for seed in seeds:
        random = np.random.default_rng(seed)
        left = leaving(draw_reports(random), every=every)
        for _ in range(3):
            more, solved = solve(left, random)
            tried, found = tried + more, found + solved
    return tried, found


def test_no_small_count_can_be_solved_from_several_reports() -> None:
    tried, found = attack_sites(range(15))
    assert tried > 20
    assert found == 0


def test_every_report_leaving_would_tell() -> None:
    assert attack_sites(range(15), every=True)[1] > 0


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_no_small_count_of_two_hundred_sites_can_be_solved_from_several_reports() -> None:
    tried, found = attack_sites(range(200))
    assert tried > 200
    assert found == 0


def test_one_who_came_while_many_left_waits() -> None:
    """The group was empty and is not any more: the newcomer is in it."""
    first = np.arange(PEOPLE) < 200
    second = first.copy()
    second[:12], second[200] = False, True
    assert leaving([first, second]) == [first]


def test_what_four_reports_add_up_to_waits() -> None:
    base, one, two = (np.arange(PEOPLE) < 200 for _ in range(3))
    one[200:210], two[210:220] = True, True
    both = one | two
    assert len(leaving([base, one, two, both])) == 4
    both[220] = True
    assert len(leaving([base, one, two, both])) == 3
