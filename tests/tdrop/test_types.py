"""The nouns: what a cohort says of itself, and what it keeps of its features."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from tdrop.base import Cohort, Feature

PSA = Feature("log_psa", "psa", unit="ng/mL", title="PSA (log)")


def two_patients(**changes) -> Cohort:
    return Cohort("north", np.array(["Anna", "Ben"]), ("age", "log_psa"), np.ones((2, 2)), described=(PSA,), **changes)


def test_a_cohort_shows_no_patient():
    text = repr(two_patients(y=np.array([0.0, 1.0])))
    assert text == "Cohort(site='north', 2 rows, 2 features, labelled, binary)"


def test_features_are_described_in_the_order_of_the_columns():
    assert two_patients().described == (Feature("age", "age"), PSA)
    assert two_patients().take(np.array([0])).unlabelled().described[1] == PSA
    renamed = replace(two_patients(), features=("log_psa", "weight"))
    assert renamed.described == (PSA, Feature("weight", "weight"))
    assert (PSA.label, Feature("age", "age").label) == ("PSA (log)", "age")
