"""Which features move a risk: the answer is known where the truth is additive, and in pairs."""

from __future__ import annotations

from itertools import permutations

import numpy as np
import pandas as pd
import pytest
from report_cases import CONTRACTS

from tdrop.contracts import load_network
from tdrop.evaluate import explain_risks, name_moves, typical_patient

COEFFICIENTS = np.array([0.1, -0.05, 0.02, 0.2, 0.0, 0.03])
#: The last two features are levels of one category.
GROUPS = ((0,), (1,), (2,), (3,), (4, 5))


def additive(X):
    return 0.4 + X @ COEFFICIENTS


def in_pairs(X):
    return additive(X) + 0.05 * X[:, 0] * X[:, 3] - 0.02 * X[:, 1] * X[:, 2]


@pytest.fixture(params=[5, 5000], ids=["exact", "approximated"])
def patients(request):
    return np.random.default_rng(0).normal(size=(request.param, 6))


def test_an_additive_truth_is_told_back(patients):
    reference = np.array([0.5, -1.0, 0.0, 1.0, 0.0, 1.0])
    parts = (patients - reference) * COEFFICIENTS
    expected = np.stack([parts[:, list(places)].sum(axis=1) for places in GROUPS], axis=1)
    np.testing.assert_allclose(explain_risks(additive, patients, reference, GROUPS), expected, atol=1e-12)


def test_pairs_share_what_they_do_together(patients):
    values = explain_risks(in_pairs, patients, np.zeros(6), GROUPS)
    together = 0.05 * patients[:, 0] * patients[:, 3]
    np.testing.assert_allclose(values[:, 0], COEFFICIENTS[0] * patients[:, 0] + together / 2, atol=1e-12)
    np.testing.assert_allclose(values[:, 3], COEFFICIENTS[3] * patients[:, 3] + together / 2, atol=1e-12)


def test_values_add_up_to_the_risk_whatever_the_truth(patients):
    def risk(X):
        return 1 / (1 + np.exp(-3 * X[:, 0] * X[:, 1] * X[:, 2] + X[:, 3]))

    values = explain_risks(risk, patients, np.ones(6), GROUPS)
    np.testing.assert_allclose(values.sum(axis=1), risk(patients) - risk(np.ones((1, 6))), atol=1e-12)


def test_exact_values_are_the_mean_over_all_orders():
    def risk(X):
        return np.tanh(X[:, 0] * X[:, 1] + X[:, 2] * X[:, 3] * X[:, 0])

    patient, reference = np.array([[1.0, 2.0, -1.0, 0.5, 0.0, 0.0]]), np.zeros(6)
    gains = np.zeros(len(GROUPS))
    orders = list(permutations(range(len(GROUPS))))
    for order in orders:
        mixed = reference[None].copy()
        for group in order:
            before = risk(mixed)[0]
            mixed[:, list(GROUPS[group])] = patient[:, list(GROUPS[group])]
            gains[group] += (risk(mixed)[0] - before) / len(orders)
    np.testing.assert_allclose(explain_risks(risk, patient, reference, GROUPS)[0], gains, atol=1e-12)


def test_what_moves_a_risk_is_named_in_natural_units():
    contract = load_network(CONTRACTS).contracts["prostate"]
    columns = [contract.column(name) for name in ("age", "psa", "stage", "comorbidity")]
    frame = pd.DataFrame({"age": [71.0, 60.0], "psa": [34.12, np.nan], "stage": ["T3", "T1"], "comorbidity": [1, 0]})
    values = np.array([[0.04, 0.091, -0.02, 0.001], [0.0, -0.05, 0.004, 0.0]])
    assert name_moves(values, frame, columns) == [
        "PSA 34.12 ng/mL: +9; Age 71 years: +4; Clinical T stage T3: -2",
        "PSA missing: -5",
    ]


def test_the_typical_patient_has_one_level_of_a_category():
    X = np.array([[1.0, 1, 0], [2.0, 1, 0], [9.0, 0, 1]])
    np.testing.assert_array_equal(typical_patient(X, [(0,), (1, 2)]), [2.0, 1.0, 0.0])
