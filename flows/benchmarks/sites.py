"""Transfers between real sites, through their contracts, as any site of a network would go."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from flows.benchmarks.pairs import Pair, tune_and_fit
from flows.benchmarks.results import Results, Row, Scale, Table
from flows.benchmarks.table_one import MAIN, Judged, judge, judged_results
from flows.benchmarks.units import QUICK_NETWORK
from tasks.prepare import encode_pair, prepare_site, require_usable
from tasks.shift import estimate_site_shift
from tasks.step import step
from tdrop.base import write_record
from tdrop.data import label_fingerprint, read_labels
from tdrop.home import Place, Ref, ResolvedSite, load_cohort, stage
from tdrop.report import shift_sentence
from tdrop.runs import TransferSettings
from tdrop.shift import Shift

SEEDS, TRIALS, PASSES, BOOTSTRAP = 10, 12, 200, 1000


def run_sites(place: Place, name: str, targets: Sequence[str], scale: Scale, about: str) -> Results:
    """Transfers to every target site and judges all methods."""
    settings = transfer_settings(scale, scale.seeds_or(SEEDS))
    judged, shifts = [], []
    for site in targets[:1] if scale.quick else targets:
        pair, shift = prepare_pair(place, name, site)
        trained = tune_and_fit(place, name, pair, settings)
        judged.append(judge(pair, trained, settings))
        shifts.append(shift)
    return judged_results(
        name, f"Real patients: {name}", about, judged, settings, further=[_shift_table(name, judged, shifts)]
    )


def transfer_settings(scale: Scale, seeds: int, trials: int = TRIALS) -> TransferSettings:
    """Every method alike; the quick form has three small ones."""
    if not scale.quick:
        return TransferSettings(
            seeds=seeds, trials=trials, passes=PASSES, bootstrap=BOOTSTRAP, criterion="matched_validation"
        )
    small: dict[str, dict[str, Any]] = {name: dict(QUICK_NETWORK) for name in ("mlp", "tdnr", MAIN)}
    small["logistic_regression"] = {"refits": 5}
    return TransferSettings(
        methods=tuple(small),
        method_settings=small,
        seeds=seeds,
        trials=1,
        passes=10,
        bootstrap=50,
        criterion="matched_validation",
    )


def prepare_pair(place: Place, name: str, site: str) -> tuple[Pair, Ref]:
    """Reads, checks and encodes a target and its source; also how different they are."""
    resolved = place.resolve(site)
    source = prepare_site(resolved.its_source())
    require_usable(resolved.its_source(), source)
    target = prepare_site(resolved, source)
    require_usable(resolved, target)
    encoded = encode_pair(resolved, source, target)
    title = f"{resolved.source.title} to {resolved.site.title}"
    return Pair(site, title, encoded, open_outcomes(resolved, encoded)), estimate_site_shift(resolved, encoded)


@stage("benchmark-truth")
def known_outcomes(folder: Path, site: ResolvedSite, encoded: Ref, labels: str | None) -> None:
    """Writes outcomes.npz and labels.json."""
    ids = load_cohort(encoded.path / "target.npz").ids
    read = read_labels(site.site, site.contract, ids, home=site.place.root, base=site.network.base)
    np.savez(folder / "outcomes.npz", y=read.y)
    write_record(folder / "labels.json", read.counts)


@step("outcomes", "outcomes {site.name}")
def open_outcomes(site: ResolvedSite, encoded: Ref) -> Ref:
    """Puts a target's outcomes beside its patients in a stage that no training reads."""
    labels = label_fingerprint(site.site, home=site.place.root, base=site.network.base)
    return known_outcomes(site.place, site, encoded, labels)


def _shift_table(name: str, judged: Sequence[Judged], shifts: Sequence[Ref]) -> Table:
    rows: list[Row] = []
    for each, ref in zip(judged, shifts, strict=True):
        shift, source = ref.record(Shift, "shift.json"), load_cohort(each.pair.encoded.path / "source.npz")
        assert source.y is not None
        rows.append(
            {
                "pair": each.pair.title,
                "source patients": len(source),
                "source outcome rate": round(float(source.y.mean()), 3),
                "target patients": each.evaluation.patients,
                "with known outcome": each.evaluation.labelled,
                "target outcome rate": round(
                    (each.evaluation.outcomes or 0) / max(1, each.evaluation.labelled or 0), 3
                ),
                "verdict": shift.verdict,
                "reason": shift_sentence(shift),
            }
        )
    return Table(f"{name}_shift", "Real patients: the pairs, and what the shift estimate says without labels.", rows)
