"""TRIPOD+AI and the way of rows: stated from the run or left to the authors, with and without outcomes."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from report_cases import report_data

from tdrop.disclosure import disclose
from tdrop.evaluate import suggest_recalibration
from tdrop.figures import draw_attrition
from tdrop.report import ReportData
from tdrop.report.sections import attrition_section
from tdrop.report.tripod import TO_WRITE, tripod_table

SOME = ("mc_dropout", "logistic_regression")


@pytest.fixture(scope="module")
def labelled() -> ReportData:
    return report_data(target_rows=400, source_rows=800, methods=SOME, method="mc_dropout")


def items(data: ReportData) -> dict[int, str]:
    return {int(line[0].text.split(".")[0]): line[1].text for line in tripod_table(data).lines}


def test_all_27_items_are_stated_or_left_to_the_authors(labelled: ReportData) -> None:
    found = items(labelled)
    assert list(found) == list(range(1, 28))
    assert all(text == TO_WRITE or text.startswith("stated: ") for text in found.values())
    assert "None" not in " ".join(found.values())
    for number in (1, 2, 3, 4, 6, 17, 18, 19, 25):
        assert found[number] == TO_WRITE
    auroc = labelled.evaluation.value("mc_dropout", "auroc")
    assert f"AUROC {auroc:.3f}" in found[23]
    assert "800 source patients, 400 patients here" in found[10]
    events = int(np.nansum(labelled.y))
    assert f"evaluated on 400 patients with a known outcome, {events} of whom had it" in found[21]
    assert "matched" in found[21]
    for number in (5, 8, 9, 10, 27):
        assert found[number].endswith(TO_WRITE), "what of the item no run can know"
    assert "c3c3" in found[22]


def test_missing_values_classes_and_updating_are_stated_from_the_run(labelled: ReportData) -> None:
    risk = np.clip(labelled.predictions["mc_dropout"][0].mean / 3, 0.01, 0.99)
    moved = replace(labelled, recalibration=suggest_recalibration(labelled.y, risk))
    found = items(moved)
    assert "the source's median" in found[11]
    assert "neither resampled" in found[13]
    assert "a recalibration to the known outcomes (" in found[24]
    right = replace(moved.recalibration, helps=None)
    assert "as they are" in items(replace(labelled, recalibration=right))[24]
    assert items(replace(labelled, recalibration=None))[24] == TO_WRITE


def test_without_outcomes_no_performance_is_stated() -> None:
    data = report_data(target_rows=400, source_rows=800, methods=SOME, method="mc_dropout", labelled=False)
    assert items(data)[23] == TO_WRITE
    assert items(replace(data, provenance=None, tuning={}))[22] == TO_WRITE


def test_a_disclosed_site_states_rounded_counts(labelled: ReportData) -> None:
    policy = labelled.site.disclosure.model_copy(update={"exempt": False})
    validation = replace(labelled.validation, duplicates=3, read=417)
    shown = disclose(replace(labelled, validation=validation), policy)
    told = " ".join(items(shown).values())
    assert "417" not in told
    assert "<10" in told
    drawn = attrition_section(shown).parts[0].svg
    assert "417" not in drawn
    assert "&lt;10" in drawn


def test_rows_are_drawn_with_their_counts(labelled: ReportData) -> None:
    drawn = attrition_section(labelled).parts[0].svg
    for told in ("Rows read 420", "Duplicates 6", "Set aside 14", "Used 400", "Outcome known 400"):
        assert told in drawn
    assert draw_attrition({"Rows read": None}) is None
    assert draw_attrition({"Rows read": 0}) is None
