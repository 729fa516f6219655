"""A recalibration of a site's champion: by which outcomes, and whether it helps."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from tdrop.base import DataError, UsageError
from tdrop.data import read_labels
from tdrop.evaluate import Adjustment, Recalibration
from tdrop.home import Place
from tdrop.metrics import FEWEST_EVENTS
from tdrop.runs.labels import remembered_labels


@dataclass(frozen=True)
class Recalibrated:
    """A recalibration that was registered.

    Attributes:
        site: Name of the site.
        version: The new version, now the candidate.
        champion: The version that it was made from.
        name: "intercept", or "intercept and slope".
        intercept: Added to the log odds of the champion's risks.
        slope: Multiplies them.
        labels: Known outcomes behind it.
        log_loss_before: Of these patients under the champion.
        log_loss_after: The same out of fold.
    """

    site: str
    version: str
    champion: str
    name: str
    intercept: float
    slope: float
    labels: int
    log_loss_before: float | None
    log_loss_after: float | None


def label_file(place: Place, site: str, labels: str | None) -> Path:
    """The label file given, or the one of the last audit; a UsageError says how to come by one."""
    found = labels or remembered_labels(place, site)
    if found is None:
        raise UsageError(
            f"site '{site}' has no outcomes from an audit; give a file, or run `tdrop audit {site} LABELS` first"
        )
    return Path(found)


def read_outcomes(place: Place, site: str, file: Path, ids: NDArray[Any]) -> NDArray[Any]:
    """The outcomes of patients (rows,), NaN where unknown."""
    resolved = place.resolve(site)
    found = read_labels(file, resolved.contract, ids, home=place.root, base=resolved.network.base, like=resolved.site)
    return found.y


def what_helps(site: str, found: Recalibration) -> Adjustment:
    """The adjustment to use; a sentence where there is none. It holds no count: Prefect keeps it."""
    if not found.n:
        raise DataError(f"no outcome of site '{site}' is known by that file; fill outcomes in, or give another file")
    if found.events in (0, found.n):
        raise DataError(
            f"the known outcomes of site '{site}' are all of one kind; a recalibration needs patients with and without "
            "the outcome"
        )
    if found.note:
        raise DataError(
            f"site '{site}' has too few known outcomes to recalibrate; {FEWEST_EVENTS} patients with and "
            f"{FEWEST_EVENTS} without the outcome are needed"
        )
    chosen = next((one for one in found.adjustments if one.name == found.helps), None)
    if chosen is None:
        raise DataError(
            f"a recalibration does not help at site '{site}': out of fold no line has a lower log loss than the "
            "champion; it stays as it is"
        )
    if chosen.slope <= 0:
        raise DataError(
            f"the champion of site '{site}' ranks patients the wrong way round by the known outcomes; no recalibration "
            f"mends that: run `tdrop transfer {site}` anew or take it out of use"
        )
    return chosen
