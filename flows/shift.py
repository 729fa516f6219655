"""Reads and checks the extracts of a site and its sources; `tdrop shift` compares their patients."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from tasks.evidence import fitted_propensity
from tasks.prepare import (
    columns_to_leave_out,
    count_suspected,
    encode_sources,
    encode_target,
    estimate_site_shift,
    fingerprint_labels,
    match_validation,
    pool_sources,
    read_and_check,
    require_usable,
)
from tdrop.base import write_record, written
from tdrop.contracts import Validation
from tdrop.data import fingerprint
from tdrop.home import Ref, ResolvedSite, emit_progress, files, replace_folder
from tdrop.report import render_shift_page, shift_sentence
from tdrop.shift import Matching, Shift


def read_extracts(
    site: ResolvedSite, source_data: Sequence[str], target_data: str, read: Callable[..., Ref] = read_and_check.fn
) -> tuple[Ref, Ref]:
    """Reads and checks the extracts of a site and its sources; raises `SiteStopped` if one must not be used.

    `source_data` and `target_data` are fingerprints; `read` is `read_and_check` in a flow run, elsewhere its function.
    """

    def read_usable(own: ResolvedSite, data: str, source: Ref | None = None) -> Ref:
        prepared = read(own, data, source)
        validation = prepared.record(Validation, "validation.json")
        used = "none" if validation.stopped else written(validation.used)
        emit_progress(own.name, "read and check", detail=f"{written(validation.read)} rows read, {used} used")
        require_usable(own, prepared, validation)
        return prepared

    sources = zip(site.resolved_sources(), source_data, strict=True)
    source = pool_sources(site, [read_usable(own, data) for own, data in sources])
    return source, read_usable(site, target_data, source)


def fingerprints(site: ResolvedSite) -> tuple[tuple[str, ...], str]:
    """Fingerprints of the sources' extracts, and of the site's extract."""
    return tuple(fingerprint(own, **site.where) for own in site.sources), fingerprint(site.site, **site.where)


@dataclass(frozen=True)
class ShiftPage:
    """The verdict on a site's patients, why, and the page that shows it."""

    verdict: str
    reason: str
    page: str


def compare_patients(site: ResolvedSite) -> ShiftPage:
    """Compares a target site with its source and writes `sites/<site>/shift/shift.html`; no flow run is made."""
    source, target = read_extracts(site, *fingerprints(site))
    left_out = columns_to_leave_out(site, source, target)
    labelled = encode_sources.fn(site, site.resolved_sources(), source, fingerprint_labels(site), *left_out)
    encoded = encode_target.fn(site, labelled, target)
    fitted = fitted_propensity(site, encoded)
    shift = estimate_site_shift.fn(site, encoded, fitted, count_suspected(target)).record(Shift, "shift.json")
    matching = match_validation.fn(site, encoded, fitted).record(Matching, "matching.json")
    validation = target.record(Validation, "validation.json")
    folder = site.workspace.site(site.name) / "shift"
    with replace_folder(folder) as incoming:
        names = {own.name: own.title for own in site.sources}
        title = site.source_title(left_out=encoded.json(files.SMALL_SOURCES))
        page = render_shift_page(site.site, title, shift, matching, validation, site.contract, names)
        (incoming / "shift.html").write_text(page, encoding="utf-8")
        write_record(incoming / "shift.json", shift)
    return ShiftPage(shift.verdict, shift_sentence(shift), str(folder / "shift.html"))
