"""How different the target's patients are, and the source rows that look like them."""

from __future__ import annotations

from pathlib import Path

from tasks.held_pages import leave_numbers
from tasks.step import step
from tdrop.base import write_record
from tdrop.disclosure import disclose_matching, disclose_shift
from tdrop.home import Place, Ref, ResolvedSite, load_pair, report, stage
from tdrop.runs import SEED, fitted_propensity, load_propensity, matching_page
from tdrop.shift import Matching, Shift, estimate_shift, judge_shared_patients, judge_source_outcomes, match


@stage("shift", in_worker=True)
def compared_patients(folder: Path, encoded: Ref, fitted: Ref, seed: int = SEED) -> None:
    """Writes shift.json."""
    source, target = load_pair(encoded.path)
    found = estimate_shift(source, target, seed=seed, fitted=load_propensity(fitted))
    outcomes = judge_source_outcomes(source.y) if source.y is not None and source.task == "binary" else None
    write_record(folder / "shift.json", found.judged(outcomes, judge_shared_patients(source, target)))


@stage("matching", in_worker=True)
def matched_pair(folder: Path, encoded: Ref, fitted: Ref, seed: int = SEED) -> None:
    """Writes matching.json."""
    found = match(*load_pair(encoded.path), seed=seed, fitted=load_propensity(fitted))
    write_record(folder / "matching.json", found)


def matched_rows(place: Place, encoded: Ref) -> Ref:
    """The stage with matching.json for a pair of encoded cohorts."""
    return matched_pair(place, encoded, fitted_propensity(place, encoded))


@step("estimate shift", "estimate shift {site.name}")
def estimate_site_shift(site: ResolvedSite, encoded: Ref) -> Ref:
    """Compares the two sites' patients."""
    ref = compared_patients(site.place, encoded, fitted_propensity(site.place, encoded))
    shift = shown_shift(site, ref)
    # Here, so that worker processes, which read this module's names, load no drawing.
    from tdrop.report import shift_sentence

    leave_numbers(site, "shift", f"# {site.name}: {shift.verdict}\n\n{shift_sentence(shift)}")
    report(site.name, "estimate shift", detail=shift.verdict)
    return ref


@step("match", "match {site.name}")
def match_validation(site: ResolvedSite, encoded: Ref, shift: Ref) -> Ref:
    """Chooses the source rows that look like the target."""
    ref = matched_rows(site.place, encoded)
    matching = disclose_matching(ref.record(Matching, "matching.json"), shown_shift(site, shift), site.policy)
    leave_numbers(site, "matching", matching_page(site.name, matching))
    report(site.name, "match", detail=f"{matching.retained} source rows held out")
    return ref


def shown_shift(site: ResolvedSite, shift: Ref) -> Shift:
    """A site's shift as others may see it."""
    return disclose_shift(shift.record(Shift, "shift.json"), site.policy)
