"""Several sources of one target: patients at two of them, too few outcomes, another unit, a column that one lacks."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from conftest import settle

from flows.shift import compare_patients
from tasks.prepare import (
    columns_to_leave_out,
    encode_sources,
    encode_target,
    fingerprint_labels,
    pool_sources,
    read_and_check,
)
from tdrop.base import ContractError
from tdrop.contracts import Validation
from tdrop.data import fingerprint, simulate
from tdrop.home import files, load_cohort

SITE = """title: {name}
table: prostate
role: source
simulated: true
location: {name}.csv
reader: {{kind: csv}}
disclosure: {{exempt: true}}
"""


def add_source(workspace, name: str, frame: pd.DataFrame) -> None:
    frame.to_csv(workspace.network().base / f"{name}.csv", index=False)
    settle(workspace.network().base)
    sites(workspace).joinpath(f"{name}.yaml").write_text(SITE.format(name=name))


def sites(workspace) -> Path:
    return Path(workspace.contracts) / "sites"


@pytest.fixture
def registry(tiny_network) -> pd.DataFrame:
    """The registry's patients; the network's targets learn from every labelled site."""
    for file in sites(tiny_network).glob("*.yaml"):
        file.write_text(file.read_text().replace("source: registry\n", ""))
    return pd.read_csv(tiny_network.root / "demo" / "registry.csv")


def encode(workspace, name: str = "harbour"):
    """The pool's checks, which sources were left out, and the encoded pool."""
    site = workspace.resolve(name)
    where = {"home": workspace.root, "base": site.network.base}
    prepared = [read_and_check.fn(own, fingerprint(own.site, **where)) for own in site.resolved_sources()]
    pool = pool_sources(site, prepared)
    target = read_and_check.fn(site, fingerprint(site.site, **where), pool)
    left_out = columns_to_leave_out(site, pool, target)
    labelled = encode_sources.fn(site, site.resolved_sources(), pool, fingerprint_labels(site), *left_out)
    encoded = encode_target.fn(site, labelled, target)
    return (
        pool.record(Validation, "validation.json"),
        encoded.json(files.SMALL_SOURCES),
        load_cohort(encoded.path / files.SOURCE),
    )


def strangers(rows: int, seed: int) -> pd.DataFrame:
    return (
        simulate("source", rows, seed=seed)
        .drop(columns="true_risk")
        .assign(patient_id=lambda x: f"{seed}-" + x.patient_id)
    )


def test_the_odd_source_is_named_and_a_patient_at_two_sources_counts_once(tiny_network, registry):
    second, third = strangers(300, 1), strangers(300, 2)
    add_source(tiny_network, "second", second.assign(psa=second["psa"] / 1000))
    add_source(tiny_network, "third", pd.concat([registry.iloc[:40], third.iloc[40:]]))
    validation, small, pool = encode(tiny_network)
    sentences = [item.sentence for item in validation.findings if item.rule.startswith("between.")]
    assert any(sentence.startswith("source 'second': column 'psa'") for sentence in sentences), sentences
    assert any("source 'third': 40 of 300 patients are in the other sources'" in sentence for sentence in sentences)
    assert not small
    assert set(pool.origins) == {"registry", "second", "third"}
    assert (pool.origins == "third").sum() == 260


def test_a_source_with_five_outcomes_is_left_out_and_one_may_lack_a_column(tiny_network, registry):
    few = registry.assign(patient_id="few " + registry["patient_id"].astype(str))
    few["died_10y"] = (np.arange(len(few)) < 5).astype(int)
    add_source(tiny_network, "few", few)
    add_source(
        tiny_network, "lacking", registry.assign(patient_id="l" + registry["patient_id"].astype(str), psa=np.nan)
    )
    validation, small, pool = encode(tiny_network)
    assert any("the other sources have values" in finding.sentence for finding in validation.findings)
    assert small == ["few"]
    assert set(pool.origins) == {"registry", "lacking"}
    assert np.isfinite(pool.X).all()
    page = Path(compare_patients(tiny_network.resolve("harbour")).page).read_text()
    compared = page.split("Compared with")[1].split("</p>")[0]
    assert "lacking" in compared
    assert "few" not in compared


def test_a_target_that_is_also_its_source_is_refused(tiny_network, registry):
    file = sites(tiny_network) / "harbour.yaml"
    file.write_text(file.read_text().replace("role: target", "role: both\nsources: [registry, harbour]"))
    with pytest.raises(ContractError, match="'harbour' cannot learn from itself"):
        tiny_network.resolve("harbour")


def test_a_title_names_the_first_of_many_sources(tiny_network, registry):
    for place in range(6):
        add_source(tiny_network, f"site{place}", strangers(20, place))
    title = tiny_network.resolve("harbour").source_title()
    assert title.count(",") == 3
    assert title.endswith(" and 3 other sites")
