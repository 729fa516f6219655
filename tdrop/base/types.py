"""The types that every package shares. No logic beyond shape checks."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from html import escape
from pathlib import Path
from typing import Any, ClassVar, Literal, Protocol, Self, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from tdrop.base.errors import DataError

Floats = NDArray[np.float32]
Doubles = NDArray[np.float64]
Indices = NDArray[np.int64]
Mask = NDArray[np.bool_]
Task = Literal["binary", "classes", "regression"]

#: Called during a fit with (step, steps, training loss, validation loss or None).
StepCallback = Callable[[int, int, float, float | None], None]

#: The level of every interval that is shown unless a site asks for another.
INTERVAL_LEVEL = 0.95

#: A table of one number per class and patient stays readable, and each class has patients to learn from.
MOST_CLASSES = 20

#: What a feature is: a number, the place in an order, a yes or no, one category of several, or "it was not recorded".
FeatureKind = Literal["continuous", "ordinal", "binary", "level", "missing"]


@dataclass(frozen=True)
class Feature:
    """One column of X: what it is called, and what it was made from.

    Attributes:
        name: Its name in a cohort.
        column: The column of the extract behind it; the levels of a category and its missing indicator share one.
        kind: What its numbers mean.
        unit: Unit of the column, or None.
        title: Its name for people.
    """

    name: str
    column: str
    kind: FeatureKind = "continuous"
    unit: str | None = None
    title: str = ""

    @property
    def label(self) -> str:
        """The title, or the name where none was given."""
        return self.title or self.name


def html_table(caption: str, headings: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A result as an HTML table for a notebook, never with a patient's values; every text is escaped."""
    head = "".join(f"<th>{escape(heading)}</th>" for heading in headings)
    body = "".join("<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in row) + "</tr>" for row in rows)
    start = f"<table><caption>{escape(caption)}</caption>"
    return f"{start}<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def three_decimals(value: float | None) -> str:
    """A number with three decimals, or a dash."""
    return "–" if value is None else f"{value:.3f}"


#: What a cohort has one of per row, and its type.
_ONE_PER_ROW: Mapping[str, Any] = {
    **{"ids": None, "y": np.float32, "persons": np.int64},
    **{"origins": str, "weight": np.float32},
}


@dataclass(frozen=True)
class Cohort:
    """The patients of one site, encoded: finite numbers, one row per patient, or several rows of some persons.

    Attributes:
        site: Name of the site.
        ids: Patient identifiers (rows,).
        features: Names of the columns of X.
        X: Encoded features (rows, features), float32, finite.
        y: Outcomes (rows,) float32, or None for a cohort without labels.
        task: "binary" (outcomes 0 and 1), "classes" (outcomes are places in `classes`) or "regression".
        described: What each feature is, in the order of `features`; columns of their own unless given.
        persons: Whose row it is, as a number that says nothing else (rows,); None where no person has two rows.
        origins: Name of the site that each row came from (rows,); None where all came from `site`.
        classes: Names of the K classes, in their order; empty unless the task is "classes".
        weight: For how many patients each outcome stands (rows,), as where others left before it was known; 0 where it
            is not known, and y is then NaN. None means 1 for everybody.
    """

    site: str
    ids: NDArray[Any]
    features: tuple[str, ...]
    X: Floats
    y: Floats | None = None
    task: Task = "binary"
    described: tuple[Feature, ...] = ()
    persons: Indices | None = None
    origins: NDArray[Any] | None = None
    classes: tuple[str, ...] = ()
    weight: Floats | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "features", tuple(self.features))
        object.__setattr__(self, "classes", tuple(map(str, self.classes)))
        if tuple(feature.name for feature in self.described) != self.features:
            # Also after `replace(cohort, features=...)`: a description never outlives the names it was made for.
            known = {feature.name: feature for feature in self.described}
            described = tuple(known.get(name) or Feature(name, name) for name in self.features)
            object.__setattr__(self, "described", described)
        for name, kind in {"X": np.float32, **_ONE_PER_ROW}.items():
            if (values := getattr(self, name)) is not None:
                object.__setattr__(self, name, np.asarray(values, dtype=kind, order="C"))
        self._check()

    def _check(self) -> None:
        where = f"cohort of site '{self.site}'"
        if self.X.ndim != 2:
            raise DataError(f"{where}: X has {self.X.ndim} dimensions; give (rows, features)")
        rows, columns = self.X.shape
        if columns != len(self.features):
            raise DataError(f"{where}: X has {columns} columns but {len(self.features)} feature names were given")
        for name in _ONE_PER_ROW:
            if (values := getattr(self, name)) is not None and values.shape != (rows,):
                raise DataError(f"{where}: {rows:,} rows of X but {name} of shape {values.shape}; give one per row")
        bad = int((~np.isfinite(self.X)).any(axis=1).sum())
        if bad:
            raise DataError(f"{where}: {bad:,} of {rows:,} rows hold values that are not finite; impute or remove them")
        if self.weight is not None and self.y is None:
            raise DataError(f"{where}: weights are of outcomes, and there are none; give both or neither")
        if self.weight is not None and (bad := int((~np.isfinite(self.weight) | (self.weight < 0)).sum())):
            raise DataError(f"{where}: {bad:,} of {rows:,} weights are below 0 or not finite; give 0 or more")
        if self.y is not None:
            known = self.y[self.known_rows]
            bad = int((~np.isfinite(known)).sum())
            if bad:
                raise DataError(f"{where}: {bad:,} of {rows:,} outcomes are not finite; remove those rows")
            if self.task == "binary" and not np.isin(known, (0.0, 1.0)).all():
                raise DataError(f"{where}: a binary outcome must be 0 or 1; set task='regression' for other outcomes")
        self._check_classes(where)

    def _check_classes(self, where: str) -> None:
        if self.task != "classes":
            if self.classes:
                raise DataError(f"{where}: {len(self.classes)} classes were named for task '{self.task}'; name none")
            return
        count = len(self.classes)
        if len(set(self.classes)) != count or not 2 <= count <= MOST_CLASSES:
            raise DataError(f"{where}: {count} classes are named; name 2 to {MOST_CLASSES} different ones")
        if self.y is not None and not np.isin(self.y[self.known_rows], np.arange(count)).all():
            raise DataError(f"{where}: outcomes of {count} classes must be whole numbers from 0 to {count - 1}")

    @property
    def known_rows(self) -> Indices:
        """Places of the patients whose outcome counts (known,): all of a labelled cohort without weights."""
        return np.arange(len(self)) if self.weight is None else np.flatnonzero(self.weight > 0)

    def known(self) -> Cohort:
        """Returns the patients whose outcome counts."""
        return self if self.weight is None else self.take(self.known_rows)

    def __len__(self) -> int:
        return len(self.X)

    def __repr__(self) -> str:
        """Counts and names only: a notebook or a log must not hold patients."""
        labels = "without labels" if self.y is None else "labelled"
        return f"Cohort(site={self.site!r}, {len(self):,} rows, {len(self.features)} features, {labels}, {self.task})"

    def _repr_html_(self) -> str:
        """The features and what each is, for a notebook."""
        rows = [(feature.label, feature.kind, feature.unit or "") for feature in self.described]
        return html_table(repr(self), ("feature", "kind", "unit"), rows)

    def unlabelled(self) -> Cohort:
        """Returns the same patients without outcomes, and without weights, which tell whose outcome is known."""
        return replace(self, y=None, weight=None)

    def take(self, rows: Indices | NDArray[np.bool_]) -> Cohort:
        """Returns the patients at `rows` (indices or mask)."""
        held = {name: values for name in ("X", *_ONE_PER_ROW) if (values := getattr(self, name)) is not None}
        return replace(self, **{name: values[rows] for name, values in held.items()})


@dataclass(frozen=True)
class Predictive:
    """Samples of the predicted risk (or value): (passes, rows), or of K classes' probabilities: (passes, rows, K)."""

    samples: Floats

    @property
    def mean(self) -> Floats:
        """Risk (rows,), or the classes' probabilities (rows, K)."""
        return np.asarray(self.samples.mean(axis=0))

    @property
    def sd(self) -> Floats:
        """Standard deviation of the samples (rows,); of K classes the root of the mean variance over classes."""
        spread = self.samples.std(axis=0)
        if spread.ndim == 2:
            spread = np.sqrt(np.square(spread).mean(axis=-1))
        return np.asarray(spread)

    def interval(self, level: float = INTERVAL_LEVEL) -> tuple[Floats, Floats]:
        """Central interval of the samples: lower and upper ends, each (rows,), or (rows, K) of K classes."""
        low, high = np.quantile(self.samples, [(1 - level) / 2, (1 + level) / 2], axis=0)
        return low.astype(np.float32), high.astype(np.float32)


@dataclass(frozen=True)
class Summary:
    """Summary of a Predictive: enough for every table, figure and list.

    Attributes:
        mean: Risk (rows,), or the probabilities (rows, K) of K classes.
        sd: Standard deviation (rows,); see `Predictive.sd`.
        levels: Interval levels, ascending (levels,).
        low: Lower ends (levels, rows), or (levels, rows, K).
        high: Upper ends, of the same shape.
        passes: How many samples it rests on; 1 means that there is no spread.
        task: What was predicted.
    """

    mean: Floats
    sd: Floats
    levels: tuple[float, ...]
    low: Floats
    high: Floats
    passes: int
    task: Task = "binary"

    def interval(self, level: float = INTERVAL_LEVEL) -> tuple[Floats, Floats]:
        """Lower and upper ends (rows,) at one of `levels`."""
        index = int(np.argmin(np.abs(np.asarray(self.levels) - level)))
        if abs(self.levels[index] - level) > 1e-9:
            raise DataError(f"no interval at level {level}; summarised levels are {', '.join(map(str, self.levels))}")
        return self.low[index], self.high[index]

    def take(self, rows: Indices) -> Summary:
        """Returns the summary of the patients at `rows`."""
        return replace(self, mean=self.mean[rows], sd=self.sd[rows], low=self.low[:, rows], high=self.high[:, rows])


@runtime_checkable
class Fitted(Protocol):
    """A trained method.

    Attributes:
        features: Names of the features it was fitted on.
        task: What it predicts.
        classes: Names of the K classes; empty for other tasks.
        steps: Steps (or iterations) behind the kept weights.
        history: Training curve, one dict per point: step, loss, validation_loss (None without validation).
    """

    features: tuple[str, ...]
    task: Task
    classes: tuple[str, ...]
    steps: int
    history: Sequence[dict[str, float | None]]

    def sample(self, X: NDArray[Any], n: int, *, seed: int) -> Predictive:
        """Draws n passes for the rows of X; a row's samples do not depend on the other rows."""
        ...

    def summarise(self, X: NDArray[Any], n: int, *, seed: int, levels: Sequence[float] = (INTERVAL_LEVEL,)) -> Summary:
        """Streams `sample` over chunks of rows and keeps mean, sd and intervals."""
        ...

    def save(self, folder: Path) -> None:
        """Writes the model to `folder`, without pickle."""
        ...


class Described(Protocol):
    """The name and settings of a method, as tables and records show them."""

    @property
    def name(self) -> str:
        """The method's name."""
        ...

    def settings(self) -> Mapping[str, Any]:
        """Every setting as a plain JSON value."""
        ...


@runtime_checkable
class Method(Described, Protocol):
    """The settings of one method; a frozen dataclass."""

    #: Whether its samples spread.
    has_samples: ClassVar[bool]

    def fit(
        self,
        source: Cohort,
        target: Cohort,
        validation: Cohort | None = None,
        *,
        seed: int,
        progress: StepCallback | None = None,
    ) -> Fitted:
        """Trains on labelled source rows and unlabelled target rows.

        Training runs the method's steps to the end. With `validation` its loss is part of the history.
        """
        ...

    def needs_target(self) -> bool:
        """Whether a fit with these settings reads the target's rows."""
        ...

    def with_settings(self, **settings: Any) -> Self:
        """Returns a copy with some settings changed; an unknown name is a UsageError."""
        ...

    def search_space(self) -> dict[str, tuple[Any, ...]]:
        """The documented values that tuning may try, by setting."""
        ...
