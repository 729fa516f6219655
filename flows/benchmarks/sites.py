"""Transfers between real sites, through their contracts, as any site of a network would go."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from flows.benchmarks.drawings import draw_differences
from flows.benchmarks.pairs import Pair, tune_and_fit
from flows.benchmarks.results import Results, Scale, Table
from flows.benchmarks.table_one import MAIN, Judged, bars_table, judge, key_numbers, table_one
from tasks.files import load_cohort
from tasks.place import Place
from tasks.settings import TransferSettings
from tasks.step import step
from tasks.store import Ref, Store, write_json

SEEDS, TRIALS, PASSES, BOOTSTRAP = 10, 12, 200, 1000
QUICK_NETWORK: dict[str, Any] = {"hidden": [8], "steps": 2}


def run_sites(place: Place, name: str, targets: Sequence[str], scale: Scale, about: str) -> Results:
    """Transfers to every target site and judges all methods."""
    seeds = scale.seeds_or(SEEDS)
    settings = transfer_settings(scale, seeds)
    judged, shifts = [], []
    for site in targets[:1] if scale.quick else targets:
        pair, shift = prepare_pair(place, name, site)
        trained = tune_and_fit(place, name, pair, settings)
        judged.append(judge(pair, trained, seeds=seeds, bootstrap=settings.bootstrap))
        shifts.append(shift)
    differences = [(each.pair.title, each.difference) for each in judged]
    figure = draw_differences(
        differences, "Error AUROC by sd, transductive dropout minus TDNR", "difference in error AUROC by sd"
    )
    return Results(
        title=f"Real patients: {name}",
        about=about,
        tables=[*map(table_one, judged), bars_table(name, judged, simulated=False), _shift_table(name, judged, shifts)],
        figures={} if figure is None else {f"{name}_differences": figure},
        metrics=key_numbers(judged),
        params={"seeds": seeds, "trials": settings.trials, "passes": settings.passes},
    )


def transfer_settings(scale: Scale, seeds: int, trials: int = TRIALS) -> TransferSettings:
    """Every method alike; the quick form has three small ones."""
    if not scale.quick:
        return TransferSettings(
            seeds=seeds, trials=trials, passes=PASSES, bootstrap=BOOTSTRAP, criterion="matched_validation"
        )
    small: dict[str, dict[str, Any]] = {
        "mlp": QUICK_NETWORK,
        "tdnr": QUICK_NETWORK,
        MAIN: QUICK_NETWORK,
        "logistic_regression": {"refits": 5},
    }
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
    from tasks.prepare import encode_pair, prepare_site, require_usable
    from tasks.shift import estimate_site_shift

    network = place.network()
    spec = network.site(site)
    source_name = network.source_of(spec).name
    source = prepare_site(place, source_name)
    require_usable(place, source_name, source)
    target = prepare_site(place, site, source)
    require_usable(place, site, target)
    encoded = encode_pair(place, site, source, target)
    title = f"{network.sites[source_name].title} to {spec.title}"
    return Pair(site, title, encoded, open_outcomes(place, site, encoded)), estimate_site_shift(place, site, encoded)


@step("outcomes", "outcomes {site}")
def open_outcomes(place: Place, site: str, encoded: Ref) -> Ref:
    """Puts a target's outcomes beside its patients in a stage that no training reads."""
    from tdrop.data.outcomes import read_labels
    from tdrop.data.readers import label_fingerprint

    network = place.network()
    spec = network.site(site)

    def build(folder: Path) -> None:
        ids = load_cohort(encoded.path / "target.npz").ids
        labels = read_labels(spec, network.contract_of(spec), ids, home=place.root, base=network.base)
        np.savez(folder / "outcomes.npz", y=labels.y)
        write_json(folder / "labels.json", labels.to_dict())

    data = label_fingerprint(spec, home=place.root, base=network.base)
    return Store(place.root).make("benchmark-truth", {"encoded": encoded.digest, "labels": data}, build)


def _shift_table(name: str, judged: Sequence[Judged], shifts: Sequence[Ref]) -> Table:
    rows = []
    for each, ref in zip(judged, shifts, strict=True):
        shift, source = ref.json("shift.json"), load_cohort(each.pair.encoded.path / "source.npz")
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
                "verdict": shift["verdict"],
                "reason": shift["reason"],
            }
        )
    return Table(f"{name}_shift", "Real patients: the pairs, and what the shift estimate says without labels.", rows)
