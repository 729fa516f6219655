"""Rules of tuning on source patients who play the target: what they pick, and that no target's outcome is read."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from flows.benchmarks import hedge
from flows.benchmarks.playing import enough, play_target
from tdrop.choose import Trial
from tdrop.data import extrapolation


def tried(*losses):
    """One problem on which the four settings have these out-of-fold log losses."""
    methods = hedge.settings_to_try(quick=False)
    return {
        name: hedge.Judged(
            Trial(hedge.METHOD, {}, folds=3, log_loss=loss, restraint=each.restraint(), hedged=each.hedged), 0.7, loss
        )
        for (name, each), loss in zip(methods.items(), losses, strict=True)
    }


@pytest.mark.parametrize(
    ("losses", "picks"),
    [
        # Both free: the line before, its hedge by tuning and by both other rules that know one.
        ((0.500, 0.502, 0.501, 0.500), ("line", "hedge", "hedge", "hedge", "defaults", "defaults")),
        # The hedge costs more than the line does.
        ((0.500, 0.502, 0.509, 0.500), ("line", "line", "hedge", "line", "defaults", "defaults")),
        # A line is not free, and nothing gains .03 over the defaults.
        ((0.510, 0.530, 0.501, 0.500), ("defaults", "defaults", "defaults", "hedge", "decay 1e-2", "defaults")),
        # Decay gains more than .03.
        ((0.540, 0.530, 0.530, 0.500), ("decay 1e-2",) * 5 + ("defaults",)),
    ],
)
@pytest.mark.parametrize("arranged", [list, sorted], ids=["as tried", "as kept"])
def test_what_every_rule_picks(losses, picks, arranged):
    known = tried(*losses)
    # The store keeps a record's keys in the order of the alphabet.
    problem = {name: known[name] for name in arranged(known)}
    assert tuple(rule(problem) for rule in hedge.RULES.values()) == picks


def test_a_failed_setting_is_never_the_lowest():
    problem = tried(0.5, 0.52, 0.52, 0.52)
    failed = replace(problem[hedge.DECAYED], trial=Trial(hedge.METHOD, {}, failure="it exploded"))
    assert hedge.RULES["the lowest log loss"]({**problem, hedge.DECAYED: failed}) == hedge.DEFAULTS


def test_who_plays_the_target_does_not_depend_on_any_outcome():
    source, target = extrapolation(300, seed=1)
    flipped = replace(source, y=1 - source.y), replace(target, y=1 - target.y)
    labelled, aside = play_target(source, target)
    for one, other in zip((labelled, aside), play_target(*flipped), strict=True):
        np.testing.assert_array_equal(one.X, other.X)
        np.testing.assert_array_equal(one.y, 1 - other.y)
    assert len(labelled) + len(aside) == len(source)


def test_too_few_outcomes_among_those_set_aside_are_not_judged(monkeypatch):
    source, target = extrapolation(300, seed=1)
    lonely = replace(source, y=np.zeros_like(source.y))
    assert enough(source)
    assert not enough(lonely)
    monkeypatch.setitem(hedge.SOURCES["simulated"], "lonely", lambda: (lonely, target))
    assert hedge.try_settings("simulated", "lonely", quick=True) == {}
