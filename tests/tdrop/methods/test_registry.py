"""The folder is the registry, and asking for it costs nothing."""

from __future__ import annotations

import subprocess
import sys
import textwrap

import pytest

import tdrop
from tdrop import methods
from tdrop.base import UsageError


def run_python(code: str) -> str:
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(code)], capture_output=True, text=True, check=True)
    return done.stdout.strip()


def test_the_eleven_methods_in_the_papers_order():
    assert methods.method_names()[:11] == (
        "mlp",
        "mc_dropout",
        "concrete_dropout",
        "ensemble",
        "mixmatch",
        "last_layer",
        "tdnr",
        "transductive_dropout",
        "transductive_ensemble",
        "logistic_regression",
        "gradient_boosting",
    )


def test_dropping_a_file_in_adds_a_method(tmp_path, monkeypatch):
    (tmp_path / "always_mlp.py").write_text("from tdrop.methods.mlp import Mlp as METHOD\n")
    monkeypatch.setattr(methods, "__path__", [*methods.__path__, str(tmp_path)])
    methods.method_names.cache_clear()
    try:
        assert methods.method_names()[-1] == "always_mlp"
        assert methods.build("always_mlp", hidden=[4]).hidden == (4,)
    finally:
        methods.method_names.cache_clear()


def test_an_unknown_method_gets_a_suggestion():
    with pytest.raises(UsageError, match="did you mean 'mc_dropout'"):
        methods.build("mc_dropuot")


def test_importing_tdrop_and_naming_the_methods_loads_nothing_heavy():
    loaded = run_python(
        """
        import sys, tdrop
        from tdrop import Cohort, TdropError, method_names
        from tdrop.methods import describe_method, label
        assert len({label(name) for name in method_names()} | {describe_method(name) for name in method_names()}) >= 20
        print([name for name in ("torch", "sklearn", "pandas", "scipy", "matplotlib") if name in sys.modules])
        """
    )
    assert loaded == "[]"


def test_the_classifier_loads_neither_the_engine_nor_the_record_nor_the_validation():
    loaded = run_python(
        """
        import sys
        import numpy as np
        from tdrop import TransferClassifier
        X = np.random.default_rng(0).normal(size=(60, 2))
        TransferClassifier("mlp", settings={"steps": 2, "hidden": [4]}).fit(X, X[:, 0] > 0).predict_proba(X)
        print([name for name in ("prefect", "mlflow", "great_expectations", "skops") if name in sys.modules])
        """
    )
    assert loaded == "[]"


@pytest.mark.parametrize("name", methods.method_names())
def test_what_is_said_of_a_method_is_what_its_class_says(name):
    said = methods.method_class(name)
    assert (methods.label(name), methods.describe_method(name)) == (said.label, said.summary)


def test_the_front_door_names_everything_it_promises():
    assert set(tdrop.__all__) <= set(dir(tdrop))
    assert tdrop.build is methods.build
    with pytest.raises(AttributeError, match="nonsense"):
        tdrop.nonsense  # noqa: B018
