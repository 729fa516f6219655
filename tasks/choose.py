"""Chooses the site's method without a single target label."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tasks.artifacts import leave, table
from tasks.place import Place
from tasks.progress import report
from tasks.settings import TransferSettings
from tasks.step import step
from tasks.store import Ref, Store, write_json


@step("choose", "choose {site}")
def choose_method(
    place: Place,
    site: str,
    picked: Mapping[str, dict[str, Any]],
    folds: Mapping[str, Ref],
    settings: TransferSettings,
) -> Ref:
    """Compares the methods by the criterion of the settings; returns a stage with choice.json."""

    def build(folder: Path) -> None:
        from tdrop.choose import FoldScore, Score, choose
        from tdrop.methods import method_class
        from tdrop.records import read
        from tdrop.tune import Trial

        scores = [
            Score(
                method,
                method_class(method).has_samples,
                Trial.from_dict(trial),
                read(FoldScore, folds[method].json("score.json")) if method in folds else None,
            )
            for method, trial in picked.items()
        ]
        write_json(folder / "choice.json", choose(scores, criterion=settings.criterion).to_dict())

    inputs = {
        "picked": dict(picked),
        "folds": {method: ref.digest for method, ref in folds.items()},
        "criterion": settings.criterion,
    }
    ref = Store(place.root).make("choice", inputs, build)
    choice = ref.json("choice.json")
    rows = [[row["method"], row["log_loss"], row["standard_error"], row["n"]] for row in choice["table"]]
    page = f"# {site}: {choice['method']}\n\n{choice['reason']}\n\n"
    leave(site, "choice", page + table(["method", "log loss", "standard error", "rows"], rows))
    report(site, "choose", detail=choice["method"])
    return ref
