"""How different the target's patients are, and the source rows that look like them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from tasks.artifacts import leave, table
from tasks.files import load_cohort
from tasks.place import Place
from tasks.progress import report
from tasks.step import step
from tasks.store import Ref, Store
from tdrop.disclosure import disclose_matching, disclose_shift
from tdrop.records import write_record

if TYPE_CHECKING:
    from tdrop.shift import Propensity

PROPENSITY = "propensity.npz"
#: The matching and the shift estimate are the same for every seed of a run.
SEED = 0


@step("estimate shift", "estimate shift {site}")
def estimate_site_shift(place: Place, site: str, encoded: Ref) -> Ref:
    """Compares the two sites' patients; returns a stage with shift.json."""

    def build(folder: Path) -> None:
        from tdrop.shift import estimate_shift

        source, target = load_cohort(encoded.path / "source.npz"), load_cohort(encoded.path / "target.npz")
        fitted = load_propensity(make_propensity(place, encoded))
        write_record(folder / "shift.json", estimate_shift(source, target, seed=SEED, fitted=fitted))

    ref = Store(place.root).make("shift", {"encoded": encoded.digest, "seed": SEED}, build)
    shift = shown_shift(place, site, ref)
    leave(site, "shift", f"# {site}: {shift['verdict']}\n\n{shift['reason']}")
    report(site, "estimate shift", detail=shift["verdict"])
    return ref


@step("match", "match {site}")
def match_validation(place: Place, site: str, encoded: Ref, shift: Ref) -> Ref:
    """Chooses the source rows that look like the target; returns a stage with matching.json."""
    ref = make_matching(place, encoded)
    policy = place.network().site(site).disclosure
    matching = disclose_matching(ref.json("matching.json"), shown_shift(place, site, shift), policy)
    rows = [[row["feature"], row["before"], row["after"]] for row in matching["balance"]]
    leave(site, "matching", f"# {site}: balance before and after\n\n" + table(["feature", "before", "after"], rows))
    report(site, "match", detail=f"{matching['retained']} source rows held out")
    return ref


def make_propensity(place: Place, encoded: Ref) -> Ref:
    """The stage with propensity.npz for a pair of encoded cohorts: fitted once, used by all that weigh or match.

    A site of fewer than 2 rows has none, and then the stage is empty.
    """

    def build(folder: Path) -> None:
        from tdrop.shift import propensity

        source, target = load_cohort(encoded.path / "source.npz"), load_cohort(encoded.path / "target.npz")
        if min(len(source), len(target)) >= 2:
            propensity(source, target, seed=SEED).save(folder / PROPENSITY)

    return Store(place.root).make("propensity", {"encoded": encoded.digest, "seed": SEED}, build)


def load_propensity(ref: Ref) -> Propensity | None:
    """The pair's propensity, or None where a site has too few rows for one."""
    from tdrop.shift import Propensity

    path = ref.path / PROPENSITY
    return Propensity.load(path) if path.is_file() else None


def make_matching(place: Place, encoded: Ref) -> Ref:
    """The stage with matching.json for a pair of encoded cohorts."""

    def build(folder: Path) -> None:
        from tdrop.matching import match

        source, target = load_cohort(encoded.path / "source.npz"), load_cohort(encoded.path / "target.npz")
        fitted = load_propensity(make_propensity(place, encoded))
        write_record(folder / "matching.json", match(source, target, seed=SEED, fitted=fitted))

    return Store(place.root).make("matching", {"encoded": encoded.digest, "seed": SEED}, build)


def shown_shift(place: Place, site: str, shift: Ref) -> dict[str, Any]:
    """A site's shift as others may see it."""
    return disclose_shift(shift.json("shift.json"), place.network().site(site).disclosure)
