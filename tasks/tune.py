"""Tuning trials, refits and out-of-fold scores: the work that takes the time.

Every unit is one task and one stage of the store, so that a killed run costs only what was under
way, and a cluster can spread sites x methods x seeds x trials.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tasks.files import load_cohort, save_summary
from tasks.place import Place
from tasks.pool import compute
from tasks.settings import SWEEP, TransferSettings
from tasks.shift import PROPENSITY, make_propensity
from tasks.step import step
from tasks.store import Ref, Store, write_json

#: Tuning happens once, with the first seed.
FIRST_SEED = 0


def planned_trials(method: str, settings: TransferSettings) -> Sequence[Any]:
    """The settings that a method tries, the same every time."""
    from tdrop.tune import plan_trials

    base = settings.method_settings.get(method, {})
    return plan_trials(method, budget=settings.trials, seed=FIRST_SEED, base=base)


@step("trial", "trial {method} {index}")
def run_tuning_trial(
    place: Place, encoded: Ref, matching: Ref, method: str, index: int, settings: TransferSettings
) -> Ref:
    """Fits one setting on the source without the matched rows and scores it on them: trial.json."""
    planned = planned_trials(method, settings)[index]

    def build(folder: Path) -> None:
        write_json(folder / "trial.json", compute(_trial, planned, encoded.folder, matching.folder))

    inputs = {
        "encoded": encoded.digest,
        "matching": matching.digest,
        "method": method,
        "settings": planned.settings(),
        "seed": FIRST_SEED,
    }
    return Store(place.root).make("trial", inputs, build)


def _trial(method: Any, encoded: str, matching: str) -> dict[str, Any]:
    import json

    import numpy as np

    from tdrop.tune import run_trial

    source, target = load_cohort(Path(encoded, "source.npz")), load_cohort(Path(encoded, "target.npz"))
    rows = np.asarray(json.loads(Path(matching, "matching.json").read_text())["rows"], dtype=np.int64)
    trial = run_trial(method, source, target, rows, seed=FIRST_SEED).to_dict()
    # How long it took is not a result: the same trial must give the same file.
    trial.pop("seconds", None)
    return trial


@step("fit", "fit {method} seed {seed}")
def fit_seed(
    place: Place, encoded: Ref, method: str, trial: dict[str, Any], seed: int, settings: TransferSettings, level: float
) -> Ref:
    """Refits the picked trial on all labelled rows: model/, target.npz, history.json, rates.npz."""
    levels = tuple(sorted({*SWEEP, level}))
    chosen = trial["settings"]

    def build(folder: Path) -> None:
        compute(_fit, method, trial, encoded.folder, str(folder), seed, settings.passes, levels)

    inputs = {
        "encoded": encoded.digest,
        "method": method,
        "trial": chosen,
        "seed": seed,
        "passes": settings.passes,
        "levels": levels,
    }
    return Store(place.root).make("fit", inputs, build)


def _fit(
    method: str, trial: dict[str, Any], encoded: str, folder: str, seed: int, passes: int, levels: Sequence[float]
) -> None:
    import numpy as np

    from tdrop.tune import Trial, refit

    source, target = load_cohort(Path(encoded, "source.npz")), load_cohort(Path(encoded, "target.npz"))
    fitted = refit(method, Trial.from_dict(trial), source, target, seed=seed)
    fitted.save(Path(folder, "model"))
    save_summary(Path(folder, "target.npz"), fitted.summarise(target.X, passes, seed=seed, levels=levels))
    write_json(Path(folder, "history.json"), list(fitted.history))
    if hasattr(fitted, "dropout_rates"):
        rates = {name: fitted.dropout_rates(cohort.X) for name, cohort in (("source", source), ("target", target))}
        np.savez(Path(folder, "rates.npz"), **rates)


@step("out of fold", "out of fold {method}")
def score_out_of_fold(
    place: Place, encoded: Ref, method: str, trial: dict[str, Any], settings: TransferSettings
) -> Ref:
    """Scores a method on source rows it did not see, weighted to look like the target: score.json."""

    def build(folder: Path) -> None:
        fitted = make_propensity(place, encoded)
        score = compute(_out_of_fold, method, trial, encoded.folder, fitted.folder, settings.folds)
        write_json(folder / "score.json", score)

    inputs = {
        "encoded": encoded.digest,
        "method": method,
        "trial": trial["settings"],
        "folds": settings.folds,
    }
    return Store(place.root).make("fold", inputs, build)


def _out_of_fold(method: str, trial: dict[str, Any], encoded: str, fitted: str, folds: int) -> dict[str, Any]:
    from tdrop.choose import out_of_fold_losses
    from tdrop.records import plain
    from tdrop.shift import Propensity, density_ratio_weights
    from tdrop.tune import Trial, chosen_method

    source, target = load_cohort(Path(encoded, "source.npz")), load_cohort(Path(encoded, "target.npz"))
    found = Propensity.load(Path(fitted, PROPENSITY))
    chosen = chosen_method(method, Trial.from_dict(trial))
    weights = density_ratio_weights(found)
    score = out_of_fold_losses(chosen, source, target, weights, coverage=found.coverage, folds=folds, seed=FIRST_SEED)
    return plain(score)
