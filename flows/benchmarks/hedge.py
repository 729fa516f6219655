"""Should an ensemble be a line, its hedge, or free? Rules of tuning, settled on source patients who play the target.

What a rule picks by out-of-fold log loss of the labelled patients is judged on those set aside. docs/CHOOSING.md
reports a run.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from flows.benchmarks.paired import mean_over_problems
from flows.benchmarks.playing import SOURCES, enough, play_target, problems_of
from flows.benchmarks.results import Results, Row, Scale, Table, values_by_name
from flows.benchmarks.units import QUICK_NETWORK, run_units
from tdrop.base import Cohort, Method
from tdrop.choose import TOLERANCE, Trial, pick_place, run_trial
from tdrop.home import Place
from tdrop.methods import build
from tdrop.metrics import auroc, per_row_log_loss

NAME, METHOD = "hedge", "ensemble"
#: In the order of tuning, which reads the first as the defaults.
SETTINGS = DEFAULTS, LINE, HEDGE, DECAYED = "defaults", "line", "hedge", "decay 1e-2"


def settings_to_try(quick: bool) -> Mapping[str, Method]:
    """By name, what a rule may pick."""
    default = build(METHOD, **(QUICK_NETWORK if quick else {}))
    line = default.with_settings(linear=True, weight_decay=1e-2)
    return {DEFAULTS: default, LINE: line, HEDGE: line.hedge(), DECAYED: default.with_settings(weight_decay=1e-2)}


@dataclass(frozen=True)
class Judged:
    """One setting on one problem.

    Attributes:
        trial: Out of fold, on the labelled patients: all that a rule sees.
        auroc: On the patients set aside.
        log_loss: On the same.
    """

    trial: Trial
    auroc: float
    log_loss: float


Tried = Mapping[str, Judged]


def _loss(tried: Tried, name: str) -> float:
    loss = tried[name].trial.log_loss
    return np.inf if loss is None else loss


def _by_tuning(tried: Tried, *names: str) -> str:
    """What tuning itself would take among these."""
    return names[pick_place(METHOD, [tried[name].trial for name in names])]


def _without_hedge(tried: Tried) -> str:
    return _by_tuning(tried, DEFAULTS, LINE, DECAYED)


def _lowest(tried: Tried) -> str:
    return min(SETTINGS, key=lambda name: _loss(tried, name))


def _hedge_where_free(tried: Tried) -> str:
    is_free = _loss(tried, HEDGE) <= _loss(tried, _lowest(tried)) + TOLERANCE
    return HEDGE if is_free else _without_hedge(tried)


BEFORE = "the line where it is free"
#: By name, what a rule picks.
RULES: Mapping[str, Callable[[Tried], str]] = {
    BEFORE: _without_hedge,
    "its hedge where both are free (tuning)": lambda tried: _by_tuning(tried, *SETTINGS),
    "its hedge wherever the line is free": lambda tried: HEDGE if (own := _without_hedge(tried)) == LINE else own,
    "the hedge wherever it is free itself": _hedge_where_free,
    "the lowest log loss": _lowest,
    "the defaults": lambda tried: DEFAULTS,
}


def try_settings(family: str, name: str, quick: bool) -> Tried:
    """Every setting, scored out of fold and then judged on the patients set aside; nothing where these are too few."""
    labelled, aside = play_target(*SOURCES[family][name]())
    if not enough(aside):
        return {}
    return {each: _judge(method, labelled, aside) for each, method in settings_to_try(quick).items()}


def _judge(method: Method, labelled: Cohort, aside: Cohort) -> Judged:
    assert aside.y is not None
    unlabelled = aside.unlabelled()
    trial, _ = run_trial(method, labelled, unlabelled, np.arange(0), seed=0)
    risk = method.fit(labelled, unlabelled, None, seed=0).summarise(aside.X, 1, seed=0).mean
    ranked = auroc(aside.y, risk)
    assert ranked is not None
    return Judged(trial, ranked, float(per_row_log_loss(aside.y, risk).mean()))


def run(place: Place, scale: Scale) -> Results:
    """Every problem with every setting; a rule's row is what it picks minus the line where that is free."""
    problems = problems_of(scale.quick)
    units = [{**each, "quick": scale.quick} for each in problems]
    found = {
        (problem["family"], problem["name"]): tried
        for problem, tried in zip(problems, run_units(place, NAME, try_settings, units), strict=True)
        if tried
    }
    families = dict.fromkeys(family for family, _ in found)
    rows = [
        _row(family, rule, [tried for (own, _), tried in found.items() if own == family])
        for family in families
        for rule in RULES
    ]
    caption = (
        "Source patients who play the target, real or simulated as named: the ensemble that a rule picks minus the "
        f"one picked by '{BEFORE}', mean over sources with Student's 95% interval, one fit each."
    )
    return Results(
        title="A line, its hedge or a free ensemble, on source patients",
        about="A rule sees the out-of-fold log loss of the labelled patients; those set aside judge.",
        tables=[Table("hedge_rules", caption, rows), _problems_table(found)],
        metrics=values_by_name(rows, ("family", "rule"), "AUROC"),
        params={"tolerance": TOLERANCE},
    )


def _row(family: str, rule: str, problems: Sequence[Tried]) -> Row:
    picks = [RULES[rule](tried) for tried in problems]
    own = [tried[pick] for tried, pick in zip(problems, picks, strict=True)]
    before = [tried[RULES[BEFORE](tried)] for tried in problems]
    ranks = [one.auroc - other.auroc for one, other in zip(own, before, strict=True)]
    losses = [one.log_loss - other.log_loss for one, other in zip(own, before, strict=True)]
    counts = Counter(picks)
    return {
        "family": family,
        "rule": rule,
        "mean AUROC": float(np.mean([one.auroc for one in own])),
        "mean log loss": float(np.mean([one.log_loss for one in own])),
        "AUROC": mean_over_problems(ranks, digits=4),
        "AUROC, worst": min(ranks),
        "log loss": mean_over_problems(losses, digits=4),
        "log loss, worst": max(losses),
        **{f"{name} picked": counts[name] for name in (HEDGE, LINE, DEFAULTS, DECAYED)},
        "sources": len(problems),
    }


def _problems_table(found: Mapping[tuple[str, str], Tried]) -> Table:
    rows: list[Row] = [
        {
            "family": family,
            "problem": name,
            "setting": setting,
            "out-of-fold log loss": judged.trial.log_loss,
            "AUROC": judged.auroc,
            "log loss": judged.log_loss,
        }
        for (family, name), tried in found.items()
        for setting, judged in tried.items()
    ]
    return Table("hedge_problems", "The same by problem, real and simulated as named.", rows)
