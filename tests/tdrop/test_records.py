"""Records go to JSON and back by their annotations."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Literal

import pytest

from tdrop.base import Count, DataError, Hidden, plain, read, read_record, write_record


@dataclass(frozen=True)
class Inner:
    name: str
    share: float | None


@dataclass(frozen=True)
class Outer:
    verdict: Literal["go", "stop"]
    counts: tuple[Count, ...]
    parts: dict[str, Inner]
    note: str | None = None


RECORD = Outer("go", (12, Hidden(10), Hidden()), {"a": Inner("x", 0.25), "b": Inner("y", None)})


def test_a_record_survives_json(tmp_path):
    assert read(Outer, json.loads(json.dumps(plain(RECORD)))) == RECORD
    write_record(tmp_path / "outer.json", RECORD)
    assert read_record(Outer, tmp_path / "outer.json") == RECORD


def test_hidden_counts_are_text_in_json():
    assert plain(RECORD)["counts"] == [12, "<10", "hidden"]


@pytest.mark.parametrize(
    ("change", "where"),
    [({"verdict": "maybe"}, "verdict"), ({"counts": ["twelve"]}, "counts"), ({"parts": {"a": {}}}, "parts.a")],
)
def test_what_does_not_fit_is_named(change, where):
    with pytest.raises(DataError, match=where):
        read(Outer, {**plain(RECORD), **change})
