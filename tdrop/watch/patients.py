"""The patients of a watch and their predictions, in a form that one set of rules can watch for every outcome; and the
watch in numbers at one time: sums over patients, which disclosure can round before they leave.

The patients are keyed digests and the risks that outcomes are compared with, without any patient's value. A prediction
promises with which chance the outcome lies outside a range, which outcomes can contradict:

    it happens or not   outside [0, 0], so it happened; the chance is the risk
    several classes     outside [c, c], c the likeliest class, so c is wrong; the chance is one minus its probability
    a number            outside its interval; the chance is one minus the interval's level
"""

from __future__ import annotations

from base64 import b64decode, b64encode
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Annotated, Any

import numpy as np
from numpy.typing import NDArray
from pydantic import PlainSerializer, PlainValidator

from tdrop.base import Count, Doubles, Feature, Floats, Numbers, Summary, Task
from tdrop.contracts import Decision
from tdrop.metrics import expected_error, expected_loss, likeliest, referred_by_level
from tdrop.watch.rules import RiskTest, RunningMean

#: In the place of an outcome: it is not known yet, or it went into the model.
UNKNOWN, USED_UP = -1, -2


def _packed(kind: str) -> Any:
    """An array whose bytes are written as text: a hundred thousand patients are few bytes and quickly read."""
    return Annotated[
        NDArray[Any],
        PlainValidator(lambda value: np.frombuffer(b64decode(value), dtype=kind) if isinstance(value, str) else value),
        PlainSerializer(lambda value: b64encode(np.asarray(value, dtype=kind).tobytes()).decode(), return_type=str),
    ]


@dataclass(frozen=True)
class KnownPatients:
    """The patients whom the watch has counted, one row each.

    Attributes:
        rows, persons, risk, low, high: As of `ScoredPatients`.
        outcome: Whether it came so, 0 or 1; -1 while that is not known, -2 where the outcome went into the model and
            tests nothing (patients,).
    """

    rows: _packed("<u8") = field(default_factory=lambda: np.zeros(0, dtype="<u8"))  # type: ignore[valid-type]
    persons: _packed("<u8") = field(default_factory=lambda: np.zeros(0, dtype="<u8"))  # type: ignore[valid-type]
    risk: _packed("<f4") = field(default_factory=lambda: np.zeros(0, dtype="<f4"))  # type: ignore[valid-type]
    outcome: _packed("<i1") = field(default_factory=lambda: np.zeros(0, dtype="<i1"))  # type: ignore[valid-type]
    low: _packed("<f4") = field(default_factory=lambda: np.zeros(0, dtype="<f4"))  # type: ignore[valid-type]
    high: _packed("<f4") = field(default_factory=lambda: np.zeros(0, dtype="<f4"))  # type: ignore[valid-type]

    def __len__(self) -> int:
        return len(self.rows)

    def add(self, batch: ScoredPatients, places: NDArray[Any], outcome: int = UNKNOWN) -> KnownPatients:
        """Adds the patients at some places of a batch, whose outcomes are not known, or are used up."""
        given = {name: getattr(batch, name) for name in ("rows", "persons", "risk", "low", "high")}
        added = {name: values[places] for name, values in given.items() if len(values)}
        added["outcome"] = np.full(len(places), outcome)
        before = {name: getattr(self, name) for name in added}
        both = {name: np.concatenate([before[name], added[name]]).astype(before[name].dtype) for name in added}
        return replace(self, **both)

    def came_otherwise(self, places: NDArray[Any], y: NDArray[Any]) -> NDArray[Any]:
        """Whether outcomes (outcomes,) of the patients at some places lie outside the prediction: 0 or 1."""
        if not len(self.low):
            return y
        outcome = np.asarray(y, dtype=np.float32)
        outside = (outcome < self.low[places]) | (outcome > self.high[places])
        return np.asarray(outside, dtype=np.float64)


@dataclass(frozen=True)
class ScoredPatients:
    """A batch as the watch sees it.

    Attributes:
        rows: Keyed digests of the patients' ids (patients,).
        persons: Keyed digests of the persons they are; as `rows` where the table names none (patients,).
        X: Encoded features (patients, features).
        risk: The chance that the champion promised: of the outcome, of a wrong class, of lying outside (patients,).
        review: Who is for review: the interval reaches the decision level, or an error is likely (patients,).
        loss: The loss, or the error, that is expected, from 0 to 1 (patients,).
        low: Lower ends of the predicted range (patients,); empty where outcomes are 0 or 1.
        high: Upper ends (patients,).
        filled_in: Who lacks a value that was filled in (patients,); empty where nobody does.
        set_aside: Rows of the batch that broke a rule of the contract.
        groups: By subgroup of the contract, the name of each patient's group (patients,).
        findings: By rule of the contract, rows that broke it.
    """

    rows: NDArray[Any]
    persons: NDArray[Any]
    X: Floats
    risk: NDArray[Any]
    review: NDArray[Any]
    loss: NDArray[Any]
    low: NDArray[Any] = field(default_factory=lambda: np.zeros(0))
    high: NDArray[Any] = field(default_factory=lambda: np.zeros(0))
    filled_in: NDArray[Any] = field(default_factory=lambda: np.zeros(0, dtype=bool))
    set_aside: int = 0
    groups: Mapping[str, NDArray[Any]] = field(default_factory=dict)
    findings: Mapping[str, int] = field(default_factory=dict)


def new_persons(rows: NDArray[Any], persons: NDArray[Any], known: KnownPatients) -> NDArray[Any]:
    """Places of rows whose person was not counted before, one per person, in the order of their digests."""
    order = np.lexsort((rows, persons))
    order = order[np.concatenate([[True], persons[order][1:] != persons[order][:-1]])] if len(order) else order
    fresh = ~(np.isin(rows[order], known.rows) | np.isin(persons[order], known.persons))
    return np.asarray(order[fresh])


def new_test(task: Task) -> RiskTest:
    """The test of outcomes before the first one."""
    if task == "regression":
        # Coverage from 93 to 96.5% is what a 95% interval is asked for.
        return RiskTest(tolerated=0.36, offsets=(0.7, 1.0, 1.5))
    return RiskTest()


def sorted_doubts(summary: Summary) -> Doubles:
    """Expected errors of those the model was made for, ascending (patients,); empty where a level decides instead."""
    return np.zeros(0) if summary.task == "binary" else np.sort(expected_error(summary))


def describe_patients(
    rows: NDArray[Any], persons: NDArray[Any], X: Floats, summary: Summary, decision: Decision, doubts: Doubles
) -> ScoredPatients:
    """A batch as the watch sees it.

    Args:
        rows: Keyed digests of the patients' ids (patients,).
        persons: Keyed digests of the persons they are (patients,).
        X: Encoded features (patients, features).
        summary: Their predictions.
        decision: What the site decides by.
        doubts: Of those the model was made for, `sorted_doubts`.
    """
    mean = summary.mean.astype(np.float64)
    if summary.task == "binary":
        review = referred_by_level(summary, decision)
        return ScoredPatients(rows, persons, X, mean, review, relative_loss(mean, decision.risk_level))
    doubt = expected_error(summary)
    # As many as the clinic can look at were for review among those the model was made for.
    review = doubt > np.quantile(doubts, 1 - decision.capacity) if len(doubts) else np.zeros(len(doubt), dtype=bool)
    if summary.task == "classes":
        places = likeliest(mean).astype(np.float64)
        return ScoredPatients(rows, persons, X, doubt, review, doubt, places, places)
    both_sides = [np.searchsorted(doubts, doubt, side) for side in ("left", "right")]
    loss = np.mean(both_sides, axis=0) / max(1, len(doubts))
    low, high = summary.interval(decision.interval_level)
    chance = np.full(len(mean), 1 - decision.interval_level)
    return ScoredPatients(rows, persons, X, chance, review, loss, low, high)


def relative_loss(risk: NDArray[Any], level: float) -> Doubles:
    """Expected loss of acting on risks (rows,) as a share of the highest there is, which a risk at the level has."""
    return expected_loss(risk, level) / (level * (1 - level))


@dataclass(frozen=True)
class FeatureSums:
    """How new patients differ from those the model was made for, feature by feature, as the model reads them.

    Attributes:
        names: Features.
        kinds: What each of them is: continuous, ordinal, binary, level or missing.
        before: Their means among those the model was made for (features,).
        spread: Their standard deviations there (features,).
        total: Sums over the new patients (features,).
    """

    names: tuple[str, ...]
    kinds: tuple[str, ...]
    before: Numbers
    spread: Numbers
    total: Numbers

    @classmethod
    def of(cls, features: Sequence[Feature], made_for: NDArray[Any]) -> FeatureSums:
        """Nobody new yet, beside those the model was made for (patients, features)."""
        X = np.asarray(made_for, dtype=np.float64)
        names, kinds = (tuple(getattr(feature, key) for feature in features) for key in ("name", "kind"))
        return cls(names, kinds, X.mean(axis=0), X.std(axis=0), np.zeros(X.shape[1]))

    def add(self, X: NDArray[Any]) -> FeatureSums:
        """Adds new patients (patients, features)."""
        return replace(self, total=self.total + np.asarray(X, dtype=np.float64).sum(axis=0))


@dataclass(frozen=True)
class FeatureMean:
    """A feature's mean, before and now, as the model reads it; None where it may not leave.

    Attributes:
        before: Among those the model was made for.
        now: Among the new patients.
        spread: Standard deviation among those the model was made for.
        kind: continuous, ordinal, binary, level or missing; of the last three the mean is a share.
    """

    before: float | None
    now: float | None
    spread: float
    kind: str = "continuous"

    @property
    def moved(self) -> float | None:
        """By how many standard deviations it moved."""
        if self.before is None or self.now is None or not self.spread:
            return None
        return (self.now - self.before) / self.spread


@dataclass(frozen=True)
class GroupPlace:
    """Where the new patients of one group stand: mean place with its confidence sequence."""

    patients: Count
    mean: float | None
    low: float | None = None
    high: float | None = None

    @classmethod
    def of(cls, running: RunningMean) -> GroupPlace:
        """From a running mean."""
        return cls(running.patients, running.mean, *running.interval)


@dataclass(frozen=True)
class WatchNumbers:
    """A watch in numbers.

    Attributes:
        patients: New patients who counted.
        outcomes: Known outcomes that counted.
        events: Of these with the outcome.
        expected: Mean of the predicted risks of these patients.
        review: New patients whose interval reaches the level.
        means: By quantity (place, review, loss), its running mean and the ends of its confidence sequence.
        evidence: By rule, log10 of its e-value.
        ranking: AUROC where outcomes are known, with its confidence sequence.
        features: By feature, its mean before and now.
        groups: By group, where its new patients stand.
        findings: By rule of the contract, rows that broke it.
    """

    patients: Count = 0
    outcomes: Count = 0
    events: Count = 0
    expected: float | None = None
    review: Count = 0
    means: Mapping[str, tuple[float, float, float]] = field(default_factory=dict)
    evidence: Mapping[str, float] = field(default_factory=dict)
    ranking: tuple[float, float, float] | None = None
    features: Mapping[str, FeatureMean] = field(default_factory=dict)
    groups: Mapping[str, GroupPlace] = field(default_factory=dict)
    findings: Mapping[str, Count] = field(default_factory=dict)

    @property
    def observed(self) -> float | None:
        """Share of those with a known outcome who had it, of counts that are shown."""
        shown = isinstance(self.events, int) and isinstance(self.outcomes, int) and self.outcomes
        return self.events / self.outcomes if shown else None  # type: ignore[operator]
