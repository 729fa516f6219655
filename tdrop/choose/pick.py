"""Which trials go on, and which one the refit uses: restraint or its hedge at no cost, else the defaults."""

from __future__ import annotations

from collections.abc import Mapping, MutableMapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from tdrop.base import Cohort, FitError, Indices
from tdrop.choose.out_of_fold import FOLDS, MOST_ROWS, PASSES, OutOfFold
from tdrop.choose.plan import BUDGET, plan_trials
from tdrop.choose.trial import Fits, Trial, run_trial

#: Out-of-fold log loss that a more restrained setting may cost: below what any site's patients could tell.
TOLERANCE = 0.005
#: Out-of-fold log loss that other settings must gain over the defaults: source patients tell less than that apart
#: without its being true of the target (docs/CHOOSING.md).
WORTH = 0.03
#: Share of the trials that go on to all folds after the first.
GOING_ON = 1 / 3


@dataclass(frozen=True)
class Tuned:
    """What tuning a method found.

    Attributes:
        picked: The trial whose settings the refit uses.
        trials: All trials, as planned.
        out_of_fold: The picked trial's risks of source patients whom its fits did not see.
    """

    picked: Trial
    trials: tuple[Trial, ...]
    out_of_fold: OutOfFold


def tune(
    name: str,
    source: Cohort,
    target: Cohort,
    matching_rows: Indices,
    *,
    budget: int = BUDGET,
    seed: int = 0,
    base: Mapping[str, Any] | None = None,
    folds: int = FOLDS,
    passes: int = PASSES,
    most_rows: int = MOST_ROWS,
    shared: MutableMapping[Fits, OutOfFold] | None = None,
) -> Tuned:
    """Tries a method's settings, all of them on one fold and the promising ones on every fold, and picks one."""
    planned = plan_trials(name, budget=budget, seed=seed, base=base)
    options: dict[str, Any] = {"seed": seed, "folds": folds, "passes": passes, "most_rows": most_rows, "shared": shared}
    found = [run_trial(method, source, target, matching_rows, held=(0,), **options) for method in planned]
    for place in promising([trial for trial, _ in found]):
        earlier = found[place][1]
        found[place] = run_trial(planned[place], source, target, matching_rows, earlier=earlier, **options)
    place = pick_place(name, [trial for trial, _ in found])
    trials = mark_picked([trial for trial, _ in found], place)
    risks = found[place][1]
    assert risks is not None
    return Tuned(trials[place], trials, risks)


def promising(trials: Sequence[Trial]) -> tuple[int, ...]:
    """Places of the trials that go on after the first fold.

    A third of the trials, rounded up, goes on by loss; so do the trial that the rule would pick on this fold alone and
    its hedge, so that restraint is not lost to a fold's chance, and the defaults, against which the others are held.
    """
    scored = _scored(trials)
    if not scored:
        return ()
    count = -(-len(trials) // round(1 / GOING_ON))
    lowest = sorted(scored, key=lambda place: _loss_of(trials[place]))[:count]
    restrained = most_restrained(trials, scored)
    return tuple(sorted({*lowest, restrained, _hedge_of(trials, scored, restrained), scored[0]}))


def pick_place(name: str, trials: Sequence[Trial]) -> int:
    """Place of the trial whose settings the refit uses.

    Of the trials on the most folds, those within TOLERANCE of the lowest log loss cost nothing; the most restrained of
    them is picked where it holds the method back more than the defaults do, or its hedge where that costs nothing
    either: what the source cannot tell apart then answers together. Else the defaults, which come first, stay unless
    more than WORTH is gained.
    """
    scored = _scored(trials)
    if not scored:
        reasons = "; ".join(dict.fromkeys(trial.failure or "" for trial in trials))
        raise FitError(f"method '{name}': none of {len(trials)} trials could be scored ({reasons or 'none was run'})")
    most = max(trials[place].folds for place in scored)
    compared = [place for place in scored if trials[place].folds == most]
    restrained = most_restrained(trials, compared)
    gained = _loss_of(trials[0]) - min(_loss_of(trials[place]) for place in compared)
    stays = 0 in compared and gained <= WORTH and trials[restrained].restraint <= trials[0].restraint
    return 0 if stays else _hedge_of(trials, compared, restrained)


def pick_trial(name: str, trials: Sequence[Trial]) -> Trial:
    """Returns the trial whose settings the refit uses; see `pick_place`."""
    return trials[pick_place(name, trials)]


def mark_picked(trials: Sequence[Trial], place: int) -> tuple[Trial, ...]:
    """The same trials, with the picked one saying so."""
    return tuple(replace(trial, picked=index == place) for index, trial in enumerate(trials))


def most_restrained(trials: Sequence[Trial], places: Sequence[int]) -> int:
    """Place of the most restrained trial within TOLERANCE of the lowest log loss; of equals the lower, then earlier."""
    return max(_close(trials, places), key=lambda place: (trials[place].restraint, -_loss_of(trials[place]), -place))


def _hedge_of(trials: Sequence[Trial], places: Sequence[int], restrained: int) -> int:
    """Place of the hedge, where it costs nothing and the trial holds back more than the defaults; else the trial's."""
    held = trials[restrained].restraint
    hedges = [p for p in _close(trials, places) if trials[p].hedged and trials[p].restraint[1:] == held[1:]]
    if not hedges or held <= trials[0].restraint:
        return restrained
    return min(hedges, key=lambda place: _loss_of(trials[place]))


def _close(trials: Sequence[Trial], places: Sequence[int]) -> list[int]:
    """The places of trials within TOLERANCE of the lowest log loss."""
    best = min(_loss_of(trials[place]) for place in places)
    return [place for place in places if _loss_of(trials[place]) <= best + TOLERANCE]


def _scored(trials: Sequence[Trial]) -> list[int]:
    return [place for place, trial in enumerate(trials) if trial.log_loss is not None]


def _loss_of(trial: Trial) -> float:
    return float("inf") if trial.log_loss is None else trial.log_loss
