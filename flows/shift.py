"""How different a site's patients are, before any training: a flow and `tdrop shift`."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from flows.orchestration import orchestrated
from flows.printer import Printer
from flows.recipe import recipe
from tasks.prepare import encode_pair, prepare_site, require_usable
from tasks.shift import estimate_site_shift, match_validation
from tdrop.base import write_record
from tdrop.contracts import Validation
from tdrop.home import Place, ResolvedSite, replacing
from tdrop.report import render_shift_page, shift_sentence
from tdrop.runs import Compared
from tdrop.shift import Matching, Shift


def compare_with_source(site: ResolvedSite) -> Compared:
    """Everything before training: source, target, encoded, shift and matching."""
    source = prepare_site(site.its_source())
    require_usable(site.its_source(), source)
    target = prepare_site(site, source)
    require_usable(site, target)
    encoded = encode_pair(site, source, target)
    shift = estimate_site_shift(site, encoded)
    return Compared(source, target, encoded, shift, match_validation(site, encoded, shift))


@dataclass(frozen=True)
class ShiftPage:
    """The verdict on a site's patients, why, and the page that shows it."""

    verdict: str
    reason: str
    page: str


@recipe("estimate-shift", "shift {site}")
def shift_site(site: str, contracts: str = "data_contracts", home: str | None = None) -> ShiftPage:
    """Compares a target site with its source and writes `sites/<site>/shift/shift.html`."""
    resolved = Place.at(home, contracts).resolve(site)
    resolved.network.target(site)
    return _write_page(resolved, compare_with_source(resolved))


def _write_page(site: ResolvedSite, stages: Compared) -> ShiftPage:
    shift = stages.shift.record(Shift, "shift.json")
    matching = stages.matching.record(Matching, "matching.json")
    validation = stages.target.record(Validation, "validation.json")
    folder = site.place.site(site.name) / "shift"
    with replacing(folder) as incoming:
        page = render_shift_page(site.site, site.source.title, shift, matching, validation, site.contract)
        (incoming / "shift.html").write_text(page, encoding="utf-8")
        write_record(incoming / "shift.json", shift)
    return ShiftPage(shift.verdict, shift_sentence(shift), str(folder / "shift.html"))


def run_shift(site: str, *, contracts: Path, console: Printer) -> None:
    """Prints the verdict and where the page is."""
    place = Place.at(contracts=contracts)
    place.network().target(site)
    with orchestrated():
        found = shift_site(site, str(contracts), place.home)
    console.answer({"site": site, **vars(found)})
    console.print(f"[bold]{site}: {found.verdict}[/]\n{found.reason}\n{found.page}")
