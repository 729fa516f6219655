"""How different the target's patients are, and the source rows that look like them."""

from __future__ import annotations

from pathlib import Path

from prefect import task
from prefect.cache_policies import NO_CACHE

from tasks.errors import sanitize_errors
from tasks.evidence import SEED, fitted_propensity, load_propensity
from tdrop.base import write_record
from tdrop.contracts import Validation
from tdrop.home import Ref, ResolvedSite, load_pair, stage
from tdrop.shift import estimate_shift, judge_shared_patients, judge_source_outcomes, match


@stage("shift", in_worker=True)
def compared_patients(folder: Path, encoded: Ref, fitted: Ref, suspected: int = 0, seed: int = SEED) -> None:
    """Writes shift.json; `suspected` counts patients whom the checks suspect to be in both extracts."""
    source, target = load_pair(encoded.path)
    shift = estimate_shift(source, target, seed=seed, fitted=load_propensity(fitted))
    known = source.known().y
    outcomes = judge_source_outcomes(known) if known is not None else None
    write_record(folder / "shift.json", shift.judged(outcomes, judge_shared_patients(source, target, suspected)))


@task(task_run_name="estimate shift {site.name}", cache_policy=NO_CACHE)
@sanitize_errors
def estimate_site_shift(site: ResolvedSite, encoded: Ref, target: Ref) -> Ref:
    """Compares the two sites' patients.

    Args:
        site: The target site.
        encoded: Both sites' patients.
        target: The target's checked rows, with what was suspected of them.
    """
    findings = target.record(Validation, "validation.json").findings
    suspected = [one for one in findings if one.rule == "table.shared_patients" and one.severity != "info"]
    counts = [one.count for one in suspected if isinstance(one.count, int)]
    return compared_patients(site, encoded, fitted_propensity(site, encoded), max(counts, default=0))


@stage("matching", in_worker=True)
def matched_rows(folder: Path, encoded: Ref, fitted: Ref, seed: int = SEED) -> None:
    """Writes matching.json."""
    write_record(folder / "matching.json", match(*load_pair(encoded.path), seed=seed, fitted=load_propensity(fitted)))


@task(task_run_name="match {site.name}", cache_policy=NO_CACHE)
@sanitize_errors
def match_validation(site: ResolvedSite, encoded: Ref) -> Ref:
    """Chooses the source rows that look like the target."""
    return matched_rows(site, encoded, fitted_propensity(site, encoded))
