"""An attack on what leaves: everything shown is a linear constraint over counts, and a solver looks for small ones.

The attacker knows the rule of disclosure, how the counts of a site hang together, and this report and the last one.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest
from disclosure_attack import MOST, Attack

from tdrop.contracts import Disclosure, Validation
from tdrop.data.outcomes import LabelCounts
from tdrop.disclosure import disclose_labels, disclose_rows, disclose_shift, disclose_validation, step_of
from tdrop.evaluate import ALL, Row
from tdrop.shift import Density, FeatureShift, Shift

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
    half = step_of(n, 10) * sd / 2 + 1e-9
    for side, sign in ((-half, 1), (half, -1)):
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


def test_the_attack_itself_works() -> None:
    """It recovers a count hidden beside exact ones, which is how counts once left."""
    attack = Attack()
    attack.learn("small", "<10")
    for name, value in (("other", 197), ("whole", 200)):
        attack.ranges[name] = (value, value)
    attack.require({"whole": 1, "small": -1, "other": -1}, 0, 0)
    assert attack.possible("small") == (3, 3)
