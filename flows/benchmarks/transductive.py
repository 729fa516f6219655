"""Do a site's unlabelled patients help? The ensemble against the transductive ensemble, under every rule for lambda.

Real pairs and simulated families, some to settle a rule on and others to judge it once. Every rule sees source patients
alone; what it picks is refitted and the target's labels are opened last. Beside it, transductive dropout's doubt
against TDNR's. docs/UNLABELLED.md reports a run.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from flows.benchmarks.paired import mean_over_problems
from flows.benchmarks.results import Results, Row, Scale, Table
from flows.benchmarks.rules import lowest_log_loss, within_one_error, within_tolerance
from flows.benchmarks.transductive_doubt import measure_doubts
from flows.benchmarks.transductive_judge import MEASURES, Judged, judge, pooled
from flows.benchmarks.transductive_problems import MEMBERS, PROBLEMS, Tried, draw, predict_target, try_settings
from flows.benchmarks.units import run_units
from tdrop.base import Doubles
from tdrop.choose import Trial
from tdrop.home import Place

NAME = "transductive"
REFITS = 10
#: Decay and lambda.
Setting = tuple[float, float]
Key = tuple[str, str, str]
#: By problem and rule, the setting picked and what it does on the target.
Found = Mapping[Key, Mapping[str, tuple[Setting, Judged]]]


def _setting(trial: Trial) -> Setting:
    return trial.settings["weight_decay"], trial.settings["lambda_"]


def _smallest(tried: Tried, by_lambda: Mapping[str, float]) -> Setting:
    return tried.decay, float(min(by_lambda, key=lambda lambda_: by_lambda[lambda_]))


ENSEMBLE, RULE = "ensemble", "restraint within .005"
RULES: Mapping[str, Callable[[Tried], Setting]] = {
    ENSEMBLE: lambda tried: (tried.decay, 0.0),
    RULE: lambda tried: _setting(within_tolerance(tried.trials)),
    "restraint within one paired standard error": lambda tried: _setting(within_one_error(tried.trials)),
    "lowest log loss": lambda tried: _setting(lowest_log_loss(tried.trials)),
    "rehearsal": lambda tried: _smallest(tried, tried.rehearsal),
    "risk-coverage of matched patients": lambda tried: _smallest(tried, tried.coverage),
    "lambda .03": lambda tried: (tried.decay, 0.03),
    "lambda .1": lambda tried: (tried.decay, 0.1),
}


def run(place: Place, scale: Scale) -> Results:
    """Every problem under every rule, and the doubt of transductive dropout."""
    refits = scale.seeds_or(REFITS)
    keys = [
        (part, family, name)
        for part, families in PROBLEMS.items()
        for family, names in families.items()
        for name in (list(names)[:1] if scale.quick else names)
        if not (scale.quick and family == "real")
    ]
    found = measure(place, keys, refits, quick=scale.quick)
    return results(found, measure_doubts(place, quick=scale.quick, refits=refits), refits)


def measure(place: Place, keys: Sequence[Key], refits: int, *, quick: bool) -> Found:
    """By problem and rule, the setting picked and what it does on the target; finished units are not repeated."""
    named = [dict(zip(("part", "family", "name"), key, strict=True)) for key in keys]
    tried = run_units(place, NAME, try_settings, [{**each, "quick": quick} for each in named])
    picks = [{rule: pick(each) for rule, pick in RULES.items()} for each in tried]
    units = [
        {**each, "decay": decay, "lambda_": lambda_, "seed": seed, "quick": quick}
        for each, own in zip(named, picks, strict=True)
        for decay, lambda_ in dict.fromkeys(own.values())
        for seed in range(refits)
    ]
    risks = iter(run_units(place, NAME, predict_target, units))
    found = {}
    for key, own in zip(keys, picks, strict=True):
        by_setting: dict[Setting, Doubles] = {
            setting: np.array([next(risks) for _ in range(refits)]) for setting in dict.fromkeys(own.values())
        }
        y = draw(*key)[1].y
        assert y is not None
        plain = by_setting[own[ENSEMBLE]]
        judged = {setting: judge(y, each, plain) for setting, each in by_setting.items()}
        found[key] = {rule: (setting, judged[setting]) for rule, setting in own.items()}
    return found


def results(found: Found, doubt: Sequence[Table], refits: int) -> Results:
    """The tables of what was measured."""
    groups = list(dict.fromkeys((part, family) for part, family, _ in found))
    rows = [
        _row(group, rule, [own[rule] for key, own in found.items() if key[:2] == group])
        for group in groups
        for rule in RULES
    ]
    caption = (
        f"Real pairs and simulated families, ensembles of {MEMBERS}, {refits} refit(s): what a rule for lambda picks "
        "minus the ensemble whose decay was picked in the same way. Means over problems with Student's 95% interval; "
        "beside the log loss also with an interval over these problems' patients and refits."
    )
    return Results(
        title="Unlabelled patients: the transductive ensemble against the ensemble",
        about=(
            "Settings are picked on source patients alone. Problems named so are simulated; settling problems may have "
            "settled a rule, judging ones have not."
        ),
        tables=[Table("transductive_rules", caption, rows), _problems_table(found, refits), *doubt],
        metrics=_metrics(found),
        params={"refits": refits, "members": MEMBERS},
    )


def _row(group: tuple[str, str], rule: str, own: Sequence[tuple[Setting, Judged]]) -> Row:
    judged = [each for _, each in own]
    differences = {name: [each.difference[name] for each in judged] for name in MEASURES}
    calibration = differences["calibration error"]
    return {
        "problems": f"{group[0]}, {group[1]}",
        "rule": rule,
        "AUROC": float(np.mean([each.value["AUROC"] for each in judged])),
        "log loss": float(np.mean([each.value["log loss"] for each in judged])),
        **{f"{name}, difference": mean_over_problems(values) for name, values in differences.items()},
        "log loss, over patients and refits": pooled([each.log_loss for each in judged]),
        "calibration error lower / higher": f"{sum(v < 0 for v in calibration)} / {sum(v > 0 for v in calibration)}",
        "lambda above 0": sum(setting[1] > 0 for setting, _ in own),
        "n": len(own),
    }


def _problems_table(found: Found, refits: int) -> Table:
    rows: list[Row] = [
        {
            "part": part,
            "family": family,
            "problem": name,
            "rule": rule,
            "decay": setting[0],
            "lambda": setting[1],
            **judged.value,
            "log loss, difference": judged.log_loss,
            "AUROC, difference": judged.auroc,
            "patients": judged.n,
            "events": judged.events,
        }
        for (part, family, name), own in found.items()
        for rule, (setting, judged) in own.items()
    ]
    caption = (
        "The same by problem, real or simulated as named; differences to the ensemble with 95% intervals over "
        f"patients and {refits} refit(s)."
    )
    return Table("transductive_problems", caption, rows)


def _metrics(found: Found) -> dict[str, float]:
    """By group of problems, the mean difference in log loss of what the rule picks."""
    groups: dict[str, list[float]] = {}
    for (part, family, _), own in found.items():
        name = f"{part}_{family.split(' (')[0].replace(' ', '_')}_log_loss"
        groups.setdefault(name, []).append(own[RULE][1].difference["log loss"])
    return {name: float(np.mean(differences)) for name, differences in groups.items()}
