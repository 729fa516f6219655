"""Numbers that a model would not see as they are: large offsets, sizes that no measurement has."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from tdrop.base import DataError, plain, read
from tdrop.contracts import Contract, Prepared, Site
from tdrop.data import Encoder, learn_encoder, prepare_frame, read_labels, source_outcome

TABLE: dict[str, Any] = {
    "name": "lab",
    "version": "1",
    "title": "A laboratory",
    "columns": [
        {"name": "key", "role": "id", "type": "categorical"},
        {"name": "level", "title": "Level", "unit": "s"},
        {"name": "days", "role": "label", "unit": "days"},
        {"name": "died", "role": "label", "type": "binary"},
    ],
    "outcome": {"name": "death", "title": "death within a year", "time": "days", "event": "died", "horizon": "1 year"},
}
CONTRACT = Contract.model_validate(TABLE)
SITE = Site.model_validate(
    {"name": "lab_a", "title": "Lab A", "table": "lab", "role": "source", "location": "a.csv", "settle_seconds": 0}
)
ROWS = 400


def extract(level: Any, days: Any = 500) -> pd.DataFrame:
    """An extract as a text file brings it; its first row is line 2 of the file."""
    texts = {"key": [f"k{row}" for row in range(ROWS)], "level": level, "days": days, "died": 1}
    frame = pd.DataFrame(texts).astype(str)
    frame.index = pd.RangeIndex(2, ROWS + 2, name="row")
    return frame


def prepared(level: Any, days: Any = 500) -> Prepared:
    return prepare_frame(extract(level, days), CONTRACT, SITE)


NOISE = np.random.default_rng(0).normal(size=ROWS)


@pytest.mark.parametrize(
    "level",
    [1e9 + NOISE, 1_700_000_000 + np.arange(ROWS), -4e12 + NOISE, np.where(NOISE > 1, 1e9 + 1, 1e9)],
    ids=["offset", "epoch seconds", "below zero", "two values"],
)
def test_a_large_offset_leaves_the_differences(level: Any) -> None:
    frame = prepared(level).frame
    encoder = learn_encoder(frame, CONTRACT)
    encoded = encoder.matrix(frame)[:, 0]
    assert len(np.unique(encoded)) == len(np.unique(frame["level"]))
    assert np.corrcoef(encoded, frame["level"] - frame["level"].mean())[0, 1] == pytest.approx(1, abs=1e-6)
    assert encoder.features[0].title.startswith("Level (s, minus ")


def test_an_offset_on_the_log_scale_is_taken_off_too() -> None:
    columns = [TABLE["columns"][0], {**TABLE["columns"][1], "range": [0, None], "transform": "log"}]
    contract = Contract.model_validate({**TABLE, "columns": [*columns, *TABLE["columns"][2:]]})
    frame = prepare_frame(extract(1e9 + NOISE), contract, SITE).frame
    assert len(np.unique(learn_encoder(frame, contract).matrix(frame))) > 0.9 * ROWS


@pytest.mark.parametrize("level", [60 + 10 * NOISE, np.exp(NOISE), 1e6 + 1e5 * NOISE, np.full(ROWS, 5e9)])
def test_ordinary_numbers_are_encoded_as_they_are(level: Any) -> None:
    frame = prepared(level).frame
    encoder = learn_encoder(frame, CONTRACT)
    np.testing.assert_array_equal(encoder.matrix(frame)[:, 0], frame["level"].to_numpy(np.float32))
    assert encoder.features[0].title == "Level (s)"


def test_an_encoder_of_before_offsets_can_be_read() -> None:
    encoder = learn_encoder(prepared(NOISE).frame, CONTRACT)
    document = plain(encoder)
    del document["codings"][0]["offset"]
    assert read(Encoder, document) == encoder


@pytest.mark.parametrize("huge", ["1e300", "-1e300", "1e31"])
def test_a_number_that_no_measurement_has_is_named_with_its_line(huge: str) -> None:
    level = [f"{value:.3f}" for value in NOISE]
    level[7] = huge
    found = prepared(level)
    assert found.quarantine.to_dict("records") == [{"id": "k7", "row": 9, "rules": "level.readable"}]
    finding = next(finding for finding in found.validation.findings if finding.rule == "level.readable")
    assert finding.sentence == "column 'level': 1 of 400 values cannot be read as numbers"
    assert "line 9" in finding.fix
    with pytest.raises(DataError, match="column 'level': 1 of 400 values are not finite numbers"):
        learn_encoder(prepared(NOISE).frame, CONTRACT).matrix(pd.DataFrame({"level": level}))


def test_a_time_below_zero_is_no_follow_up() -> None:
    days = np.where(np.arange(ROWS) < 3, -5, 500)
    found = prepared(NOISE, days)
    assert found.quarantine["rules"].unique().tolist() == ["days.range"]
    assert found.validation.quarantined == 3
    assert "outside the possible range at least 0 days" in found.validation.findings[0].sentence
    y, counts = source_outcome(pd.DataFrame({"days": [-1.0, 5.0, 500.0], "died": [1.0, 1.0, 1.0]}), CONTRACT)
    assert np.isnan(y[0])
    assert counts == {"known": 2, "positive": 1, "missing": 1, "horizon_not_reached": 0}


def test_a_label_file_with_times_below_zero_gives_no_outcome_for_them(tmp_path: Path) -> None:
    path = tmp_path / "labels.csv"
    path.write_text("key,days,died\n" + "".join(f"k{row},{-3 if row == 0 else 500},1\n" for row in range(40)))
    labels = read_labels(path, CONTRACT, [f"k{row}" for row in range(40)], home=tmp_path, base=tmp_path)
    assert labels.problems[["id", "row", "why"]].to_numpy().tolist() == [["k0", 2, "unreadable outcome"]]


@pytest.mark.parametrize("word", ["NA", "n/a", ".", "?", "unknown", "NULL", "nan"])
def test_an_outcome_that_is_not_known_is_missing_and_not_unreadable(word: str, tmp_path: Path) -> None:
    path = tmp_path / "labels.csv"
    path.write_text("key,days,died\n" + "".join(f"k{row},500,{word if row % 2 else 1}\n" for row in range(40)))
    labels = read_labels(path, CONTRACT, [f"k{row}" for row in range(40)], home=tmp_path, base=tmp_path)
    assert (labels.counts.known, labels.counts.missing, labels.counts.unreadable) == (40, 0, 0)
    path.write_text("key,days,died\n" + "".join(f"k{row},300,{word if row % 2 else 1}\n" for row in range(40)))
    labels = read_labels(path, CONTRACT, [f"k{row}" for row in range(40)], home=tmp_path, base=tmp_path)
    assert (labels.counts.known, labels.counts.missing, labels.counts.unreadable) == (20, 20, 0)
    assert set(labels.problems["why"]) == {"no outcome"}


@pytest.mark.parametrize("name", ["{home}.csv", "${HOME}.csv", "a {home} b.csv"])
def test_the_name_of_a_typed_file_is_taken_as_it_stands(name: str, tmp_path: Path) -> None:
    (tmp_path / name).write_text("key,days,died\nk0,100,1\nk1,500,0\n")
    labels = read_labels(tmp_path / name, CONTRACT, ["k0", "k1"], home=tmp_path / "home", base=tmp_path)
    assert labels.y.tolist() == [1, 0]
