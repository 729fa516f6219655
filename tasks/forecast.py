"""What a site can expect, sealed before its labels are opened; and the comparison when they come."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tasks.artifacts import leave, table
from tasks.files import load_cohort, load_summary
from tasks.ledger import seal
from tasks.place import Place, ResolvedSite
from tasks.progress import report
from tasks.shift import fitted_propensity, load_propensity
from tasks.step import step
from tasks.store import Ref, Store
from tasks.tune import PREDICTIONS, RISKS
from tdrop.choose import Choice
from tdrop.errors import DataError
from tdrop.forecast import Evidence, Forecast, Promise, bound_error, committee_risk, forecast, promise, true_risk
from tdrop.records import read_arrays, read_record, write_record
from tdrop.shift import Propensity, density_ratio_weights
from tdrop.types import Doubles

logger = logging.getLogger(__name__)

FORECAST = "forecast.json"
SETS = "sets.json"
SEED = 0


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
        bounds = _bounds(encoded, kept, evidence, threshold)
        write_record(folder / FORECAST, forecast(site.name, evidence, threshold, bounds=bounds, seed=SEED))
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
    _show(site.name, chosen, found)
    return ref


def load_evidence(folds: Mapping[str, Ref], fits: Mapping[str, Sequence[Ref]]) -> list[Evidence]:
    """What a forecast may see of every method."""
    found = []
    for method, ref in folds.items():
        target = load_summary(fits[method][0].path / PREDICTIONS).mean.astype(np.float64)
        kept = read_arrays(ref.path / RISKS)
        found.append(Evidence(method, kept["risk"], kept["y"], kept["weights"], target))
    return found


def idea_of_truth(evidence: Sequence[Evidence], method: str) -> Doubles:
    """The forecast's idea of the patients' true risks, for one method's AUROC (target rows,)."""
    own = next(one for one in evidence if one.method == method)
    return true_risk(own, committee_risk(evidence))


def list_promises(
    place: Place,
    encoded: Ref,
    folds: Mapping[str, Ref],
    evidence: Sequence[Evidence],
    outcomes: NDArray[Any] | None = None,
) -> tuple[Promise, ...]:
    """The prediction sets of every method, counted; with outcomes (target rows,), also whether they held."""
    own, theirs = _ratios(place, encoded)
    found = []
    for one in evidence:
        kept = read_arrays(folds[one.method].path / RISKS)
        weights = own[kept["rows"]]
        given = (one.source, one.y, weights, one.target, theirs)
        found.append(promise(one.method, given, outcomes=outcomes))
    return tuple(found)


def site_propensity(place: Place, encoded: Ref) -> Propensity:
    """P(target | x) of both sites' patients."""
    found = load_propensity(fitted_propensity(place, encoded))
    if found is None:
        raise DataError("a forecast needs at least 2 patients a site; check the extract's counts")
    return found


def _ratios(place: Place, encoded: Ref) -> tuple[Doubles, Doubles]:
    """Density ratios of source and target rows on one scale, capped alike."""
    fitted = site_propensity(place, encoded)
    capped = density_ratio_weights(fitted)
    odds = [one / (1 - one) for one in (np.clip(fitted.source, 0, 1 - 1e-12), np.clip(fitted.target, 0, 1 - 1e-12))]
    return capped, np.minimum(odds[1] / odds[0].mean(), capped.max())


def _bounds(encoded: Ref, folds: Mapping[str, Ref], evidence: Sequence[Evidence], threshold: float) -> list[Any]:
    source, target = load_cohort(encoded.path / "source.npz"), load_cohort(encoded.path / "target.npz")
    found = []
    for one in evidence:
        kept = read_arrays(folds[one.method].path / RISKS)
        features = source.X[kept["rows"]], target.X
        found.append(bound_error(one.method, features, (one.source, one.target), one.y, threshold, seed=SEED))
    return found


def _seal(place: Place, site: str, models: Ref, chosen: str, found: Forecast) -> None:
    """Keeps the forecast in the ledger; a ledger that somebody changed costs the line and not the site's report."""
    try:
        seal(place, site, models.digest, chosen, found)
    except DataError as error:
        logger.warning("site %s: the forecast was not sealed: %s", site, error)
        report(site, "forecast", detail=str(error))


def _show(site: str, chosen: str, found: Forecast) -> None:
    rows = [[one.method, one.quantity, one.value, one.low, one.high] for one in found.answers]
    leave(site, "forecast", f"# {site}: forecast\n\n" + table(["method", "number", "expected", "low", "high"], rows))
    answer = found.of(chosen)
    if answer is not None and answer.value is not None and answer.low is not None and answer.high is not None:
        report(site, "forecast", detail=f"AUROC {answer.value:.2f} ({answer.low:.2f} to {answer.high:.2f}) expected")
