"""The five numbers against their definitions, written out pair by pair."""

from __future__ import annotations

import numpy as np
import pytest

from tdrop.base import DataError
from tdrop.forecast import QUANTITIES, Ranked
from tdrop.metrics import auroc, brier, misclassified, per_row_benefit

T = 0.3


def _risks(rows: int = 60) -> tuple[np.ndarray, np.ndarray]:
    generator = np.random.default_rng(4)
    # Rounded, so that there are ties.
    return generator.random(rows).round(1).clip(0.05, 0.95), (generator.random(rows) < 0.4).astype(float)


def test_whole_outcomes_give_the_ordinary_metrics() -> None:
    risk, y = _risks()
    found = dict(zip(QUANTITIES, Ranked.sort(risk, T).quantities(y[None], 1 - y[None])[:, 0], strict=True))
    assert found["auroc"] == pytest.approx(auroc(y, risk))
    assert found["error_rate"] == pytest.approx(misclassified(y, risk, T).mean())
    assert found["net_benefit"] == pytest.approx(per_row_benefit(y, risk, T).mean())
    assert found["brier"] == pytest.approx(brier(y, risk))
    assert found["outcomes"] == pytest.approx(y.mean())


def test_soft_outcomes_give_the_double_sum() -> None:
    risk, _ = _risks()
    true = np.random.default_rng(5).random(len(risk))
    found = Ranked.sort(risk, T).quantities(true[None], 1 - true[None])[:, 0]
    above = (risk[:, None] > risk[None]) + 0.5 * (risk[:, None] == risk[None])
    pairs = true[:, None] * (1 - true)[None]
    assert found[0] == pytest.approx((pairs * above).sum() / (true.sum() * (1 - true).sum()))
    assert found[1] == pytest.approx(np.where(risk < T, true, 1 - true).mean())
    assert found[3] == pytest.approx((true * (1 - true) + (true - risk) ** 2).mean())


def test_slopes_are_the_derivatives() -> None:
    risk, _ = _risks()
    true = np.random.default_rng(5).random(len(risk))
    ranked, small = Ranked.sort(risk, T), 1e-6
    moved = np.tile(true, (len(true), 1)) + small * np.eye(len(true))
    before = ranked.quantities(true[None], 1 - true[None])
    expected = (ranked.quantities(moved, 1 - moved) - before) / small
    assert ranked.slopes(true) == pytest.approx(expected, abs=1e-6)


def test_one_class_has_no_auroc_and_the_rest_stays() -> None:
    found = Ranked.sort(np.array([0.1, 0.9]), T).quantities(np.zeros((1, 2)), np.ones((1, 2)))[:, 0]
    assert np.isnan(found[0])
    assert found[1] == pytest.approx(0.5)


def test_risks_that_are_not_numbers_are_refused() -> None:
    with pytest.raises(DataError, match="one finite risk per patient"):
        Ranked.sort(np.array([0.1, np.nan]), T)
