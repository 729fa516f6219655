"""The network's ledger of forecasts, below the home, for the owner's eyes only."""

from __future__ import annotations

from pathlib import Path

from filelock import FileLock

from tdrop.forecast import Forecast, LedgerEntry, Observation, append_entry, read_ledger
from tdrop.home import Place, now

LEDGER = "ledger.jsonl"


def ledger_path(place: Place) -> Path:
    """Where the ledger lies."""
    return place.root / LEDGER


def entries(place: Place) -> tuple[LedgerEntry, ...]:
    """Every line; a DataError where somebody changed one."""
    return read_ledger(ledger_path(place))


def seal(place: Place, site: str, models: str, chosen: str, forecast: Forecast) -> LedgerEntry:
    """Writes a forecast down before any label is opened; one that is there already stands."""
    return _append(place, LedgerEntry(0, now(), site, models, chosen, "", forecast=forecast))


def answer(place: Place, sealed: LedgerEntry, labels: str, observations: tuple[Observation, ...]) -> LedgerEntry:
    """Writes down what was observed, beside the forecast it answers."""
    entry = LedgerEntry(
        0,
        now(),
        sealed.site,
        sealed.models,
        sealed.chosen,
        "",
        answers=sealed.number,
        labels=labels,
        observations=observations,
    )
    return _append(place, entry)


def _append(place: Place, entry: LedgerEntry) -> LedgerEntry:
    with FileLock(place.root / f"{LEDGER}.lock", mode=0o600):
        return append_entry(ledger_path(place), entry)
