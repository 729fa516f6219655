"""Pairs of labelled sites by name, simulated, synthetic and real: what choosing and forecasting are measured on."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from flows.benchmarks.real_pairs import SUPPORT_SOURCE, SUPPORT_TARGETS, between_sexes, rotterdam_to_gbsg, support_to
from flows.benchmarks.transfers import collection
from tdrop.base import Cohort
from tdrop.data import SHAPES, extrapolation, shaped, simulated_cohort

#: Draws of the shapes that settle rules, and of those that judge them.
SETTLING_DRAWS, JUDGING_DRAWS = range(2), range(520, 524)
#: The family of pairs that were not looked at while the forecast's rules were settled.
FURTHER = "further"
_GROUPS = (
    (SUPPORT_SOURCE, "Coma"),
    (SUPPORT_SOURCE, "Colon Cancer"),
    (SUPPORT_SOURCE, "Lung Cancer"),
    ("CHF", "COPD"),
    ("COPD", "CHF"),
    ("Lung Cancer", "Colon Cancer"),
    ("MOSF w/Malig", "Lung Cancer"),
    ("CHF", "Cirrhosis"),
)

#: Source and target, both labelled.
Sides = tuple[Cohort, Cohort]


@dataclass(frozen=True)
class Problem:
    """A pair of labelled sites, drawn anew for every seed where it is simulated.

    Attributes:
        name: Name of the pair.
        family: "simulator", "hard simulator", "extrapolation", a shape of the truth, "real", or "judging" for real ones
            and "judging, simulated" for draws that settle no rule, and collections of real ones that judge.
        make: Draws source and target for a seed.
        seeds: How many seeds a full run takes.
    """

    name: str
    family: str
    make: Callable[[int], Sides]
    seeds: int


def quick_problems() -> tuple[Problem, ...]:
    """Two simulated pairs, to see that something works."""
    return (
        Problem("moderate-400", "simulator", partial(_simulated, "moderate", 400, 400, {}), 1),
        _once("extrapolation-400", "extrapolation", partial(extrapolation, 400, seed=3_000)),
    )


def list_problems() -> tuple[Problem, ...]:
    """The pairs of sites that choosing is measured on, those that judge first."""
    return (*_cut_problems(), *_shaped_problems(), *pairs_of_sites())


def pairs_of_sites() -> tuple[Problem, ...]:
    """The simulated pairs, and the real ones that are two hospitals or two departments."""
    return (*_simulated_problems(), *_extrapolation_problems(), *_real_problems())


def further_pairs() -> Iterator[Problem]:
    """Real pairs that settle no formula of the forecast, and judge."""
    for source, group in _GROUPS:
        name = f"support-{source}-{group}".lower().replace("/", "").replace(" ", "-")
        yield _once(name, FURTHER, partial(support_to, group, source))
    yield _once("gbsg-rotterdam", FURTHER, _reversed)
    yield _once("framingham", FURTHER, partial(between_sexes, "Framingham"))
    yield _once("flchain", FURTHER, partial(between_sexes, "flchain"))


def find_problem(name: str) -> Problem:
    """The problem of a name."""
    every = (*quick_problems(), *list_problems(), *further_pairs())
    return next(problem for problem in every if problem.name == name)


def _once(name: str, family: str, make: Callable[[], Sides]) -> Problem:
    """A pair that is the same for every seed."""
    return Problem(name, family, lambda seed: make(), 1)


def _reversed() -> Sides:
    source, target = rotterdam_to_gbsg()
    return target, source


def _simulated_problems() -> Iterator[Problem]:
    prostate = {"outcome": "prostate"}
    for each in ("mild", "moderate", "severe"):
        yield Problem(f"{each}-3000", "simulator", partial(_simulated, each, 3_000, 3_000, {}), 10)
        yield Problem(f"{each}-prostate-2000", "hard simulator", partial(_simulated, each, 2_000, 3_000, prostate), 2)
        if each != "mild":
            make = partial(_simulated, each, 3_000, 3_000, {**prostate, "support": "truncated"})
            yield Problem(f"{each}-truncated-3000", "hard simulator", make, 2)


def _extrapolation_problems() -> Iterator[Problem]:
    for sharp in (5.0, 1.5):
        for mean in (1.2, 0.3):
            yield Problem(f"extrapolation-{sharp}-{mean}", "extrapolation", partial(_extrapolation, sharp, mean), 3)


def _shaped_problems() -> Iterator[Problem]:
    for draw in JUDGING_DRAWS:
        yield _once(f"extrapolation-{draw}", "judging, simulated", partial(extrapolation, 1_000, seed=draw))
    for shape in SHAPES:
        for family, draws in ((shape, SETTLING_DRAWS), ("judging, simulated", JUDGING_DRAWS)):
            for draw in draws:
                yield _once(f"{shape}-{draw}", family, partial(shaped, shape, seed=draw))


def _real_problems() -> Iterator[Problem]:
    yield _once("rotterdam-gbsg", "real", rotterdam_to_gbsg)
    for group in SUPPORT_TARGETS:
        name = f"support-{group.lower().replace('/', '').replace(' ', '-')}"
        yield _once(name, "real", partial(support_to, group))


def _cut_problems() -> Iterator[Problem]:
    """Real transfers: those that settle rules, and four collections that judge one each.

    The first and second were looked at when it was settled that methods answer together: they judge no more.
    """
    families = {"settling": "real", "judging": "judging"}
    for name in ("fifth", "fourth", "third", "judging", "settling"):
        for title, transfer in collection(name).items():
            yield _once(title.replace(" ", "-"), families.get(name, f"{name} collection"), transfer.sides)


def _simulated(population: str, source_rows: int, target_rows: int, options: Mapping[str, Any], seed: int) -> Sides:
    """Draws both; a truncated support is the source's alone."""
    source = simulated_cohort("source", source_rows, seed=1_000 + seed, **options)
    shared = {key: value for key, value in options.items() if key != "support"}
    return source, simulated_cohort(population, target_rows, seed=2_000 + seed, **shared)


def _extrapolation(sharp: float, mean: float, seed: int) -> Sides:
    return extrapolation(1_000, seed=3_000 + seed, sharp=sharp, target_mean=mean)
