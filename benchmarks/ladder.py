"""What a few outcomes of a site can do: the change in log loss under the ladder's recommendation.

Simulated sites differ from their source in the intercept, the slope or the effects of features (a concept shift), or in
none of them; a third has patients so different that the verdict would be stop. Rules were settled on simulated sites
with smaller numbers than those that judge here; docs/LABELS.md says where real sites had a part in it. The model is a
logistic regression with its defaults. Outcomes are drawn at random, and everything is judged on the site's other
patients: by their true risks where these are simulated, by their outcomes where they are real.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain
from typing import Any

import numpy as np
import pandas as pd
from scipy.special import expit

from benchmarks.problems import PAIRS, transfer_problems
from benchmarks.public_tables import COLLECTIONS, Sides, collection
from benchmarks.results import Estimate, Results, Row, Table
from benchmarks.units import Options, run_grid
from tdrop.base import Cohort, Doubles
from tdrop.evaluate import RUNGS, FeatureScale, choose_prior, climb, fit_rung, site_models
from tdrop.methods import build
from tdrop.metrics import per_row_log_loss
from tdrop.shift import judge_shift, propensity

LABELS = (10, 20, 50, 100, 200, 400)
SITES, FIRST_JUDGED, DRAWS = 45, 1_000, 2
ROWS = 2_500
#: Patients whose outcome is never drawn, so that every number of outcomes is judged on the same others; a real site
#: keeps a third of its patients, and at least so many.
OTHERS, FEWEST_OTHERS = 1_500, 100
#: What sites differ in.
NOTHING, INTERCEPT, SLOPE, EFFECTS, ALL = "nothing", "intercept", "slope", "effects", "intercept, slope and effects"
SHIFTS = (NOTHING, INTERCEPT, SLOPE, EFFECTS, ALL)
#: Log odds of a usual patient, for outcomes in some 7, 20 and 40%.
BASES = (-2.9, -1.7, -0.5)


def run(options: Options) -> Results:
    """Climbs the ladder at every site."""
    about = (
        "Log loss of a site's other patients under the recommended rung, minus the model's as it is (below 0 is a "
        "gain), and the part of the gain of the best rung in hindsight: the rung of lowest mean loss at each site and "
        "number of outcomes. Simulated sites say so. Real sites come from SurvSet, and settling did not see them."
    )
    return Results("What a few outcomes can do", about, [_ladder_table(options)])


def _ladder_table(options: Options) -> Table:
    count = 4 if options.quick else options.seeds_or(SITES)
    simulated = [f"simulated {seed}" for seed in range(FIRST_JUDGED, FIRST_JUDGED + count)]
    groups = {"simulated": simulated} if options.quick else {"simulated": simulated, "real": _real_problems()}
    labels, draws = (LABELS[:3], 1) if options.quick else (LABELS, DRAWS)
    names = [name for group in groups.values() for name in group]
    drawn = run_grid(options, "ladder", climb_site, site=names, labels=[labels], draws=[draws])
    for shift in SHIFTS:
        groups[f"simulated: {shift} differs"] = [name for name in simulated if _shift_of(name) == shift]
    rows = [row for group, sites in groups.items() for row in _rows(group, drawn[drawn["site"].isin(sites)])]
    return Table("ladder", "The ladder at simulated and real sites, by number of known outcomes", rows)


def _rows(group: str, drawn: pd.DataFrame) -> Iterator[Row]:
    """One row per number of outcomes; draws are averaged within their site first."""
    for number, draws in drawn.groupby("outcomes"):
        sites = draws.groupby("site")
        values = sites["change"].mean().to_numpy(float)
        mean, reach = float(values.mean()), 0.0
        if len(values) > 1:
            reach = 1.96 * float(values.std(ddof=1) / np.sqrt(len(values)))
        # A rung is the best in hindsight only where every draw of a site has it.
        ideal = float(sites[list(RUNGS)].mean(skipna=False).min(axis=1).mean())
        taken = draws["recommended"].value_counts(normalize=True)
        yield {
            "sites": f"{group} ({len(values)})",
            "outcomes": int(str(number)),
            "change in log loss": Estimate(mean, mean - reach, mean + reach, 4),
            "best rung in hindsight": Estimate(ideal, digits=4),
            "of its gain": f"{mean / ideal:.0%}" if ideal < -0.001 else None,
            "most often": f"{taken.index[0]} ({taken.iloc[0]:.0%})",
        }


def _real_problems() -> list[str]:
    """Pairs of sites, and transfers cut from tables of SurvSet."""
    problems = [problem.name for problem in transfer_problems()[PAIRS]]
    for name in COLLECTIONS:
        problems += [title for title, transfer in collection(name).items() if transfer.package == "SurvSet"]
    return problems


def climb_site(site: str, labels: Sequence[int], draws: int) -> list[dict[str, Any]]:
    """Draws outcomes of one site again and again, and follows every rung: by rung, the change in log loss."""
    sides, truth, stopped = _site(site)
    source, target, everybody = sides.source, sides.target, sides.outcomes
    others = min(OTHERS, max(FEWEST_OTHERS, len(everybody) // 3))
    method = build("logistic_regression", refits=5)
    fitted = method.fit(source, target, None, seed=0)
    risk = fitted.summarise(target.X, 5, seed=0).mean.astype(np.float64)
    X, prior, results = FeatureScale.from_source(source).apply(target.X), choose_prior(stopped), []
    for draw in range(draws):
        order = np.random.default_rng([draw, len(risk)]).permutation(len(risk))
        judged, rest = order[:others], order[others:]
        for number in (number for number in labels if number <= len(rest)):
            y = np.full(len(risk), np.nan)
            y[rest[:number]] = everybody[rest[:number]]
            models = site_models([method], source, target, y)
            ladder = climb(y, risk, X=X, prior=prior, models=models, draws=0, seed=draw)
            losses = {}
            for rung in [step.name for step in ladder.rungs if step.log_loss is not None]:
                if rung in models:
                    after = models[rung](np.flatnonzero(np.isfinite(y)), judged)
                else:
                    after = fit_rung(rung, y, risk, X=X, prior=prior).apply(risk, X)[judged]
                losses[rung] = _loss(truth[judged], after)
            changes = {rung: losses[rung] - losses[RUNGS[0]] if rung in losses else None for rung in RUNGS}
            recommended = {"recommended": ladder.recommended, "change": changes[ladder.recommended]}
            results.append({"outcomes": number, **recommended, **changes})
    return results


def _loss(truth: Doubles, risk: Doubles) -> float:
    """Mean log loss, expected where the truth (rows,) is a risk."""
    happens, not_so = (per_row_log_loss(np.full(len(risk), value), risk) for value in (1.0, 0.0))
    return float(np.mean(truth * happens + (1 - truth) * not_so))


def _site(name: str) -> tuple[Sides, Doubles, bool]:
    """Both sides, the truth that judges (rows,) and whether the verdict would be stop; only known outcomes are kept."""
    if name.startswith("simulated "):
        sides = simulated_site(int(name.split()[1]))
        assert sides.risk is not None
        return sides, sides.risk, int(name.split()[1]) % 3 == 0
    titles = {problem.name: problem for problem in chain.from_iterable(transfer_problems().values())}
    sides = titles[name].draw(False)
    known = np.flatnonzero(np.isfinite(sides.outcomes))
    sides = Sides(sides.source, sides.target.take(known), sides.outcomes[known])
    fitted = propensity(sides.source, sides.target, seed=0)
    verdict = "too few to say" if fitted is None else judge_shift(fitted.auroc, fitted.outside)
    return sides, sides.outcomes, verdict == "stop"


def _shift_of(name: str) -> str:
    return SHIFTS[int(name.split()[1]) // 3 % len(SHIFTS)]


def simulated_site(seed: int) -> Sides:
    """Draws a source and a site that differs from it by one of `SHIFTS`; every third site is far from its source."""
    generator = np.random.default_rng([seed, 5])
    far, shift = seed % 3 == 0, SHIFTS[seed // 3 % len(SHIFTS)]
    features, base = int(generator.choice([4, 8, 15])), float(generator.choice(BASES))
    effects = generator.normal(0, 1, features) * generator.choice([0.4, 0.7]) * np.sqrt(6 / features)
    moved = generator.normal(0, 0.8 if far else 0.2, features) * (generator.random(features) < 0.4)
    intercept, slope, target_effects = 0.0, 1.0, effects
    if shift in (INTERCEPT, ALL):
        intercept = float(generator.normal(0, 1.2 if far else 0.5))
    if shift in (SLOPE, ALL):
        slope = float(np.exp(generator.normal(-0.15, 0.3 if far else 0.2)))
    if shift in (EFFECTS, ALL):
        target_effects = effects + generator.normal(0, generator.choice([0.25, 0.6]) * np.sqrt(6 / features), features)
    rows = int(generator.choice([600, 2_000]))
    source_X, target_X = generator.normal(size=(rows, features)), moved + generator.normal(size=(ROWS, features))
    y = generator.random(rows) < expit(base + source_X @ effects)
    risk = expit(base + intercept + slope * (target_X @ target_effects))
    names = tuple(f"x{place}" for place in range(features))
    source = Cohort("source", np.arange(rows), names, source_X.astype(np.float32), y.astype(np.float32))
    outcomes = (generator.random(ROWS) < risk).astype(np.float32)
    target = Cohort("target", np.arange(ROWS), names, target_X.astype(np.float32), outcomes)
    return Sides.of_cohorts(source, target, risk)
