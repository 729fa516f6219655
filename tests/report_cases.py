"""A site as a report sees it: real contract, simulated patients, real shift and matching, drawn predictions.

Nothing is trained: predictions scatter around the true risk, so that a report can be made in seconds.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tdrop.base import Summary
from tdrop.choose import Choice, ChoiceRow, Trial
from tdrop.contracts import Finding, Validation, load_network
from tdrop.data import LabelCounts, learn_encoder, simulate, subgroups_of
from tdrop.evaluate import evaluate_methods
from tdrop.forecast import Evidence, Forecast, Influence, Observation, forecast_methods
from tdrop.methods import method_names
from tdrop.report import Provenance, ReportData, SiteSummary
from tdrop.shift import Shares, estimate_shift, match

LEVELS = (0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.99)
_QUANTILES = np.array([0.674, 0.842, 1.036, 1.282, 1.645, 1.960, 2.576])
CONTRACTS = Path(__file__).resolve().parents[1] / "data_contracts"


def summarise(logit: np.ndarray, spread: np.ndarray, passes: int = 100) -> Summary:
    """Makes a Summary whose intervals are normal on the logit scale."""
    risk = 1 / (1 + np.exp(-logit))
    low, high = (1 / (1 + np.exp(-(logit + sign * _QUANTILES[:, None] * spread))) for sign in (-1, 1))
    sd = risk * (1 - risk) * spread
    parts = [part.astype(np.float32) for part in (risk, sd, low, high)]
    return Summary(parts[0], parts[1], LEVELS, parts[2], parts[3], passes)


def predict(true_risk: np.ndarray, methods: tuple[str, ...], seeds: int, seed: int = 0) -> dict[str, list[Summary]]:
    """Draws predictions of every method around the true risk; `mlp` has no spread."""
    random = np.random.default_rng(seed)
    truth = np.log(true_risk / (1 - true_risk))
    found: dict[str, list[Summary]] = {}
    for index, method in enumerate(methods):
        found[method] = []
        for _ in range(seeds):
            logit = 0.9 * truth - 0.2 + random.normal(0, 0.15 + 0.04 * index, len(truth))
            spread = np.exp(random.normal(-1.4 + 0.05 * index, 0.4, len(truth))) + 0.1 * np.abs(truth)
            passes = 1 if method == "mlp" else 100
            found[method].append(summarise(logit, spread if passes > 1 else np.zeros(len(truth)), passes))
    return found


@cache
def frames(source_rows: int = 2000, target_rows: int = 1200, population: str = "moderate") -> tuple[Any, Any]:
    """Draws both sites."""
    return simulate("source", source_rows, seed=1), simulate(population, target_rows, seed=2)


@cache
def comparison(source_rows: int = 2000, target_rows: int = 1200, population: str = "moderate") -> tuple[Any, Any]:
    """Compares and matches both sites."""
    source_frame, target_frame = frames(source_rows, target_rows, population)
    encoder = learn_encoder(source_frame, load_network(CONTRACTS).contracts["prostate"])
    source, target = encoder.encode(source_frame, "registry"), encoder.encode(target_frame, "harbour")
    return estimate_shift(source, target), match(source, target)


def make_trials(methods: tuple[str, ...]) -> dict[str, list[Trial]]:
    """Invents one picked trial a method."""
    return {
        method: [
            Trial(method, {"steps": 30, "learning_rate": 0.003}, log_loss=0.52 + 0.004 * index, standard_error=0.01,
                  error_auroc=None if method == "mlp" else 0.71, errors=61, n=200,
                  auroc=0.79 - 0.003 * index, brier=0.17)
        ]
        for index, method in enumerate(methods)
    }  # fmt: skip


def make_choice(method: str, methods: tuple[str, ...]) -> Choice:
    """Invents a choice of one method."""
    order = [method, *(name for name in methods if name != method)]
    table = tuple(
        ChoiceRow(
            method=name, candidate=name != "mlp", log_loss=0.51 + 0.004 * index, standard_error=0.01,
            behind=0.004 * index, behind_error=0.003, tied=index < 1, matched_log_loss=0.52 + 0.003 * index,
            weighted_log_loss=0.51 + 0.004 * index, n=2000, effective_n=740.0,
        )
        for index, name in enumerate(order)
    )  # fmt: skip
    return Choice(method, order[1], "importance_weighted", table, mlp_better=False)


def make_validation(title: str, rows: int) -> Validation:
    """Invents what the check of an extract found."""
    outside, unusual = (
        "PSA: {count} of {total} values are outside 0 to 10,000 ng/mL",
        "PSA: {count} of {total} values are unusual",
    )
    fix = "check its unit in data_contracts/sites/harbour.yaml"
    findings = (
        Finding("psa.range", "psa", "row_critical", 14, rows + 20, outside, fix),
        Finding("psa.plausible", "psa", "row_warning", 31, rows + 20, unusual),
    )
    return Validation(
        "harbour", title, "prostate", "1", rows + 20, rows, 14, 6, findings, stopped=False, simulated=True
    )


@cache
def make_forecast(methods: tuple[str, ...], source_rows: int = 2000, target_rows: int = 1200) -> Forecast:
    """Forecasts from risks drawn around the true ones at both sites."""
    return _forecast(methods, source_rows, target_rows)


#: Three sources by name, with what they are called.
SOURCES = {"registry": "National registry", "bridgeton": "Bridgeton General", "northgate": "Northgate Clinic"}


def learned_from_several(data: ReportData, source_rows: int = 2000, target_rows: int = 1200) -> ReportData:
    """The same report of a site that learned from three sources, which were left out in turn."""
    origins = np.array(list(SOURCES))[np.arange(source_rows) % 3]
    forecast = _forecast(tuple(data.predictions), source_rows, target_rows, origins)
    influence = tuple(Influence(name, source_rows // 3, 0.21, 0.25, 0.041) for name in SOURCES)
    shares = Shares(tuple(sorted(SOURCES)), (0.33, 0.33, 0.34), (0.6, 0.3, 0.1))
    shift, matching = replace(data.shift, shares=shares), replace(data.matching, drawn_from=dict.fromkeys(SOURCES, 40))
    forecast = replace(forecast, influence=influence)
    return replace(data, forecast=forecast, shift=shift, matching=matching, source_titles=SOURCES)


def _forecast(
    methods: tuple[str, ...], source_rows: int, target_rows: int, origins: NDArray[Any] | None = None
) -> Forecast:
    source, target = frames(source_rows, target_rows)
    risks = [predict(frame["true_risk"].to_numpy(), methods, 1) for frame in (source, target)]
    y = source["died_10y"].to_numpy(np.float64)
    evidence = [
        Evidence(method, *(risks[0][method][0].mean.astype(np.float64), y, np.ones(len(y))),
                 risks[1][method][0].mean.astype(np.float64), origins=origins)
        for method in methods
    ]  # fmt: skip
    return forecast_methods("harbour", evidence, 0.15, resamples=20)


def make_observations(expected: Forecast, method: str, n: int, observed: float | None = None) -> list[Observation]:
    """One observation a number of one method: at the forecast, or where `observed` says."""
    return [
        Observation(one.method, one.quantity, one.value, one.low, one.high, seen, None, None, n,
                    one.low <= seen <= one.high)
        for one in expected.answers
        if one.method == method and one.value is not None and one.low is not None and one.high is not None
        for seen in [one.value if observed is None else observed]
    ]  # fmt: skip


def report_data(
    *,
    labelled: bool = True,
    method: str = "transductive_dropout",
    source_rows: int = 2000,
    target_rows: int = 1200,
    population: str = "moderate",
    methods: tuple[str, ...] | None = None,
    seeds: int = 2,
    bootstrap: int = 50,
    exempt: bool = True,
    **changes: Any,
) -> ReportData:
    """Makes everything a report needs; `changes` replace fields of the result."""
    network = load_network(CONTRACTS)
    contract, site = network.contracts["prostate"], network.site("harbour")
    disclosure = site.disclosure.model_copy(update={"exempt": exempt})
    site = site.model_copy(update={"disclosure": disclosure})
    source_frame, target_frame = frames(source_rows, target_rows, population)
    shift, matching = comparison(source_rows, target_rows, population)
    methods = methods or method_names()
    predictions = predict(target_frame["true_risk"].to_numpy(), methods, seeds)
    y = target_frame["died_10y"].to_numpy(np.float64) if labelled else None
    evaluation = evaluate_methods(
        site.name, predictions, y, site.decision, seeds=range(seeds), bootstrap=bootstrap,
        subgroups=subgroups_of(target_frame, contract),
    )  # fmt: skip
    hidden = ["died_10y", "true_risk", "patient_id"]
    data = ReportData(
        site=site,
        source_title=network.sources_of(site)[0].title,
        contract=contract,
        validation=make_validation(site.title, target_rows),
        source_validation=make_validation("Registry", source_rows),
        shift=shift,
        matching=matching,
        tuning=make_trials(methods),
        choice=make_choice(method, methods),
        evaluation=evaluation,
        predictions=predictions,
        y=y,
        source_frame=source_frame.drop(columns=hidden),
        target_frame=target_frame.drop(columns=hidden),
        labels=LabelCounts(known=target_rows) if labelled else None,
        provenance=Provenance(
            created="2026-11-16 09:30",
            contract="prostate 1",
            digests={"source rows": "a1" * 32, "target rows": "b2" * 32, "models": "c3" * 32},
            settings={"passes": 100, "budget": 12},
            seeds=tuple(range(seeds)),
            versions={"tdrop": "0.1.0", "torch": "2.13.0"},
        ),
        previous=SiteSummary("harbour", "Harbour Hospital", verdict="go", method="ensemble", method_label="Ensemble",
                             patients=1100, referred=180, labelled=0, created="2026-10-12 08:00"),
    )  # fmt: skip
    return replace(data, **changes)
