"""The paper's Table 1 at its sizes (240,486 to 10,086 patients), on simulated cohorts: theirs are not public.

Covariates follow published summary figures and risks follow PREDICT Prostate; no row is a real patient. A
well-sampled smooth risk is not hurt by a moderate shift, so that all methods come close to the oracle and the paper's
gaps cannot be expected; `prostate_hard` has the versions where a shift hurts.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from flows.benchmarks.pairs import draw_pair, tune_and_fit
from flows.benchmarks.results import Results, Scale, printed
from flows.benchmarks.sites import transfer_settings
from flows.benchmarks.table_one import judge, judged_results
from flows.benchmarks.units import Unit
from tdrop.base import Cohort, Doubles
from tdrop.data import simulate, simulated_cohort
from tdrop.home import Place

SOURCE_ROWS, TARGET_ROWS = 240_486, 10_086
SEED = 0


@dataclass(frozen=True)
class Version:
    """One simulated problem.

    Attributes:
        name: Name of its files.
        title: What a reader sees.
        population: The target's population.
        source_rows: Patients at the source.
        target_rows: Patients at the target.
        outcome: "all_cause" or "prostate".
        truncated: Whether the source holds no patient above 70 years or a PSA of 20.
        hidden: Whether hormone therapy and comorbidity are not recorded: a concept shift.
    """

    name: str
    title: str
    population: str
    source_rows: int
    target_rows: int
    outcome: str = "all_cause"
    truncated: bool = False
    hidden: bool = False

    def options(self, scale: Scale) -> Unit:
        """What `draw` is called with."""
        options = {name: value for name, value in vars(self).items() if name not in ("name", "title")}
        return {**options, "seed": SEED, **({"source_rows": 400, "target_rows": 200} if scale.quick else {})}


VERSIONS = (
    Version("prostate_paper", "Simulated, paper's sizes, death from any cause", "moderate", SOURCE_ROWS, TARGET_ROWS),
)


def run(place: Place, scale: Scale) -> Results:
    """The paper's Table 1, one seed unless more are asked for."""
    return run_versions(place, "prostate", "The paper's Table 1 (simulated cohorts)", VERSIONS, scale, seeds=1)


def run_versions(
    place: Place, name: str, title: str, versions: Sequence[Version], scale: Scale, *, seeds: int
) -> Results:
    """Draws, trains and judges each version in turn."""
    settings = transfer_settings(scale, scale.seeds_or(seeds))
    judged = []
    for version in versions[:1] if scale.quick else versions:
        pair = draw_pair(place, version.name, version.title, draw, version.options(scale))
        judged.append(judge(pair, tune_and_fit(place, name, pair, settings), settings))
    about = (
        "All patients are simulated (PREDICT Prostate's published risk, covariates from published figures). One draw "
        f"of patients a version, {settings.seeds} refit(s), {settings.trials} tuning trials a method out of fold. "
        "The paper's numbers are from other, real patients and stand beside ours only to show the form."
    )
    return judged_results(name, title, about, judged, settings, printed=printed("prostate"))


def draw(
    population: str, source_rows: int, target_rows: int, outcome: str, truncated: bool, hidden: bool, seed: int
) -> tuple[Cohort, Cohort, Doubles | None]:
    """Draws the registry and one hospital, and the risks that the hospital's outcomes were drawn from."""
    shared: dict[str, Any] = {"outcome": outcome, "hidden_treatment": hidden}
    support = "truncated" if truncated else "full"
    source = simulated_cohort("source", source_rows, seed=4_000 + seed, support=support, **shared)
    target = simulated_cohort(population, target_rows, seed=5_000 + seed, **shared)
    frame = simulate(population, target_rows, seed=5_000 + seed, **shared)
    return source, target, frame["true_risk"].to_numpy(np.float64)
