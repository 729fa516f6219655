"""Whom a watch has met: keyed digests and the risks that outcomes are compared with, no patient's values."""

from __future__ import annotations

from base64 import b64decode, b64encode
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any

import numpy as np
from numpy.typing import NDArray
from pydantic import PlainSerializer, PlainValidator

from tdrop.base import Floats

#: In the place of an outcome: it is not known yet, or it went into the model.
UNKNOWN, USED_UP = -1, -2


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
        risk: The chance that the champion promised: of the outcome, of a wrong class, of lying outside (patients,).
        outcome: Whether it came so, 0 or 1; -1 while that is not known, -2 where the outcome went into the model and
            tests nothing (patients,).
        low: Lower ends of what was told (patients,); empty where outcomes are 0 or 1.
        high: Upper ends (patients,).
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
        return KnownPatients(
            np.concatenate([self.rows, batch.rows[places]]).astype("<u8"),
            np.concatenate([self.persons, batch.persons[places]]).astype("<u8"),
            np.concatenate([self.risk, batch.risk[places]]).astype("<f4"),
            np.concatenate([self.outcome, np.full(len(places), outcome)]).astype("<i1"),
            np.concatenate([self.low, batch.low[places]]).astype("<f4") if len(batch.low) else self.low,
            np.concatenate([self.high, batch.high[places]]).astype("<f4") if len(batch.high) else self.high,
        )

    def came_otherwise(self, places: NDArray[Any], y: NDArray[Any]) -> NDArray[Any]:
        """Whether outcomes (outcomes,) of the patients at some places lie outside what was told: 0 or 1 (outcomes,)."""
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
        low: Lower ends of what was told (patients,); empty where outcomes are 0 or 1.
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
    """Places of rows whose person was not met before, one per person, in the order of their digests."""
    order = np.lexsort((rows, persons))
    order = order[np.concatenate([[True], persons[order][1:] != persons[order][:-1]])] if len(order) else order
    fresh = ~(np.isin(rows[order], known.rows) | np.isin(persons[order], known.persons))
    return np.asarray(order[fresh])


def remember_person(met: set[int], person: int) -> bool:
    """Whether a person is new; from now on, not."""
    if person in met:
        return False
    met.add(person)
    return True
