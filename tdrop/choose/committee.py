"""Who sits on the committee: methods of different kinds that source patients cannot tell from the best."""

from __future__ import annotations

from collections.abc import Sequence

from tdrop.choose.choice import ALIKE, DEFAULT_CRITERION, Criterion, Score, make_choice, preference

#: Methods that are no networks; of the networks one has a seat, because what they have in common would count twice.
OTHER_KINDS = ("logistic_regression", "gradient_boosting")


def pick_members(scores: Sequence[Score], *, criterion: Criterion = DEFAULT_CRITERION) -> tuple[str, ...]:
    """The members, the preferred first: nobody where fewer than two methods have a claim.

    A line, trees and the preferred network have a seat each when their log loss by the criterion is within ALIKE of
    the lowest among them; so has the method that would be taken alone.
    """
    losses = {
        score.method: losses.mean
        for score in scores
        if score.has_samples and (losses := score.losses(criterion)) is not None
    }
    if len(losses) < 2:
        return ()
    known = sorted(losses, key=preference)
    networks = [name for name in known if name not in OTHER_KINDS]
    kinds = [*networks[:1], *(name for name in known if name in OTHER_KINDS)]
    lowest = min(losses[name] for name in kinds)
    seated = {name for name in kinds if losses[name] <= lowest + ALIKE}
    seated.add(make_choice(scores, criterion=criterion).method)
    return tuple(name for name in known if name in seated) if len(seated) > 1 else ()
