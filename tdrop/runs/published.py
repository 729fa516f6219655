"""What has left of a site, so that a report of nearly the same patients does not leave after it.

Below the site's folder `published/` holds a folder for each state of its patients that left: `rows.npz`, a digest a
patient, and of the last one the files themselves. It stays at the site.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from filelock import FileLock

from tdrop.base import read_arrays, read_record, write_record
from tdrop.disclosure import State, limit, may_leave, patients_apart, state_of, to_number
from tdrop.home import PRIVATE, Place
from tdrop.report import ReportData, SiteSummary

#: Tag of a record that holds no number of the site, and says why.
WITHHELD = "withheld"
#: And as it was before there were several parts.
ROWS, OLD_ROWS = "rows.npz", "rows.npy"
FILES = "files"
SUMMARY = "summary.json"


@dataclass(frozen=True)
class Published:
    """What has left of one site.

    Attributes:
        folder: The site's folder of it.
    """

    folder: Path

    def permits(self, now: State, threshold: int) -> bool:
        """Whether a state of the patients may leave beside all that did."""
        return may_leave(now, [_state_in(left) for left in self._left()], threshold)

    def before(self, now: State) -> SiteSummary | None:
        """The summary that left last of other patients than these."""
        for left in reversed(self._left()):
            if patients_apart(now, _state_in(left)):
                return read_record(SiteSummary, left / SUMMARY)
        return None

    def keep(self, now: State, write: Callable[[Path], SiteSummary]) -> None:
        """Writes what leaves of a state, and keeps it as the last that did; `write` returns its summary."""
        self.folder.mkdir(parents=True, exist_ok=True, mode=PRIVATE)
        with FileLock(self.folder / ".lock", mode=0o600):
            earlier = self._left()
            number = int(earlier[-1].name) + 1 if earlier else 1
            incoming = self.folder / f".{number:06d}"
            shutil.rmtree(incoming, ignore_errors=True)
            (incoming / FILES).mkdir(parents=True, mode=PRIVATE)
            summary = write(incoming / FILES)
            write_record(incoming / SUMMARY, summary)
            np.savez(incoming / ROWS, **now)  # type: ignore[arg-type]
            incoming.rename(self.folder / f"{number:06d}")
            for left in earlier:
                same = not patients_apart(now, _state_in(left))
                shutil.rmtree(left if same else left / FILES, ignore_errors=True)

    def copy(self, folder: Path) -> None:
        """Copies what left last."""
        shutil.copytree(self._left()[-1] / FILES, folder, dirs_exist_ok=True)

    def _left(self) -> list[Path]:
        return sorted(path.parent for name in (ROWS, OLD_ROWS) for path in self.folder.glob(f"[0-9]*/{name}"))


def _state_in(folder: Path) -> State:
    if (folder / ROWS).is_file():
        return read_arrays(folder / ROWS)
    return {"known": np.load(folder / OLD_ROWS)}


def published_of(place: Place, site: str) -> Published:
    """What has left of a site."""
    return Published(place.site(site) / "published")


def patients_of(data: ReportData) -> State:
    """The state of everyone whom a report is about."""
    assert data.target_frame is not None, "a run's report has its patients"
    found = data.validation
    counts = {"quarantined": found.quarantined, "duplicates": found.duplicates}
    counts |= {item.rule: item.count for item in found.findings if item.about == "patients"}
    aside = {rule: to_number(count) for rule, count in counts.items()}
    theirs = data.source_validation
    source = None if theirs.simulated or theirs.public else data.source_frame
    return state_of(data.target_frame, data.y, aside=aside, source=source)


def withheld_sentence(data: ReportData) -> str:
    """Why the numbers of a report did not leave."""
    return (
        f"fewer than {limit(data.site.disclosure)} patients differ from those of a report that left before: their "
        "difference would tell of those few, so the report that left last stands"
    )
