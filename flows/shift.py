"""How different a site's patients are, before any training: a flow and `tdrop shift`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from prefect import flow
from rich.console import Console

from flows.orchestration import orchestrated
from tasks.place import Place, replacing
from tasks.prepare import encode_pair, prepare_site, require_usable
from tasks.shift import estimate_site_shift, match_validation
from tasks.store import Ref, write_json
from tdrop.errors import UsageError


def compare_with_source(place: Place, site: str) -> dict[str, Ref]:
    """Everything before training: source, target, encoded, shift and matching."""
    network = place.network()
    source_name = network.source_of(network.site(site)).name
    source = prepare_site(place, source_name)
    require_usable(place, source_name, source)
    target = prepare_site(place, site, source)
    require_usable(place, site, target)
    encoded = encode_pair(place, site, source, target)
    shift = estimate_site_shift(place, site, encoded)
    matching = match_validation(place, site, encoded, shift)
    return {"source": source, "target": target, "encoded": encoded, "shift": shift, "matching": matching}


@flow(name="estimate-shift", flow_run_name="shift {site}", persist_result=False)
def shift_site(site: str, contracts: str = "data_contracts", home: str | None = None) -> dict[str, Any]:
    """Compares a target site with its source and writes `sites/<site>/shift/shift.html`."""
    place = Place.at(home, contracts)
    if place.network().site(site).role != "target":
        raise UsageError(f"site '{site}' is a source; shift compares a target with its source")
    stages = compare_with_source(place, site)
    shift, matching = stages["shift"].json("shift.json"), stages["matching"].json("matching.json")
    return _write_page(place, site, shift, matching, stages["target"].json("validation.json"))


def _write_page(
    place: Place, site: str, shift: dict[str, Any], matching: dict[str, Any], validation: dict[str, Any]
) -> dict[str, Any]:
    from tdrop.report import render_shift_page

    network = place.network()
    spec = network.site(site)
    folder = place.site(site) / "shift"
    with replacing(folder) as incoming:
        page = render_shift_page(
            spec, network.source_of(spec).title, shift, matching, validation, network.contract_of(spec)
        )
        (incoming / "shift.html").write_text(page, encoding="utf-8")
        write_json(incoming / "shift.json", shift)
    return {"verdict": shift["verdict"], "reason": shift["reason"], "page": str(folder / "shift.html")}


def run_shift(site: str, *, contracts: Path, console: Console) -> None:
    """Prints the verdict and where the page is."""
    place = Place.at(contracts=contracts)
    place.network().site(site)
    with orchestrated():
        found = shift_site(site, str(contracts), place.home)
    console.print(f"[bold]{site}: {found['verdict']}[/]\n{found['reason']}\n{found['page']}")
