"""Rotterdam to GBSG, real patients: all women, and a source that holds only women under 60.

SurvSet's Rotterdam table records death, GBSG's recurrence or death, so base rates are far apart (.07 and .26 within
two years) and only the ranking can transfer. Grade is left out: the sites code it differently.
"""

from __future__ import annotations

from flows.benchmarks.extracts import write_breast
from flows.benchmarks.results import Results, Scale
from flows.benchmarks.sites import run_sites
from tdrop.home import Place

TARGETS = ("gbsg", "gbsg_extrapolated")


def run(place: Place, scale: Scale) -> Results:
    """Writes the extracts and transfers to both targets."""
    write_breast(place.root)
    about = (
        "Real patients (SurvSet's rott2 and GBSG2), outcome within 2 years; women censored earlier are left out. "
        "Rotterdam's event is death, GBSG's is recurrence or death. No target label tuned or chose anything."
    )
    return run_sites(place, "breast", TARGETS, scale, about)
