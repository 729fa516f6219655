"""What a metric is: a function of some patients under one fit, and everything that is said about it, in one entry."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from tdrop.base import Doubles, Mask, Summary, Task
from tdrop.contracts import Decision
from tdrop.metrics.referral import Referrals
from tdrop.metrics.resampling import Statistic, calibration_statistic, fit_statistic
from tdrop.metrics.scores import misclassified

#: Below this many events, or this many non-events, a ranking or a calibration line is noise.
FEWEST_EVENTS = 10

Needs = Literal["patients", "outcomes", "errors"]
NumberShape = Literal["count", "share", "number"]
View = Literal["main", "unlabelled", "scores", "equal", "retained", "benefit"]
Tells = Literal["counts", "shares", "weights", "gains", "means"]
Mark = Literal["spread", "floor", "bounded", "subgroups", "compared", "recorded"]


@dataclass(frozen=True)
class Patients:
    """Patients of a site and one fit's predictions for them, from which every metric is computed.

    Attributes:
        summary: Their predictions.
        decision: What the site decides by.
        referrals: Who of them is referred, and why.
        y: Their outcomes (rows,); empty where a metric needs none.
        weight: For how many patients each outcome stands (rows,); None where all count alike. What is added up over
            patients is weighted afterwards.
        tolerance: Of a continuous outcome, by how much a prediction may be off before it counts as an error.
    """

    summary: Summary
    decision: Decision
    referrals: Referrals
    y: Doubles = field(default_factory=lambda: np.zeros(0))
    weight: Doubles | None = None
    tolerance: float = 0.0

    @property
    def task(self) -> Task:
        """What is predicted."""
        return self.summary.task

    @cached_property
    def events(self) -> Doubles:
        """Who has the outcome (rows,); all 0 where the outcome is a class or a value."""
        return self.y if self.task == "binary" else np.zeros(len(self.y))

    @cached_property
    def risk(self) -> Doubles:
        """The prediction per patient: risk or value (rows,), or the probabilities of K classes (rows, K)."""
        return self.summary.mean.astype(np.float64)

    @cached_property
    def sd(self) -> Doubles:
        """Standard deviation of each patient's samples (rows,)."""
        return self.summary.sd.astype(np.float64)

    @cached_property
    def wrong(self) -> Mask:
        """Whose class at 0.5, or likeliest class, is wrong, or whose value is off beyond the tolerance (rows,)."""
        if self.task == "regression":
            return np.abs(self.y - self.risk) > self.tolerance
        return misclassified(self.y, self.risk)

    @cached_property
    def acted_wrongly(self) -> Mask:
        """Whose class at the site's level is wrong (rows,); without a level, who is an error."""
        if self.task != "binary":
            return self.wrong
        return misclassified(self.y, self.risk, self.decision.threshold)

    @cached_property
    def calibration(self) -> Statistic:
        """The calibration line of risks and outcomes."""
        return calibration_statistic(self.y, self.risk, self.weight)

    @cached_property
    def fit(self) -> Statistic:
        """Root mean squared error and explained share of a continuous outcome."""
        return fit_statistic(self.y, self.risk)

    @cached_property
    def high(self) -> NDArray[Any]:
        """Upper ends of the intervals (rows,)."""
        return self.summary.interval(self.decision.interval_level)[1]


@dataclass(frozen=True)
class Total:
    """A sum over patients: what each adds (rows,)."""

    each: NDArray[Any]


@dataclass(frozen=True)
class Mean:
    """A sum over patients (rows,) divided by how many of them it is about (rows,), all unless given."""

    each: NDArray[Any]
    among: NDArray[Any] | None = None


@dataclass(frozen=True)
class Ratio:
    """A quotient of two sums over all patients, neither of which counts them: each (rows,)."""

    top: NDArray[Any]
    bottom: NDArray[Any]


@dataclass(frozen=True)
class Ranking:
    """The AUROC of a score (rows,) for an event (rows,)."""

    event: NDArray[Any]
    score: NDArray[Any]


MetricPart: TypeAlias = Total | Mean | Ratio | Ranking | Statistic
Compute: TypeAlias = Callable[[Patients], MetricPart]


@dataclass(frozen=True)
class Metric:
    """One metric.

    Attributes:
        title: Its name for people.
        meaning: One sentence that a clinician can read.
        needs: What it rests on: patients only, known outcomes, or errors of the class at 0.5.
        shape: How it is written: a count, a share (per cent) or a plain number.
        spread: Whether it needs samples that spread; a method with one prediction per patient has none.
        floor: Whether it is not estimable with fewer than `FEWEST_EVENTS` events or non-events.
        digits: Decimals that are shown of a plain number.
        bounded: Whether it lies between 0 and 1, as every share does.
        tells: What it would tell of single patients, which decides how disclosure rounds it: a count, a share of
            counts, a weighed sum of counts, referrals over such a gain, or a mean of values. By its shape unless given.
        views: In which views of the report's table of methods it stands.
        short: Its title in the view "retained".
        subgroups: Whether it is computed for each subgroup as well.
        compared: Whether it is compared with the reference method, as `<name>_difference`.
        recorded: Whether MLflow shows it for every method.
        definition: What the documentation says.
        tasks: For which outcomes it is computed.
        part: What it is of some patients; None for a difference, which is made of two methods' numbers.
    """

    title: str
    meaning: str
    needs: Needs = "outcomes"
    shape: NumberShape = "number"
    spread: bool = False
    floor: bool = False
    digits: int = 3
    bounded: bool = False
    tells: Tells = "means"
    views: tuple[View, ...] = ()
    short: str = ""
    subgroups: bool = False
    compared: bool = False
    recorded: bool = False
    definition: str = ""
    tasks: tuple[Task, ...] = ("binary",)
    part: Compute | None = None

    def difference(self) -> Metric:
        """The metric of a method minus that of the reference."""
        return replace(
            self,
            title=f"{self.title}, difference",
            meaning="The method minus the reference named in the note, on the same resamples of patients.",
            definition="The method minus logistic regression, on the same resamples.",
            bounded=False,
            tells="means",
            views=(),
            subgroups=False,
            compared=False,
            recorded=False,
            part=None,
        )


#: The metrics that `tdrop/metrics/table.py` enters, in its order.
ENTRIES: dict[str, Metric] = {}

#: What disclosure takes a metric for unless its entry says more.
_TELLS: dict[str, Tells] = {"count": "counts", "share": "shares", "number": "means"}


def metric(
    title: str, *marks: Mark, name: str | None = None, text: str | None = None, **properties: Any
) -> Callable[[Compute], Compute]:
    """Adds a function to the table of metrics.

    Args:
        title: Its name for people.
        marks: Attributes of `Metric` that are true.
        name: Its name in files; the function's, without its underscore, unless given.
        text: Its meaning and, below an empty line, its definition, where that says more; the docstring unless given.
        properties: The other attributes of `Metric`.
    """
    shape = properties.get("shape", "number")
    properties = {"tells": _TELLS[shape], "bounded": shape == "share", **dict.fromkeys(marks, True), **properties}

    def enter(function: Compute) -> Compute:
        meaning, _, definition = (" ".join(part.split()) for part in (text or function.__doc__ or "").partition("\n\n"))
        entry = Metric(title, meaning, definition=definition or meaning, part=function, **properties)
        ENTRIES[name or function.__name__.strip("_")] = entry
        return function

    return enter
