"""The population over time: what is remembered of scored batches, its figure, and that none of it leaves."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from report_cases import report_data

from tdrop.base import Cohort
from tdrop.disclosure import disclose
from tdrop.figures import draw_batches
from tdrop.report import render_details
from tdrop.served.batches import FEWEST, MOST, Batch, drawable, feature_differences, patients_digest, remember


def batch(number: int, patients: int = 200, **differences: float) -> Batch:
    return Batch(f"2026-11-{number + 1:02}T08:00:00+00:00", str(number), "1", patients, 0.2, 40, differences)


def test_a_feature_is_as_far_as_its_mean_moved() -> None:
    random = np.random.default_rng(0)
    X = random.normal([60, 2, 1], [8, 0.5, 0], size=(500, 3)).astype(np.float32)
    made_for = Cohort("harbour", np.arange(500), ("age", "log_psa", "always"), X)
    later = Cohort("harbour", np.arange(500), made_for.features, X + np.float32([8 * X[:, 0].std() / 8, 0, 0]))
    found = feature_differences(later, made_for)
    assert found["age"] == pytest.approx(1.0, abs=0.01)
    assert found["log_psa"] == pytest.approx(0.0, abs=1e-4)
    assert "always" not in found, "what never varies has no deviation to count in"


def test_the_same_patients_are_one_batch_and_the_oldest_are_forgotten() -> None:
    once = remember((), batch(0))
    assert remember(once, replace(batch(0), when="later")) == (replace(batch(0), when="later"),)
    many: tuple[Batch, ...] = ()
    for number in range(MOST + 3):
        many = remember(many, replace(batch(0), digest=str(number)))
    assert [one.digest for one in many] == [str(number) for number in range(3, MOST + 3)]


def test_few_patients_are_no_population() -> None:
    assert drawable([batch(0)]) == ()
    assert drawable([batch(0), batch(1, FEWEST - 1)]) == ()
    assert len(drawable([batch(0), batch(1, FEWEST - 1), batch(2)])) == 2


def test_the_features_that_moved_most_have_a_panel_each() -> None:
    names = [f"feature{number}" for number in range(12)]
    batches = [batch(when, **{name: 0.1 * i * when for i, name in enumerate(names)}) for when in range(3)]
    drawn = draw_batches(batches, {"feature11": "<b>Age</b> of a man & more"})
    assert drawn is not None
    assert "&lt;b&gt;Age" in drawn.svg
    assert "<b>" not in drawn.svg
    assert "feature10" in drawn.svg
    assert "feature1<" not in drawn.svg, "it hardly moved"
    assert draw_batches(batches[:1], {}) is None


def test_the_report_shows_several_batches_and_nothing_of_them_leaves() -> None:
    batches = [batch(when, 200 + when, age=0.2 * when, log_psa=-0.1) for when in range(4)]
    data = report_data(labelled=False, exempt=False, batches=(*batches, batch(9, 12)))
    page = render_details(data)
    assert "The population over time" in page
    assert "4 batches of 806 patients were scored" in page
    assert "1 of fewer than 30 patients are not drawn" in page
    assert "The population over time" not in render_details(disclose(data, data.site.disclosure))
    assert "The population over time" not in render_details(replace(data, batches=tuple(batches[:1])))


def test_a_batch_in_another_order_is_the_same_batch() -> None:
    rows = np.random.default_rng(0).normal(size=(40, 3)).astype(np.float32)
    ids = [str(row) for row in range(40)]
    first, second = (Cohort(site="a", ids=ids, features=("x", "y", "z"), X=X) for X in (rows, rows[::-1]))
    assert patients_digest(first) == patients_digest(second)
    assert patients_digest(first) != patients_digest(first.take(np.arange(39)))
