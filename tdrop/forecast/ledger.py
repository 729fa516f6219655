"""A ledger of sealed forecasts: one JSON line per forecast, chained by digests, never rewritten.

Every line carries the digest of the line before and its own; a small file beside the ledger (`.head`) carries the
last one. A line that was edited, moved, removed or cut off at the end breaks the chain. What was observed later is a
line of its own that names the forecast it answers.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Self

from scipy.stats import binomtest

from tdrop.base import DataError, plain, read
from tdrop.forecast.estimators import Quantity
from tdrop.forecast.run import Answer, Forecast

#: What the first line follows.
START = "0" * 64
#: Only the owner reads a ledger.
_OWNER = 0o600


@dataclass(frozen=True)
class Observation:
    """One number that was forecast and then observed.

    Attributes:
        method: Name of the method.
        quantity: Which number.
        expected: The forecast.
        low: Lower end of its interval.
        high: Upper end.
        observed: What the outcomes showed.
        observed_low: Lower end of the observed number's own interval, or None.
        observed_high: Upper end, or None.
        n: Known outcomes behind it.
        inside: Whether forecast and observation agree, as in `compare`.
    """

    method: str
    quantity: Quantity
    expected: float
    low: float
    high: float
    observed: float
    observed_low: float | None
    observed_high: float | None
    n: int
    inside: bool

    @classmethod
    def compare(
        cls, answer: Answer, observed: float | None, low: float | None, high: float | None, n: int
    ) -> Self | None:
        """Puts an observed number, with its own interval, beside its forecast; None where either has no value.

        They disagree where they are further apart than the two half-widths together allow, as for two independent
        numbers: sqrt(forecast's^2 + observed's^2). The forecast's interval alone is for the outcomes of all patients; a
        list of 50 would fall outside of it by chance at every fifth site.
        """
        if answer.value is None or answer.low is None or answer.high is None or observed is None:
            return None
        above = observed >= answer.value
        own = None if low is None or high is None else (observed - low if above else high - observed)
        allowed = math.hypot(answer.half_width, own or 0.0)
        inside = abs(observed - answer.value) <= allowed + 1e-12
        return cls(
            answer.method, answer.quantity, answer.value, answer.low, answer.high, observed, low, high, n, inside
        )


@dataclass(frozen=True)
class LedgerEntry:
    """One line of the ledger.

    Attributes:
        number: From 1 upwards.
        when: When it was written (ISO 8601).
        site: Name of the site.
        models: Digest of the lock on the models.
        chosen: The site's chosen method.
        before: Digest of the line before.
        forecast: What is expected; None on a line of observations.
        answers: On a line of observations, the number of the forecast's line.
        labels: On a line of observations, the digest of the labels.
        observations: What was observed.
    """

    number: int
    when: str
    site: str
    models: str
    chosen: str
    before: str
    forecast: Forecast | None = None
    answers: int | None = None
    labels: str | None = None
    observations: tuple[Observation, ...] = ()


def read_ledger(path: Path) -> tuple[LedgerEntry, ...]:
    """Reads every line and checks the chain; a DataError names the first line that does not fit."""
    return _read_chain(path)[0]


def _read_chain(path: Path) -> tuple[tuple[LedgerEntry, ...], str]:
    """The entries, and the digest of the last line.

    A digest is taken of the line as it was written: an earlier version may have written fields that are gone now.
    """
    lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
    entries: list[LedgerEntry] = []
    last = START
    for number, line in enumerate(lines, start=1):
        try:
            data = json.loads(line)
            entry, sealed = read(LedgerEntry, data["entry"]), data["digest"]
        except (ValueError, KeyError, TypeError, DataError):
            raise _edited(path, number) from None
        if _digest(data["entry"]) != sealed or entry.before != last or entry.number != number:
            raise _edited(path, number)
        entries.append(entry)
        last = sealed
    _check_head(path, last, len(entries))
    return tuple(entries), last


def _digest(entry: Any) -> str:
    """Seals a line, in plain JSON types, with everything before it."""
    text = json.dumps(entry, sort_keys=True, separators=(",", ":"), allow_nan=False)
    return hashlib.sha256(text.encode()).hexdigest()


def append_entry(path: Path, entry: LedgerEntry) -> LedgerEntry:
    """Adds a line and returns it with its number and digests; a forecast or observation already in the ledger stays.

    There is one forecast per lock on models, and one observation per forecast and labels. The caller holds a lock: two
    writers would both follow the same line.
    """
    entries, last = _read_chain(path)
    for earlier in entries:
        if all(getattr(earlier, name) == getattr(entry, name) for name in ("site", "models", "answers", "labels")):
            return earlier
    chained = replace(entry, number=len(entries) + 1, before=last)
    data = plain(chained)
    digest = _digest(data)
    line = json.dumps({"digest": digest, "entry": data}, sort_keys=True, allow_nan=False)
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, _OWNER), "a", encoding="utf-8") as file:
        file.write(line + "\n")
        file.flush()
        os.fsync(file.fileno())
    _write_head(path, digest)
    return chained


def find_forecast(entries: Sequence[LedgerEntry], site: str, models: str) -> LedgerEntry | None:
    """The sealed forecast of a site's models, or None."""
    return next(
        (entry for entry in entries if entry.forecast is not None and (entry.site, entry.models) == (site, models)),
        None,
    )


def _edited(path: Path, number: int) -> DataError:
    return DataError(
        f"the ledger '{path}' was changed by hand: line {number} does not fit the chain; put back a copy of it "
        "(and of its .head), or move both away to begin a new one"
    )


def _head(path: Path) -> Path:
    return path.with_name(f"{path.name}.head")


def _write_head(path: Path, digest: str) -> None:
    new = _head(path).with_suffix(".new")
    with os.fdopen(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, _OWNER), "w", encoding="utf-8") as file:
        file.write(digest + "\n")
    new.replace(_head(path))


def _check_head(path: Path, last: str, lines: int) -> None:
    """Raises a DataError where the last lines were cut off; after an interrupted write, repairs the head."""
    head = _head(path)
    if not head.exists():
        if lines > 1:
            raise _edited(path, lines)
        return
    expected = head.read_text(encoding="utf-8").strip()
    if expected == last:
        return
    written = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
    if written and json.loads(written[-1])["entry"]["before"] == expected:
        _write_head(path, last)
        return
    raise _edited(path, lines + 1)


@dataclass(frozen=True)
class TrackRecord:
    """How often the forecasts held, over all sites.

    Attributes:
        sealed: Forecasts in the ledger.
        sites: Sites they are about.
        opened: Sites whose outcomes came; the last audit of a site's last forecast counts.
        inside: Of these, whose AUROC of the chosen method lay in its interval.
        share_low: Lower end of the 95% interval of the share (Clopper and Pearson); None before any was opened.
        share_high: Upper end.
        mean_error: Mean distance of forecast and observed AUROC; None before any was opened.
    """

    sealed: int
    sites: int
    opened: int
    inside: int
    share_low: float | None
    share_high: float | None
    mean_error: float | None


def track_record(entries: Sequence[LedgerEntry]) -> TrackRecord:
    """Counts over the AUROC of the last opened forecast of every site."""
    last: dict[str, Observation] = {}
    for entry in entries:
        for observation in entry.observations:
            if observation.method == entry.chosen and observation.quantity == "auroc":
                last[entry.site] = observation
    opened = tuple(last.values())
    sealed = [entry.site for entry in entries if entry.forecast is not None]
    if not opened:
        return TrackRecord(len(sealed), len(set(sealed)), 0, 0, None, None, None)
    inside = sum(observation.inside for observation in opened)
    low, high = binomial_interval(inside, len(opened))
    off = sum(abs(observation.observed - observation.expected) for observation in opened) / len(opened)
    return TrackRecord(len(sealed), len(set(sealed)), len(opened), inside, low, high, off)


def binomial_interval(inside: int, n: int) -> tuple[float, float]:
    """Clopper and Pearson's 95% interval of a share."""
    interval = binomtest(inside, n).proportion_ci(0.95, method="exact")
    return float(interval.low), float(interval.high)
