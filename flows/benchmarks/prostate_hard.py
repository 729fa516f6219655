"""Simulated prostate cohorts where a shift hurts: a source without the old and the high PSA, a small source, hidden
treatment (a concept shift, which no method may claim to fix); deaths from prostate cancer and from any cause.
"""

from __future__ import annotations

from typing import Any

from flows.benchmarks.prostate import Version, run_versions
from flows.benchmarks.results import Results, Scale
from tdrop.home import Place

#: Patients of most sources, and of every target.
ROWS, TARGET_ROWS = 5_000, 3_000
_TRUNCATED = "Simulated, source of 5,000 without age above 70 or PSA above 20"


def _version(name: str, title: str, population: str, rows: int = ROWS, **difficulty: Any) -> Version:
    died = "prostate-cancer death" if difficulty.get("outcome") == "prostate" else "death from any cause"
    return Version(name, f"{title}, {population} shift, {died}", population, rows, TARGET_ROWS, **difficulty)


VERSIONS = (
    _version("truncated_moderate_prostate", _TRUNCATED, "moderate", outcome="prostate", truncated=True),
    _version("truncated_severe_prostate", _TRUNCATED, "severe", outcome="prostate", truncated=True),
    _version("small_severe_prostate", "Simulated, source of 2,000", "severe", 2_000, outcome="prostate"),
    _version("truncated_severe_all", _TRUNCATED, "severe", truncated=True),
    _version("hidden_moderate_all", "Simulated, treatment and comorbidity hidden", "moderate", hidden=True),
)


def run(place: Place, scale: Scale) -> Results:
    """Every hard version, ten refits."""
    title = "Hard versions of the prostate problem (simulated)"
    return run_versions(place, "prostate_hard", title, VERSIONS, scale, seeds=10)
