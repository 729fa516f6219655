"""How different the target's patients are, and the source rows that look like them."""

from __future__ import annotations

from pathlib import Path

from tasks.artifacts import leave, table
from tasks.files import load_pair
from tasks.place import Place, ResolvedSite
from tasks.progress import report
from tasks.stage import stage
from tasks.step import step
from tasks.store import Ref
from tdrop.disclosure.shift import disclose_matching, disclose_shift
from tdrop.matching import Matching, match
from tdrop.records import write_record
from tdrop.shift import Propensity, Shift, estimate_shift, judge_shared_patients, judge_source_outcomes, propensity
from tdrop.shift.overlap import Mask

PROPENSITY = "propensity.npz"
#: The propensity, the shift and the matching are the same for every seed of a run.
SEED = 0


@stage("propensity")
def fitted_propensity(folder: Path, encoded: Ref, seed: int = SEED) -> None:
    """Writes propensity.npz, fitted once a site and used by all that weigh or match.

    A site of fewer than 2 rows has none, and then the stage is empty.
    """
    source, target = load_pair(encoded.path)
    if min(len(source), len(target)) >= 2:
        propensity(source, target, seed=seed).save(folder / PROPENSITY)


def load_propensity(ref: Ref) -> Propensity | None:
    """The pair's propensity, or None where a site has too few rows for one."""
    path = ref.path / PROPENSITY
    return Propensity.load(path) if path.is_file() else None


def unlike_patients(fitted: Ref) -> Mask | None:
    """Which target patients are unlike anyone the model learned from (rows,), or None where nobody can say."""
    found = load_propensity(fitted)
    return None if found is None else found.unlike


@stage("shift")
def compared_patients(folder: Path, encoded: Ref, fitted: Ref, seed: int = SEED) -> None:
    """Writes shift.json."""
    source, target = load_pair(encoded.path)
    found = estimate_shift(source, target, seed=seed, fitted=load_propensity(fitted))
    outcomes = judge_source_outcomes(source.y) if source.y is not None and source.task == "binary" else None
    write_record(folder / "shift.json", found.judged(outcomes, judge_shared_patients(source, target)))


@stage("matching")
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
    from tdrop.report.sentences import shift_sentence

    leave(site.name, "shift", f"# {site.name}: {shift.verdict}\n\n{shift_sentence(shift)}")
    report(site.name, "estimate shift", detail=shift.verdict)
    return ref


@step("match", "match {site.name}")
def match_validation(site: ResolvedSite, encoded: Ref, shift: Ref) -> Ref:
    """Chooses the source rows that look like the target."""
    ref = matched_rows(site.place, encoded)
    matching = disclose_matching(ref.record(Matching, "matching.json"), shown_shift(site, shift), site.policy)
    rows = [[row.feature, row.before, row.after] for row in matching.balance]
    page = f"# {site.name}: balance before and after\n\n" + table(["feature", "before", "after"], rows)
    leave(site.name, "matching", page)
    report(site.name, "match", detail=f"{matching.retained} source rows held out")
    return ref


def shown_shift(site: ResolvedSite, shift: Ref) -> Shift:
    """A site's shift as others may see it."""
    return disclose_shift(shift.record(Shift, "shift.json"), site.policy)
