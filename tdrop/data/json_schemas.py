"""JSON Schemas of tables and sites, with which editors complete and check YAML."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tdrop.contracts import Contract, Site
from tdrop.data import readers

#: A JSON Schema, or a part of one.
Schema = dict[str, Any]
_DRAFT = "https://json-schema.org/draft/2020-12/schema"


def make_json_schemas() -> dict[str, Schema]:
    """Returns the schemas by name: `table` and `site`."""
    table, site = Contract.model_json_schema(by_alias=True), Site.model_json_schema(by_alias=True)
    for schema in (table, site):
        # The name follows from the file's name.
        schema["required"] = [key for key in schema["required"] if key != "name"]
        schema["$schema"] = _DRAFT
    many = table["$defs"]["Rule"]["properties"]["when"]
    table["$defs"]["Rule"]["properties"]["when"] = {"anyOf": [many, many["items"]], "default": []}
    for extract in (site, site["$defs"]["LabelFile"]):
        by_column = extract["properties"]["missing_codes"]
        extract["properties"]["missing_codes"] = {"anyOf": [by_column, by_column["additionalProperties"]]}
        extract["properties"]["reader"].pop("default")
        for heading in ("renames", "units", "categories", "missing_codes"):
            extract["properties"][heading] = {"anyOf": [extract["properties"][heading], {"type": "null"}]}
    site["$defs"]["Reader"] = _reader_schema()
    return {"table": table, "site": site}


def write_json_schemas(folder: Path) -> None:
    """Writes one file per schema into `folder`."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, schema in make_json_schemas().items():
        (folder / f"{name}.json").write_text(json.dumps(schema, indent=1, sort_keys=True) + "\n", encoding="utf-8")


def _reader_schema() -> Schema:
    """The schema of a kind by its name, or of a kind with its options."""
    options = []
    for kind in readers.kinds():
        schema = readers.reader_class(kind).model_json_schema()
        schema["properties"] = {"kind": {"const": kind}, **schema.get("properties", {})}
        schema["required"] = ["kind", *schema.get("required", [])]
        options.append(schema)
    return {"title": "Reader", "anyOf": [{"enum": list(readers.kinds())}, *options]}
