"""Whether a transfer is sensible: by the size of the difference, never by a p-value, and by other grounds.

Besides the patients' features, these can speak against "go": few source outcomes, patients shared with the source,
little benefit, and outcomes that are known already. A ground holds numbers; `tdrop.report` writes the sentences.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from scipy.stats import binomtest, norm

from tdrop.base import INTERVAL_LEVEL, MOST_TWINS, Amount, Cohort, Count, Doubles, SiteStopped, Summary
from tdrop.metrics import FEWEST_EVENTS, auroc, misclassified, per_row_benefit
from tdrop.shift.overlap import DomainAuroc

Verdict = Literal["go", "caution", "stop", "too few to say"]

#: From here on (lower end of the interval) patients differ noticeably: .65 is what two normal
#: populations half a standard deviation apart give (Phi(.545 / sqrt 2)), the usual "medium" effect.
CAUTION_AUROC = 0.65
#: From here on nearly every patient's site is known from the features: .975 is 2.8 standard deviations apart,
#: where two normal populations share less than a sixth of their mass.
STOP_AUROC = 0.975
#: One target patient in ten with hardly any source patient alike is worth a look, one in four is
#: no longer the population that the model was made for.
CAUTION_OUTSIDE = 0.10
STOP_OUTSIDE = 0.25
#: An interval wider than this cannot tell "alike" from "noticeably different" (.5 from .65).
WIDEST_INTERVAL = 0.15
#: With fewer source patients with the outcome, or without it, no model can be learnt.
FEWEST_SOURCE_OUTCOMES = 10
#: From this share of target patients who are the source's own, results no longer speak of new patients.
CAUTION_SHARED = 0.10
STOP_SHARED = 0.50
#: So far from chance (0) to certainty (1) must values of the same id agree, for the id to name one patient.
BELIEVED_SURPLUS = 0.2
#: From these ratios of outcomes to what was expected (or its inverse) the risks are doubtful, or not to be used. Many
#: patients make any difference sure; one below a tenth is what methods miss by at sites where only the patients differ.
CAUTION_RATIO = 1.1
STOP_RATIO = 2.0
#: Of numbers, the share outside their interval that is surely exceeded where predictions are doubtful.
MANY_OUTSIDE = 0.10
#: A model that gains less net benefit than this over acting on everybody, or on nobody, adds nothing: not half a
#: patient in 100. So many known outcomes are needed to count it; by fewer, chance would decide.
LEAST_BENEFIT = 0.005
FEWEST_FOR_BENEFIT = 100

#: The kind of ground by which known outcomes overrule a stop.
SUPPORTED: Literal["outcome_support"] = "outcome_support"

#: From best to worst: the worst ground is the verdict.
_ORDER: tuple[Verdict, ...] = ("go", "caution", "too few to say", "stop")


def judge_shift(auroc: DomainAuroc | None, outside: float | None) -> Verdict:
    """Returns the verdict on how alike the patients are; None where there are too few to measure it."""
    if auroc is None or outside is None:
        return "too few to say"
    if auroc.low >= STOP_AUROC:
        return "stop"
    if auroc.high - auroc.low > WIDEST_INTERVAL:
        return "too few to say"
    if outside >= STOP_OUTSIDE:
        return "stop"
    return "caution" if outside >= CAUTION_OUTSIDE or auroc.low >= CAUTION_AUROC else "go"


@dataclass(frozen=True)
class Ground:
    """One ground of the verdict.

    Attributes:
        kind: What it is about.
        verdict: The verdict by this ground alone.
        count: Patients it counts: outcomes of the rarer class, shared patients, those acted on, or outcomes that
            happened.
        of: Patients among whom they were counted.
        expected: Outcomes that the risks expect; None for other kinds.
        low: Lower end of the interval of what could have happened by chance, or of the benefit that outcomes support;
            None for other kinds.
        high: Upper end.
    """

    kind: Literal[
        "source_outcomes",
        "shared_patients",
        "benefit",
        "known_outcomes",
        "known_ranking",
        "outcome_support",
        "known_classes",
        "known_values",
    ]
    verdict: Verdict
    count: Count
    of: Count
    expected: Amount | None = None
    low: float | None = None
    high: float | None = None


def judge_source_outcomes(y: NDArray[Any]) -> Ground:
    """Says whether the source has enough patients with and without the outcome (rows,) to learn from.

    Of several classes, or of a continuous outcome, those count whose outcome is not the commonest value.
    """
    rarer = len(y) - max(np.unique(np.asarray(y), return_counts=True)[1], default=0)
    return Ground("source_outcomes", "too few to say" if rarer < FEWEST_SOURCE_OUTCOMES else "go", int(rarer), len(y))


def require_source_outcomes(site: str, grounds: Sequence[Ground], fewest: int) -> None:
    """Stops a site whose source has fewer than `fewest` patients of either outcome: nothing can be fitted.

    The sentence leaves with Prefect's record, so it has the bar and not the count.
    """
    for ground in grounds:
        if ground.kind == "source_outcomes" and isinstance(ground.count, int) and ground.count < fewest:
            raise SiteStopped(
                f"site '{site}': too few to say, because the rarer outcome was seen in fewer than "
                f"{FEWEST_SOURCE_OUTCOMES} source patients and no method can be fitted with fewer than {fewest}; "
                "give a source with more"
            )


def judge_shared_patients(source: Cohort, target: Cohort, suspected: int = 0) -> Ground:
    """Says whether target patients are the source's own.

    Hospitals that number their patients from 1 share ids and no patients. Ids are believed where the values behind
    them agree more often than those of other pairs; otherwise only patients who agree in every value are counted. Ids
    may also be new ones for old patients: where values tell patients apart, the same values throughout are one patient.

    Args:
        source: The labelled site.
        target: The new site.
        suspected: Target patients who nearly have a source patient's values, beyond chance; counted when the extracts
            were compared.
    """
    shared = max(_count_shared(source, target), _count_same_values(source, target), min(suspected, len(target)))
    share = shared / max(1, len(target))
    verdict: Verdict = "stop" if share >= STOP_SHARED else "caution" if share >= CAUTION_SHARED else "go"
    return Ground("shared_patients", verdict, shared, len(target))


def _count_shared(source: Cohort, target: Cohort) -> int:
    place = {str(patient): row for row, patient in enumerate(source.ids)}
    # By id, short ones first: neighbours in a file that is sorted by its values would be no strangers.
    ids = sorted(((str(patient), row) for row, patient in enumerate(target.ids)), key=lambda pair: (len(pair[0]), pair))
    pairs = [(place[patient], row) for patient, row in ids if patient in place]
    features = [name for name in source.features if name in target.features]
    if not pairs or not features:
        return len(pairs)
    source_values = source.X[[row for row, _ in pairs]][:, [source.features.index(name) for name in features]]
    target_values = target.X[[row for _, row in pairs]][:, [target.features.index(name) for name in features]]
    agree = source_values == target_values
    # The next patient's values say how often two strangers agree.
    by_chance = float((source_values == np.roll(target_values, 1, axis=0)).mean()) if len(pairs) > 1 else 0.0
    surplus = (float(agree.mean()) - by_chance) / max(1.0 - by_chance, 1e-9)
    return len(pairs) if surplus >= BELIEVED_SURPLUS else int(agree.all(axis=1).sum())


def _count_same_values(source: Cohort, target: Cohort) -> int:
    """Counts target patients with the values of a source patient, 0 where source patients have each other's."""
    features = [name for name in source.features if name in target.features]
    if not features or not len(source):
        return 0
    # Adding 0 makes one of the two zeros: rows are compared by their bytes.
    source_rows, target_rows = (
        [row.tobytes() for row in cohort.X[:, [cohort.features.index(name) for name in features]] + np.float32(0)]
        for cohort in (source, target)
    )
    known = set(source_rows)
    if len(source_rows) - len(known) > MOST_TWINS * len(source_rows):
        return 0
    return sum(row in known for row in target_rows)


def enough_to_judge_benefit(y: NDArray[Any]) -> bool:
    """Whether known outcomes (rows,), NaN where unknown, are enough to say what acting on a model is worth."""
    known, _, _ = _with_outcome(y, y, None)
    return len(known) >= FEWEST_FOR_BENEFIT and min(known.sum(), len(known) - known.sum()) >= FEWEST_EVENTS


def _with_outcome(
    y: NDArray[Any], risk: NDArray[Any], weights: NDArray[Any] | None
) -> tuple[Doubles, Doubles, Doubles]:
    """Outcomes, risks and weights (known rows,) of the patients whose outcome (rows,) is known and not NaN."""
    outcome, row_weights = np.asarray(y, dtype=np.float64), np.ones(len(y)) if weights is None else weights
    known = np.isfinite(outcome)
    return outcome[known], np.asarray(risk, dtype=np.float64)[known], np.asarray(row_weights, dtype=np.float64)[known]


def judge_benefit(
    y: NDArray[Any] | None, risk: NDArray[Any], threshold: float, weights: NDArray[Any] | None = None
) -> Ground:
    """Says whether acting on risks (rows,) from a threshold on is worth more than acting on everybody or on nobody.

    By known outcomes (rows,), NaN where unknown, where they are enough; by the risks themselves otherwise. Each outcome
    stands for `weights` (rows,) patients, for one unless given.
    """
    outcome = p = np.asarray(risk, dtype=np.float64)
    known_weights: Doubles | None = None
    if y is not None and enough_to_judge_benefit(y):
        outcome, p, known_weights = _with_outcome(y, risk, weights)
    acted, everybody = (
        float(np.average(per_row_benefit(outcome, whom, threshold), weights=known_weights))
        for whom in (p, np.ones(len(p)))
    )
    verdict: Verdict = "caution" if acted - max(everybody, 0.0) < LEAST_BENEFIT else "go"
    return Ground("benefit", verdict, int((p >= threshold).sum()), len(p))


def judge_known_outcomes(y: NDArray[Any], risk: NDArray[Any], weights: NDArray[Any] | None = None) -> Ground | None:
    """Says whether known outcomes (rows,), NaN where unknown, contradict the risks (rows,); None without outcomes.

    The interval is that of the number of outcomes if every risk were right. Outside it they contradict the risks where
    they are also at least CAUTION_RATIO times as many, or as few, as expected. Each outcome stands for `weights`
    (rows,) patients, for one unless given.
    """
    outcome, p, known_weights = _with_outcome(y, risk, weights)
    if not len(outcome):
        return None
    happened, expected = round(float(known_weights @ (outcome > 0.5))), float((known_weights * p).sum())
    # Half a patient more: a count is whole, its normal approximation is not.
    reach = float(norm.ppf(0.5 + INTERVAL_LEVEL / 2)) * float(np.sqrt((known_weights**2 * p * (1 - p)).sum())) + 0.5
    low, high = max(0.0, expected - reach), min(float(known_weights.sum()), expected + reach)
    verdict: Verdict = "go"
    if not low <= happened <= high:
        ratio = max(happened + 0.5, expected + 0.5) / min(happened + 0.5, expected + 0.5)
        verdict = "stop" if ratio >= STOP_RATIO else "caution" if ratio >= CAUTION_RATIO else "go"
    return Ground("known_outcomes", verdict, happened, round(float(known_weights.sum())), expected, low, high)


def judge_known_predictions(y: NDArray[Any], summary: Summary, level: float) -> Ground | None:
    """Says whether known outcomes (rows,), NaN where unknown, contradict classes or values; None without outcomes.

    The likeliest class is wrong as often as its probability says, and is judged as outcomes are that happen or not. Of
    numbers those count that lie outside their interval, of the level given: far more than its level allows are a
    caution, and more than half a stop, as where a site writes the outcome in another unit.
    """
    known = np.isfinite(np.asarray(y, dtype=np.float64))
    if not known.any():
        return None
    if summary.task == "classes":
        chances = summary.mean[known].astype(np.float64)
        ground = judge_known_outcomes(misclassified(y[known], chances), 1 - chances.max(axis=1))
        return None if ground is None else replace(ground, kind="known_classes")
    low, high = (end[known] for end in summary.interval(level))
    outside, of = int(((y[known] < low) | (y[known] > high)).sum()), int(known.sum())
    verdict: Verdict = "go"
    if binomtest(outside, of, MANY_OUTSIDE, "greater").pvalue < 1 - INTERVAL_LEVEL:
        verdict = "stop" if 2 * outside > of else "caution"
    return Ground("known_values", verdict, outside, of, (1 - level) * of)


def judge_known_ranking(y: NDArray[Any], risk: NDArray[Any], weights: NDArray[Any] | None = None) -> Ground | None:
    """Says whether known outcomes (rows,), NaN where unknown, went to the lower risks (rows,); None without both kinds.

    As many outcomes as expected say nothing about whose they were. Risks that rank patients worse than guessing, by
    more than chance, are of no use here.
    """
    outcome, p, known_weights = _with_outcome(y, risk, weights)
    happened = outcome > 0.5
    with_it, without = int(happened.sum()), int((~happened).sum())
    value = auroc(happened, p, known_weights)
    if value is None:
        return None
    # The spread of the AUROC of guesses, after Mann and Whitney.
    spread = float(np.sqrt((with_it + without + 1) / (12 * with_it * without)))
    # Unequal weights say as much as fewer patients.
    spread *= float(np.sqrt(len(known_weights) * (known_weights**2).sum())) / float(known_weights.sum())
    worse = value < 0.5 - float(norm.ppf(0.5 + INTERVAL_LEVEL / 2)) * spread
    return Ground("known_ranking", "stop" if worse else "go", with_it, with_it + without)


def worst_verdict(verdict: Verdict, *grounds: Ground | None) -> Verdict:
    """Returns the worst of a verdict on features and what the grounds say."""
    return max((verdict, *(ground.verdict for ground in grounds if ground is not None)), key=_ORDER.index)
