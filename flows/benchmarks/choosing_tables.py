"""What choosing found at every pair of sites, and its tables: regrets, tuned against default, unlabelled patients."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from flows.benchmarks.paired import mean_over_problems
from flows.benchmarks.results import Estimate, Row, Table
from flows.benchmarks.transductive_doubt import METHODS, Values, doubt_table
from tdrop.choose import DEFAULT_CRITERION
from tdrop.methods import label

EVERYTHING = "all"
#: The verdict at which nobody gets a model.
STOPPED = "stop"
#: How families of real patients end on whom no rule of choosing was settled.
BLIND = "collection"


@dataclass(frozen=True)
class Scored:
    """One method at one pair: what rules saw of it, and then what it did at the target.

    Attributes:
        candidate: Whether it can be chosen: it has samples.
        matched_validation: Log loss of matched source patients.
        importance_weighted: Importance-weighted log loss out of fold.
        unweighted: The same without weights.
        auroc: AUROC at the target.
        log_loss: Log loss there.
        auroc_behind: How far its AUROC is behind that of the candidate which other patients' outcomes pick.
        log_loss_behind: How far its log loss is behind.
        at_target: What else its fit does there.
        by_default: The same of a fit at its defaults, where it is a method that can be tuned.
    """

    candidate: bool
    matched_validation: float | None
    importance_weighted: float | None
    unweighted: float | None
    auroc: float
    log_loss: float
    auroc_behind: float
    log_loss_behind: float
    at_target: Values = field(default_factory=dict)
    by_default: Values | None = None


class Regret(NamedTuple):
    """What a choice cost: against the best candidate in hindsight, and against the best by other patients' outcomes."""

    auroc: float
    log_loss: float
    auroc_halves: float
    log_loss_halves: float


@dataclass(frozen=True)
class Measurement:
    """One pair and seed.

    Attributes:
        problem: Name of the pair.
        family: Its family.
        seed: The seed.
        verdict: Of the shift.
        domain_auroc: How well the sites can be told apart.
        effective_n: Effective size of the weighted source.
        scores: By method, what it scored.
        chosen: By rule, the method that it picks.
    """

    problem: str
    family: str
    seed: int
    verdict: str
    domain_auroc: float | None
    effective_n: float | None
    scores: Mapping[str, Scored]
    chosen: Mapping[str, str]

    def regret(self, rule: str) -> Regret:
        """What others do better than the rule's method."""
        candidates = [each for each in self.scores.values() if each.candidate]
        own = self.scores[self.chosen[rule]]
        return Regret(
            auroc=max(each.auroc for each in candidates) - own.auroc,
            log_loss=own.log_loss - min(each.log_loss for each in candidates),
            auroc_halves=own.auroc_behind,
            log_loss_halves=own.log_loss_behind,
        )


def regrets(measurements: Sequence[Measurement], rule: str) -> tuple[Regret, Regret]:
    """Mean and largest regret of a rule, every problem counting once."""
    by_problem: dict[str, list[Regret]] = {}
    for one in measurements:
        by_problem.setdefault(one.problem, []).append(one.regret(rule))
    means = np.array([np.mean(regrets, axis=0) for regrets in by_problem.values()])
    return Regret(*map(float, means.mean(axis=0))), Regret(*map(float, means.max(axis=0)))


def groups(measurements: Sequence[Measurement]) -> Iterator[tuple[str, list[Measurement]]]:
    """Everything, every family, and of the blind collections the sites that are not stopped."""
    going = [one for one in measurements if one.family.endswith(BLIND) and one.verdict != STOPPED]
    named = {
        EVERYTHING: list(measurements),
        **{
            family: [one for one in measurements if one.family == family]
            for family in dict.fromkeys(one.family for one in measurements)
        },
        f"every {BLIND}, not stopped": going,
        **{
            f"{family}, not stopped": [one for one in going if one.family == family]
            for family in dict.fromkeys(one.family for one in going)
        },
    }
    return ((name, kept) for name, kept in named.items() if kept)


def regret_table(measurements: Sequence[Measurement]) -> Table:
    """Every rule, overall and by family, the best within each family first."""
    rows: list[Row] = []
    for family, kept in groups(measurements):
        found = {rule: regrets(kept, rule) for rule in kept[0].chosen}
        for rule, (mean, worst) in sorted(found.items(), key=lambda item: item[1][0].auroc):
            rows.append(
                {
                    "family": family,
                    "rule": rule,
                    "problems": len({one.problem for one in kept}),
                    "runs": len(kept),
                    "AUROC regret": Estimate(mean.auroc, digits=4),
                    "AUROC regret, worst": Estimate(worst.auroc, digits=4),
                    "AUROC regret, by halves": Estimate(mean.auroc_halves, digits=4),
                    "log-loss regret": Estimate(mean.log_loss, digits=4),
                    "log-loss regret, worst": Estimate(worst.log_loss, digits=4),
                    "log-loss regret, by halves": Estimate(mean.log_loss_halves, digits=4),
                }
            )
    caption = (
        "Regret of every rule, simulated and real pairs by family; every problem counts once. By halves: one half of a "
        "target's patients finds the best method, the other half compares."
    )
    return Table("choosing", caption, rows)


def tuned_table(measurements: Sequence[Measurement]) -> Table:
    """By family and method, what tuning gains on the target over the method's defaults."""
    rows: list[Row] = []
    for family, kept in groups(measurements):
        for method in kept[0].scores:
            own = [one.scores[method] for one in kept if method in one.scores]
            known = [(each.at_target, each.by_default) for each in own if each.by_default is not None]
            gains = {
                measure: [
                    first - second
                    for tuned, default in known
                    if (first := tuned[measure]) is not None and (second := default[measure]) is not None
                ]
                for measure in ("AUROC", "log loss", "error AUROC by sd")
            }
            if known:
                rows.append(
                    {
                        "family": family,
                        "method": label(method),
                        **{measure: mean_over_problems(values) for measure, values in gains.items()},
                        "AUROC, worst": min(gains["AUROC"], default=None),
                        "other settings than the defaults": sum(tuned != default for tuned, default in known),
                        "n": len(known),
                    }
                )
    caption = (
        "Tuned minus default on the target, by family, simulated and real as named: mean over runs with Student's 95% "
        "interval, and the worst."
    )
    return Table("choosing_tuned", caption, rows)


def unlabelled_table(measurements: Sequence[Measurement]) -> Table:
    """Methods that read unlabelled patients beside the same without, all tuned."""
    found = {
        family: [
            {method: one.scores[method].at_target for method in METHODS}
            for one in kept
            if all(method in one.scores for method in METHODS)
        ]
        for family, kept in groups(measurements)
    }
    return doubt_table({family: own for family, own in found.items() if own}, "choosing_unlabelled", "All tuned.")


def measurements_table(measurements: Sequence[Measurement]) -> Table:
    rows: list[Row] = [
        {
            "problem": one.problem,
            "family": one.family,
            "seed": one.seed,
            "verdict": one.verdict,
            "domain AUROC": one.domain_auroc,
            "effective n": one.effective_n,
            "method": name,
            **{name: value for name, value in vars(each).items() if name not in ("at_target", "by_default")},
            "by default, AUROC": each.by_default["AUROC"] if each.by_default else None,
            "by default, log loss": each.by_default["log loss"] if each.by_default else None,
            "chosen": one.chosen[DEFAULT_CRITERION] == name,
        }
        for one in measurements
        for name, each in one.scores.items()
    ]
    return Table("choosing_measurements", "Every method at every pair, simulated or real by its family.", rows)
