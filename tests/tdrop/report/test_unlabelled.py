"""What the report says of a site's unlabelled patients: used or not, why, and what they did."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from report_cases import report_data
from scipy.special import expit

from tdrop.choose import Trial
from tdrop.contracts import Disclosure
from tdrop.disclosure import disclose
from tdrop.evaluate import compare_risks
from tdrop.methods import build
from tdrop.report import render_report
from tdrop.report.unlabelled import not_used_sentence, unlabelled_sentences, used_sentence

METHOD = "transductive_ensemble"


def trial(lambda_, log_loss, *, line=True, folds=3, picked=False):
    method = build(METHOD, lambda_=lambda_, weight_decay=1e-2, linear=line, form="joint")
    found = {"errors": 100, "n": 900, "steps": 160, "picked": picked}
    return Trial(METHOD, method.settings(), folds, log_loss, restraint=method.restraint(), **found)


@pytest.mark.parametrize(
    ("others", "because"),
    [
        ([trial(0.1, 0.431), trial(0.03, 0.412)], "cost left-out source patients 0.012 of log loss (at best 0.412, "),
        ([trial(0.1, 0.399, line=False)], "leaves the network little but a line is as good"),
        ([trial(0.1, 0.300, folds=1), trial(0.03, 0.300, folds=1)], "none of the 2 settings that used them"),
    ],
)
def test_lambda_0_says_why_from_the_trials(others, because):
    picked = trial(0.0, 0.400, picked=True)
    sentence = not_used_sentence(picked, [picked, *others])
    assert sentence.startswith("this site's unlabelled patients were not used, because")
    assert because in sentence


@pytest.fixture(scope="module")
def data():
    methods = ("logistic_regression", METHOD)
    return report_data(source_rows=800, target_rows=400, methods=methods, method=METHOD, seeds=1, bootstrap=20)


@pytest.fixture(scope="module")
def moved():
    generator = np.random.default_rng(0)
    score = generator.normal(size=500)
    y = (generator.random(500) < expit(score)).astype(np.float64)
    likeness = generator.random(500)
    # The further from the source, the more a risk that was too certain is moved towards the truth.
    return compare_risks(METHOD, 0.1, expit(3 * score), expit((3 - 2 * likeness) * score), likeness, y)


def test_what_they_did_is_told_near_and_far_and_by_outcomes(moved):
    near, far = moved.groups[0], moved.groups[-1]
    sentence = used_sentence(trial(0.1, 0.4), moved)
    assert "(lambda 0.1)" in sentence
    assert f"{100 * near.moved:.1f} percentage points among the patients most like the source" in sentence
    assert f"{100 * far.moved:.1f} percentage points among those least like it" in sentence
    before, after = moved.reliability
    assert after.log_loss < before.log_loss
    assert f"log loss is {after.log_loss:.3f} with them and {before.log_loss:.3f} without" in sentence


def test_without_a_twin_only_the_use_is_told():
    assert used_sentence(trial(0.1, 0.4), None) == "this site's unlabelled patients were used (lambda 0.1)."


def test_only_methods_that_could_use_them_are_told_of(data, moved):
    used, kept = trial(0.1, 0.4, picked=True), trial(0.0, 0.4, picked=True)
    tuning = {
        "tdnr": [kept],
        METHOD: [used],
        "transductive_dropout": [kept, trial(0.1, 0.5)],
        "mlp": [replace(kept, settings={})],
    }
    told = unlabelled_sentences(replace(data, tuning=tuning, moved=(moved,)))
    assert len(told) == 2
    assert told[0].startswith("Transductive ensemble: this site's unlabelled patients were used")
    assert told[1].startswith("Transductive dropout: this site's unlabelled patients were not used, because")


def test_the_page_shows_it_and_what_leaves_holds_nothing_of_outcomes(data, moved):
    tuning = {METHOD: [trial(0.1, 0.4, picked=True)]}
    data = replace(data, tuning=tuning, moved=(moved,))
    page = render_report(data)
    assert "The unlabelled patients" in page
    assert page.count('id="moved-transductive-ensemble-title"') == 1
    assert "Are the risks right?" in page[page.index("moved-transductive-ensemble-title") :]
    shown = disclose(data, Disclosure(threshold=30)).moved[0]
    assert shown.reliability is None
    assert [group.n for group in shown.groups] == [90] * 5, "100 patients to the nearest 30"
    assert all(group.moved == round(group.moved, 2) for group in shown.groups)
    assert disclose(data, Disclosure(threshold=101)).moved[0].groups == ()


def test_the_page_without_any_of_it_has_no_such_section(data):
    assert "The unlabelled patients" not in render_report(data)
