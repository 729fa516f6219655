"""Everything before training: a site's patients beside its source's. `tdrop shift` is this part alone."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from tasks.evidence import fitted_propensity
from tasks.prepare import (
    count_suspected,
    encode_pair,
    estimate_site_shift,
    match_validation,
    pool_sources,
    read_and_check,
    require_usable,
)
from tasks.run import Compared
from tdrop.base import write_record, written
from tdrop.contracts import Validation
from tdrop.data import Encoder, fingerprint
from tdrop.home import ENCODER, Ref, ResolvedSite, emit_progress, replacing
from tdrop.report import render_shift_page, shift_sentence
from tdrop.shift import Matching, Shift

#: How a task is called: as a task run of the flow, or as its function alone where there is no flow.
Call = Callable[[Any], Any]


def in_flow(task: Any) -> Any:
    """The task itself."""
    return task


def without_flow(task: Any) -> Any:
    """Its function."""
    return task.fn


def compare_with_source(
    site: ResolvedSite, source_data: Sequence[str], target_data: str, call: Call = in_flow
) -> Compared:
    """Everything before training: source, target, encoded, shift and matching.

    Args:
        site: The target site.
        source_data: Fingerprints of the sources' extracts.
        target_data: Fingerprint of the site's.
        call: How tasks are run.
    """
    source, target = read_extracts(site, source_data, target_data, call)
    encoded = call(encode_pair)(site, source, target)
    encoder = encoded.record(Encoder, ENCODER)
    without = f"; not recorded here and left out: {', '.join(encoder.left_out)}" if encoder.left_out else ""
    if encoder.without_indicator:
        without += f"; whether a value is missing is left out for: {', '.join(encoder.without_indicator)}"
    features = f"{len(encoder.features)} features{without}"
    emit_progress(site.name, "encode", detail=features, public=features)
    fitted = fitted_propensity(site, encoded)
    shift = call(estimate_site_shift)(site, encoded, fitted, count_suspected(target))
    verdict = shift.record(Shift, "shift.json").verdict
    emit_progress(site.name, "estimate shift", detail=verdict, public=verdict)
    matching = call(match_validation)(site, encoded, fitted)
    retained = matching.record(Matching, "matching.json").retained
    emit_progress(site.name, "match", detail=f"{retained} source patients set aside that resemble the site's")
    return Compared(source, target, encoded, shift, matching)


def read_extracts(
    site: ResolvedSite, source_data: Sequence[str], target_data: str, call: Call = without_flow
) -> tuple[Ref, Ref]:
    """Reads and checks a site's extract and its sources'; stops where one must not be used."""

    def read(own: ResolvedSite, data: str, source: Ref | None = None) -> Ref:
        prepared = call(read_and_check)(own, data, source)
        validation = prepared.record(Validation, "validation.json")
        used = "none" if validation.stopped else written(validation.used)
        emit_progress(own.name, "read and check", detail=f"{written(validation.read)} rows read, {used} used")
        require_usable(own, prepared)
        return prepared

    sources = zip(site.resolved_sources(), source_data, strict=True)
    source = pool_sources(site, [read(own, data) for own, data in sources])
    return source, read(site, target_data, source)


def fingerprints(site: ResolvedSite) -> tuple[tuple[str, ...], str]:
    """Fingerprints of the sources' extracts, and of the site's."""
    return tuple(fingerprint(own, **site.where) for own in site.sources), fingerprint(site.site, **site.where)


@dataclass(frozen=True)
class ShiftPage:
    """The verdict on a site's patients, why, and the page that shows it."""

    verdict: str
    reason: str
    page: str


def compare_patients(site: ResolvedSite) -> ShiftPage:
    """Compares a target site with its source and writes `sites/<site>/shift/shift.html`."""
    stages = compare_with_source(site, *fingerprints(site), call=without_flow)
    shift = stages.shift.record(Shift, "shift.json")
    matching = stages.matching.record(Matching, "matching.json")
    validation = stages.target.record(Validation, "validation.json")
    folder = site.place.site(site.name) / "shift"
    with replacing(folder) as incoming:
        page = render_shift_page(site.site, site.source_title, shift, matching, validation, site.contract)
        (incoming / "shift.html").write_text(page, encoding="utf-8")
        write_record(incoming / "shift.json", shift)
    return ShiftPage(shift.verdict, shift_sentence(shift), str(folder / "shift.html"))
