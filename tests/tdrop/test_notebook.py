"""What a notebook or a prompt shows of a result: what it is and how much it rests on, never a patient."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from tdrop import build, estimate_shift
from tdrop.data import simulated_cohort
from tdrop.evaluate import Evaluation, Row


def test_results_show_what_they_hold_and_no_patient():
    source, target = simulated_cohort("source", 300, seed=0), simulated_cohort("moderate", 200, seed=1).unlabelled()
    source = replace(source, ids=np.array([f"patient-{row}" for row in range(len(source))]))
    shift = estimate_shift(source, target)
    fitted = build("logistic_regression", refits=2).fit(source, target, seed=0)
    rows = tuple(Row("b", "mlp", "all", metric, 0.5, None, None, 200) for metric in ("auroc", "log_loss"))
    evaluation = Evaluation("b", (0,), 200, 200, 50, {}, rows)
    expected = [
        (source, "300 rows", source.features[0]),
        (shift, shift.verdict, "domain AUROC"),
        (fitted, "logistic_regression", "300 rows"),
        (evaluation, "200 patients", "mlp"),
    ]
    for result, first, second in expected:
        page = result._repr_html_()
        assert first in repr(result)
        assert first in page
        assert second in page
        assert len(repr(result)) < 200
        assert "patient-" not in page + repr(result)
        assert page.startswith("<table>")
