"""The page about the grammar shows YAML that the grammar accepts, and leaves no key out."""

from __future__ import annotations

import re
from pathlib import Path

import yaml

from tdrop.contracts import (
    DEFAULT_SEVERITY,
    Column,
    Contract,
    Decision,
    Disclosure,
    LabelFile,
    Limits,
    Outcome,
    Rule,
    Site,
    Subgroup,
    parse_yaml,
)

PAGE = (Path(__file__).parents[3] / "docs" / "CONTRACTS.md").read_text()
TABLE, SITE = re.findall(r"```yaml\n(.*?)```", PAGE, flags=re.DOTALL)


def test_the_examples_are_accepted() -> None:
    table = parse_yaml(TABLE, Path("prostate.yaml")).data
    table["columns"].append({"name": "age", "unit": "years"})
    assert Contract.model_validate({"name": "prostate", **table}).outcome.horizon == "10 years"
    site = Site.model_validate({"name": "hillside", **parse_yaml(SITE, Path("hillside.yaml")).data})
    assert site.codes_of("psa") == {"-9", "NA"}


def test_every_key_is_on_the_page() -> None:
    for model in (Contract, Column, Rule, Outcome, Subgroup, Limits, Site, LabelFile, Decision, Disclosure):
        for name, field in model.model_fields.items():
            written = field.alias or name
            if written not in ("description", "fix"):
                assert re.search(rf"\b{written}\b", PAGE), f"{model.__name__}.{written}"


def test_the_defaults_are_the_defaults() -> None:
    for check, severity in DEFAULT_SEVERITY.items():
        assert re.search(rf"`{check}`[^.]*?{severity}", PAGE), check
    shown = yaml.safe_load(SITE)
    assert Decision.model_validate(shown["decision"]) == Decision()
    assert Disclosure.model_validate(shown["disclosure"]) == Disclosure()
    assert shown["labels"]["tolerance"] == LabelFile.model_fields["tolerance"].default
