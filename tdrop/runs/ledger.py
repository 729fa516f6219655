"""The network's ledger of forecasts, below the home, for the owner's eyes only."""

from __future__ import annotations

from pathlib import Path

from filelock import FileLock

from tdrop.forecast import Entry, Forecast, Observation, append, read_ledger
from tdrop.home import Place, now

LEDGER = "ledger.jsonl"


def ledger_path(place: Place) -> Path:
    """Where the ledger lies."""
    return place.root / LEDGER


def entries(place: Place) -> tuple[Entry, ...]:
    """Every line; a DataError where somebody changed one."""
    return read_ledger(ledger_path(place))


def seal(place: Place, site: str, models: str, chosen: str, forecast: Forecast) -> Entry:
    """Writes a forecast down before any label is opened; one that is there already stands."""
    return _append(place, Entry(0, now(), site, models, chosen, "", forecast=forecast))


def answer(place: Place, sealed: Entry, labels: str, observations: tuple[Observation, ...]) -> Entry:
    """Writes down what was observed, beside the forecast it answers."""
    entry = Entry(
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


def _append(place: Place, entry: Entry) -> Entry:
    with FileLock(place.root / f"{LEDGER}.lock", mode=0o600):
        return append(ledger_path(place), entry)
