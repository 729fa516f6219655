"""Lists of patients to look up: known probabilities, unbiased numbers, intervals that hold."""

from __future__ import annotations

import numpy as np
import pytest

from tdrop.base import DataError, UsageError
from tdrop.forecast import (
    Answer,
    Ranked,
    collect_outcomes,
    draw_list,
    estimate_from_list,
    expect_outcomes,
    inclusion,
    size_list,
)
from tdrop.metrics import weighted_lines

T = 0.3


def _site(rows: int = 800, seed: int = 0) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Risks, a wrong idea of the truth (a concept shift) and the outcomes."""
    generator = np.random.default_rng(seed)
    score = generator.normal(-0.5, 1.4, size=rows)
    risk = 1 / (1 + np.exp(-score))
    true = 1 / (1 + np.exp(-(0.7 * score + 0.6)))
    return risk, risk, (generator.random(rows) < true).astype(float)


def test_the_probabilities_are_those_of_the_draw() -> None:
    risk, guess, _ = _site(60)
    seen = np.zeros(60)
    for seed in range(3_000):
        drawn = draw_list(risk, guess, T, 12, seed=seed)
        assert len(set(drawn.rows)) == 12
        seen[drawn.rows] += 1
    probability = np.zeros(60)
    for seed in range(40):
        drawn = draw_list(risk, guess, T, 12, seed=seed)
        probability[drawn.rows] = drawn.probability
    assert seen / 3_000 == pytest.approx(probability, abs=0.035)
    assert probability.sum() == pytest.approx(12)
    assert probability.min() >= 0.4 * 12 / 60 - 1e-9


def test_a_file_in_which_outcomes_alternate_is_not_walked_through() -> None:
    """Matched cases and controls, all with the same risk: every tenth row is one kind only."""
    y, risk = np.tile([1.0, 0.0], 500), np.full(1_000, 0.5)
    rates = [y[draw_list(risk, risk, T, 100, seed=seed).rows].mean() for seed in range(60)]
    assert np.mean(rates) == pytest.approx(0.5, abs=0.03)
    assert np.std(rates) == pytest.approx(0.05, abs=0.02)


def test_no_probability_exceeds_one_and_all_patients_can_be_asked_for() -> None:
    score = np.array([100.0, 1, 1, 1, 1])
    found = inclusion(score, 3)
    assert found.sum() == pytest.approx(3)
    assert found.max() <= 1
    risk, guess, y = _site(30)
    everybody = draw_list(risk, guess, T, 30, seed=0)
    assert everybody.rows.tolist() == list(range(30))
    measured = estimate_from_list(risk, guess, collect_outcomes(everybody, y), T)
    expected = Ranked.sort(risk, T).quantities(y[None], 1 - y[None])[:, 0]
    assert [one.value for one in measured] == pytest.approx(expected.tolist())
    assert measured[0].high == pytest.approx(measured[0].low)


def test_fifty_outcomes_are_unbiased_and_their_intervals_hold() -> None:
    risk, guess, y = _site()
    truth = Ranked.sort(risk, T).quantities(y[None], 1 - y[None])[:, 0]
    values, held = [], []
    for seed in range(300):
        found = estimate_from_list(risk, guess, collect_outcomes(draw_list(risk, guess, T, 50, seed=seed), y), T)
        values.append([one.value for one in found])
        held.append([one.low <= t <= one.high for one, t in zip(found, truth, strict=True)])
    bias = np.mean(values, axis=0) - truth
    assert np.abs(bias).max() < 0.012
    assert np.mean(held, axis=0).min() >= 0.9


def test_recalibration_on_a_list_is_that_on_everybody() -> None:
    risk, guess, y = _site(3_000)
    wanted = weighted_lines(y, risk, np.ones((1, len(y))), slope=False)[0, 0]
    found = []
    for seed in range(100):
        known = collect_outcomes(draw_list(risk, guess, T, 100, seed=seed), y)
        found.append(weighted_lines(known.y, risk[known.rows], (1 / known.probability)[None], slope=False)[0, 0])
    # The prior pulls a little towards "as it is".
    assert np.mean(found) == pytest.approx(wanted, abs=0.08)


def test_chosen_patients_tell_more_than_a_plain_draw_of_as_many() -> None:
    # An idea of the truth that is right, as under covariate shift alone.
    generator = np.random.default_rng(3)
    risk = guess = 1 / (1 + np.exp(-generator.normal(-1.5, 1.4, size=3_000)))
    y = (generator.random(3_000) < risk).astype(float)
    chosen, plain = [], []
    for seed in range(200):
        found = estimate_from_list(risk, guess, collect_outcomes(draw_list(risk, guess, T, 50, seed=seed), y), T)[0]
        chosen.append(np.nan if found.value is None else found.value)
        rows = np.random.default_rng(seed).choice(len(y), 50, replace=False)
        plain.append(Ranked.sort(risk[rows], T).quantities(y[rows][None], 1 - y[rows][None])[0, 0])
    assert np.nanstd(chosen) < 0.93 * np.nanstd(plain)


def test_a_forecast_narrows_the_interval_unless_the_outcomes_contradict_it() -> None:
    risk, guess, y = _site()
    known = collect_outcomes(draw_list(risk, guess, T, 50, seed=1), y)
    alone = estimate_from_list(risk, guess, known, T)[0]
    assert alone.value is not None
    assert alone.updated is None
    widths = []
    for value in (alone.value, alone.value - 0.4):
        answer = Answer("a", "auroc", value, value - 0.1, value + 0.1, 0.01, 0.05, {})
        found = estimate_from_list(risk, guess, known, T, answers=[answer])[0]
        assert found.value == alone.value
        widths.append(float(found.updated_high or 0) - float(found.updated_low or 0))
        assert found.updated == pytest.approx(alone.value, abs=0.04)
    own = float(alone.high or 0) - float(alone.low or 0)
    assert widths[0] < 0.8 * own
    assert widths[1] > 0.9 * own


def test_only_some_of_a_list_still_counts_for_everybody() -> None:
    risk, guess, y = _site()
    drawn = draw_list(risk, guess, T, 50, seed=2)
    partly = np.where(np.arange(len(y)) % 2 == 0, y, np.nan)
    known = collect_outcomes(drawn, partly)
    assert 0 < len(known.rows) < 50
    share = len(known.rows) / 50
    assert known.probability == pytest.approx(drawn.probability[np.isin(drawn.rows, known.rows)] * share)


def test_a_class_that_hardly_came_back_leaves_no_auroc() -> None:
    risk, guess, y = _site()
    known = collect_outcomes(draw_list(risk, guess, T, 20, seed=2), np.zeros(len(y)))
    found = estimate_from_list(risk, guess, known, T)
    assert found[0].value is None
    assert found[4].value is not None
    assert found[0].events == 0


def test_lists_that_cannot_be_are_refused() -> None:
    risk, guess, _ = _site(30)
    with pytest.raises(UsageError, match=r"31 patients was asked for and the site has 30; ask for at most 30"):
        draw_list(risk, guess, T, 31, seed=0)
    with pytest.raises(UsageError, match="at least 1"):
        draw_list(risk, guess, T, 0, seed=0)
    with pytest.raises(DataError, match="none of the patients on the list"):
        collect_outcomes(draw_list(risk, guess, T, 5, seed=0), np.full(30, np.nan))


def test_patients_whose_outcome_is_known_are_not_drawn_and_stand_for_themselves() -> None:
    risk, guess, y = _site()
    known = np.zeros(len(y), dtype=bool)
    known[::7] = True
    values = []
    for seed in range(60):
        drawn = draw_list(risk, guess, T, 60, seed=seed, known=known)
        assert not known[drawn.rows].any()
        values.append(estimate_from_list(risk, guess, collect_outcomes(drawn, y, known), T)[4].value)
    error = np.std(values) / np.sqrt(len(values))
    assert np.mean(values) == pytest.approx(y.mean(), abs=3 * error)
    left = int((~known).sum())
    with pytest.raises(UsageError, match="whose outcome is not known"):
        draw_list(risk, guess, T, left + 1, seed=0, known=known)


def test_a_list_is_sized_by_the_outcomes_it_should_give() -> None:
    risk, guess, y = _site()
    n = size_list(risk, guess, T, 10)
    assert expect_outcomes(risk, guess, T, n) >= 10 > expect_outcomes(risk, guess, T, n - 1)
    seen = [y[draw_list(risk, guess, T, n, seed=seed).rows].sum() for seed in range(80)]
    # The site's outcomes are more frequent than the guess says; a guess is all there is before.
    assert 8 <= np.mean(seen) <= 16
    assert size_list(risk, guess, T, 10 * len(risk)) == len(risk)


def test_intervals_stay_within_what_a_number_can_be() -> None:
    risk, guess, y = _site()
    answers = [Answer("a", "outcomes", 0.02, 0.0, 0.2, 0.02, 0.14, {})]
    few = collect_outcomes(draw_list(risk, guess, T, 12, seed=0), y)
    for one in estimate_from_list(risk, guess, few, T, answers=answers):
        if one.quantity != "net_benefit" and one.low is not None:
            assert 0 <= one.low <= one.high <= 1
        if one.updated_low is not None:
            assert 0 <= one.updated_low <= one.updated_high <= 1
