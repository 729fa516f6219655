"""What a site can expect, sealed before its labels are opened; and the comparison when they come."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from pathlib import Path

from tasks.held_pages import leave_numbers
from tasks.step import step
from tdrop.base import DataError, read_record, write_record
from tdrop.choose import Choice
from tdrop.forecast import Forecast, forecast_methods
from tdrop.home import FORECAST, RISKS, SETS, Place, Ref, ResolvedSite, Store, compute, report
from tdrop.runs import SEED, forecast_page, list_promises, load_evidence, seal

logger = logging.getLogger(__name__)


@step("forecast", "forecast {site.name}")
def forecast_site(
    site: ResolvedSite,
    encoded: Ref,
    folds: Mapping[str, Ref],
    fits: Mapping[str, Sequence[Ref]],
    models: Ref,
    choice: Ref,
) -> Ref | None:
    """Forecasts every method and seals the answer with the models' digest; None where no out-of-fold risks were kept.

    Args:
        site: The target site.
        encoded: The encoded cohorts; the target's carries no labels.
        folds: By method, the stage with its out-of-fold risks.
        fits: By method, one fit a seed; the first seed's risks are what patients are told.
        models: The lock on exactly these fits.
        choice: The chosen method.
    """
    kept = {method: folds[method] for method in fits if method in folds and (folds[method].path / RISKS).is_file()}
    if not kept:
        return None
    place, threshold = site.place, site.site.decision.threshold
    chosen = read_record(Choice, choice.path / "choice.json").method

    def build(folder: Path) -> None:
        evidence = load_evidence(kept, fits)
        found = compute(forecast_methods, site.name, evidence, threshold, seed=SEED)
        write_record(folder / FORECAST, found)
        write_record(folder / SETS, list_promises(place, encoded, kept, evidence))

    inputs = {
        "models": models.digest,
        "encoded": encoded.digest,
        "folds": {method: ref.digest for method, ref in kept.items()},
        "threshold": threshold,
    }
    ref = Store(place.root).make("forecast", inputs, build)
    found = read_record(Forecast, ref.path / FORECAST)
    _seal(place, site.name, models, chosen, found)
    _show(site, chosen, found)
    return ref


def _seal(place: Place, site: str, models: Ref, chosen: str, found: Forecast) -> None:
    """Keeps the forecast in the ledger; a ledger that somebody changed costs the line and not the site's report."""
    try:
        seal(place, site, models.digest, chosen, found)
    except DataError as error:
        logger.warning("site %s: the forecast was not sealed: %s", site, error)
        report(site, "forecast", detail=str(error))


def _show(site: ResolvedSite, chosen: str, found: Forecast) -> None:
    leave_numbers(site, "forecast", forecast_page(site.name, found))
    answer = found.find(chosen)
    if answer is not None and answer.value is not None and answer.low is not None and answer.high is not None:
        report(
            site.name, "forecast", detail=f"AUROC {answer.value:.2f} ({answer.low:.2f} to {answer.high:.2f}) expected"
        )
