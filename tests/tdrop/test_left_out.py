"""What a feature that a target does not record costs, measured on the source's patients and told in the report."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from report_cases import report_data

from tdrop.base import plain, read
from tdrop.contracts import Disclosure, load_network
from tdrop.data import learn_encoder, simulate
from tdrop.disclosure import disclose_left_out
from tdrop.evaluate.left_out import LeftOut, measure_left_out
from tdrop.report import left_out_sentence, render_report

CONTRACT = load_network(Path(__file__).parents[2] / "data_contracts").contracts["prostate"]
SOURCE = simulate("source", 1500, seed=0).drop(columns="true_risk")


def measured(*columns: str, frame=SOURCE) -> LeftOut:
    return measure_left_out(frame, CONTRACT, learn_encoder(frame, CONTRACT, columns))


def test_a_feature_that_matters_costs_what_it_is_worth():
    found = measured("age", "grade_group")
    assert found.columns == ("age", "grade_group")
    assert found.rows == len(SOURCE)
    assert found.outcomes == SOURCE["died_10y"].sum()
    assert found.auroc_with - found.auroc_without > 0.05
    assert found.log_loss_without - found.log_loss_with > 3 * found.standard_error


def test_a_feature_that_says_nothing_costs_nothing():
    noise = SOURCE.assign(psa=np.random.default_rng(0).permutation(SOURCE["psa"].to_numpy()))
    found = measured("psa", frame=noise)
    assert found.auroc_with == pytest.approx(found.auroc_without, abs=0.01)
    assert abs(found.log_loss_without - found.log_loss_with) < 3 * found.standard_error + 1e-3


def test_what_the_source_does_not_know_either_costs_nothing_that_can_be_told():
    found = measured("psa", frame=SOURCE.assign(psa=np.nan))
    assert found == LeftOut(("psa",))
    assert "cannot be measured" in left_out_sentence(found, CONTRACT)


def test_it_stands_in_the_report_and_its_record_reads_back():
    found = measured("age")
    assert read(LeftOut, plain(found)) == found
    page = " ".join(render_report(replace(report_data(), left_out=found)).split())
    assert "Not recorded here, and left out of everything: Age" in page
    assert f"{100 * found.auroc_without:.0f} times in 100 without and {100 * found.auroc_with:.0f} with" in page


def test_few_outcomes_leave_only_the_names():
    found = measured("age")
    shown = disclose_left_out(found, Disclosure(threshold=10))
    assert shown.rows == 1500
    assert shown.auroc_with == round(found.auroc_with, 2)
    assert disclose_left_out(replace(found, outcomes=3), Disclosure(threshold=10)) == LeftOut(("age",))
