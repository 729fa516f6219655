"""Names of the files that stages hold; cohorts and predictions as plain arrays, no pickle."""

from __future__ import annotations

import json
from functools import lru_cache
from pathlib import Path
from typing import Any, cast

import numpy as np
import pandas as pd

from tdrop.base import Cohort, Feature, Mask, Summary, Task, plain, read_arrays

#: Files of a stage with encoded patients; its source alone is a stage too, which the last one names.
SOURCE, TARGET, ENCODER, LABELLED = "source.npz", "target.npz", "encoder.json", "labelled.json"
#: Names of sources with too few outcomes to learn from.
SMALL_SOURCES = "small_sources.json"
#: What was done about source patients who left before the horizon.
CENSORING = "censoring.json"
#: An extract's checked rows.
FRAME = "frame.parquet"
#: Column of pooled rows that names the site they came from.
ORIGIN = "__site__"
#: P(target | x) of both sites' patients.
PROPENSITY = "propensity.npz"
#: One seed's predictions for the target's patients.
PREDICTIONS = "predictions.npz"
#: A trial's risks of source patients whom its fits did not see; of the picked one, row by row with outcome and weight.
OUT_OF_FOLD, RISKS = "out_of_fold.npz", "risks.npz"
#: Why a fit of a fold failed.
FAILURE = "failure.json"
#: A fitted model and its training curve.
MODEL, HISTORY = "model", "history.json"
#: What a site can expect, and its prediction sets.
FORECAST, SETS = "forecast.json", "sets.json"
#: The text for a site, and the folder of the site that keeps it when its extract must not be used.
LETTER, REFUSED_EXTRACT = "message.txt", "refused"
#: Why a label file could not be used.
REFUSED = "refused_labels.json"


def save_cohort(path: Path, cohort: Cohort) -> None:
    """Writes a cohort to an .npz file."""
    known: dict[str, Any] = {"y": cohort.y, "persons": cohort.persons, "origins": cohort.origins}
    known["classes"] = np.asarray(cohort.classes) if cohort.classes else None
    known["weight"] = cohort.weight
    np.savez(
        path,
        site=np.asarray(cohort.site),
        task=np.asarray(cohort.task),
        ids=cohort.ids.astype(str),
        features=np.asarray(json.dumps([plain(feature) for feature in cohort.described])),
        X=cohort.X,
        **{name: values for name, values in known.items() if values is not None},
    )


def load_cohort(path: Path) -> Cohort:
    """Reads what `save_cohort` wrote; nobody changes its arrays, so that one file is read once per process."""
    status = path.stat()
    return _read_cohort(path, status.st_mtime_ns, status.st_size)


@lru_cache(maxsize=4)
def _read_cohort(path: Path, _written: int, _size: int) -> Cohort:
    data = read_arrays(path)
    described = tuple(Feature(**feature) for feature in json.loads(str(data["features"])))
    return Cohort(
        site=str(data["site"]),
        ids=data["ids"],
        features=tuple(feature.name for feature in described),
        X=data["X"],
        y=data.get("y"),
        task=cast("Task", str(data["task"])),
        described=described,
        persons=data.get("persons"),
        origins=data.get("origins"),
        classes=tuple(map(str, data.get("classes", ()))),
        weight=data.get("weight"),
    )


def rows_of(frame: pd.DataFrame, source: str) -> Mask:
    """Which checked rows are of one source (rows,): all where nothing was pooled."""
    return np.asarray(frame[ORIGIN] == source) if ORIGIN in frame else np.ones(len(frame), dtype=np.bool_)


def save_summary(path: Path, summary: Summary) -> None:
    """Writes one seed's predictions to an .npz file."""
    arrays: dict[str, Any] = vars(summary)
    np.savez(path, **arrays)


def load_summary(path: Path) -> Summary:
    """Reads what `save_summary` wrote."""
    data: dict[str, Any] = read_arrays(path)
    return Summary(
        **{
            **data,
            "levels": tuple(data["levels"].tolist()),
            "passes": int(data["passes"]),
            # Predictions of version 0.1 are of two values and do not say so.
            "task": str(data.get("task", "binary")),
        }
    )


def load_pair(encoded: Path) -> tuple[Cohort, Cohort]:
    """The labelled source and the target of an encoded pair; a stage of the source alone has no target patients."""
    source = load_cohort(encoded / SOURCE)
    if (encoded / TARGET).exists():
        return source, load_cohort(encoded / TARGET)
    return source, source.take(np.arange(0)).unlabelled()
