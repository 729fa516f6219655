"""`tdrop shift`: how different a site's patients are, before any training."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from flows.printer import Printer
from tasks.prepare import encode_pair, pool_sources, read_and_check, require_usable
from tasks.run import Compared
from tasks.shift import estimate_site_shift, match_validation
from tdrop.base import write_record
from tdrop.contracts import Validation
from tdrop.data import fingerprint
from tdrop.home import Place, ResolvedSite, replacing
from tdrop.report import render_shift_page, shift_sentence
from tdrop.shift import Matching, Shift


@dataclass(frozen=True)
class ShiftPage:
    """The verdict on a site's patients, why, and the page that shows it."""

    verdict: str
    reason: str
    page: str


def compare_patients(site: ResolvedSite) -> ShiftPage:
    """Compares a target site with its source and writes `sites/<site>/shift/shift.html`."""
    where = {"home": site.place.root, "base": site.network.base}
    prepared = []
    for own in site.resolved_sources():
        prepared.append(read_and_check.fn(own, fingerprint(own.site, **where)))
        require_usable(own, prepared[-1])
    source = pool_sources(site, prepared)
    target = read_and_check.fn(site, fingerprint(site.site, **where), source)
    require_usable(site, target)
    encoded = encode_pair.fn(site, source, target)
    shift = estimate_site_shift.fn(site, encoded, target)
    return _write_page(site, Compared(source, target, encoded, shift, match_validation.fn(site, encoded)))


def _write_page(site: ResolvedSite, stages: Compared) -> ShiftPage:
    shift = stages.shift.record(Shift, "shift.json")
    matching = stages.matching.record(Matching, "matching.json")
    validation = stages.target.record(Validation, "validation.json")
    folder = site.place.site(site.name) / "shift"
    with replacing(folder) as incoming:
        page = render_shift_page(site.site, site.source_title, shift, matching, validation, site.contract)
        (incoming / "shift.html").write_text(page, encoding="utf-8")
        write_record(incoming / "shift.json", shift)
    return ShiftPage(shift.verdict, shift_sentence(shift), str(folder / "shift.html"))


def run_shift(site: str, *, contracts: Path, console: Printer) -> None:
    """Prints the verdict and where the page is."""
    place = Place.at(contracts=contracts)
    place.network().target(site)
    page = compare_patients(place.resolve(site))
    console.answer({"site": site, **vars(page)})
    console.print(f"[bold]{site}: {page.verdict}[/]\n{page.reason}\n{page.page}")
