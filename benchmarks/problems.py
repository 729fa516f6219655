"""Every problem by its name: a labelled source, an unlabelled target, and the outcomes that judge in the end."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, partial

import numpy as np

from benchmarks.families import extrapolation
from benchmarks.public_tables import COLLECTIONS, Sides, collection
from benchmarks.site_pairs import BREAST_TARGETS, SUPPORT_TARGETS, network_of_sites, site_pair
from tdrop.base import UsageError, did_you_mean
from tdrop.data import simulate, simulated_cohort

#: Families of the study of transfers that are not collections.
PAIRS, CURVED = "pairs of sites", "curved (simulated)"
#: Draws that settled nothing.
CURVED_DRAWS = range(400, 420)
#: Patients of the paper's source and target.
PAPER_ROWS = 240_486, 10_086


@dataclass(frozen=True)
class Problem:
    """One pair of sites.

    Attributes:
        name: Name, also of its files.
        title: What a reader sees; says "simulated" where it is.
        family: What it is pooled with.
        draw: Makes it; the argument asks for a small one where it is simulated.
    """

    name: str
    title: str
    family: str
    draw: Callable[[bool], Sides]


def _paper(quick: bool) -> Sides:
    """A simulated registry and hospital; risks follow PREDICT Prostate, covariates published summary figures."""
    source_rows, target_rows = (400, 200) if quick else PAPER_ROWS
    source = simulated_cohort("source", source_rows, seed=4_000)
    target = simulated_cohort("moderate", target_rows, seed=5_000)
    risk = simulate("moderate", target_rows, seed=5_000)["true_risk"].to_numpy(np.float64)
    return Sides.of_cohorts(source, target, risk)


def find_problem(name: str) -> Problem:
    """The problem of a name."""
    problems = _problems()
    if name not in problems:
        raise UsageError(f"there is no problem '{name}'{did_you_mean(name, problems)}")
    return problems[name]


def draw(name: str, quick: bool = False) -> Sides:
    """Both sites of a problem."""
    return find_problem(name).draw(quick)


def draw_unshifted(name: str, quick: bool = False) -> Sides:
    """A problem's source split in two by chance: one half keeps its labels, the other plays the target."""
    source = draw(name, quick).source
    assert source.y is not None
    whose = np.arange(len(source)) if source.persons is None else source.persons
    persons = np.random.default_rng(0).permutation(np.unique(whose))
    labelled = np.isin(whose, persons[: len(persons) // 2])
    other = source.take(~labelled)
    assert other.y is not None
    return Sides(source.take(labelled), other.unlabelled(), other.y.astype(np.float64))


def transfer_problems() -> dict[str, list[Problem]]:
    """By family, the problems of the study of transfers: real ones first."""
    families: dict[str, list[Problem]] = {}
    for problem in _problems().values():
        families.setdefault(problem.family, []).append(problem)
    return {family: families[family] for family in (*COLLECTIONS, PAIRS, CURVED)}


@cache
def _problems() -> dict[str, Problem]:
    sites = network_of_sites()
    problems = [
        Problem("prostate_paper", "Simulated, paper's sizes, death from any cause", "prostate", _paper),
        *(
            Problem(site, f"{sites.site(str(sites.site(site).source)).title} to {sites.site(site).title}", family, pair)
            for family, targets in ((PAIRS, ("gbsg", *SUPPORT_TARGETS)), ("extrapolated", BREAST_TARGETS[1:]))
            for site in targets
            for pair in [partial(_real_pair, site)]
        ),
        *(
            Problem(title, title, name, partial(_transfer, name, title))
            for name in COLLECTIONS
            for title in collection(name)
        ),
        *(Problem(f"curved {seed}", f"curved {seed}", CURVED, partial(_curved, seed)) for seed in CURVED_DRAWS),
    ]
    return {problem.name: problem for problem in problems}


def _real_pair(site: str, quick: bool) -> Sides:
    return site_pair(site)


def _transfer(name: str, title: str, quick: bool) -> Sides:
    return collection(name)[title].sides()


def _curved(seed: int, quick: bool) -> Sides:
    return Sides.of_cohorts(*extrapolation(200 if quick else 1_000, seed=seed))
