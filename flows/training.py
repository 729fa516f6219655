"""Tunes, refits and scores every method of a site; one that fails is reported and left out."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from prefect import get_run_logger
from prefect.futures import PrefectFuture

from tasks.place import Place
from tasks.progress import advance, expect
from tasks.run import Trained
from tasks.settings import TransferSettings
from tasks.store import Ref
from tdrop.errors import FitError, TdropError


def train(place: Place, site: str, encoded: Ref, matching: Ref, settings: TransferSettings, level: float) -> Trained:
    """Gives every method the same trials, refits the picked one per seed, and scores it out of fold.

    Args:
        place: Where to read and write.
        site: Name of the site, for progress and messages.
        encoded: Both cohorts.
        matching: The matched validation rows.
        settings: Methods, trials, seeds.
        level: Level of the site's intervals.
    """
    from tasks.tune import fit_seed, planned_trials, run_tuning_trial, score_out_of_fold

    trained = Trained()
    # All trials are under way before the first is waited for; a method's refits follow its last trial.
    trials = {
        method: [
            run_tuning_trial.submit(place, encoded, matching, method, index, settings)
            for index in range(len(planned_trials(method, settings)))
        ]
        for method in settings.chosen_methods()
    }
    expect(site, "tune", sum(map(len, trials.values())))
    refits: dict[str, list[PrefectFuture[Ref]]] = {}
    for method, futures in trials.items():
        picked = _pick(method, _collect(method, futures, trained, lambda m: advance(site, "tune", m)), trained)
        if picked is None:
            continue
        refits[method] = [
            fit_seed.submit(place, encoded, method, picked, seed, settings, level) for seed in range(settings.seeds)
        ]
        if settings.criterion == "importance_weighted":
            refits[method].append(score_out_of_fold.submit(place, encoded, method, picked, settings))
    expect(site, "fit", sum(map(len, refits.values())))
    for method, futures in refits.items():
        refs = _collect(method, futures, trained, lambda m: advance(site, "fit", m))
        if refs is not None:
            trained.fits[method] = refs[: settings.seeds]
            if len(refs) > settings.seeds:
                trained.folds[method] = refs[-1]
    if not trained.fits:
        raise FitError(f"site '{site}': every method failed, the first with: {next(iter(trained.failed.values()))}")
    return trained


def _pick(method: str, refs: list[Ref] | None, trained: Trained) -> dict[str, Any] | None:
    """Keeps a method's trials and returns the one to refit, or None when none of them could be scored."""
    from tdrop.tune import Trial, pick_trial

    if refs is None:
        return None
    trained.trials[method] = [ref.json("trial.json") for ref in refs]
    try:
        picked = pick_trial(method, [Trial.from_dict(trial) for trial in trained.trials[method]]).to_dict()
    except FitError as error:
        _set_aside(method, str(error), trained)
        return None
    trained.picked[method] = picked
    return picked


def _collect(
    method: str, futures: Sequence[PrefectFuture[Ref]], trained: Trained, done: Callable[[str], None]
) -> list[Ref] | None:
    """Results of all futures, or None when one of them failed."""
    results = []
    for future in futures:
        future.wait()
        results.append(future.result(raise_on_failure=False))
        done(method)
    refs = [result for result in results if isinstance(result, Ref)]
    if len(refs) == len(results):
        return refs
    error = next(result for result in results if not isinstance(result, Ref))
    # Another package's message may hold patients' values; its name does not.
    _set_aside(method, str(error) if isinstance(error, TdropError) else f"failed with {type(error).__name__}", trained)
    return None


def _set_aside(method: str, sentence: str, trained: Trained) -> None:
    trained.failed[method] = sentence
    trained.picked.pop(method, None)
    get_run_logger().warning("method %s failed: %s", method, sentence)
