"""Whose outcomes to look up: a list drawn with known probabilities, and unbiased numbers from its outcomes.

A patient's outcome says most about a number when it is uncertain and the number depends on it: |slope| sqrt(r (1 - r)),
r being the forecast's estimate of the true risk. The probabilities mix that score with equal probabilities, so that no
patient stands for too many others. The draw is systematic along the risks, so every list spans the whole range (active
testing, Kossen et al. 2021, as survey sampling: difference estimators, Saerndal et al. 1992).

The outcomes correct the forecast's masses: u = r + (y - r) / probability for a patient on the list, u = r for all
others. Its expectation is the true outcome whatever r is: a bad r makes intervals wider, never wrong. No unbiased
estimator is much narrower: with the true risks as r and probabilities in proportion to the score the variance is at its
lower bound (Godambe and Joshi 1965), and these intervals are within a few percent of it. Only joining the forecast
narrows them further.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import norm

from tdrop.base import INTERVAL_LEVEL, DataError, Doubles, Indices, Mask, UsageError
from tdrop.forecast.estimators import QUANTITIES, Quantity, Ranked
from tdrop.forecast.run import RANGES, Answer
from tdrop.metrics import apply_lines, weighted_lines

#: Share of the probability that is spread evenly: nobody counts for more than 1 / EVEN as many as in a plain draw.
EVEN = 0.4
#: With fewer outcomes of one kind than this no AUROC is estimated from a list.
FEWEST_OF_A_CLASS = 4


@dataclass(frozen=True)
class Drawn:
    """Patients to look up.

    Attributes:
        rows: Which, in ascending order (drawn,).
        probability: With which chance each was to be drawn (drawn,).
    """

    rows: Indices
    probability: Doubles


def draw_list(
    risk: NDArray[Any], true: NDArray[Any], threshold: float, n: int, *, seed: int, known: Mask | None = None
) -> Drawn:
    """Draws n different patients.

    Args:
        risk: The risks that are to be judged (rows,).
        true: Estimates of the true risks (rows,), such as `true_risk`.
        threshold: The decision level.
        n: How many.
        seed: Of the draw.
        known: Whose outcome is known already (rows,): they are not drawn. `collect_outcomes` counts them as certain to
            be known, so that its inverse probabilities stay exact.
    """
    unknown = np.ones(len(risk), dtype=np.bool_) if known is None else ~np.asarray(known, dtype=np.bool_)
    rows, left = len(risk), int(unknown.sum())
    if not left:
        raise UsageError("every patient's outcome is known; there is nobody to look up")
    if n < 1:
        raise UsageError(f"a list holds at least 1 patient, {n} were asked for")
    if n > left:
        of = "" if known is None else " whose outcome is not known"
        raise UsageError(
            f"a list of {n:,} patients was asked for and the site has {left:,}{of}; ask for at most {left:,}"
        )
    probability = np.zeros(rows)
    probability[unknown] = inclusion(_doubt(risk, true, threshold)[unknown], n)
    generator = np.random.default_rng([seed, 31])
    start = generator.random()
    # Equal risks are shuffled, because the file may be sorted by outcome.
    order = np.lexsort((generator.permutation(rows), np.asarray(risk)))
    # Systematic sampling: n equally spaced points on the cumulated probabilities pick n different rows.
    reached = np.floor(np.concatenate([[0.0], np.cumsum(probability[order])]) - start + 1e-9)
    picked = np.sort(order[np.diff(reached) > 0])
    return Drawn(picked, probability[picked])


def expect_outcomes(risk: NDArray[Any], true: NDArray[Any], threshold: float, n: int) -> float:
    """Returns how many of n patients on a list are expected to have the outcome; the arguments are `draw_list`'s."""
    return float(inclusion(_doubt(risk, true, threshold), n) @ np.asarray(true, dtype=np.float64))


def size_list(risk: NDArray[Any], true: NDArray[Any], threshold: float, outcomes: int) -> int:
    """Returns how many patients a list must hold for so many expected outcomes; all of them where that is too many."""
    sizes = range(1, len(risk))
    return 1 + bisect_left(sizes, float(outcomes), key=lambda n: expect_outcomes(risk, true, threshold, n))


def inclusion(score: Doubles, n: int) -> Doubles:
    """Probabilities (rows,) that add up to n: EVEN of them alike, the rest in proportion to score, none above 1."""
    share = score / score.sum() if score.sum() > 0 else np.full(len(score), 1 / len(score))
    wanted = (1 - EVEN) * share + EVEN / len(score)
    sure = np.zeros(len(score), dtype=bool)
    for _ in range(len(score)):
        probability = np.where(sure, 1.0, wanted * (n - sure.sum()) / max(wanted[~sure].sum(), 1e-300))
        over = (probability > 1.0) & ~sure
        if not over.any():
            break
        sure |= over
    return np.asarray(np.minimum(probability, 1.0), dtype=np.float64)


def _doubt(risk: NDArray[Any], true: NDArray[Any], threshold: float) -> Doubles:
    """How much each patient's outcome would change the AUROC (rows,)."""
    value = np.asarray(true, dtype=np.float64)
    slope = Ranked.sort(risk, threshold).slopes(value)[0]
    return np.asarray(np.abs(slope) * np.sqrt(value * (1 - value)), dtype=np.float64)


@dataclass(frozen=True)
class ListOutcomes:
    """The outcomes of a list.

    Attributes:
        rows: Patients whose outcome came back (known,).
        y: Their outcomes (known,).
        probability: With which chance each was on the list and came back (known,).
    """

    rows: Indices
    y: Doubles
    probability: Doubles

    def __post_init__(self) -> None:
        if not len(self.rows):
            raise DataError("none of the patients on the list came back with an outcome; look some up first")


def collect_outcomes(
    drawn: Drawn,
    y: NDArray[Any],
    before: Mask | None = None,
    *,
    weights: NDArray[Any] | None = None,
    censored: Mask | None = None,
) -> ListOutcomes:
    """Takes the outcomes (rows,) of a list, NaN where unknown; missing outcomes are assumed to be missing at random.

    Args:
        drawn: The list.
        y: Outcomes of all patients (rows,), NaN where unknown.
        before: Whose outcome was known when the list was drawn (rows,), as `draw_list` had it; each of them stands for
            nobody else.
        weights: For how many patients each outcome stands because others left before the horizon (rows,).
        censored: Who these others are (rows,): they came back, without an outcome.
    """
    everyone = np.asarray(y, dtype=np.float64)
    outcome = everyone[drawn.rows]
    known = np.isfinite(outcome)
    share = (known if censored is None else known | censored[drawn.rows]).sum() / len(known)
    rows, probability = drawn.rows[known], drawn.probability[known] * share
    if before is not None:
        certain = np.setdiff1d(np.flatnonzero(np.asarray(before) & np.isfinite(everyone)), drawn.rows)
        rows, probability = np.append(rows, certain), np.append(probability, np.ones(len(certain)))
    return ListOutcomes(rows, everyone[rows], probability if weights is None else probability / weights[rows])


@dataclass(frozen=True)
class Measured:
    """One number from the outcomes of a list.

    Attributes:
        quantity: Which number.
        value: Unbiased over which patients were looked up, but for the AUROC, a ratio of two such estimates: with 50
            outcomes it is about .008 too high, and less with more. None where it cannot be given.
        low: Lower end of its interval.
        high: Upper end.
        updated: Forecast and outcomes together, each by its precision; None without a forecast.
        updated_low: Lower end.
        updated_high: Upper end.
        n: Outcomes that came back.
        events: Of these with the outcome.
    """

    quantity: Quantity
    value: float | None
    low: float | None
    high: float | None
    updated: float | None
    updated_low: float | None
    updated_high: float | None
    n: int
    events: int


def estimate_from_list(
    risk: NDArray[Any],
    true: NDArray[Any],
    known: ListOutcomes,
    threshold: float,
    *,
    answers: Sequence[Answer] = (),
) -> tuple[Measured, ...]:
    """The five numbers of a method with their intervals over which patients were looked up.

    Args:
        risk: The method's risks of all the site's patients (rows,).
        true: Estimates of the true risks (rows,), those of the draw or others made without these outcomes.
        known: The outcomes of the list.
        threshold: The decision level.
        answers: The method's forecast, to be updated.
    """
    value, error = _values(risk, true, known, threshold)
    n, events = len(known.rows), int(known.y.sum())
    reach = float(norm.ppf((1 + INTERVAL_LEVEL) / 2))
    before = {answer.quantity: answer for answer in answers}
    measured = []
    for name, centre, spread in zip(QUANTITIES, value.tolist(), error.tolist(), strict=True):
        if (name == "auroc" and min(events, n - events) < FEWEST_OF_A_CLASS) or not np.isfinite(centre):
            alone, together = (None, None, None), _update(before.get(name), None, 0.0, reach)
        else:
            ends = (float(np.clip(centre + sign * reach * spread, *RANGES[name])) for sign in (-1, 1))
            alone, together = (centre, *ends), _update(before.get(name), centre, spread, reach)
        measured.append(Measured(name, *alone, *together, n, events))
    return tuple(measured)


def _values(risk: NDArray[Any], true: NDArray[Any], known: ListOutcomes, threshold: float) -> tuple[Doubles, Doubles]:
    """The five numbers (5,) and their standard errors (5,).

    The variance of an outcome is the mean of its squared residual and of r (1 - r): a few outcomes that happen to agree
    with their risks make no short interval, and wrong risks still widen it.
    """
    guess, chance = np.asarray(true, dtype=np.float64), known.probability
    # The estimated true risks, moved by one intercept that the known outcomes give.
    guess = apply_lines(guess, weighted_lines(known.y, guess[known.rows], (1 / chance)[None], slope=False))[0]
    guess_of_known = guess[known.rows]
    masses = guess.copy()
    masses[known.rows] += (known.y - guess_of_known) / chance
    ranked = Ranked.sort(risk, threshold)
    noise = ((known.y - guess_of_known) ** 2 + guess_of_known * (1 - guess_of_known)) / 2
    variance = ranked.slopes(guess)[:, known.rows] ** 2 @ (noise * (1 - chance) / chance**2)
    return ranked.quantities(masses[None], 1 - masses[None])[:, 0], np.sqrt(variance)


def _update(
    before: Answer | None, value: float | None, error: float, reach: float
) -> tuple[float | None, float | None, float | None]:
    """Forecast and outcomes together: (value, low, high).

    A forecast that the outcomes contradict counts less: its spread is at least as large as they show it to be.
    """
    if before is None or before.value is None or before.sampling is None:
        return None, None, None
    if value is None:
        return before.value, before.low, before.high
    apart = value - before.value
    prior = max(before.sampling**2 + before.between**2, apart**2 - error**2)
    observed_variance = max(error**2, 1e-12)
    variance = 1 / (1 / prior + 1 / observed_variance)
    centre, half = variance * (before.value / prior + value / observed_variance), reach * variance**0.5
    low, high = (float(np.clip(end, *RANGES[before.quantity])) for end in (centre - half, centre + half))
    return centre, low, high
