"""The JSON Schemas that editors use say what the grammar says."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

from tdrop.data import make_json_schemas, write_json_schemas

CONTRACTS = Path(__file__).parents[3] / "data_contracts"
SCHEMAS = make_json_schemas()


def problems(kind: str, data: Any) -> list[str]:
    validator = jsonschema.Draft202012Validator(SCHEMAS[kind])
    return [error.json_path for error in validator.iter_errors(json.loads(json.dumps(data)))]


def test_the_stored_schemas_are_current(tmp_path: Path) -> None:
    write_json_schemas(tmp_path)
    for name in ("table", "site"):
        stored = (CONTRACTS / "schemas" / f"{name}.json").read_text()
        assert stored == (tmp_path / f"{name}.json").read_text(), "run tdrop.data.json_schemas.write_json_schemas"
        jsonschema.Draft202012Validator.check_schema(json.loads(stored))


@pytest.mark.parametrize(
    "path", sorted([*CONTRACTS.glob("tables/*.yaml"), *CONTRACTS.glob("sites/*.yaml")]), ids=lambda path: path.stem
)
def test_our_own_files_fit_and_point_to_their_schema(path: Path) -> None:
    kind = path.parent.name.removesuffix("s")
    assert problems(kind, yaml.safe_load(path.read_text())) == []
    assert path.read_text().startswith(f"# yaml-language-server: $schema=../schemas/{kind}.json\n")


@pytest.mark.parametrize(("old", "new"), [
    ("separator:", "seperator:"), ("kind: csv", "kind: cvs"), ("role: target", "role: goal"), ("renames:", "rename:"),
    ("table: prostate\n", ""), ("simulated: true", "simulated: perhaps"),
])  # fmt: skip
def test_slips_are_marked_in_the_editor(old: str, new: str) -> None:
    text = (CONTRACTS / "sites" / "hillside.yaml").read_text()
    assert old in text
    assert problems("site", yaml.safe_load(text.replace(old, new)))


def test_every_way_to_write_it_fits() -> None:
    text = """
title: North
table: prostate
role: target
source: registry
reader: {kind: sql, url_env: HOSPITAL_DB_URL, table: export.patients}
renames:
missing_codes: {psa: [NA, -9, 9.5], "*": [.]}
categories: {comorbidity: {yes: 1, no: 0, 2: true}}
labels: {location: a.csv, reader: csv, missing_codes: [x]}
"""
    assert problems("site", yaml.safe_load(text)) == []
