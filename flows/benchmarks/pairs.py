"""A source and a target whose outcomes are known to the benchmark: made, trained on, and only then looked at."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from flows.benchmarks.units import collect
from flows.training import train
from tasks.shift import matched_rows
from tasks.step import step
from tasks.tune import fit_seed
from tdrop.base import INTERVAL_LEVEL, Cohort, Doubles, Summary, read_arrays
from tdrop.choose import Trial
from tdrop.contracts import Decision
from tdrop.home import PREDICTIONS, Place, Ref, Store, load_summary, save_cohort
from tdrop.methods import build
from tdrop.metrics import take_patients
from tdrop.runs import Trained, TransferSettings, load_predictions

#: Draws a labelled source, a labelled target and the target's true risks (rows,), or None where nobody knows them.
Draw = Callable[..., tuple[Cohort, Cohort, Doubles | None]]


@dataclass(frozen=True)
class Pair:
    """One transfer problem.

    Attributes:
        name: Name of the problem.
        title: What a reader sees; says "simulated" where it is.
        encoded: Stage with source.npz (labelled) and target.npz (never labelled).
        truth: Stage with outcomes.npz, opened after training: y, NaN where unknown, and risk where it is known.
    """

    name: str
    title: str
    encoded: Ref
    truth: Ref

    def outcomes(self) -> NDArray[Any]:
        """The target's outcomes (rows,), NaN where unknown."""
        data = read_arrays(self.truth.path / "outcomes.npz")
        return np.asarray(data["y"], dtype=np.float64)

    def oracle(self) -> Summary | None:
        """The risks that outcomes were drawn from, as a method without spread."""
        data = read_arrays(self.truth.path / "outcomes.npz")
        if "risk" not in data:
            return None
        risk = data["risk"].astype(np.float32)
        return Summary(risk, np.zeros_like(risk), (INTERVAL_LEVEL,), risk[None], risk[None], passes=1)


@step("draw", "draw {name}")
def draw_pair(place: Place, name: str, title: str, draw: Draw, options: Mapping[str, Any]) -> Pair:
    """Draws a simulated pair; the target's outcomes go to a stage of their own."""
    store = Store(place.root)
    inputs = {"draw": draw.__qualname__, "options": dict(options)}

    def build_cohorts(folder: Path) -> None:
        source, labelled, _ = draw(**options)
        save_cohort(folder / "source.npz", source)
        save_cohort(folder / "target.npz", labelled.unlabelled())

    def build_truth(folder: Path) -> None:
        _, labelled, risk = draw(**options)
        known: dict[str, Any] = {} if risk is None else {"risk": risk}
        np.savez(folder / "outcomes.npz", y=np.asarray(labelled.y), **known)

    encoded = store.make("benchmark-pair", inputs, build_cohorts)
    return Pair(name, title, encoded, store.make("benchmark-truth", inputs, build_truth))


def fit_fixed(
    place: Place,
    benchmark: str,
    pairs: Sequence[Pair],
    methods: Mapping[str, Mapping[str, Any]],
    *,
    passes: int,
    seeds: Sequence[int] = (0,),
) -> list[dict[str, list[Summary]]]:
    """Fits methods at settings fixed in advance; for every pair, by method, one summary a seed."""
    settings = TransferSettings(passes=passes)
    futures = [
        fit_seed.submit(place, pair.encoded, name, fixed_trial(name, own), seed, settings, INTERVAL_LEVEL)
        for pair in pairs
        for name, own in methods.items()
        for seed in seeds
    ]
    found = iter(collect(benchmark, "fit", futures))
    return [{name: [load_summary(next(found).path / PREDICTIONS) for _ in seeds] for name in methods} for _ in pairs]


def fixed_trial(name: str, settings: Mapping[str, Any]) -> Trial:
    """Settings fixed in advance in the form that a refit reads."""
    method: Any = build(name, **settings)
    whole = method.settings()
    return Trial(name, whole, steps=whole["steps"])


def tune_and_fit(place: Place, benchmark: str, pair: Pair, settings: TransferSettings) -> Trained:
    """Tunes every method out of fold on source patients and refits it per seed, as a transfer does."""
    matching = matched_rows(place, pair.encoded)
    return train(place, benchmark, pair.encoded, matching, settings, Decision().interval_level)


def predictions_of(trained: Trained) -> dict[str, list[Summary]]:
    """By method, one summary of the target's patients a seed."""
    return load_predictions(trained.fits)


def keep_known(summaries: Sequence[Summary], known: NDArray[np.bool_]) -> list[Summary]:
    """The same summaries of the patients whose outcome is known."""
    return [take_patients(summary, np.flatnonzero(known)) for summary in summaries]
