"""The forecast on the first screen, in the appendix and on the index, with and without outcomes."""

from __future__ import annotations

import re
from dataclasses import replace
from unittest import mock

import pytest
from report_cases import make_forecast, make_observations, report_data

from tdrop.disclosure import disclose
from tdrop.forecast import TrackRecord
from tdrop.report import IndexLine, ReportData, render_index, render_report, report_summary
from tdrop.report.expected import CANNOT_KNOW, expectations, forecast_sentence, forecast_table, track_sentence

SOME = ("mc_dropout", "logistic_regression")


@pytest.fixture(scope="module")
def unlabelled() -> ReportData:
    data = report_data(target_rows=400, source_rows=800, methods=SOME, method="mc_dropout", labelled=False)
    return replace(data, forecast=make_forecast(SOME, 800, 400))


@pytest.fixture(scope="module")
def labelled() -> ReportData:
    data = report_data(target_rows=400, source_rows=800, methods=SOME, method="mc_dropout")
    expected = make_forecast(SOME, 800, 400)
    return replace(data, forecast=expected, observations=make_observations(expected, "mc_dropout", 400))


def head(data: ReportData) -> str:
    with mock.patch("tdrop.report.render.report_sections", return_value=[]):
        page = render_report(data).split("</header>")[0]
    return " ".join(re.sub(r"<style.*?</style>|<[^>]+>", " ", page, flags=re.S).split())


def test_the_first_screen_gives_the_forecast_and_what_it_cannot_know(unlabelled: ReportData) -> None:
    text = head(unlabelled)
    for one in expectations(unlabelled):
        assert f"{one.title} {one.value} ({one.interval})" in text
    assert len(expectations(unlabelled)) == 3
    assert "acting from 15% risk" in text
    assert CANNOT_KNOW in text
    assert "shift" not in text, "a word for statisticians"
    assert "nothing here has checked" in text
    assert "observed" not in text
    for jargon in ("AUROC", "Brier", "net benefit"):
        assert jargon not in text


def test_without_a_forecast_nothing_is_promised(unlabelled: ReportData) -> None:
    bare = replace(unlabelled, forecast=None)
    assert "What to expect here" not in head(bare)
    assert forecast_table(bare) is None
    assert forecast_sentence(bare) == ""
    assert report_summary(bare).forecast is None


def test_known_outcomes_stand_beside_the_forecast(labelled: ReportData) -> None:
    assert all(one.observed.endswith(": inside the interval") for one in expectations(labelled))
    assert "inside the interval" in head(labelled)
    missed = replace(labelled, observations=make_observations(labelled.forecast, "mc_dropout", 400, 0.02))
    assert {one.observed for one in expectations(missed)} == {"observed 2: outside the interval"}


def test_the_first_screen_tells_one_observed_ranking(labelled: ReportData) -> None:
    ranking = next(one for one in labelled.observations if one.quantity == "auroc" and one.method == "mc_dropout")
    others = [one for one in labelled.observations if one is not ranking]
    text = head(replace(labelled, observations=(*others, replace(ranking, observed=0.87))))
    assert "observed 87" in text
    assert "gets the higher risk 87 times in 100" in text


def test_the_table_marks_the_chosen_method(labelled: ReportData) -> None:
    table = forecast_table(labelled)
    assert table is not None
    chosen = table.lines[table.marked or 0]
    assert chosen[0].text == "MC dropout"
    assert "observed" in chosen[1].below
    assert "inside" in chosen[1].below
    assert not any("observed" in cell.below for cell in table.lines[1])


def test_a_disclosed_site_hides_what_rests_on_few(labelled: ReportData) -> None:
    policy = labelled.site.disclosure.model_copy(update={"exempt": False})
    shown = disclose(labelled, policy)
    assert all(one.n % policy.threshold == 0 for one in shown.observations)
    # As fine as the evaluation's own numbers: a coarser one beside them would protect nobody.
    (auroc,) = (one.observed for one in shown.observations if one.quantity == "auroc")
    exact = next(one.observed for one in labelled.observations if one.quantity == "auroc")
    assert auroc == pytest.approx(exact, abs=0.0025)
    assert auroc == round(200 * auroc) / 200
    assert "inside the interval" in head(shown)
    few = replace(labelled, observations=make_observations(labelled.forecast, "mc_dropout", 400, 3 / 400))
    told = {one.quantity for one in disclose(few, policy).observations}
    assert not {"error_rate", "outcomes"} & told
    tiny = replace(labelled, observations=make_observations(labelled.forecast, "mc_dropout", 7))
    assert not disclose(tiny, policy).observations


def test_the_index_says_over_all_sites_how_often_forecasts_held(unlabelled: ReportData) -> None:
    track = TrackRecord(5, 4, 3, 2, 0.09, 0.99, 0.034, ())
    line = IndexLine(report_summary(unlabelled), "a.html")
    page = render_index([line], track)
    assert "at 2 of 3 (67%; 95% interval 9% to 99%), on average 0.03 from the forecast" in page
    expected = line.summary.forecast["auroc"]
    assert f"{expected.low:.2f} to {expected.high:.2f}" in page
    assert "AUROC expected" in page
    assert 'id="track"' not in render_index([line])
    assert track_sentence(TrackRecord(1, 1, 0, 0, None, None, None, ())).endswith("there was none yet.")
