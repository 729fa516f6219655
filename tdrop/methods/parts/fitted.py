"""What a fitted method holds besides its weights, the summary of its samples, and how it is saved.

Inputs and outcomes are centred and scaled on the source rows of the fit, nothing else.

A saved model is one folder without pickle. `model.json` holds what the model is and the sha256 of every other file, and
a seal over itself, so that a changed or cut-off file is noticed before anything of it is used.
"""

from __future__ import annotations

import hashlib
import json
import math
from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, fields, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from tdrop.base import (
    INTERVAL_LEVEL,
    Cohort,
    DataError,
    Doubles,
    FitError,
    Fitted,
    Floats,
    Numbers,
    Predictive,
    Summary,
    Task,
    html_table,
    plain,
    read,
)
from tdrop.methods import rebuild
from tdrop.methods.parts import MethodSettings, check_rows

#: A saved model may be published: no number in it counts patients more finely than this.
_PATIENTS = 10
#: A larger standardised value is held here: a network's output is long saturated, and sums stay finite in float32.
_LARGEST_INPUT = 1e6
#: Samples held at once by a summary: 16 MB of float32.
SAMPLES_AT_ONCE = 1 << 22
#: Version of the saved folder's layout; a reader of another version says so instead of guessing.
MODEL_FORM = 4
#: The file that names and seals the others.
MODEL_FILE = "model.json"


@dataclass(frozen=True)
class Scaling:
    """Centre and scale of the features (features,) and of the outcome (0 and 1 for a binary one)."""

    center: Numbers
    scale: Numbers
    outcome_center: float
    outcome_scale: float

    def inputs(self, X: Doubles) -> Floats:
        """Standardises X (rows, features)."""
        standardised = np.clip((X - self.center) / self.scale, -_LARGEST_INPUT, _LARGEST_INPUT)
        return np.ascontiguousarray(standardised, dtype=np.float32)

    def predictions(self, outputs: NDArray[Any]) -> Floats:
        """Puts outcomes back on their own scale."""
        return (outputs * self.outcome_scale + self.outcome_center).astype(np.float32)

    def outcomes(self, y: Floats) -> Floats:
        """Standardises outcomes (rows,); binary ones stay as they are."""
        return ((y - self.outcome_center) / self.outcome_scale).astype(np.float32)


#: The levels at which a model of a continuous outcome knows how far outcomes lie from its predictions.
NOISE_LEVELS = (0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.99)


@dataclass(frozen=True)
class Noise:
    """What a continuous outcome varies by beyond the samples' spread, learnt from patients left out of the fits.

    Attributes:
        sd: Standard deviation that is added to the samples' own, in the outcome's unit.
        reach: By level of `NOISE_LEVELS`, the multiple of the whole sd within which that share of outcomes lay.
    """

    sd: float
    reach: tuple[float, ...]

    @classmethod
    def estimate(cls, residual: Doubles, sd: Doubles) -> Noise:
        """From out-of-fold residuals (rows,) and the samples' sd there (rows,), to two digits: a model may leave."""
        whole = float(np.mean(residual**2))
        # At least a tenth of the distances: samples that spread too widely must not make outcomes certain.
        noise = max(whole - float(np.mean(sd**2)), 0.01 * whole) ** 0.5
        spread = np.sqrt(sd**2 + noise**2)
        ratio = np.abs(residual) / np.where(spread > 0, spread, 1.0)
        reach = np.quantile(ratio, NOISE_LEVELS, method="higher")
        return cls(float(f"{noise:.2g}"), tuple(float(f"{value:.2g}") for value in reach))

    def widen(self, summary: Summary) -> Summary:
        """The summary with the noise in its sd, and intervals that cover outcomes rather than the mean of them."""
        whole = np.sqrt(summary.sd.astype(np.float64) ** 2 + self.sd**2)
        reach = np.interp(summary.levels, NOISE_LEVELS, self.reach)[:, None]
        low, high = (summary.mean + sign * reach * whole for sign in (-1, 1))
        return replace(summary, sd=whole.astype(np.float32), low=low.astype(np.float32), high=high.astype(np.float32))


@dataclass(frozen=True)
class Facts:
    """What was fitted, on what, and for how long.

    Attributes:
        features: Names of the features.
        task: What is predicted.
        steps: Steps (or iterations) behind the kept weights.
        history: Training curve; see `tdrop.base.Fitted`.
        rows: Source rows of the fit, to the nearest ten.
        scaling: Centre and scale learnt from those rows.
        classes: Names of the K classes; empty for other tasks.
        noise: Of a continuous outcome, where it was estimated out of fold; see `FittedModel.with_noise`.
    """

    features: tuple[str, ...]
    task: Task
    steps: int
    history: tuple[dict[str, float | None], ...]
    rows: int
    scaling: Scaling
    classes: tuple[str, ...] = ()
    noise: Noise | None = None


class FittedModel:
    """What every fit makes of its samples; see `tdrop.base.Fitted`."""

    task: Task
    noise: Noise | None = None

    @abstractmethod
    def sample(self, X: NDArray[Any], n: int, *, seed: int) -> Predictive:
        """Draws n samples for the rows of X (rows, features); a row's samples do not depend on the other rows."""

    def summarise(self, X: NDArray[Any], n: int, *, seed: int, levels: Sequence[float] = (INTERVAL_LEVEL,)) -> Summary:
        """Streams `sample` over chunks of rows and keeps mean, sd and intervals; with the noise where there is one."""
        summary = summarise_samples(lambda part: self.sample(part, n, seed=seed), np.asarray(X), levels)
        summary = replace(summary, task=self.task)
        return summary if self.noise is None else self.noise.widen(summary)

    def with_noise(self, noise: Noise | None) -> Self:
        """The same model of a continuous outcome, whose summaries cover outcomes; samples stay those of the model."""
        changed = copy(self)
        changed.noise = noise
        return changed


class FittedMethod(FittedModel):
    """What the fitted halves of networks and references share."""

    def __init__(self, method: MethodSettings, facts: Facts) -> None:
        self.method = method
        self.facts = facts
        self.features = facts.features
        self.task = facts.task
        self.classes = facts.classes
        self.steps = facts.steps
        self.history: Sequence[dict[str, float | None]] = facts.history
        self.noise = facts.noise

    def __repr__(self) -> str:
        """What was fitted, on how much; weights and settings are attributes."""
        facts = self.facts
        return f"Fitted({self.method.name!r}: {len(facts.features)} features, {facts.rows:,} rows, {facts.steps} steps)"

    def _repr_html_(self) -> str:
        """The method's settings, for a notebook."""
        rows = [(name, str(value)) for name, value in self.method.settings().items()]
        return html_table(repr(self), ("setting", "value"), rows)

    def inputs(self, X: NDArray[Any]) -> Floats:
        """Rows to predict (rows, features), checked and standardised."""
        return self.facts.scaling.inputs(check_rows(X, self.features, self.method.name))

    def record(self) -> dict[str, Any]:
        """What a saved model's record holds."""
        facts = plain(replace(self.facts, noise=self.noise))
        for name in ("classes", "noise"):
            if not facts[name]:
                del facts[name]
        return {"method": self.method.name, "settings": self.method.settings(), **facts}


def read_facts(record: Mapping[str, Any]) -> Facts:
    """Reads them from a saved model's record, which holds more."""
    return read(Facts, {field.name: record[field.name] for field in fields(Facts) if field.name in record})


class FittedOnFits(FittedModel):
    """A model that is made of other methods' fits, by name."""

    def __init__(self, method: MethodSettings, fits: Mapping[str, Fitted]) -> None:
        first = next(iter(fits.values()))
        self.method = method
        self.fits = fits
        self.features, self.task, self.classes = first.features, first.task, first.classes
        self.steps = max(fitted.steps for fitted in fits.values())
        self.history: Sequence[dict[str, float | None]] = ()

    def record(self) -> dict[str, Any]:
        """What a saved model's record holds."""
        noise = {} if self.noise is None else {"noise": plain(self.noise)}
        return {"method": self.method.name, "settings": self.method.settings(), **noise}

    def save(self, folder: Path) -> None:
        """Writes the fits' files, each named after its fit, and one record that seals them."""
        files: dict[str, bytes] = {}
        with TemporaryDirectory() as scratch:
            for name, fitted in self.fits.items():
                fitted.save(Path(scratch, name))
                files |= {f"{name}.{file.name}": file.read_bytes() for file in Path(scratch, name).iterdir()}
        write_model(Path(folder), self.record(), files)


def restore_fits(names: Sequence[str], files: Mapping[str, bytes]) -> dict[str, Fitted]:
    """The fits that a model is made of, by name, from its files."""
    fits = {}
    for name in names:
        own = {file.removeprefix(f"{name}."): content for file, content in files.items() if file.startswith(f"{name}.")}
        fits[name] = rebuild(json.loads(own.pop(MODEL_FILE)), own)
    return fits


def read_noise(record: Mapping[str, Any]) -> Noise | None:
    """The noise in a saved model's record, where it has one."""
    return read(Noise, record["noise"]) if "noise" in record else None


def learn_scaling(source: Cohort) -> Scaling:
    """Learns centre and scale from the source rows, neither finer than a model may tell; constants keep scale 1."""
    X = source.X.astype(np.float64)
    center, outcome_scale = np.zeros(1), np.ones(1)
    if source.task == "regression" and source.y is not None:
        center, outcome_scale = coarse_scaling(source.y.astype(np.float64)[:, None])
    marks = ((X == 0) | (X == 1)).all(axis=0)
    shares = np.where(marks, coarse_shares(np.where(marks, X.sum(axis=0), 0.0), len(X)), 0.0)
    spreads = np.sqrt(shares * (1 - shares))
    centers, scales = coarse_scaling(X)
    centers, scales = np.where(marks, shares, centers), np.where(spreads > 0, spreads, scales)
    return Scaling(centers, scales, float(center[0]), float(outcome_scale[0]))


def of_two_classes(samples: NDArray[Any]) -> Floats:
    """Samples (passes, rows, 2) of both classes' probabilities from the second one's (passes, rows)."""
    both: Floats = np.stack([1 - samples, samples], axis=-1).astype(np.float32)
    return both


def coarse_rows(rows: int) -> int:
    """A number of rows to the nearest ten: exact numbers of two models would show that one patient was added."""
    return _PATIENTS * max(1, int(rows / _PATIENTS + 0.5))


def coarse_shares(counts: Doubles, rows: int) -> Doubles:
    """The share of rows that have a mark (features,), rounded so that neither few patients nor all can be counted."""
    rarer = np.minimum(counts, rows - counts)
    tens = _PATIENTS * np.floor(rarer / _PATIENTS + 0.5)
    rounded = np.where((rarer > 0) & (rarer < _PATIENTS), _PATIENTS / 2, tens)
    share = np.minimum(rounded / coarse_rows(rows), 0.5)
    return np.where(counts <= rows / 2, share, 1 - share)


def coarse_scaling(X: Doubles) -> tuple[Doubles, Doubles]:
    """Mean and sd (features,) of X (rows, features), rounded: the sd to two digits, the mean to hundredths of the sd.

    An exact mean of whole numbers is a fraction that reveals the number of rows, and two models' exact means reveal
    the values of a patient who was added between them.
    """
    mean, sd = X.mean(axis=0), X.std(axis=0)
    # Rounding leaves a constant column of large numbers with a tiny sd, not with zero.
    constant = sd <= 1e-7 * np.abs(X).max(axis=0)
    scale = np.array([float(f"{value:.2g}") for value in np.where(constant, 1.0, sd)])
    step = scale / 100
    return np.where(constant, mean, np.round(mean / step) * step), scale


def summarise_samples(
    sample: Callable[[NDArray[Any]], Predictive], X: NDArray[Any], levels: Sequence[float]
) -> Summary:
    """Samples X (rows, features) part by part, so that memory stays bounded, and keeps mean, sd and intervals.

    Args:
        sample: Returns the samples (passes, rows) of some rows, or (passes, rows, K) of K classes.
        X: Rows to predict.
        levels: Interval levels, each between 0 and 1.
    """
    ordered = tuple(sorted({float(level) for level in levels}))
    if not ordered or not all(0 < level < 1 for level in ordered):
        raise DataError(f"interval levels must lie between 0 and 1; got {', '.join(map(str, levels)) or 'none'}")
    rows, (passes, _, *classes) = len(X), sample(X[:0]).samples.shape
    mean, sd = np.empty((rows, *classes), np.float32), np.empty(rows, np.float32)
    ends = np.empty((2, len(ordered), rows, *classes), np.float32)
    step = max(1, SAMPLES_AT_ONCE // passes // math.prod(classes))
    for start in range(0, rows, step):
        part = slice(start, start + step)
        predictive = sample(X[part])
        mean[part], sd[part] = predictive.mean, predictive.sd
        samples = predictive.samples
        flat = _interval_ends(samples.reshape(len(samples), -1), ordered)
        ends[:, :, part] = flat.reshape(2, len(ordered), *samples.shape[1:])
    return Summary(mean=mean, sd=sd, levels=ordered, low=ends[0], high=ends[1], passes=passes)


def _interval_ends(samples: Floats, levels: tuple[float, ...]) -> Floats:
    """Lower and upper ends (2, levels, rows) of the central intervals, interpolated as numpy does."""
    ranked = np.sort(samples.T, axis=1)  # (rows, passes): sorting neighbours in memory is ten times faster
    share = np.array([[(1 - level) / 2 for level in levels], [(1 + level) / 2 for level in levels]])
    place = share * (samples.shape[0] - 1)
    below = np.floor(place).astype(int)
    above = np.minimum(below + 1, samples.shape[0] - 1)
    weight = (place - below)[..., None]
    low, high = ranked.T[below], ranked.T[above]
    ends: Floats = (low + (high - low) * weight).astype(np.float32)
    return ends


def write_model(folder: Path, record: Mapping[str, Any], files: Mapping[str, bytes]) -> None:
    """Writes the files and, last, the sealed record that names them."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in files.items():
        (folder / name).write_bytes(content)
    digests = {name: _sha256(content) for name, content in sorted(files.items())}
    sealed = {**record, "form": MODEL_FORM, "files": digests}
    sealed["seal"] = _sha256(canonical_bytes(sealed))
    (folder / MODEL_FILE).write_text(json.dumps(sealed, indent=1, sort_keys=True) + "\n", encoding="utf-8")


def read_model(folder: Path) -> tuple[dict[str, Any], dict[str, bytes]]:
    """Reads a saved model's record and files, each checked against its digest."""
    record = _read_record(folder)
    files = {}
    for name, expected in record["files"].items():
        if Path(name).name != name:
            raise FitError(f"model in '{folder.name}' names a file outside its folder; restore the folder or fit again")
        content = _read_file(folder, name)
        if _sha256(content) != expected:
            raise FitError(
                f"model in '{folder.name}': '{name}' ({len(content):,} bytes) is not the file that was saved; "
                "restore the folder or fit again"
            )
        files[name] = content
    return record, files


def _read_record(folder: Path) -> dict[str, Any]:
    try:
        record: dict[str, Any] = json.loads(_read_file(folder, MODEL_FILE))
        intact = record.pop("seal") == _sha256(canonical_bytes(record)) and isinstance(record["files"], dict)
    except (ValueError, KeyError, AttributeError, TypeError):
        intact = False
    if not intact:
        raise FitError(
            f"model in '{folder.name}': '{MODEL_FILE}' is not the file that was saved; restore the folder or fit again"
        )
    if record["form"] != MODEL_FORM:
        raise FitError(
            f"model in '{folder.name}' has form {record['form']} but this version reads form {MODEL_FORM}; fit again"
        )
    return record


def _read_file(folder: Path, name: str) -> bytes:
    try:
        return (folder / name).read_bytes()
    except OSError:
        raise FitError(
            f"model in '{folder.name}': '{name}' is missing or cannot be read; restore the folder or fit again"
        ) from None


def _sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def canonical_bytes(record: Mapping[str, Any]) -> bytes:
    """A record as bytes that are the same for the same content; its seal is their sha256."""
    return json.dumps(record, sort_keys=True, allow_nan=False).encode()
