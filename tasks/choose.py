"""Chooses the site's method without a single target label."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from tasks.held_pages import leave_numbers
from tasks.step import step
from tdrop.base import write_record
from tdrop.choose import Choice, Criterion, FoldScore, Score, Trial, make_choice
from tdrop.disclosure import disclose_choice
from tdrop.home import Ref, ResolvedSite, compute, report, stage
from tdrop.methods import have_samples
from tdrop.runs import choice_page


@stage("choice")
def chosen_of_all(folder: Path, picked: Mapping[str, Trial], folds: Mapping[str, Ref], criterion: Criterion) -> None:
    """Writes choice.json."""
    write_record(folder / "choice.json", make_choice(score_methods(picked, folds), criterion=criterion))


def score_methods(picked: Mapping[str, Trial], folds: Mapping[str, Ref]) -> list[Score]:
    """What is known of every method before choosing; a worker process has loaded the methods."""
    spread = compute(have_samples, tuple(picked))
    return [
        Score(
            method,
            spread[method],
            trial,
            folds[method].record(FoldScore, "score.json") if method in folds else None,
        )
        for method, trial in picked.items()
    ]


@step("choose", "choose {site.name}")
def choose_method(
    site: ResolvedSite, picked: Mapping[str, Trial], folds: Mapping[str, Ref], criterion: Criterion
) -> Ref:
    """Compares the methods by the criterion."""
    ref = chosen_of_all(site.place, picked, folds, criterion)
    choice = disclose_choice(ref.record(Choice, "choice.json"), site.policy)
    # Here, so that worker processes, which read this module's names, load no drawing.
    from tdrop.report import choice_sentence

    leave_numbers(site, "choice", choice_page(site.name, choice, choice_sentence(choice)))
    report(site.name, "choose", detail=choice.method)
    return ref
