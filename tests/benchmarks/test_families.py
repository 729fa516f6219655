"""Families whose truth is known: what was promised of their shapes."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks.families import SHAPES, shaped, shaped_logit
from tdrop.metrics import auroc


@pytest.mark.parametrize("shape", SHAPES)
def test_a_shape_is_drawn_from_its_own_risk_and_the_same_for_a_seed(shape):
    source, target = shaped(shape, 2_000, seed=3)
    again, _ = shaped(shape, 2_000, seed=3)
    assert np.array_equal(source.X, again.X)
    assert np.array_equal(source.y, again.y)
    for cohort in (source, target):
        risk = 1 / (1 + np.exp(-shaped_logit(cohort.X.astype(np.float64), shape)))
        assert abs(risk.mean() - cohort.y.mean()) < 0.04
    assert target.X[:, 0].mean() - source.X[:, 0].mean() == pytest.approx(1.4, abs=0.1)


def test_a_straight_line_cannot_see_what_is_curved_or_interacts():
    from sklearn.linear_model import LogisticRegression

    for shape, low, high in (
        ("smooth", 0.78, 1.0),
        ("irrelevant", 0.75, 1.0),
        ("curved", 0.0, 0.7),
        ("interacting", 0.0, 0.7),
    ):
        source, target = shaped(shape, 2_000, seed=4)
        line = LogisticRegression().fit(source.X, source.y)
        assert low < auroc(target.y, line.predict_proba(target.X)[:, 1]) < high, shape
