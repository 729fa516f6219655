"""An attack on what leaves: everything shown is a linear constraint over counts, and a solver looks for small ones.

The attacker knows the rule of disclosure, how the counts of a site hang together, and this report and the last one.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pytest
from disclosure_attack import MOST, Attack
from numpy.typing import NDArray

from tdrop.base import Cohort
from tdrop.contracts import Disclosure, Validation
from tdrop.data import LabelCounts
from tdrop.disclosure import (
    HIDDEN,
    bounds,
    disclose_labels,
    disclose_rows,
    disclose_shift,
    disclose_validation,
    round_step,
    step_of,
)
from tdrop.evaluate import ALL, Row
from tdrop.shift import Density, FeatureShift, Shift, compare_features

POLICY = Disclosure(threshold=10)
SITES = 200


def draw_site(seed: int) -> dict[str, Any]:
    """The true counts of a site, many of them small."""
    random = np.random.default_rng(seed)
    small = lambda: int(random.integers(0, 10))  # noqa: E731
    groups = [small() if random.random() < 0.5 else int(random.integers(10, 200)) for _ in range(random.integers(2, 6))]
    groups[-1] += 60
    patients = sum(groups)
    missing = small()
    known = patients - missing
    events = [int(random.binomial(size, 0.3)) for size in groups]
    bars = random.multinomial(patients, random.dirichlet(np.full(8, 0.6)))
    return {
        "groups": groups, "patients": patients, "missing": missing, "known": known, "events": events, "bars": bars,
        "quarantined": small(), "duplicates": small(), "errors": min(known, int(random.integers(1, 60))),
        "binary": int(random.integers(0, patients + 1)), "before": max(1, patients - int(random.integers(-9, 10))),
    }  # fmt: skip


def evaluation_rows(site: Mapping[str, Any]) -> list[Row]:
    """The rows of an evaluation that hold counts or shares of counts."""
    rows = [Row("a", "m", ALL, "patients", site["patients"], None, None, site["patients"])]
    known, errors, outcomes = site["known"], site["errors"], sum(site["events"])
    for name, part, n in (("errors", errors, 1), ("error_rate", errors, known), ("outcome_rate", outcomes, known)):
        part_of = outcomes if name == "outcome_rate" else errors
        rows.append(Row("a", "m", ALL, name, part / n, None, None, known, events=part_of))
    left = known - known // 20
    rows.append(Row("a", "m", ALL, "retained_error_5_sd", min(errors, left) / left, None, None, left, events=errors))
    for index, (size, had) in enumerate(zip(site["groups"], site["events"], strict=True)):
        group = f"Stage: {index}"
        rows.append(Row("a", "m", ALL, "patients", size, None, None, size, group=group))
        if size:
            rate = had / size
            rows.append(Row("a", "m", ALL, "outcome_rate", rate, None, None, size, events=had, group=group))
    return rows


def learn_rows(attack: Attack, rows: tuple[Row, ...], groups: int) -> None:
    for row in rows:
        where = "" if row.group == ALL else f" {row.group}"
        shown = row.value if row.value is not None else row.hidden
        if row.metric in ("patients", "errors"):
            attack.learn(f"{row.metric}{where}", shown)
        elif row.value is not None:
            assert row.n is not None
            name = {"error_rate": "errors", "outcome_rate": "outcomes"}.get(row.metric, "left errors")
            attack.learn(f"{name}{where}", row.value * row.n)
        attack.learn("known" if row.group == ALL and row.metric in ("error_rate", "outcome_rate") else "any", row.n)
    for name in ("patients", "outcomes"):
        attack.require({name: -1, **{f"{name} Stage: {index}": 1 for index in range(groups)}}, 0, 0)
        for index in range(groups):
            attack.require({f"patients Stage: {index}": 1, f"outcomes Stage: {index}": -1}, 0, MOST)
    attack.ranges["any"] = (0, MOST)


def learn_documents(attack: Attack, site: Mapping[str, Any]) -> None:
    used, aside, twice = site["patients"], site["quarantined"], site["duplicates"]
    whole = Validation("a", "A", "clinic", "1", used + aside + twice, used, aside, twice, (), stopped=False)
    shown = disclose_validation(whole, POLICY)
    for name in ("read", "used", "quarantined", "duplicates"):
        attack.learn("patients" if name == "used" else name, getattr(shown, name))
    attack.require({"read": 1, "patients": -1, "quarantined": -1, "duplicates": -1}, 0, 0)
    labels = disclose_labels(LabelCounts(known=site["known"], missing=site["missing"]), POLICY)
    attack.learn("known", labels.known)
    attack.learn("missing", labels.missing)
    attack.require({"patients": 1, "known": -1, "missing": -1}, 0, 0)


def learn_shift(attack: Attack, site: Mapping[str, Any]) -> None:
    bars, n, yes = site["bars"], site["patients"], site["binary"]
    places = np.arange(len(bars)) + 0.5
    mean = float(bars @ places / n)
    sd = float(np.sqrt(bars @ (places - mean) ** 2 / n)) or 1.0
    edges = tuple(float(edge) for edge in range(len(bars) + 1))
    ages = Density(edges, (100,) * 8, tuple(int(bar) for bar in bars))
    age = FeatureShift("age", "age", "continuous", 1.0, mean, sd, 0.1, 0.1, "wasserstein", None, 0.0, ages)
    two = Density((0.0, 1.0, 2.0), (400, 400), (n - yes, yes))
    smd = (yes / n - 0.5) / 0.5
    smoker = FeatureShift("smoker", "smoker", "binary", 0.5, yes / n, sd, smd, 0.1, "total_variation", None, 0.0, two)
    whole = Shift("a", "b", 800, n, "go", None, (), None, None, None, None, None, (age, smoker), ())
    shift = disclose_shift(whole, POLICY)
    shown, binary = shift.features
    for index, bar in enumerate(shown.density.target):
        attack.learn(f"bar {index}", bar)
    attack.require({"patients": -1, **{f"bar {index}": 1 for index in range(len(bars))}}, 0, 0)
    half = 0.0 if shown.pooled_sd is None else round_step(step_of(n, 10) * shown.pooled_sd) / 2 + 1e-9
    for side, sign in ((-half, 1), (half, -1)) if half else ():
        weights = {f"bar {index}": sign * place for index, place in enumerate(places)}
        attack.require({**weights, "patients": -sign * (shown.target_mean + side)}, 0, 10 * MOST)
    for name, bar in zip(("no", "yes"), binary.density.target, strict=True):
        attack.learn(name, bar)
    if binary.target_mean is not None and isinstance(shift.target_rows, int):
        attack.learn("yes", binary.target_mean * shift.target_rows)
    attack.require({"patients": -1, "no": 1, "yes": 1}, 0, 0)


def truths(site: Mapping[str, Any]) -> dict[str, int]:
    found = {name: site[name] for name in ("quarantined", "duplicates", "missing", "errors")}
    found |= {f"patients Stage: {index}": size for index, size in enumerate(site["groups"])}
    found |= {f"outcomes Stage: {index}": had for index, had in enumerate(site["events"])}
    found |= {f"bar {index}": int(bar) for index, bar in enumerate(site["bars"])}
    return found | {"yes": site["binary"], "no": site["patients"] - site["binary"]}


@pytest.mark.parametrize("block", range(4))
def test_no_small_count_of_two_hundred_sites_can_be_solved(block: int) -> None:
    tried = 0
    for seed in range(block * SITES // 4, (block + 1) * SITES // 4):
        site = draw_site(seed)
        attack = Attack()
        learn_rows(attack, disclose_rows(evaluation_rows(site), POLICY), len(site["groups"]))
        learn_documents(attack, site)
        learn_shift(attack, site)
        for name, value in truths(site).items():
            if 0 < value < 10:
                low, high = attack.possible(name)
                assert low < high, (seed, name, value)
                tried += 1
    assert tried > 100


def ordinal(site: str, counts: Sequence[int]) -> Cohort:
    """Patients with one ordinal feature."""
    levels = np.repeat(np.arange(1, len(counts) + 1), counts).astype(np.float32)
    return Cohort(site=site, ids=[f"{site}{row}" for row in range(len(levels))], features=("grade",), X=levels[:, None])


def publish(source: Cohort, target: Cohort) -> Shift:
    features = compare_features(source, target)
    whole = Shift("a", "b", len(source), len(target), "go", None, (), None, None, None, None, None, features, ())
    return disclose_shift(whole, POLICY)


def possible_tables(shift: Shift, source: NDArray[Any]) -> NDArray[Any]:
    """Every table of the target (tables, levels) that could have left as this one, for whoever has the source."""
    (shown,) = shift.features
    ends = [(0, 600) if bar == HIDDEN else bounds(bar, 10) for bar in shown.density.target]
    tables = np.array(list(itertools.product(*(range(low, high + 1) for low, high in ends))), dtype=np.float64)
    low, high = bounds(shift.target_rows, 10)
    tables = tables[(tables.sum(axis=1) >= low) & (tables.sum(axis=1) <= high)]
    if shown.pooled_sd is None:
        return tables
    values = np.arange(1.0, len(source) + 1)
    shares, known = tables / tables.sum(axis=1, keepdims=True), source / source.sum()
    means, mean = shares @ values, float(known @ values)
    variances = shares @ values**2 - means**2
    sd = np.sqrt((variances + float(known @ values**2) - mean**2) / 2)
    steps = np.array([step_of(min(rows, source.sum()), 10) for rows in tables.sum(axis=1)])
    grid = np.array([round_step(step_of(rows, 10) * shown.pooled_sd) for rows in tables.sum(axis=1)])
    distance = np.abs(np.cumsum(shares - known, axis=1)[:, :-1]).sum(axis=1) / sd
    unit = 10.0 ** np.floor(np.log10(shown.pooled_sd))
    fits = np.abs(sd - shown.pooled_sd) <= unit / 2 * (1 + 1e-6)
    for number, value, step in (
        (means, shown.target_mean, grid),
        ((means - mean) / sd, shown.smd, steps),
        (distance, shown.distance, steps),
    ):
        fits &= np.abs(number - value) <= step / 2 + 1e-6
    return tables[fits]


@pytest.mark.parametrize("levels", [3, 4])
def test_no_small_count_of_an_ordinal_column_follows_from_its_moments(levels: int) -> None:
    """Every table that fits means, spread, difference and distance is tried, by someone who knows the source."""
    tried = shown = 0
    for seed in range(SITES):
        random = np.random.default_rng(seed)
        target = 1 + random.multinomial(random.integers(40, 500), random.dirichlet(np.full(levels, 1.0)))
        target[random.integers(levels)] = random.integers(1, 10)
        source = 1 + random.multinomial(random.integers(100, 1500), random.dirichlet(np.full(levels, 2.0)))
        shift = publish(ordinal("a", source), ordinal("b", target))
        tables = possible_tables(shift, source)
        assert (tables == target).all(axis=1).any(), "what left must at least allow the truth"
        shown += shift.features[0].target_mean is not None
        for level, count in enumerate(target):
            if count < 10:
                assert len(np.unique(tables[:, level])) > 1, (seed, target, level)
                tried += 1
    assert tried > SITES
    assert shown > 0.8 * SITES, "means must still be worth reading"


def test_no_value_of_a_patient_follows_from_those_of_all_the_others() -> None:
    for seed in range(SITES // 4):
        random = np.random.default_rng(seed)
        psa = random.lognormal(2.0, 1.0, random.integers(30, 300)).round(1).astype(np.float32)
        source, other = random.lognormal(1.8, 1.0, 500).round(1).astype(np.float32), psa.copy()
        other[0] += np.float32(0.1)
        cohorts = [
            Cohort(site="b", ids=[str(row) for row in range(len(values))], features=("psa",), X=values[:, None])
            for values in (source, psa, other)
        ]
        shifts = [publish(cohorts[0], target) for target in cohorts[1:]]
        bars = [shift.features[0].density for shift in shifts]
        if bars[0] == bars[1]:  # else the value lies at the edge of two bars
            assert shifts[0] == shifts[1], seed
        assert shifts[0].features[0].target_mean == pytest.approx(float(psa.mean()), abs=float(psa.std()))


def test_a_value_that_few_patients_have_does_not_follow_from_the_edges_of_bars() -> None:
    """One patient has 17 lesions and all others up to four: bars value by value would tell."""
    random = np.random.default_rng(0)
    cohorts = [
        Cohort(site=site, ids=[f"{site}{row}" for row in range(len(lesions))], features=("lesions",),
               X=lesions[:, None].astype(np.float32))
        for site, lesions in (("a", random.integers(0, 5, 500)), ("b", np.append(random.integers(0, 5, 200), 17)))
    ]  # fmt: skip
    (shown,) = publish(*cohorts).features
    assert shown.density.edges == (-0.5, 0.5, 1.5, 2.5, 3.5, 4.5)
    assert len(shown.density.target) == 5


def test_the_attack_itself_works() -> None:
    """It recovers a count hidden beside exact ones, which is how counts once left."""
    attack = Attack()
    attack.learn("small", "<10")
    for name, value in (("other", 197), ("whole", 200)):
        attack.ranges[name] = (value, value)
    attack.require({"whole": 1, "small": -1, "other": -1}, 0, 0)
    assert attack.possible("small") == (3, 3)
