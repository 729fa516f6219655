"""Prefect's pages: names for people, whole patients, and nothing that was hidden."""

from __future__ import annotations

import pytest
from flows.prefect_flow import name_of_run
from report_cases import make_choice, make_forecast, make_validation
from tasks.UNKNOWN import choice_page, evaluation_page, forecast_page, validation_page

from tasks.recording import compare_sentence
from tdrop.base import Hidden
from tdrop.contracts import Finding
from tdrop.evaluate import Row

METHODS = ("mlp", "logistic_regression")


def row(method: str, metric: str, value: float | None, hidden: Hidden | None = None) -> Row:
    return Row("harbour", method, "all", metric, value, None, None, 400, hidden=hidden)


def test_patients_are_whole_and_what_is_hidden_stays_so() -> None:
    rows = [
        row("mlp", "auroc", 0.71234),
        row("mlp", "errors", 614.6667),
        row("logistic_regression", "errors", None, Hidden(10)),
    ]
    page = evaluation_page("harbour", METHODS, rows, labelled=True)
    assert "| Logistic regression |" in page
    assert "0.712" in page
    assert "615 |" in page
    assert "<10" in page
    assert "614." not in page
    assert "error_auroc" not in page


def test_a_forecast_is_one_line_a_method_and_no_finer_than_the_report() -> None:
    page = forecast_page("harbour", make_forecast(METHODS, 300, 200))
    assert [line.split(" | ")[0] for line in page.splitlines() if line.startswith("| ")][1:] == [
        "| MLP",
        "| Logistic regression",
    ]
    assert "acting from a risk of 15%" in " ".join(page.split())
    decimals = [word for word in page.replace("(", " ").replace(")", " ").split() if "." in word and word[0].isdigit()]
    assert decimals
    assert all(len(word.rstrip(".").partition(".")[2]) <= 2 for word in decimals), page


def test_a_choice_has_names_for_people() -> None:
    page = choice_page("harbour", make_choice("logistic_regression", METHODS), "It is simple.")
    assert page.startswith("# harbour: Logistic regression\n\nIt is simple.")
    assert "logistic_regression" not in page


def test_a_missing_column_is_no_row() -> None:
    missing = Finding("stage.present", "stage", "table_stop", 1, 1, "column 'stage' is not there", about="file")
    validation = make_validation("Harbour", 400)
    page = validation_page("harbour", type(validation)(**{**vars(validation), "findings": (missing,)}))
    assert "| column 'stage' is not there |  | the extract cannot be used |" in page
    assert "table_stop" not in page


@pytest.mark.parametrize(
    ("template", "parameters", "name"),
    [
        (
            "transfer to {sites}",
            {"sites": ["hillside", "ferryside"]},
            "transfer to hillside, ferryside",
        ),
        ("transfer {site}", {"site": "hillside"}, "transfer hillside"),
    ],
)
def test_a_run_of_several_sites_is_called_after_them(template: str, parameters: dict[str, object], name: str) -> None:
    assert name_of_run(template, parameters) == name


def test_the_comparison_is_a_link_where_mlflow_has_an_address() -> None:
    told = compare_sentence("https://mlflow.example/", "3", "harbour")
    assert "](https://mlflow.example/#/experiments/3/runs?viewStateShareKey=compare-methods-harbour)" in told
    assert "tdrop ui" in compare_sentence("sqlite:///home/mlflow.db", "3", "harbour")
