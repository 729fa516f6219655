"""A ledger keeps what was said, and shows when somebody changed it."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import pytest

from tdrop.base import DataError, plain
from tdrop.forecast import (
    Answer,
    Forecast,
    LedgerEntry,
    Observation,
    append_entry,
    binomial_interval,
    find_forecast,
    read_ledger,
    track_record,
)


def _forecast(site: str, value: float) -> Forecast:
    answer = Answer("mlp", "auroc", value, value - 0.1, value + 0.1, 0.01, 0.05, {"peers": value})
    return Forecast(site, "blend", 0.15, 0.95, 100, 20, 80.0, 50, (answer,))


def _sealed(site: str, models: str = "m", value: float = 0.8) -> LedgerEntry:
    return LedgerEntry(0, "2026-01-01T00:00:00", site, models, "mlp", "", forecast=_forecast(site, value))


def _observed(site: str, number: int, value: float, labels: str = "l") -> LedgerEntry:
    one = Observation("mlp", "auroc", 0.8, 0.7, 0.9, value, None, None, 40, 0.7 <= value <= 0.9)
    return LedgerEntry(
        0, "2026-02-01T00:00:00", site, "m", "mlp", "", answers=number, labels=labels, observations=(one,)
    )


@pytest.fixture
def ledger(tmp_path: Path) -> Path:
    path = tmp_path / "ledger.jsonl"
    for site in ("north", "south", "west"):
        append_entry(path, _sealed(site))
    return path


def test_what_was_appended_is_read_back_in_order(ledger: Path) -> None:
    entries = read_ledger(ledger)
    assert [one.site for one in entries] == ["north", "south", "west"]
    assert [one.number for one in entries] == [1, 2, 3]
    sealed = [json.loads(line)["digest"] for line in ledger.read_text(encoding="utf-8").splitlines()]
    assert [one.before for one in entries[1:]] == sealed[:-1]
    assert ledger.stat().st_mode & 0o077 == 0


def test_a_forecast_is_never_rewritten(ledger: Path) -> None:
    before = ledger.read_bytes()
    kept = append_entry(ledger, _sealed("south", value=0.6))
    assert kept.forecast == _forecast("south", 0.8)
    assert ledger.read_bytes() == before
    found = find_forecast(read_ledger(ledger), "south", "m")
    assert found is not None
    assert found.number == 2
    assert append_entry(ledger, _sealed("south", models="other", value=0.6)).number == 4


def _change(lines: list[str]) -> list[str]:
    return [lines[0], lines[1].replace("0.8", "0.7"), lines[2]]


def _reseal(lines: list[str]) -> list[str]:
    """Changes a line and gives it a digest that fits its own words."""
    entry = json.loads(lines[1])["entry"]
    return [lines[0], _line(entry | {"forecast": plain(_forecast("south", 0.7))}), lines[2]]


def _line(entry: dict[str, Any]) -> str:
    text = json.dumps(entry, sort_keys=True, separators=(",", ":"))
    return json.dumps({"digest": hashlib.sha256(text.encode()).hexdigest(), "entry": entry}, sort_keys=True)


def test_a_line_of_an_earlier_version_with_a_field_that_is_gone_still_fits(ledger: Path) -> None:
    entry = json.loads(ledger.read_text(encoding="utf-8").splitlines()[0])["entry"]
    entry["forecast"]["bounds"] = []
    ledger.write_text(_line(entry) + "\n", encoding="utf-8")
    ledger.with_name(f"{ledger.name}.head").unlink()
    assert [one.site for one in read_ledger(ledger)] == ["north"]
    assert append_entry(ledger, _sealed("east")).number == 2
    assert len(read_ledger(ledger)) == 2


@pytest.mark.parametrize(
    "edit",
    [
        _change,
        _reseal,
        lambda lines: [lines[0], lines[2]],
        lambda lines: [lines[0], lines[2], lines[1]],
        lambda lines: lines[:2],
        lambda lines: [],
        lambda lines: [*lines[:2], "not a line"],
        lambda lines: [*lines[:2], '{"digest": "x"}'],
    ],
    ids=["changed", "resealed", "taken out", "moved", "cut", "emptied", "garbled", "bare"],
)
def test_an_edit_is_detected(ledger: Path, edit) -> None:  # type: ignore[no-untyped-def]
    lines = edit(ledger.read_text().splitlines())
    ledger.write_text("".join(f"{line}\n" for line in lines))
    with pytest.raises(DataError, match="changed by hand: line"):
        read_ledger(ledger)
    before = ledger.read_bytes()
    with pytest.raises(DataError, match="changed by hand"):
        append_entry(ledger, _sealed("east"))
    assert ledger.read_bytes() == before


def test_a_ledger_that_was_removed_is_missed(ledger: Path) -> None:
    ledger.unlink()
    with pytest.raises(DataError, match="changed by hand"):
        read_ledger(ledger)


def test_a_line_written_just_before_an_interruption_counts(ledger: Path) -> None:
    head = ledger.with_name("ledger.jsonl.head")
    old = head.read_text()
    append_entry(ledger, _sealed("east"))
    head.write_text(old)
    assert len(read_ledger(ledger)) == 4
    assert head.read_text() != old


def test_the_track_record_counts_each_site_once(ledger: Path) -> None:
    assert track_record(read_ledger(ledger)).opened == 0
    append_entry(ledger, _observed("north", 1, 0.60))
    append_entry(ledger, _observed("north", 1, 0.75, labels="more"))
    append_entry(ledger, _observed("south", 2, 0.95))
    append_entry(ledger, _observed("south", 2, 0.95))
    found = track_record(read_ledger(ledger))
    assert (found.sealed, found.sites, found.opened, found.inside) == (3, 3, 2, 1)
    assert found.mean_error == pytest.approx(0.1)
    assert (found.share_low, found.share_high) == binomial_interval(1, 2)


def test_the_binomial_interval_is_clopper_and_pearsons() -> None:
    # scipy.stats.binomtest(17, 20).proportion_ci(method="exact")
    assert binomial_interval(17, 20) == pytest.approx((0.62107, 0.96793), abs=1e-5)
    assert binomial_interval(0, 5)[0] == 0.0
    assert binomial_interval(5, 5)[1] == 1.0
