"""Proper scores and AUROC: closed forms, a reference implementation, invariances."""

from __future__ import annotations

import numpy as np
import pytest

from tdrop.base import DataError
from tdrop.metrics import (
    auroc,
    auroc_interval,
    brier,
    delong,
    log_loss,
    misclassified,
    per_row_log_loss,
    ranking_statistic,
)


def draw(rows: int = 400, seed: int = 0, ties: bool = False) -> tuple[np.ndarray, np.ndarray]:
    random = np.random.default_rng(seed)
    p = random.uniform(0.02, 0.98, rows)
    if ties:
        p = np.round(p, 1)
    return (random.uniform(size=rows) < p).astype(float), p


def test_closed_forms() -> None:
    y = np.array([0.0, 1.0, 1.0, 0.0])
    p = np.array([0.5, 0.5, 0.5, 0.5])
    assert log_loss(y, p) == pytest.approx(np.log(2))
    assert brier(y, p) == pytest.approx(0.25)
    assert auroc(y, p) == 0.5
    assert auroc(y, np.array([0.1, 0.9, 0.8, 0.2])) == 1.0
    assert auroc(y, np.array([0.1, 0.9, 0.15, 0.2])) == pytest.approx(3 / 4)


@pytest.mark.parametrize("ties", [False, True])
def test_against_scikit_learn(ties: bool) -> None:
    # Recipe: sklearn.metrics.{roc_auc_score, log_loss, brier_score_loss} on the same arrays.
    from sklearn import metrics as reference

    y, p = draw(ties=ties)
    p = np.clip(p, 0.01, 0.99)
    weights = np.random.default_rng(1).uniform(0.1, 3, len(y))
    assert auroc(y, p) == pytest.approx(reference.roc_auc_score(y, p))
    assert log_loss(y, p) == pytest.approx(reference.log_loss(y, p))
    assert log_loss(y, p, weights) == pytest.approx(reference.log_loss(y, p, sample_weight=weights))
    assert brier(y, p) == pytest.approx(reference.brier_score_loss(y, p))
    assert brier(y, p, weights) == pytest.approx(reference.brier_score_loss(y, p, sample_weight=weights))


def test_invariances() -> None:
    y, p = draw(ties=True)
    shuffled = np.random.default_rng(3).permutation(len(y))
    assert auroc(y, p) == pytest.approx(auroc(y, np.exp(3 * p)))
    assert auroc(y, p) == pytest.approx(1 - auroc(y, -p))
    assert auroc(y, p) == pytest.approx(1 - auroc(1 - y, p))
    assert auroc(y[shuffled], p[shuffled]) == pytest.approx(auroc(y, p))
    assert log_loss(1 - y, 1 - p) == pytest.approx(log_loss(y, p))
    assert log_loss(y, p, np.full(len(y), 7.0)) == pytest.approx(log_loss(y, p))


def test_the_true_risk_scores_best() -> None:
    random = np.random.default_rng(0)
    truth = random.uniform(0.05, 0.95, 20_000)
    y = (random.uniform(size=len(truth)) < truth).astype(float)
    for wrong in (truth**2, np.sqrt(truth), 0.5 * truth + 0.25):
        assert log_loss(y, truth) < log_loss(y, wrong)
        assert brier(y, truth) < brier(y, wrong)


def test_edges() -> None:
    assert auroc(np.ones(3), np.arange(3)) is None
    assert auroc(np.array([]), np.array([])) is None
    assert log_loss(np.array([]), np.array([])) is None
    assert np.isfinite(per_row_log_loss(np.array([0.0, 1.0]), np.array([1.0, 0.0]))).all()
    with pytest.raises(DataError, match="one score per patient"):
        auroc(np.ones(3), np.ones(4))
    with pytest.raises(DataError, match="1 missing or infinite values in 2 rows"):
        brier(np.array([0.0, 1.0]), np.array([0.5, np.nan]))


def test_misclassified_counts_a_half_as_positive() -> None:
    assert misclassified(np.array([1.0, 0.0, 0.0]), np.array([0.5, 0.5, 0.49])).tolist() == [False, True, False]


@pytest.mark.parametrize("ties", [False, True])
def test_resampled_auroc_is_the_auroc_of_the_repeated_rows(ties: bool) -> None:
    y, p = draw(60, ties=ties)
    random = np.random.default_rng(4)
    counts = random.multinomial(60, np.full(60, 1 / 60), size=20).astype(np.float32)
    fast = ranking_statistic(y, p).resampled(counts)[0]
    slow = [auroc(np.repeat(y, c.astype(int)), np.repeat(p, c.astype(int))) for c in counts]
    np.testing.assert_allclose(fast, np.array(slow, dtype=float), rtol=1e-6)


def test_a_resample_of_one_class_has_no_auroc() -> None:
    counts = np.array([[2.0, 0.0], [1.0, 1.0]], dtype=np.float32)
    result = ranking_statistic(np.array([1.0, 0.0]), np.array([0.9, 0.1])).resampled(counts)[0]
    assert np.isnan(result[0])
    assert result[1] == 1.0


def test_delongs_interval_agrees_with_a_bootstrap_and_stays_within_bounds() -> None:
    generator = np.random.default_rng(0)
    others, events = generator.normal(0, 1, 400), generator.normal(1, 1, 250)
    value, variance = delong(others, events)
    truth = np.repeat([0, 1], [400, 250])
    assert value == pytest.approx(auroc(truth, np.concatenate([others, events])))
    redrawn = [delong(generator.choice(others, 400), generator.choice(events, 250))[0] for _ in range(300)]
    assert auroc_interval(value, variance, 250) == pytest.approx(np.quantile(redrawn, [0.025, 0.975]), abs=0.012)
    assert auroc_interval(*delong(np.zeros(5), np.ones(1)), 1) == (0.0, 1.0)
    assert auroc_interval(*delong(np.zeros(50), np.ones(30)), 30) == pytest.approx((0.9, 1.0))
