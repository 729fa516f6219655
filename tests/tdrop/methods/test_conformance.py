"""What every method in the folder must do, whatever it is."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import FrozenInstanceError, replace
from itertools import product
from pathlib import Path

import numpy as np
import pytest
import torch
from method_cases import NETWORKS, fit_quick, quick, small_cohorts

from tdrop.base import Cohort, DataError, FitError, Fitted, LeakError, Method, UsageError
from tdrop.methods import build, describe_method, label, load, method_names

TASKS = ("binary", "classes", "regression")
#: The last axes of a task's samples.
CLASSES = {"binary": (), "classes": (3,), "regression": ()}
#: Names the methods that leave every global generator alone and do not depend on one.
GLOBAL_STATE = """
import random
import numpy as np
import torch
from method_cases import fit_quick
from tdrop.methods import method_names

def state():
    return torch.random.get_rng_state().tolist(), np.random.get_state()[1].tolist(), random.getstate()

for name in method_names():
    before = state()
    first = fit_quick(name).sample(np.ones((4, 3)), 5, seed=0).samples
    untouched = before == state()
    torch.rand(3), np.random.rand(3), random.random()
    if untouched and np.array_equal(first, fit_quick(name).sample(np.ones((4, 3)), 5, seed=0).samples):
        print(name)
"""
every_method = pytest.mark.parametrize("name", method_names())
every_task = pytest.mark.parametrize("task", TASKS)


@pytest.fixture(scope="module")
def fits() -> dict[tuple[str, str], Fitted]:
    return {(name, task): fit_quick(name, task) for name, task in product(method_names(), TASKS)}


@every_method
@every_task
def test_samples_and_summary_agree_and_are_finite(name, task, fits):
    fitted, X = fits[name, task], small_cohorts(task)[1].X
    assert isinstance(fitted, Fitted)
    samples = fitted.sample(X, 7, seed=1).samples
    summary = fitted.summarise(X, 7, seed=1, levels=(0.5, 0.95))
    assert samples.dtype == np.float32
    assert samples.shape == (summary.passes, len(X), *CLASSES[task])
    assert np.isfinite(samples).all()
    assert np.array_equal(summary.mean, samples.mean(axis=0))
    assert np.array_equal(summary.sd, fitted.sample(X, 7, seed=1).sd)
    low, high = fitted.sample(X, 7, seed=1).interval(0.95)
    assert np.allclose(summary.interval(0.95)[0], low, atol=1e-5, rtol=1e-5)
    assert np.allclose(summary.interval(0.95)[1], high, atol=1e-5, rtol=1e-5)
    if task != "regression":
        assert ((samples >= 0) & (samples <= 1)).all()
    if task == "classes":
        assert np.allclose(samples.sum(axis=-1), 1, atol=1e-5)
        assert np.allclose(summary.sd, np.sqrt(samples.var(axis=0).mean(axis=-1)), atol=1e-6)


@every_method
def test_passes_are_what_the_word_means(name, fits):
    fitted, method = fits[name, "binary"], build(name)
    asked, shown = 7, fitted.sample(np.zeros((2, 3)), 7, seed=0).samples.shape[0]
    settings = fitted.method.settings()
    assert shown == settings.get("members", settings.get("refits", asked if method.has_samples else 1))
    assert (fitted.summarise(np.ones((2, 3)), 7, seed=0).sd > 0).all() == method.has_samples


@every_method
@every_task
def test_the_same_seed_gives_the_same_result_and_another_does_not(name, task, fits):
    X = small_cohorts(task)[1].X
    again = fit_quick(name, task)
    assert np.array_equal(fits[name, task].sample(X, 5, seed=1).samples, again.sample(X, 5, seed=1).samples)
    source, target, validation = small_cohorts(task)
    other = quick(name).fit(source, target, validation, seed=4)
    assert not np.array_equal(other.sample(X, 5, seed=1).samples, again.sample(X, 5, seed=1).samples)


def test_no_global_random_state_is_read_or_written():
    # In a process of its own: threads of other packages (Prefect's clients) draw from Python's generator meanwhile.
    folders = [Path(__file__).parents[2], Path(__file__).parents[3]]
    path = os.pathsep.join([*map(str, folders), os.environ.get("PYTHONPATH", "")])
    command = [sys.executable, "-c", GLOBAL_STATE]
    found = subprocess.run(command, env={**os.environ, "PYTHONPATH": path}, capture_output=True, text=True, check=False)
    assert found.returncode == 0, found.stderr
    assert found.stdout.split() == list(method_names())


@every_method
def test_threads_are_put_back(name):
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        fit_quick(name).sample(np.ones((4, 3)), 5, seed=0)
        assert torch.get_num_threads() == 2
        assert torch.tensor(1e-40) * 1.0 != 0, "very small numbers were left switched off"
    finally:
        torch.set_num_threads(before)


@every_method
@pytest.mark.parametrize("task", ["binary", "classes"])
def test_a_row_does_not_depend_on_the_others(name, task, fits):
    fitted = fits[name, task]
    X = np.random.default_rng(1).normal(size=(300, 3))
    whole = fitted.sample(X, 9, seed=5).samples
    for rows in (slice(7, 8), slice(120, 140), slice(250, 300), slice(None, None, 17)):
        assert np.array_equal(whole[:, rows], fitted.sample(X[rows], 9, seed=5).samples)
    shuffled = np.random.default_rng(2).permutation(300)
    assert np.array_equal(whole[:, shuffled], fitted.sample(X[shuffled], 9, seed=5).samples)


@every_method
def test_more_passes_keep_the_first_ones(name, fits):
    X = small_cohorts()[1].X
    few, many = fits[name, "binary"].sample(X, 5, seed=1).samples, fits[name, "binary"].sample(X, 40, seed=1).samples
    assert np.array_equal(few, many[: len(few)])


@every_method
@every_task
def test_inputs_are_left_alone(name, task):
    cohorts = small_cohorts(task)
    copies = [(cohort.X.copy(), None if cohort.y is None else cohort.y.copy()) for cohort in cohorts]
    for cohort in cohorts:
        cohort.X.flags.writeable = False
    fitted = quick(name).fit(*cohorts, seed=0)
    fitted.summarise(cohorts[1].X, 5, seed=0)
    for cohort, (X, y) in zip(cohorts, copies, strict=True):
        assert np.array_equal(cohort.X, X)
        assert y is None or np.array_equal(cohort.y, y)


@every_method
def test_a_labelled_target_is_refused(name):
    source, target, _ = small_cohorts()
    with pytest.raises(LeakError, match="unlabelled"):
        quick(name).fit(source, replace(target, y=np.zeros(len(target))), seed=0)


@every_method
@every_task
def test_save_and_load_give_the_same_samples(name, task, fits, tmp_path):
    fitted, X = fits[name, task], small_cohorts(task)[1].X
    fitted.save(tmp_path / "model")
    loaded = load(tmp_path / "model")
    assert np.array_equal(fitted.sample(X, 6, seed=2).samples, loaded.sample(X, 6, seed=2).samples)
    for fact in ("features", "task", "classes", "steps", "history", "method"):
        assert getattr(loaded, fact) == getattr(fitted, fact)
    assert {path.suffix for path in (tmp_path / "model").iterdir()} <= {".json", ".safetensors", ".skops"}


@every_method
def test_a_loaded_model_can_be_saved_again(name, fits, tmp_path):
    fitted, X = fits[name, "binary"], small_cohorts()[1].X
    fitted.save(tmp_path / "first")
    load(tmp_path / "first").save(tmp_path / "second")
    again = load(tmp_path / "second")
    assert np.array_equal(fitted.sample(X, 6, seed=2).samples, again.sample(X, 6, seed=2).samples)
    if name in NETWORKS:  # skops writes memory addresses into the references' files
        for path in (tmp_path / "first").iterdir():
            assert path.read_bytes() == (tmp_path / "second" / path.name).read_bytes()


@every_method
@pytest.mark.parametrize("damage", ["cut", "change", "remove"])
def test_a_damaged_file_gives_a_clear_error(name, damage, fits, tmp_path):
    fits[name, "binary"].save(tmp_path / "model")
    for path in sorted((tmp_path / "model").iterdir()):
        content = path.read_bytes()
        half = len(content) // 2
        if damage == "remove":
            path.unlink()
        elif damage == "cut":
            path.write_bytes(content[:half])
        else:
            path.write_bytes(content[:half] + bytes([content[half] ^ 1]) + content[half + 1 :])
        with pytest.raises(FitError, match=path.name):
            load(tmp_path / "model")
        path.write_bytes(content)
    load(tmp_path / "model")


@every_method
def test_constant_features_are_harmless(name):
    source, target, validation = small_cohorts()

    def freeze(cohort: Cohort, value: float) -> Cohort:
        X = cohort.X.copy()
        X[:, 1:] = 12345.678
        X[:, 2] = value
        return replace(cohort, X=X)

    fitted = quick(name).fit(freeze(source, 1.0), freeze(target, 2.0), freeze(validation, 1.0), seed=0)
    assert np.isfinite(fitted.sample(freeze(target, 2.0).X, 5, seed=0).samples).all()
    all_constant = [replace(cohort, X=np.ones_like(cohort.X)) for cohort in (source, target, validation)]
    fitted = quick(name).fit(*all_constant, seed=0)
    assert np.isfinite(fitted.sample(all_constant[1].X, 5, seed=0).samples).all()


@every_method
@every_task
def test_one_row_and_no_row_can_be_predicted(name, task, fits):
    fitted, X = fits[name, task], small_cohorts(task)[1].X
    passes = fitted.sample(X, 5, seed=0).samples.shape[0]
    assert fitted.sample(X[:1], 5, seed=0).samples.shape == (passes, 1, *CLASSES[task])
    assert fitted.sample(X[:0], 5, seed=0).samples.shape == (passes, 0, *CLASSES[task])
    empty = fitted.summarise(X[:0], 5, seed=0)
    assert empty.mean.shape == (0, *CLASSES[task])
    assert empty.low.shape == (1, 0, *CLASSES[task])
    assert empty.passes == passes


@every_method
@every_task
def test_extreme_values_stay_finite(name, task, fits):
    X = np.array([[1e30, -1e30, 1e30], [-1e300, 1e300, 0.0], [1e6, 1e6, -1e6], [1e-300, 0.0, -1e-300]])
    assert np.isfinite(fits[name, task].sample(X, 5, seed=0).samples).all()


@every_method
def test_float64_input_and_float32_input_agree(name, fits):
    X = small_cohorts()[1].X
    fitted = fits[name, "binary"]
    assert np.array_equal(fitted.sample(X, 5, seed=0).samples, fitted.sample(X.astype(np.float64), 5, seed=0).samples)
    assert fitted.sample(X.tolist(), 5, seed=0).samples.dtype == np.float32


@every_method
def test_bad_rows_to_predict_are_refused(name, fits):
    fitted, X = fits[name, "binary"], small_cohorts()[1].X.copy()
    X[3, 0] = np.nan
    with pytest.raises(DataError, match="1 of 90 rows"):
        fitted.sample(X, 5, seed=0)
    with pytest.raises(DataError, match="3 features"):
        fitted.summarise(X[:, :2], 5, seed=0)
    with pytest.raises(DataError, match="not numbers"):
        fitted.sample([["a", "b", "c"]], 5, seed=0)
    with pytest.raises(DataError, match="passes"):
        fitted.sample(X[:1], 0, seed=0)
    with pytest.raises(DataError, match="levels"):
        fitted.summarise(X[:1], 5, seed=0, levels=(0.5, 1.0))


@every_method
def test_bad_cohorts_are_refused(name):
    source, target, validation = small_cohorts()
    method = quick(name)
    with pytest.raises(FitError, match="both outcomes"):
        method.fit(replace(source, y=np.zeros(len(source))), target, seed=0)
    with pytest.raises(DataError, match="no rows"):
        method.fit(source.take(np.arange(0)), target, seed=0)
    with pytest.raises(DataError, match="no outcomes"):
        method.fit(source.unlabelled(), target, seed=0)
    with pytest.raises(DataError, match="missing c; unexpected d"):
        method.fit(source, replace(target, features=("a", "b", "d")), seed=0)
    with pytest.raises(DataError, match="another order"):
        method.fit(source, replace(target, features=("b", "a", "c")), seed=0)
    with pytest.raises(DataError, match="no outcomes"):
        method.fit(source, target, validation.unlabelled(), seed=0)
    with pytest.raises(DataError, match="no rows"):
        method.fit(source, target, validation.take(np.arange(0)), seed=0)
    with pytest.raises(DataError, match="task"):
        method.fit(source, target, replace(validation, task="regression"), seed=0)
    with pytest.raises(UsageError, match="seed"):
        method.fit(source, target, seed=-1)


@every_method
@pytest.mark.parametrize("rows", [0, 1, 5])
def test_a_target_smaller_than_a_batch(name, rows):
    source, target, _ = small_cohorts()
    method = quick(name)
    if rows == 0 and method.uses_target:
        with pytest.raises(DataError, match="has none"):
            method.fit(source, target.take(np.arange(rows)), seed=0)
        return
    fitted = method.fit(source, target.take(np.arange(rows)), seed=0)
    assert np.isfinite(fitted.sample(target.X, 5, seed=0).samples).all()


@every_method
def test_a_handful_of_source_rows_is_enough_to_fit(name):
    source, target, _ = small_cohorts()
    few = np.r_[np.flatnonzero(source.y == 0)[:2], np.flatnonzero(source.y == 1)[:2]]
    fitted = quick(name).fit(source.take(few), target, seed=0)
    assert np.isfinite(fitted.sample(target.X, 5, seed=0).samples).all()


@every_method
def test_without_validation_the_asked_steps_are_run(name):
    source, target, _ = small_cohorts()
    fitted = quick(name, steps=3).fit(source, target, seed=0)
    assert fitted.steps == 3
    for entry in fitted.history:
        assert set(entry) == {"step", "loss", "validation_loss"}
        assert entry["validation_loss"] is None


@every_method
def test_progress_is_called_with_numbers(name):
    source, target, validation = small_cohorts()
    calls = []
    quick(name).fit(source, target, validation, seed=0, progress=lambda *call: calls.append(call))
    assert [call[0] for call in calls] == list(range(1, len(calls) + 1))
    assert all(call[0] <= call[1] and np.isfinite(call[2]) for call in calls)


@every_method
def test_settings_are_plain_frozen_and_checked(name):
    method = build(name)
    assert isinstance(method, Method)
    settings = method.settings()
    assert json.loads(json.dumps(settings)) == settings
    assert build(name, **settings) == method
    assert hash(method) == hash(build(name))
    with pytest.raises(FrozenInstanceError):
        method.steps = 3
    with pytest.raises(UsageError, match="did you mean 'steps'"):
        method.with_settings(step=3)
    for bad in ("many", -1, 0, 2.5, float("nan"), True):
        with pytest.raises(UsageError, match="steps"):
            method.with_settings(steps=bad)


@every_method
def test_every_value_of_the_search_space_is_a_valid_setting(name):
    space = build(name).search_space()
    assert np.prod([len(values) for values in space.values()]) >= 12
    for setting, values in space.items():
        assert len(set(values)) == len(values) >= 2
        for value in values:
            assert build(name, **{setting: value}).settings()[setting] == value


@every_method
def test_it_has_a_name_a_label_and_a_sentence(name):
    assert build(name).name == name
    assert label(name)
    assert label(name) != name
    assert describe_method(name).endswith(".")
    assert "\n" not in describe_method(name)
    module = __import__(f"tdrop.methods.{name}", fromlist=["METHOD"])
    for word in ("Formula", "Departures"):
        assert word in module.__doc__ or "departs" in module.__doc__


@pytest.mark.parametrize("name", NETWORKS)
def test_training_runs_to_its_end_and_validation_changes_nothing(name):
    source, target, validation = small_cohorts()
    whole = quick(name, steps=40).fit(source, target, validation, seed=0)
    without = quick(name, steps=40).fit(source, target, seed=0)
    assert whole.steps == whole.history[-1]["step"] == 40
    assert np.array_equal(whole.sample(target.X, 3, seed=0).samples, without.sample(target.X, 3, seed=0).samples)
    # Other noise than during training, hence not the same number.
    risk = whole.sample(validation.X, 100, seed=0).mean.astype(float)
    loss = -np.mean(np.where(validation.y == 1, np.log(risk), np.log(1 - risk)))
    assert loss == pytest.approx(whole.history[-1]["validation_loss"], abs=0.05)


@pytest.mark.parametrize("name", NETWORKS)
def test_a_loss_that_is_not_finite_stops_the_fit(name):
    source, target, _ = small_cohorts("regression")
    wild = replace(source, y=np.where(np.arange(len(source)) == 0, 3e38, source.y))
    with pytest.raises(FitError, match=r"step 1 of 12.*learning_rate"):
        quick(name, initial_sd=1e30).fit(wild, target, seed=0)


@pytest.mark.parametrize("name", NETWORKS)
def test_weights_that_overflow_never_predict(name):
    fitted = fit_quick(name)
    with torch.no_grad():
        for parameter in fitted.network.parameters():
            parameter.fill_(float("nan"))
    with pytest.raises(FitError, match=r"not finite.*learning_rate"):
        fitted.sample(np.ones((2, 3)), 3, seed=0)


@every_method
def test_two_classes_are_a_binary_outcome(name):
    source, target, _ = small_cohorts()
    both = [replace(cohort, task="classes", classes=("no", "yes")) for cohort in (source, target)]
    samples = quick(name).fit(*both, seed=3).sample(target.X, 5, seed=1)
    binary = quick(name).fit(source, target, seed=3).sample(target.X, 5, seed=1)
    assert np.allclose(samples.samples[..., 1], binary.samples, atol=1e-6)
    assert np.allclose(samples.samples[..., 0], 1 - binary.samples, atol=1e-6)
    assert np.allclose(samples.sd, binary.sd, atol=1e-6)


@every_method
def test_a_class_that_no_source_row_has_gets_little_or_no_probability(name):
    source, target, _ = small_cohorts("classes")
    four = [replace(cohort, classes=("low", "middle", "high", "unseen")) for cohort in (source, target)]
    method = quick(name, steps=60) if name in NETWORKS else quick(name)
    mean = method.fit(*four, seed=0).sample(source.X, 5, seed=0).mean
    assert mean.shape == (len(source), 4)
    assert mean[:, 3].mean() < mean[:, :3].mean(axis=0).min()


def test_classes_that_make_no_sense_are_refused():
    source, target, validation = small_cohorts("classes")
    with pytest.raises(FitError, match="one class of 3"):
        quick("mlp").fit(replace(source, y=np.zeros(len(source))), target, seed=0)
    with pytest.raises(DataError, match="one outcome for both"):
        quick("mlp").fit(source, target, replace(validation, classes=("a", "b", "c")), seed=0)
    with pytest.raises(DataError, match="500 classes are named; name 2 to 20"):
        replace(source, classes=tuple(map(str, range(500))))
    with pytest.raises(DataError, match="whole numbers from 0 to 2"):
        replace(source, y=source.y + 0.5)
    with pytest.raises(DataError, match="name none"):
        replace(source, task="regression")
