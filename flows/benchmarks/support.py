"""SUPPORT2, real patients: from sepsis and respiratory failure to four other disease groups; death within 180 days.

Organ failure with malignancy (base rate .75) is mostly a concept shift, which no method may claim to fix.
"""

from __future__ import annotations

from flows.benchmarks.extracts import SUPPORT_GROUPS, write_support
from flows.benchmarks.results import Results, Scale
from flows.benchmarks.sites import run_sites
from tdrop.home import Place

TARGETS = tuple(site for site in SUPPORT_GROUPS if site != "sepsis")


def run(place: Place, scale: Scale) -> Results:
    """Writes the extracts and transfers to the four targets."""
    write_support(place.root)
    about = (
        "Real patients (SurvSet's support2), death within 180 days, disease groups as sites. No target label tuned or "
        "chose anything."
    )
    return run_sites(place, "support", TARGETS, scale, about)
