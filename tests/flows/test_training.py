"""The ablation without unlabelled patients: which settings it has, and who has none."""

from __future__ import annotations

import pytest

from flows.training import without_target
from tasks.run import Trained
from tdrop.base import read
from tdrop.choose import Trial


def test_the_twin_has_the_same_settings_at_lambda_0():
    ablation = without_target(Trial("transductive_ensemble", {"lambda_": 0.1, "weight_decay": 0.01}))
    assert ablation.settings == {"lambda_": 0.0, "weight_decay": 0.01}


@pytest.mark.parametrize("settings", [{}, {"lambda_": 0.0}])
def test_a_method_that_used_nobody_has_no_twin(settings):
    assert without_target(Trial("ensemble", settings)) is None


def test_a_run_recorded_before_there_were_ablations_is_read():
    assert read(Trained, {"trials": {}, "picked": {}, "fits": {}, "folds": {}, "failed": {}}).ablations == {}
