"""Tunes, refits and scores every method of a site; one that fails is reported and left out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from prefect import get_run_logger
from prefect.futures import PrefectFuture

from tasks import stopping
from tasks.place import Place
from tasks.progress import advance, expect
from tasks.run import Trained
from tasks.settings import TransferSettings
from tasks.store import Ref
from tdrop.errors import FitError, TdropError, describe


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
        picked = _pick(site, method, _collect(site, "tune", method, futures, trained), trained)
        if picked is None:
            continue
        # What a refit needs is the settings; sums of patients' losses stay in the store.
        chosen = {**picked, "losses": None}
        refits[method] = [
            fit_seed.submit(place, encoded, method, chosen, seed, settings, level) for seed in range(settings.seeds)
        ]
        if settings.criterion == "importance_weighted":
            refits[method].append(score_out_of_fold.submit(place, encoded, method, chosen, settings))
    expect(site, "fit", sum(map(len, refits.values())))
    for method, futures in refits.items():
        refs = _collect(site, "fit", method, futures, trained)
        if refs is not None:
            trained.fits[method] = refs[: settings.seeds]
            if len(refs) > settings.seeds:
                trained.folds[method] = refs[-1]
    if not trained.fits:
        raise FitError(f"site '{site}': every method failed, the first with: {next(iter(trained.failed.values()))}")
    return trained


def _pick(site: str, method: str, refs: list[Ref] | None, trained: Trained) -> dict[str, Any] | None:
    """Keeps a method's trials and returns the one to refit, or None when none of them could be scored."""
    from tdrop.tune import Trial, pick_trial

    if refs is None:
        return None
    trained.trials[method] = [ref.json("trial.json") for ref in refs]
    try:
        picked = pick_trial(method, [Trial.from_dict(trial) for trial in trained.trials[method]]).to_dict()
    except FitError as error:
        _set_aside(site, method, str(error), trained)
        return None
    trained.picked[method] = picked
    return picked


def _collect(
    site: str, stage: str, method: str, futures: Sequence[PrefectFuture[Ref]], trained: Trained
) -> list[Ref] | None:
    """Results of all futures, or None when one of them failed."""
    results: list[Any] = []
    for future in futures:
        try:
            future.wait()
            results.append(future.result(raise_on_failure=False))
        except Exception as lost:  # a cluster that lost too many workers has no result to give
            results.append(lost)
        # A fit that was ended is no method's failure: nothing may be chosen without it.
        stopping.check()
        advance(site, stage, method)
    refs = [result for result in results if isinstance(result, Ref)]
    if len(refs) == len(results):
        return refs
    error = next(result for result in results if not isinstance(result, Ref))
    # Another package's message may hold patients' values; its name does not.
    _set_aside(site, method, str(error) if isinstance(error, TdropError) else f"failed with {describe(error)}", trained)
    return None


def _set_aside(site: str, method: str, sentence: str, trained: Trained) -> None:
    trained.failed[method] = sentence
    trained.picked.pop(method, None)
    get_run_logger().warning("site %s: method %s failed: %s", site, method, sentence)
