"""The table of doubt: every collection of real transfers, and all of them together."""

from __future__ import annotations

from flows.benchmarks import transductive_doubt as doubt
from tdrop.home import Place


def test_collections_are_also_shown_together(tmp_path, monkeypatch):
    gains = {doubt.REAL: 0.0, doubt.SECOND: -0.01, doubt.THIRD: -0.01, doubt.FOURTH: -0.03, doubt.FIFTH: -0.03}

    def found(place, benchmark, function, units):
        for unit in units:
            gain = gains.get(unit["family"], 0.0)
            mains = set(doubt.RIVALS)
            yield {
                method: dict.fromkeys(doubt.MEASURES, 0.5 + (gain if method in mains else 0.0))
                for method in doubt.METHODS
            }

    monkeypatch.setattr(doubt, "run_units", found)
    table, _ = doubt.measure_doubts(Place.at(str(tmp_path)), quick=False, refits=1)
    rows = {row["problems"]: row for row in table.rows if row["method"] == "difference"}
    count = {family: len(doubt.DOUBT_PROBLEMS[family]) for family in gains}
    assert rows[doubt.ALL]["n"] == sum(count.values())
    assert rows[doubt.UNSEEN]["n"] == sum(count.values()) - count[doubt.REAL]
    mean = sum(gains[family] * count[family] for family in gains) / sum(count.values())
    assert round(rows[doubt.ALL]["log loss"].value, 6) == round(mean, 6)
    assert rows[doubt.UNSEEN]["log loss, lower / higher"] == f"{rows[doubt.UNSEEN]['n']} / 0"
