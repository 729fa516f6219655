"""Every problem by its name: a labelled source, an unlabelled target, and the outcomes that judge in the end."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache, partial
from typing import Any, Literal

import numpy as np

from benchmarks.public_tables import COLLECTIONS, Sides, collection
from benchmarks.site_pairs import BREAST_TARGETS, SUPPORT_TARGETS, network_of_sites, site_pair
from tdrop.base import Cohort, Doubles, UsageError, did_you_mean
from tdrop.data import simulate, simulated_cohort

#: Families of the study of transfers that are not collections.
PAIRS, CURVED = "pairs of sites", "curved (simulated)"
#: Draws that settled nothing.
CURVED_DRAWS = range(400, 420)
#: Patients of the paper's source and target.
PAPER_ROWS = 240_486, 10_086
#: Standard deviation of the toy problem's noise (section 5.1 of the paper).
TOY_NOISE = 0.1
#: Feature names of the extrapolation family.
FEATURES = tuple(f"x{i}" for i in range(5))


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


@dataclass(frozen=True)
class Cohorts:
    """A simulated registry and hospital; risks follow PREDICT Prostate, covariates published summary figures.

    Attributes:
        population: The target's population.
        rows: Patients at the source, and at the target.
        outcome: "all_cause" or "prostate".
        truncated: Whether the source holds no patient above 70 years or a PSA of 20.
        hidden: Whether hormone therapy and comorbidity are not recorded: a concept shift.
    """

    population: str
    rows: tuple[int, int] = (5_000, 3_000)
    outcome: Literal["all_cause", "prostate"] = "all_cause"
    truncated: bool = False
    hidden: bool = False

    def __call__(self, quick: bool) -> Sides:
        """Draws both, and the risks that the target's outcomes were drawn from."""
        source_rows, target_rows = (400, 200) if quick else self.rows
        shared: dict[str, Any] = {"outcome": self.outcome, "hidden_treatment": self.hidden}
        support = "truncated" if self.truncated else "full"
        source = simulated_cohort("source", source_rows, seed=4_000, support=support, **shared)
        target = simulated_cohort(self.population, target_rows, seed=5_000, **shared)
        risk = simulate(self.population, target_rows, seed=5_000, **shared)["true_risk"].to_numpy(np.float64)
        return Sides.of_cohorts(source, target, risk)


#: By name, title and cohorts of the simulated prostate problems; the first is the paper's.
PROSTATE: Mapping[str, tuple[str, Cohorts]] = {
    "prostate_paper": ("paper's sizes, death from any cause", Cohorts("moderate", PAPER_ROWS)),
    "truncated_moderate_prostate": (
        "source of 5,000 without age above 70 or PSA above 20, moderate shift, prostate-cancer death",
        Cohorts("moderate", outcome="prostate", truncated=True),
    ),
    "truncated_severe_prostate": (
        "source of 5,000 without age above 70 or PSA above 20, severe shift, prostate-cancer death",
        Cohorts("severe", outcome="prostate", truncated=True),
    ),
    "small_severe_prostate": (
        "source of 2,000, severe shift, prostate-cancer death",
        Cohorts("severe", (2_000, 3_000), outcome="prostate"),
    ),
    "truncated_severe_all": (
        "source of 5,000 without age above 70 or PSA above 20, severe shift, death from any cause",
        Cohorts("severe", truncated=True),
    ),
    "hidden_moderate_all": (
        "treatment and comorbidity hidden, moderate shift, death from any cause",
        Cohorts("moderate", hidden=True),
    ),
}


def find_problem(name: str) -> Problem:
    """Returns the problem with this name."""
    problems = _problems()
    if name not in problems:
        raise UsageError(f"there is no problem '{name}'{did_you_mean(name, problems)}")
    return problems[name]


def draw(name: str, quick: bool = False) -> Sides:
    """Both sites of a problem."""
    return find_problem(name).draw(quick)


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
        *(Problem(name, f"Simulated, {title}", "prostate", cohorts) for name, (title, cohorts) in PROSTATE.items()),
        *(
            Problem(site, f"{sites.site(str(sites.site(site).source)).title} to {sites.site(site).title}", family, pair)
            for family, targets in ((PAIRS, ("gbsg", *SUPPORT_TARGETS)), ("extrapolated", BREAST_TARGETS[1:]))
            for site in targets
            for pair in [partial(_real, partial(site_pair, site))]
        ),
        *(
            Problem(title, title, name, partial(_real, transfer.sides))
            for name in COLLECTIONS
            for title, transfer in collection(name).items()
        ),
        *(Problem(f"curved {seed}", f"curved {seed}", CURVED, partial(_curved, seed)) for seed in CURVED_DRAWS),
    ]
    return {problem.name: problem for problem in problems}


def _real(sides: Callable[[], Sides], quick: bool) -> Sides:
    return sides()


def _curved(seed: int, quick: bool) -> Sides:
    return Sides.of_cohorts(*extrapolation(200 if quick else 1_000, seed=seed))


def toy_truth(x: Doubles) -> Doubles:
    """f(x) = sin(x)/2 + x/4 + x^2/100, as printed in the paper.

    The authors' published code subtracts the last term; the printed form is followed here.
    """
    return np.asarray(np.sin(x) / 2 + x / 4 + x**2 / 100)


def toy(*, seed: int) -> tuple[Cohort, Cohort]:
    """Draws the paper's 1-d regression: source N(7, 4) and target N(11, 4), where 4 is the variance."""
    generator, rows = np.random.default_rng([seed, 1]), 50
    cohorts = []
    for site, mean in (("toy source", 7.0), ("toy target", 11.0)):
        x = generator.normal(mean, 2.0, size=rows)
        y = toy_truth(x) + generator.normal(0.0, TOY_NOISE, size=rows)
        cohorts.append(
            Cohort(site, np.arange(rows), ("x",), x[:, None].astype(np.float32), y.astype(np.float32), "regression")
        )
    return cohorts[0], cohorts[1]


def extrapolation(rows: int = 1000, *, seed: int) -> tuple[Cohort, Cohort]:
    """Draws a source and a target that differ in their first feature only; both carry labels, with little noise."""
    generator = np.random.default_rng([seed, 2])
    cohorts = []
    for site, mean in (("extrapolation source", -0.7), ("extrapolation target", 1.2)):
        X = generator.normal(size=(rows, 5))
        X[:, 0] = mean + 0.8 * X[:, 0]
        f = np.sin(1.6 * X[:, 0]) + 0.5 * X[:, 1] - 0.5 * X[:, 0] * X[:, 2] + 0.3 * X[:, 3]
        y = generator.random(rows) < 1 / (1 + np.exp(-5.0 * f))
        cohorts.append(Cohort(site, np.arange(rows), FEATURES, X.astype(np.float32), y.astype(np.float32)))
    return cohorts[0], cohorts[1]
