"""The result of one transfer: references to its stages, from which the report can be made again."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from tasks.settings import TransferSettings
from tdrop.base import DataError, Summary, UsageError, read
from tdrop.choose import Choice, Trial
from tdrop.contracts import Contract
from tdrop.data import Encoder
from tdrop.evaluate import Evaluation
from tdrop.home import Ref, Workspace, files, load_summary
from tdrop.methods import method_names
from tdrop.shift import Shift

RUN = "run.json"
#: The previous report, beside the page that says why there is no newer one.
EARLIER = "earlier_report.html"
#: Levels of the stored intervals of every prediction; the paper's range is 50 to 99%.
SWEEP = (0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.99)


#: By method, one fit per seed.
Fits = Mapping[str, Sequence[Ref]]


@dataclass(frozen=True)
class Stages:
    """The stages of one site's run, one field each; its trials and fits are in `Trained`."""

    source: Ref
    target: Ref
    encoded: Ref
    shift: Ref
    matching: Ref
    choice: Ref
    models: Ref
    evaluation: Ref
    forecast: Ref | None = None
    audit: Ref | None = None

    def all(self) -> dict[str, Ref]:
        """The existing stages by name."""
        stages = {each.name: getattr(self, each.name) for each in fields(self)}
        return {name: ref for name, ref in stages.items() if ref is not None}


@dataclass(frozen=True)
class Trained:
    """The results of training, by method.

    Attributes:
        trials: Every trial.
        picked: The trial whose settings were refitted.
        fits: One fit per seed.
        folds: Out-of-fold scores, if the criterion needs them.
        ablations: For methods that used the target's unlabelled patients, the first seed's fit without them.
        failed: Methods that failed, with a sentence each.
    """

    trials: dict[str, list[Trial]] = field(default_factory=dict)
    picked: dict[str, Trial] = field(default_factory=dict)
    fits: dict[str, list[Ref]] = field(default_factory=dict)
    folds: dict[str, Ref] = field(default_factory=dict)
    ablations: dict[str, Ref] = field(default_factory=dict)
    failed: dict[str, str] = field(default_factory=dict)

    def folds_with_risks(self) -> dict[str, Ref]:
        """By fitted method, the stage with its out-of-fold risks, if these were stored."""
        return {
            method: self.folds[method]
            for method in self.fits
            if method in self.folds and (self.folds[method].path / files.RISKS).is_file()
        }

    def in_order(self) -> Trained:
        """The same with methods in the paper's order, as reports show them; files have alphabetical order."""
        order = {method: number for number, method in enumerate(method_names())}
        return Trained(
            **{
                name: dict(sorted(values.items(), key=lambda pair: order.get(pair[0], len(order))))
                for name, values in vars(self).items()
            }
        )


@dataclass(frozen=True)
class Run:
    """One transfer of one site.

    Attributes:
        site: Name of the target site.
        settings: The settings of the run.
        trained: The results of training.
        stages: All other stages.
    """

    site: str
    settings: TransferSettings
    trained: Trained
    stages: Stages

    @cached_property
    def choice(self) -> Choice:
        """The chosen method and why."""
        return self.stages.choice.record(Choice, "choice.json")

    @property
    def chosen(self) -> str:
        """The chosen method."""
        return self.choice.method

    @cached_property
    def shift(self) -> Shift:
        """The shift between source and target patients, as judged before any outcome was read."""
        return self.stages.shift.record(Shift, "shift.json")

    @cached_property
    def encoder(self) -> Encoder:
        """What turns contract columns into features."""
        return self.stages.encoded.record(Encoder, files.ENCODER)

    @cached_property
    def evaluation(self) -> Evaluation:
        """The evaluation of every method."""
        return self.stages.evaluation.record(Evaluation, "evaluation.json")

    @cached_property
    def predictions(self) -> Summary:
        """The predictions of the chosen method's first seed, which are those that patients get."""
        return load_summary(self.trained.fits[self.chosen][0].path / files.PREDICTIONS)

    @property
    def folds(self) -> dict[str, Ref]:
        """By method, the stage with its out-of-fold risks, if these were stored."""
        return self.trained.folds_with_risks()

    def tolerance(self, contract: Contract) -> float:
        """Largest error of a predicted continuous value that does not count as wrong; 0 for other outcomes."""
        return picked_tolerance(self.trained, self.chosen, contract)

    def with_evaluation(self, evaluation: Ref, audit: Ref | None) -> Run:
        """The same run with a new evaluation."""
        return replace(self, stages=replace(self.stages, evaluation=evaluation, audit=audit))

    def refs(self) -> Iterator[Ref]:
        """Every stage of the run."""
        yield from self.stages.all().values()
        yield from self.trained.folds.values()
        yield from self.trained.ablations.values()
        for fits in self.trained.fits.values():
            yield from fits


def picked_tolerance(trained: Trained, chosen: str, contract: Contract) -> float:
    """The tolerance that the table names, or the median distance of the chosen method at left-out source patients."""
    known = contract.outcome.tolerance or (trained.picked[chosen].tolerance if chosen in trained.picked else None)
    return known or 0.0


def read_run(workspace: Workspace, file: Path) -> Run:
    """Reads a run from its file, which does not say where the store is."""

    def placed(values: dict[str, Any]) -> dict[str, Any]:
        is_stage = values.keys() == {"stage", "folder", "digest"}
        return {**values, "store": str(workspace.store)} if is_stage else values

    run = read(Run, json.loads(file.read_text(encoding="utf-8"), object_hook=placed))
    return replace(run, trained=run.trained.in_order())


def last_run(workspace: Workspace, site: str) -> Run:
    """The run behind a site's last report; a UsageError says what to do without one."""
    workspace.network().target(site)
    try:
        run = read_run(workspace, workspace.latest(site) / RUN)
    except FileNotFoundError:
        raise UsageError(f"site '{site}' has no report yet; run `tdrop transfer {site}` first") from None
    if not all(ref.path.is_dir() for ref in run.refs()):
        raise UsageError(f"the models behind site '{site}' were pruned; run `tdrop transfer {site} --again`")
    damaged = sorted({ref.stage for ref in run.refs() if not ref.is_intact})
    if damaged:
        raise DataError(
            f"what the report of site '{site}' was made from was altered on disk ({', '.join(damaged)}); "
            f"run `tdrop transfer {site} --again`, which makes it anew"
        )
    return run
