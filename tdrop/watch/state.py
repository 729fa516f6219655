"""What the watch of one champion knows: a frozen record that grows by batches and outcomes, never by the same twice.

It holds no patient's values: keyed digests say who was counted, beside the risk that outcomes are compared with.
"""

from __future__ import annotations

from base64 import b64decode, b64encode
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Annotated, Any, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import PlainSerializer, PlainValidator

from tdrop.base import DataError, Doubles, Floats
from tdrop.metrics import FEWEST_EVENTS, delong, expected_loss
from tdrop.watch.reference import NORMAL, DistanceScale
from tdrop.watch.rules import ALPHA, Bet, RiskTest, RunningMean

#: The share for review and the expected loss may rise by this much without an alarm.
TOLERATED_SHARE = 0.05
#: Each of the two is compared with an upper bound that is too low in 1.25% of cases: one of them in at most 2.5%.
NORMAL_OF_TWO = 2.24
#: In the place of an outcome: it is not known yet, or it went into the model.
UNKNOWN, USED_UP = -1, -2
#: Moments that are remembered; beyond that, neighbours are put together.
MOST_MOMENTS = 400
#: Patients with known outcomes at which the interval of the ranking is narrowest for their number.
TYPICAL_OUTCOMES = 500


def _packed(kind: str) -> Any:
    """An array whose bytes are written as text: a hundred thousand patients are few bytes and quickly read."""
    return Annotated[
        NDArray[Any],
        PlainValidator(lambda value: value if isinstance(value, np.ndarray) else _unpack(value, kind)),
        PlainSerializer(
            lambda value: b64encode(np.ascontiguousarray(value, dtype=kind).tobytes()).decode(), return_type=str
        ),
    ]


def _unpack(text: str, kind: str) -> NDArray[Any]:
    return np.frombuffer(b64decode(text), dtype=kind)


@dataclass(frozen=True)
class KnownPatients:
    """Everyone whom the watch has met, one row per patient.

    Attributes:
        rows: Keyed digests of their ids (patients,).
        persons: The same of the persons they are; as `rows` where a table names none (patients,).
        risk: What the champion told (patients,).
        outcome: 0 or 1, -1 while it is not known, -2 where it went into the model and tests nothing (patients,).
    """

    rows: _packed("<u8") = field(default_factory=lambda: np.zeros(0, dtype="<u8"))  # type: ignore[valid-type]
    persons: _packed("<u8") = field(default_factory=lambda: np.zeros(0, dtype="<u8"))  # type: ignore[valid-type]
    risk: _packed("<f4") = field(default_factory=lambda: np.zeros(0, dtype="<f4"))  # type: ignore[valid-type]
    outcome: _packed("<i1") = field(default_factory=lambda: np.zeros(0, dtype="<i1"))  # type: ignore[valid-type]

    def __len__(self) -> int:
        return len(self.rows)

    def add(
        self, rows: NDArray[Any], persons: NDArray[Any], risk: NDArray[Any], outcome: int = UNKNOWN
    ) -> KnownPatients:
        """Adds patients whose outcomes are not known, or are used up."""
        return KnownPatients(
            np.concatenate([self.rows, rows]).astype("<u8"),
            np.concatenate([self.persons, persons]).astype("<u8"),
            np.concatenate([self.risk, risk]).astype("<f4"),
            np.concatenate([self.outcome, np.full(len(rows), outcome)]).astype("<i1"),
        )


@dataclass(frozen=True)
class ScoredPatients:
    """A batch as the watch sees it.

    Attributes:
        rows: Keyed digests of the patients' ids (patients,).
        persons: Keyed digests of the persons they are; as `rows` where the table names none (patients,).
        X: Encoded features (patients, features).
        risk: What the champion told (patients,).
        review: Whose interval reaches the decision level although the risk does not (patients,).
        level: The decision level.
        filled_in: How many lack a value that was filled in.
        set_aside: Rows of the batch that broke a rule of the contract.
    """

    rows: NDArray[Any]
    persons: NDArray[Any]
    X: Floats
    risk: NDArray[Any]
    review: NDArray[Any]
    level: float
    filled_in: int = 0
    set_aside: int = 0


@dataclass(frozen=True)
class Moment:
    """How the watch stood at one time: after a batch, after outcomes, or when a champion was put to use.

    Attributes:
        when: Time (ISO 8601, UTC).
        kind: What happened.
        champion: Version in use.
        patients: New patients who count.
        outcomes: New outcomes.
        review: Of these for review by the interval.
        read: Rows that were scored, counted before or not.
        filled_in: Of these with a filled-in value.
        set_aside: Rows that broke a rule of the contract.
        log_wealth: By rule, the natural logarithm of its e-value.
        means: By quantity, its running mean and the ends of its confidence sequence.
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
        outcomes: Rule 3: do known outcomes contradict the risks?
        place_mean, review_mean, loss_mean: Running means with their confidence sequences.
        forecast_low: Lower end of the sealed forecast of the AUROC, or None.
        known: Everyone whom the watch has met.
        made_for: How many of these the model was made for; they come first and count for outcomes alone.
        history: Moments, oldest first, those of earlier champions included.
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
    forecast_low: float | None = None
    known: KnownPatients = field(default_factory=KnownPatients)
    made_for: int = 0
    history: tuple[Moment, ...] = ()

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
        """AUROC where outcomes are known with its confidence sequence; None with too few of either kind."""
        y, risk = self.known.outcome, self.known.risk
        if min((y == 1).sum(), (y == 0).sum()) < FEWEST_EVENTS:
            return None
        value, variance = delong(risk[y == 0], risk[y == 1])
        half = float(np.sqrt(variance)) * _always_valid(int((y >= 0).sum()))
        return value, max(0.0, value - half), min(1.0, value + half)

    def add_batch(self, batch: ScoredPatients, when: str) -> WatchState:
        """Counts the patients of a batch who were not counted before, in an order that their values do not decide."""
        fresh = _new_persons(batch.rows, batch.persons, self.known)
        X, risk, review = batch.X[fresh], batch.risk[fresh], np.asarray(batch.review[fresh], dtype=np.float64)
        if self.scale is not None and X.shape[1] != len(self.scale.features):
            raise DataError(
                f"the batch has {X.shape[1]} features and the watch of version {self.champion} was begun with "
                f"{len(self.scale.features)}; promote a model of these features"
            )
        loss = relative_loss(risk, batch.level)
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
            known=self.known.add(batch.rows[fresh], batch.persons[fresh], risk),
        )
        return after.remember(
            "batch",
            when,
            patients=len(fresh),
            review=int(review.sum()),
            read=len(batch.rows),
            filled_in=batch.filled_in,
            set_aside=batch.set_aside,
        )

    def add_outcomes(self, rows: NDArray[Any], y: NDArray[Any], when: str) -> WatchState:
        """Compares outcomes with the risks of patients who were met and whose outcome was not known.

        Args:
            rows: Keyed digests of ids (outcomes,).
            y: 0 or 1, NaN where it is not known yet (outcomes,).
            when: The time.
        """
        order = np.argsort(self.known.rows, kind="stable")
        spots = np.searchsorted(self.known.rows, rows, sorter=order)
        spots = order[np.minimum(spots, max(0, len(order) - 1))] if len(order) else np.zeros(len(rows), dtype=int)
        met = np.isfinite(y) & (self.known.rows[spots] == rows if len(order) else np.zeros(len(rows), dtype=bool))
        met[met] = self.known.outcome[spots[met]] == UNKNOWN
        spots, y = spots[met], np.asarray(y)[met]
        spots, first = np.unique(spots, return_index=True)
        y = y[first]
        # One outcome per person: those of one person say the same thing twice.
        counted = set(self.known.persons[self.known.outcome >= 0].tolist())
        kept = [i for i, spot in enumerate(spots) if _add(counted, int(self.known.persons[spot]))]
        spots, y = spots[kept], y[kept]
        outcome = self.known.outcome.copy()
        outcome[spots] = y.astype("<i1")
        after = replace(
            self,
            outcomes=self.outcomes.add(y, self.known.risk[spots]),
            known=replace(self.known, outcome=outcome),
        )
        return after.remember("outcomes", when, outcomes=len(spots))

    def remember(self, kind: Literal["champion", "batch", "outcomes"], when: str, **counts: int) -> WatchState:
        """Adds a moment to the history; a clock that was turned back does not turn the history back."""
        when = max([when, *(moment.when for moment in self.history[-1:])])
        moment = Moment(when, kind, self.champion, log_wealth=self._log_wealth(), means=self._means(), **counts)
        return replace(self, history=_thinned((*self.history, moment)))

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
) -> WatchState:
    """A new watch, for a champion that was just put to use.

    Args:
        site: Name of the site.
        champion: Version of its model.
        when: The time.
        promoted: When a person promoted it.
        scale: How far from the source a patient is, or None.
        made_for: Whom the champion was made for, with its risks; None where they are not on this machine.
        forecast_low: Lower end of the sealed forecast of the AUROC.
        outcomes_used: Whether outcomes of those patients went into the model (a recalibration): they test nothing.
        history: Moments of earlier champions.
    """
    review = loss = None
    known = KnownPatients()
    if made_for is not None and len(made_for.rows):
        review = Bet(upper_bound(np.asarray(made_for.review, dtype=np.float64)))
        loss = Bet(upper_bound(relative_loss(made_for.risk, made_for.level)))
        outcome = USED_UP if outcomes_used else UNKNOWN
        known = known.add(made_for.rows, made_for.persons, made_for.risk, outcome)
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
        forecast_low=forecast_low,
        known=known,
        made_for=len(known),
        history=tuple(history),
    )
    return state.remember("champion", when)


def relative_loss(risk: NDArray[Any], level: float) -> Doubles:
    """Expected loss of acting on risks (rows,) as a share of the highest there is, which a risk at the level has."""
    return expected_loss(risk, level) / (level * (1 - level))


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


def _new_persons(rows: NDArray[Any], persons: NDArray[Any], known: KnownPatients) -> NDArray[Any]:
    """Places of rows whose person was not met before, one per person, in the order of their digests."""
    order = np.lexsort((rows, persons))
    order = order[np.concatenate([[True], persons[order][1:] != persons[order][:-1]])] if len(order) else order
    fresh = ~(np.isin(rows[order], known.rows) | np.isin(persons[order], known.persons))
    return np.asarray(order[fresh])


def _add(met: set[int], person: int) -> bool:
    """Whether a person is new; from now on, not."""
    if person in met:
        return False
    met.add(person)
    return True


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
