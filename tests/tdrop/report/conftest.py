"""One site with and one without outcomes, and their pages, drawn once for all tests."""

from __future__ import annotations

from dataclasses import replace

import pytest
from page_text import Page
from report_cases import make_forecast, make_observations, report_data

from tdrop.report import ReportData, render_details, render_report

METHODS = ("mlp", "ensemble", "mixmatch", "transductive_dropout", "logistic_regression")


@pytest.fixture(scope="session")
def labelled() -> ReportData:
    data = report_data(target_rows=400, source_rows=800, methods=METHODS)
    expected = make_forecast(METHODS, 800, 400)
    return replace(data, forecast=expected, observations=make_observations(expected, data.method, 400))


@pytest.fixture(scope="session")
def unlabelled() -> ReportData:
    data = report_data(target_rows=400, source_rows=800, methods=METHODS, labelled=False)
    return replace(data, forecast=make_forecast(METHODS, 800, 400))


@pytest.fixture(scope="session")
def page(labelled: ReportData) -> Page:
    return Page(render_report(labelled))


@pytest.fixture(scope="session")
def details(labelled: ReportData) -> Page:
    return Page(render_details(labelled))
