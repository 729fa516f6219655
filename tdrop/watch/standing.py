"""The state of each rule, and what to do by all of them together."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from tdrop.watch.rules import CAUTION_LINE, LINE, STOP_LINE, Bet
from tdrop.watch.state import WatchState

#: How a rule stands: it was not crossed; a lower line was; its own line was; it cannot be asked.
Stand = Literal["quiet", "caution", "alarm", "not watched"]
#: What to do, from nothing to taking the model out of use.
Action = Literal["go on", "look into it", "recalibrate", "review", "retrain", "withdraw"]


@dataclass(frozen=True)
class RuleStanding:
    """How one rule stands.

    Attributes:
        rule: further, nearer, harm, outcomes or ranking.
        stand: Its state; an alarm stays until another champion is put to use.
        patients: New patients, or known outcomes, that it rests on.
        line: log10 of the line at which it raises an alarm.
    """

    rule: str
    stand: Stand
    patients: int
    line: float | None = None


def rules_of(state: WatchState) -> tuple[RuleStanding, ...]:
    """Every rule of a watch."""
    test = state.outcomes
    harm = _standing("harm", state.patients, state.harm_peak, {"alarm": LINE})
    outcomes: dict[Stand, float] = {"alarm": STOP_LINE, "caution": CAUTION_LINE}
    quality = (RuleStanding("ranking", _ranking(state), test.patients),) if state.task != "regression" else ()
    return (
        _of_bet("further", state.further, "alarm"),
        _of_bet("nearer", state.nearer, "caution"),
        harm if state.loss is not None else replace(harm, stand="not watched"),
        _standing("outcomes", test.patients, test.peak, outcomes),
        *quality,
    )


def stand_of(state: WatchState) -> Stand:
    """The gravest of a watch's rules: quiet, caution or alarm."""
    stands = {rule.stand for rule in rules_of(state)}
    return "alarm" if "alarm" in stands else "caution" if "caution" in stands else "quiet"


def advise(state: WatchState) -> tuple[Action, ...]:
    """What to do, the most important first; WATCH.md's table of what then."""
    stands = {rule.rule: rule.stand for rule in rules_of(state)}
    actions: list[Action] = []
    wrong = stands["outcomes"] in ("caution", "alarm")
    if stands.get("ranking") == "alarm":
        actions.append("withdraw")
    elif wrong:
        actions.append("recalibrate" if stands["outcomes"] == "alarm" else "look into it")
    if stands["harm"] == "alarm":
        actions.append("review")
    if stands["further"] == "alarm":
        actions.append("retrain")
    if stands["nearer"] == "caution":
        actions.append("look into it")
    return tuple(dict.fromkeys(actions)) or ("go on",)


def is_concept_shift(state: WatchState) -> bool:
    """Whether outcomes contradict predictions although patients are no further from the source than before."""
    stands = {rule.rule: rule.stand for rule in rules_of(state)}
    return stands["outcomes"] in ("caution", "alarm") and stands["further"] == "quiet"


def _of_bet(rule: str, bet: Bet | None, crossed: Stand) -> RuleStanding:
    if bet is None:
        return RuleStanding(rule, "not watched", 0)
    return _standing(rule, bet.patients, bet.peak, {crossed: LINE})


def _standing(rule: str, patients: int, peak: float, lines: Mapping[Stand, float]) -> RuleStanding:
    """How a rule stands by its logarithmic wealth at its highest; `lines` has the gravest first."""
    crossed: list[Stand] = [stand for stand, line in lines.items() if peak >= float(np.log(line))]
    return RuleStanding(rule, crossed[0] if crossed else "quiet", patients, float(np.log10(max(lines.values()))))


def _ranking(state: WatchState) -> Stand:
    """An alarm where all of the confidence sequence of AUROC, or accuracy, is below what was forecast."""
    ranking = state.ranking
    if ranking is None or state.forecast_low is None:
        return "not watched"
    return "alarm" if ranking[2] < state.forecast_low else "quiet"
