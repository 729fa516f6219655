"""What a choice cost: not what luck makes the best of several equal methods look ahead by."""

from __future__ import annotations

import numpy as np

from flows.benchmarks.hindsight import behind_other_half
from tdrop.metrics import auroc


def risks_and_outcomes(rng, rows=400):
    truth = rng.uniform(0.05, 0.95, rows)
    return truth, (rng.uniform(size=rows) < truth).astype(float)


def blurred(rng, truth):
    return 1 / (1 + np.exp(-(np.log(truth / (1 - truth)) + rng.normal(0, 1, len(truth)))))


def test_equal_methods_cost_nothing_although_one_always_looks_ahead():
    naive, halves = [], []
    for seed in range(20):
        rng = np.random.default_rng(seed)
        truth, y = risks_and_outcomes(rng)
        risks = np.stack([blurred(rng, truth) for _ in range(8)])
        ranks = [auroc(y, risk) for risk in risks]
        naive.append(max(ranks) - np.mean(ranks))
        halves.append(behind_other_half(y, risks, np.ones(8, dtype=bool), halvings=20).auroc.mean())
    assert np.mean(naive) > 0.01
    assert abs(np.mean(halves)) < np.mean(naive) / 3


def test_a_better_method_is_found_and_one_that_cannot_be_chosen_is_not():
    rng = np.random.default_rng(1)
    truth, y = risks_and_outcomes(rng, 2000)
    risks = np.stack([blurred(rng, truth), truth, y * 0.9 + 0.05])
    behind = behind_other_half(y, risks, np.array([True, True, False]), halvings=20)
    assert behind.auroc[0] > 0.03
    assert behind.log_loss[0] > 0.05
    assert behind.auroc[1] == behind.log_loss[1] == 0
    assert behind.auroc[2] < 0
