"""Simulated prostate cohorts where a shift hurts: a source without the old and the high PSA, a small source, hidden
treatment (a concept shift, which no method may claim to fix); deaths from prostate cancer and from any cause.
"""

from __future__ import annotations

from flows.benchmarks.prostate import Version, collect_results, judge_versions
from flows.benchmarks.results import Results, Scale
from tdrop.home import Place

SEEDS, TRIALS = 10, 12
TARGET_ROWS = 3_000
_TRUNCATED = "source of 5,000 without age above 70 or PSA above 20"

VERSIONS = (
    Version(
        "truncated_moderate_prostate",
        f"Simulated, {_TRUNCATED}, moderate shift, prostate-cancer death",
        "moderate",
        5_000,
        TARGET_ROWS,
        "prostate",
        truncated=True,
    ),
    Version(
        "truncated_severe_prostate",
        f"Simulated, {_TRUNCATED}, severe shift, prostate-cancer death",
        "severe",
        5_000,
        TARGET_ROWS,
        "prostate",
        truncated=True,
    ),
    Version(
        "small_severe_prostate",
        "Simulated, source of 2,000, severe shift, prostate-cancer death",
        "severe",
        2_000,
        TARGET_ROWS,
        "prostate",
    ),
    Version(
        "truncated_severe_all",
        f"Simulated, {_TRUNCATED}, severe shift, death from any cause",
        "severe",
        5_000,
        TARGET_ROWS,
        truncated=True,
    ),
    Version(
        "hidden_moderate_all",
        "Simulated, treatment and comorbidity hidden, moderate shift, death from any cause",
        "moderate",
        5_000,
        TARGET_ROWS,
        hidden=True,
    ),
)


def run(place: Place, scale: Scale) -> Results:
    """Every hard version, ten refits."""
    seeds = scale.seeds_or(SEEDS)
    judged = judge_versions(place, "prostate_hard", VERSIONS, scale, seeds, TRIALS)
    return collect_results("prostate_hard", "Hard versions of the prostate problem (simulated)", judged, seeds, TRIALS)
