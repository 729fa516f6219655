"""The record of one champion's watch: batches and outcomes are added to it, and every patient counts once.

It holds no patient's values: keyed digests say who was counted, beside the risk that outcomes are compared with.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from tdrop.base import DataError, Doubles, Feature, Numbers, Task, by_first_number
from tdrop.metrics import FEWEST_EVENTS, delong
from tdrop.watch.patients import (
    UNKNOWN,
    USED_UP,
    FeatureMean,
    FeatureSums,
    GroupPlace,
    KnownPatients,
    ScoredPatients,
    WatchNumbers,
    new_persons,
    new_test,
)
from tdrop.watch.reference import NORMAL, DistanceScale
from tdrop.watch.rules import ALPHA, Bet, RiskTest, RunningMean

#: The share for review and the expected loss may rise by this much without an alarm.
TOLERATED_SHARE = 0.05
#: Each of the two is compared with an upper bound that is too low in 1.25% of cases: one of them in at most 2.5%.
NORMAL_OF_TWO = 2.24
#: Moments that are remembered; beyond that, neighbours are put together.
MOST_MOMENTS = 400
#: Patients with known outcomes at which the interval of the ranking is narrowest for their number.
TYPICAL_OUTCOMES = 500


@dataclass(frozen=True)
class Moment:
    """The state of the watch at one time: after a batch, after outcomes, or when a champion was put to use.

    Attributes:
        when: Time (ISO 8601, UTC).
        kind: What happened.
        champion: Version in use.
        patients: New patients who count.
        outcomes: New outcomes.
        review: Of these for review by the interval.
        read: Rows that were scored, counted before or not.
        filled_in: New patients with a filled-in value.
        set_aside: Rows that broke a rule of the contract.
        log_wealth: By rule, the natural logarithm of its e-value.
        means: By quantity, its running mean and the ends of its confidence sequence.
        number: Its place among all moments that ever were.
        leaves: Whether what is known at it may leave: since the last such moment nobody came, or not few.
    """

    when: str
    kind: Literal["champion", "batch", "outcomes"]
    champion: str
    patients: int = 0
    outcomes: int = 0
    review: int = 0
    read: int = 0
    filled_in: int = 0
    set_aside: int = 0
    log_wealth: dict[str, float] = field(default_factory=dict)
    means: dict[str, tuple[float, float, float]] = field(default_factory=dict)
    number: int = 0
    leaves: bool = False


@dataclass(frozen=True)
class WatchState:
    """The watch of one champion.

    Attributes:
        site: Name of the site.
        champion: Version of its model.
        began: When the watch began (ISO 8601, UTC).
        promoted: When a person promoted that version; the same version promoted again begins a new watch.
        scale: How far from the source a patient is; None where too few patients, or none on this machine, could say.
        further: Rule 1: are patients further from the source than those the model was made for?
        nearer: Its twin: are they nearer?
        review: Rule 2: are more of them for review?
        loss: Rule 2: is the expected loss higher?
        harm_peak: Rule 2: the highest logarithm so far of the mean of the two.
        outcomes: Rule 3: do known outcomes contradict the predictions?
        place_mean, review_mean, loss_mean, event_mean: Running means with their confidence sequences; the last is of
            whether outcomes differed from the prediction.
        forecast_low: Lower end of the sealed forecast of the AUROC, or of the accuracy of classes, or None.
        known: Everyone whom the watch has met.
        made_for: How many of these the model was made for; they come first and count for outcomes alone.
        history: Moments, oldest first, those of earlier champions included.
        features: How the new patients differ, feature by feature; None where nobody is at hand to compare with.
        groups: By subgroup and group, the running mean of its new patients' places.
        findings: By rule of the contract, rows of batches that broke it.
        threshold: How many patients must come before what is known may leave again; 0 hides nothing.
        waiting: New patients and outcomes since the last moment that may leave.
        left: What was known at that moment; None before the first.
        task: What is predicted.
        doubts: Expected errors of those the model was made for (patients,), with which others are compared; empty
            where a decision level does that.
    """

    site: str
    champion: str
    began: str
    promoted: str
    scale: DistanceScale | None
    further: Bet | None
    nearer: Bet | None
    review: Bet | None
    loss: Bet | None
    harm_peak: float = 0.0
    outcomes: RiskTest = field(default_factory=RiskTest)
    place_mean: RunningMean = field(default_factory=RunningMean)
    review_mean: RunningMean = field(default_factory=RunningMean)
    loss_mean: RunningMean = field(default_factory=RunningMean)
    event_mean: RunningMean = field(default_factory=RunningMean)
    forecast_low: float | None = None
    known: KnownPatients = field(default_factory=KnownPatients)
    made_for: int = 0
    history: tuple[Moment, ...] = ()
    features: FeatureSums | None = None
    groups: dict[str, RunningMean] = field(default_factory=dict)
    findings: dict[str, int] = field(default_factory=dict)
    threshold: int = 0
    waiting: tuple[int, int] = (0, 0)
    left: WatchNumbers | None = None
    task: Task = "binary"
    doubts: Numbers = field(default_factory=lambda: np.zeros(0))

    @property
    def patients(self) -> int:
        """New patients who count for rules 1 and 2."""
        return self.loss_mean.patients

    @property
    def harm(self) -> float:
        """Rule 2: logarithm of the mean of its two e-values."""
        if self.review is None or self.loss is None:
            return 0.0
        return float(np.logaddexp(self.review.log_wealth, self.loss.log_wealth) - np.log(2))

    @property
    def ranking(self) -> tuple[float, float, float] | None:
        """AUROC where outcomes are known with its confidence sequence; None with too few of either kind.

        Of several classes it is the accuracy; a number has none.
        """
        if self.task != "binary":
            wrong, (low, high) = self.event_mean.mean, self.event_mean.interval
            few = self.event_mean.patients < FEWEST_EVENTS
            return None if self.task == "regression" or wrong is None or few else (1 - wrong, 1 - high, 1 - low)
        y, risk = self.known.outcome, self.known.risk
        if min((y == 1).sum(), (y == 0).sum()) < FEWEST_EVENTS:
            return None
        value, variance = delong(risk[y == 0], risk[y == 1])
        half = float(np.sqrt(variance)) * _always_valid(int((y >= 0).sum()))
        return value, max(0.0, value - half), min(1.0, value + half)

    def add_batch(self, batch: ScoredPatients, when: str) -> WatchState:
        """Counts the patients of a batch who were not counted before, in an order that their values do not decide."""
        fresh = new_persons(batch.rows, batch.persons, self.known)
        X, loss, review = batch.X[fresh], batch.loss[fresh], np.asarray(batch.review[fresh], dtype=np.float64)
        if self.scale is not None and X.shape[1] != len(self.scale.features):
            raise DataError(
                f"the batch has {X.shape[1]} features and the watch of version {self.champion} was begun with "
                f"{len(self.scale.features)}; promote a model of these features"
            )
        place = None if self.scale is None else self.scale.place(X)
        after = replace(
            self,
            further=self.further.add(place) if self.further is not None and place is not None else self.further,
            nearer=self.nearer.add(1 - place) if self.nearer is not None and place is not None else self.nearer,
            review=None if self.review is None else self.review.add(review),
            loss=None if self.loss is None else self.loss.add(loss),
            harm_peak=self._harm_peak(review, loss),
            place_mean=self.place_mean if place is None else self.place_mean.add(place),
            review_mean=self.review_mean.add(review),
            loss_mean=self.loss_mean.add(loss),
            known=self.known.add(batch, fresh),
            features=None if self.features is None else self.features.add(X),
            groups=self.groups if place is None else _add_groups(self.groups, batch.groups, fresh, place),
            findings={
                rule: self.findings.get(rule, 0) + batch.findings.get(rule, 0)
                for rule in {**self.findings, **batch.findings}
            },
        )
        return after.remember(
            "batch",
            when,
            patients=len(fresh),
            review=int(review.sum()),
            read=len(batch.rows),
            filled_in=int(batch.filled_in[fresh].sum()) if len(batch.filled_in) else 0,
            set_aside=batch.set_aside,
        )

    def add_outcomes(self, rows: NDArray[Any], y: NDArray[Any], when: str) -> WatchState:
        """Compares outcomes with predictions, for patients who were counted and whose outcome was not known.

        Args:
            rows: Keyed digests of ids (outcomes,).
            y: 0 or 1, a place among the classes, or a number; NaN where it is not known yet (outcomes,).
            when: The time.
        """
        known, place = np.unique(self.known.rows, return_index=True)
        met = np.flatnonzero(np.isfinite(y) & np.isin(rows, known))
        spots = place[np.searchsorted(known, np.asarray(rows)[met])]
        waits = self.known.outcome[spots] == UNKNOWN
        spots, first = np.unique(spots[waits], return_index=True)
        y = np.asarray(y)[met[waits][first]]
        # One outcome per person: those of one person say the same thing twice.
        persons, first = np.unique(self.known.persons[spots], return_index=True)
        new = np.sort(first[~np.isin(persons, self.known.persons[self.known.outcome >= 0])])
        spots, y = spots[new], y[new]
        event = self.known.came_otherwise(spots, y)
        outcome = self.known.outcome.copy()
        outcome[spots] = event.astype("<i1")
        after = replace(
            self,
            outcomes=self.outcomes.add(event, self.known.risk[spots]),
            event_mean=self.event_mean.add(event),
            known=replace(self.known, outcome=outcome),
        )
        return after.remember("outcomes", when, outcomes=len(spots))

    def remember(self, kind: Literal["champion", "batch", "outcomes"], when: str, **counts: int) -> WatchState:
        """Adds a moment to the history; a clock that was turned back does not turn the history back."""
        last = self.history[-1] if self.history else Moment(when, kind, self.champion, number=-1)
        values: dict[str, Any] = {**counts, "log_wealth": self._log_wealth(), "means": self._means()}
        moment = Moment(max(when, last.when), kind, self.champion, number=last.number + 1, **values)
        waiting = (self.waiting[0] + moment.patients, self.waiting[1] + moment.outcomes)
        leaves = any(waiting) and not any(0 < count < self.threshold for count in waiting)
        return replace(
            self,
            history=_thinned((*self.history, replace(moment, leaves=leaves))),
            waiting=(0, 0) if leaves else waiting,
            left=self.numbers() if leaves else self.left,
        )

    def numbers(self) -> WatchNumbers:
        """Returns the watch in numbers as it is now; nothing is hidden."""
        known, patients = self.outcomes.patients, self.patients
        features: dict[str, FeatureMean] = {}
        if self.features is not None and patients:
            sums = self.features
            columns = zip(sums.names, sums.before, sums.total / patients, sums.spread, sums.kinds, strict=True)
            features = {name: FeatureMean(float(a), float(b), float(sd), kind) for name, a, b, sd, kind in columns}
        return WatchNumbers(
            patients=patients,
            outcomes=known,
            events=self.outcomes.events,
            expected=self.outcomes.expected / known if known else None,
            review=round(self.review_mean.total),
            means=self._means(),
            evidence={rule: value / float(np.log(10)) for rule, value in self._log_wealth().items()},
            ranking=self.ranking,
            features=features,
            groups={name: GroupPlace.of(self.groups[name]) for name in sorted(self.groups, key=_by_title_and_band)},
            findings=self.findings,
        )

    def _harm_peak(self, review: Doubles, loss: Doubles) -> float:
        if self.review is None or self.loss is None or not len(loss):
            return self.harm_peak
        path = np.logaddexp(self.review.path(review), self.loss.path(loss)) - np.log(2)
        return max(self.harm_peak, float(path.max()))

    def _log_wealth(self) -> dict[str, float]:
        bets = {"further": self.further, "nearer": self.nearer}
        wealth = {name: bet.log_wealth for name, bet in bets.items() if bet is not None}
        if self.loss is not None:
            wealth["harm"] = self.harm
        if self.outcomes.patients:
            wealth["outcomes"] = self.outcomes.log_wealth
        return wealth

    def _means(self) -> dict[str, tuple[float, float, float]]:
        running = {"place": self.place_mean, "review": self.review_mean, "loss": self.loss_mean}
        return {name: (mean.mean, *mean.interval) for name, mean in running.items() if mean.mean is not None}


def begin_watch(
    site: str,
    champion: str,
    when: str,
    *,
    promoted: str = "",
    scale: DistanceScale | None,
    made_for: ScoredPatients | None,
    forecast_low: float | None = None,
    outcomes_used: bool = False,
    history: Sequence[Moment] = (),
    features: Sequence[Feature] = (),
    threshold: int = 0,
    task: Task = "binary",
    doubts: Doubles | None = None,
) -> WatchState:
    """A new watch, for a champion that was just put to use.

    Args:
        site: Name of the site.
        champion: Version of its model.
        when: The time.
        promoted: When a person promoted it.
        scale: How far from the source a patient is, or None.
        made_for: Whom the champion was made for, with its risks; None where they are not on this machine.
        forecast_low: Lower end of the sealed forecast of the AUROC, or of the accuracy of classes.
        outcomes_used: Whether outcomes of those patients went into the model (a recalibration): they test nothing.
        history: Moments of earlier champions.
        features: The columns of the patients' `X`; without them no feature is followed.
        threshold: How many patients must come before what is known may leave again.
        task: What is predicted.
        doubts: Expected errors of those it was made for, ascending (patients,), where no level decides.
    """
    review = loss = None
    known = KnownPatients()
    if made_for is not None and len(made_for.rows):
        review = Bet(upper_bound(np.asarray(made_for.review, dtype=np.float64)))
        loss = Bet(upper_bound(made_for.loss))
        known = known.add(made_for, np.arange(len(made_for.rows)), USED_UP if outcomes_used else UNKNOWN)
    state = WatchState(
        site=site,
        champion=champion,
        began=when,
        promoted=promoted,
        scale=scale,
        further=None if scale is None else Bet(scale.limit),
        nearer=None if scale is None else Bet(scale.limit),
        review=review,
        loss=loss,
        outcomes=new_test(task),
        forecast_low=forecast_low,
        known=known,
        made_for=len(known),
        history=tuple(history),
        features=FeatureSums.of(features, made_for.X) if features and made_for is not None else None,
        threshold=threshold,
        task=task,
        doubts=np.zeros(0) if doubts is None else doubts,
    )
    return state.remember("champion", when)


def upper_bound(values: Doubles) -> float:
    """The largest mean that is no reason for an alarm, from those the model was made for (patients,)."""
    spread = float(np.sqrt(values.var() / len(values))) if len(values) > 1 else 0.5
    # Where nobody is for review the spread is nil; as for three patients more, the rule of three.
    return min(0.99, float(values.mean()) + max(NORMAL_OF_TWO * spread, 3 / len(values)) + TOLERATED_SHARE)


def _always_valid(patients: int) -> float:
    """Standard errors to either side of an estimate that hold at all times (Waudby-Smith et al. 2024)."""
    rho = (-2 * np.log(ALPHA) + np.log(-2 * np.log(ALPHA) + 1)) / TYPICAL_OUTCOMES
    scaled = patients * rho + 1
    return max(NORMAL, float(np.sqrt(2 * scaled / (patients * rho) * np.log(np.sqrt(scaled) / ALPHA))))


def _by_title_and_band(name: str) -> tuple[str, tuple[float, bool, str]]:
    """Sorts groups ("Age: 65 to 74") by their title, then from the lowest band on."""
    title, _, label = name.partition(": ")
    return title, by_first_number(label)


def _add_groups(
    groups: dict[str, RunningMean], batch: Mapping[str, NDArray[Any]], fresh: NDArray[Any], place: Doubles
) -> dict[str, RunningMean]:
    """The groups' running means with the places of new patients (patients,)."""
    after = dict(groups)
    for title, names in batch.items():
        groups_of_patients = np.asarray(names)[fresh]
        for name in sorted(set(groups_of_patients.tolist())):
            key = f"{title}: {name}"
            after[key] = after.get(key, RunningMean()).add(place[groups_of_patients == name])
    return after


def _thinned(history: tuple[Moment, ...]) -> tuple[Moment, ...]:
    """The history with neighbours of its older half put together where there are too many moments."""
    if len(history) <= MOST_MOMENTS:
        return history
    half = len(history) // 2
    older: list[Moment] = []
    waiting: Moment | None = None
    for moment in history[:half]:
        if waiting is None:
            waiting = moment
        elif "champion" in (waiting.kind, moment.kind):
            older.append(waiting)
            waiting = moment
        else:
            older.append(together(waiting, moment))
            waiting = None
    older += [] if waiting is None else [waiting]
    return (*older, *history[half:])[-MOST_MOMENTS:]


def together(first: Moment, second: Moment) -> Moment:
    """Two neighbouring moments as one: how it stood at the end, and counts of both."""
    counts = ("patients", "outcomes", "review", "read", "filled_in", "set_aside")
    return replace(second, **{name: getattr(first, name) + getattr(second, name) for name in counts})
