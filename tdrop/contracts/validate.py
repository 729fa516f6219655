"""Runs a contract's expectations with Great Expectations, in two steps, and accounts for every row.

The first step asks how many rows break each rule; the second asks which, only for the rules that take rows out
and only where some did. Great Expectations is imported here and nowhere else, and only when called.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from tdrop.contracts.expectations import READABLE_SUFFIX, suite
from tdrop.contracts.findings import Finding, Validation, sort_findings
from tdrop.contracts.site import Site
from tdrop.contracts.table import Contract
from tdrop.errors import DataError
from tdrop.types import Indices

Mask = NDArray[np.bool_]

_SEVERITIES = {
    "row_critical": "critical",
    "table_stop": "critical",
    "row_warning": "warning",
    "table_warning": "warning",
    "info": "info",
}
_STEP_COUNTS = {"result_format": "SUMMARY", "partial_unexpected_count": 0}
_STEP_ROWS = {"result_format": "COMPLETE", "partial_unexpected_count": 0, "return_unexpected_index_query": False}


@dataclass(frozen=True)
class Checked:
    """An extract after validation.

    Attributes:
        validation: What was found, and where every row went.
        used: The rows to use, in the contract's columns.
        quarantine: The other rows, duplicates included: id, row (line in the extract), rules.
    """

    validation: Validation
    used: pd.DataFrame
    quarantine: pd.DataFrame


def validate(
    frame: pd.DataFrame,
    contract: Contract,
    site: Site,
    *,
    rows: Indices | None = None,
    unreadable: Mapping[str, Mask] | None = None,
    findings: Sequence[Finding] = (),
    hints: Mapping[str, str] | None = None,
) -> Checked:
    """Checks a harmonised extract.

    Args:
        frame: Columns by the contract's names, one row a patient.
        contract: The table.
        site: The site, for its name, role and duplicates policy.
        rows: Line of each row in the extract (rows,); 1, 2, ... unless given.
        unreadable: By column, which values were there but could not be read (rows,).
        findings: What harmonising already found.
        hints: By rule, what to do about it that only the extract as it was sent could tell.
    """
    marks = {name: mask for name, mask in (unreadable or {}).items() if mask.any()}
    lines = np.arange(1, len(frame) + 1) if rows is None else np.asarray(rows)
    expectations = suite(contract, frame.columns, labels=site.role == "source", unreadable=marks)
    expectations = [{**item, "fix": (hints or {}).get(item["rule"]) or item["fix"]} for item in expectations]
    table = frame.reset_index(drop=True)
    if contract.id_column in table:
        # Numbers stand for the ids: checked alike, and far cheaper to compare than text.
        table[contract.id_column] = _number_ids(table[contract.id_column])
    for name, mask in marks.items():
        table[f"{name}{READABLE_SUFFIX}"] = ~mask
    counts = _once(_run(table, expectations, _STEP_COUNTS))
    broken = _broken_rows(table, [item for item in expectations if _takes_rows_out(item) and counts[item["rule"]]])
    out = np.zeros(len(table), dtype=bool)
    for failing in broken.values():
        out[failing] = True
    repeated, conflicting = _find_duplicates(table, contract, site, out)
    found = list(findings) + [
        _finding(item, counts[item["rule"]], len(table), contract)
        for item in expectations
        if counts[item["rule"]] and not item["rule"].endswith(".unique")
    ]
    found += _table_findings(contract, site, len(table), int(out.sum()), int(repeated.sum()), conflicting)
    validation = Validation(
        site=site.name,
        title=site.title,
        contract=contract.name,
        contract_version=contract.version,
        read=len(table),
        used=int((~out & ~repeated).sum()),
        quarantined=int(out.sum()),
        duplicates=int(repeated.sum()),
        findings=sort_findings(tuple(found)),
        stopped=any(finding.severity == "table_stop" for finding in found),
        suite=tuple(expectations),
        simulated=site.simulated,
        public=site.public,
    )
    kept = ~out & ~repeated
    used = (frame if kept.all() else frame[kept]).reset_index(drop=True)
    return Checked(validation, used, _quarantine(frame, contract, lines, broken, repeated))


def _number_ids(ids: pd.Series) -> pd.Series:
    numbers = pd.factorize(ids)[0].astype(np.float64)
    numbers[numbers < 0] = np.nan
    return pd.Series(numbers, index=ids.index)


def _once(counts: dict[str, int]) -> dict[str, int]:
    """Counts an impossible value once: not as implausible too (a plausible range lies within the possible one)."""
    impossible = {
        f"{rule.removesuffix('.range')}.plausible": count for rule, count in counts.items() if rule.endswith(".range")
    }
    return {
        rule: count - (impossible.get(rule, 0) if rule.endswith(".plausible") else 0) for rule, count in counts.items()
    }


def _takes_rows_out(expectation: Mapping[str, Any]) -> bool:
    return bool(expectation["severity"] == "row_critical")


def _run(table: pd.DataFrame, expectations: Sequence[Mapping[str, Any]], step: dict[str, Any]) -> dict[str, Any]:
    """Runs expectations; returns by rule a count, or with the second step the positions, of what breaks it."""
    if not len(table) or not expectations:
        return {item["rule"]: int(item["type"] == "expect_column_to_exist") for item in expectations}
    os.environ.setdefault("GX_ANALYTICS_ENABLED", "false")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import great_expectations
        from great_expectations.expectations.registry import get_expectation_impl

        context = great_expectations.get_context(mode="ephemeral")
        context.variables.progress_bars = {"globally": False}
        asset = context.data_sources.add_pandas("extract").add_dataframe_asset("extract")
        batch = asset.add_batch_definition_whole_dataframe("all").get_batch({"dataframe": table})
        compiled = great_expectations.ExpectationSuite(
            name="contract",
            expectations=[
                get_expectation_impl(item["type"])(
                    **item["kwargs"], severity=_SEVERITIES[item["severity"]], meta={"rule": item["rule"]}
                )
                for item in expectations
            ],
        )
        results = batch.validate(compiled, result_format=step)
    by_rule = {result.expectation_config.meta["rule"]: result for result in results.results}
    return {item["rule"]: _answer(by_rule[item["rule"]], item, step) for item in expectations}


def _answer(result: Any, expectation: Mapping[str, Any], step: dict[str, Any]) -> Any:
    if expectation["type"] == "expect_column_to_exist":
        return int(not result.success)
    if result.exception_info.get("raised_exception") or "unexpected_count" not in result.result:
        raise DataError(
            f"rule '{expectation['rule']}' could not be run on column '{expectation['column']}'; "
            "check its type and the rule in the table's YAML"
        )
    if step is _STEP_ROWS:
        return np.asarray(result.result["unexpected_index_list"], dtype=np.int64)
    return 0 if result.success else int(result.result["unexpected_count"])


def _broken_rows(table: pd.DataFrame, expectations: Sequence[Mapping[str, Any]]) -> dict[str, Indices]:
    """By rule, the positions of the rows that break it."""
    return _run(table, expectations, _STEP_ROWS) if expectations else {}


def _find_duplicates(table: pd.DataFrame, contract: Contract, site: Site, out: Mask) -> tuple[Mask, int]:
    """Marks the rows of patients that are listed again, among the rows still in; counts contradictions."""
    repeated = np.zeros(len(table), dtype=bool)
    if contract.id_column not in table or not len(table):
        return repeated, 0
    kept = table.loc[~out, [name for name in contract.names if name in table]]
    ids = kept[contract.id_column]
    if not ids.duplicated().any():
        return repeated, 0
    repeated[~out] = ids.duplicated(keep="last" if site.duplicates == "last" else "first").to_numpy()
    several = kept[ids.duplicated(keep=False)]
    distinct = several.drop_duplicates()[contract.id_column]
    return repeated, distinct[distinct.duplicated()].nunique()


def _finding(expectation: Mapping[str, Any], count: int, total: int, contract: Contract) -> Finding:
    column = contract.column(expectation["column"])
    name = f"column '{column.name}'"
    if expectation["type"] == "expect_column_to_exist":
        sentence = f"{name} ({column.label}) {expectation['sentence']}"
    elif column.role == "id" or "." not in expectation["rule"]:
        sentence = f"{name}: {count:,} of {total:,} rows {expectation['sentence']}"
    else:
        sentence = f"{name}: {count:,} of {total:,} values {expectation['sentence']}"
    return Finding(
        expectation["rule"], column.name, expectation["severity"], count, total, sentence, expectation["fix"]
    )


def _table_findings(
    contract: Contract, site: Site, read: int, quarantined: int, duplicates: int, conflicting: int
) -> list[Finding]:
    """What concerns the table as a whole: its size, and how much of it was set aside."""
    limits, found = contract.limits, []
    if read < limits.min_rows:
        found.append(
            Finding(
                "table.rows",
                None,
                "table_stop",
                read,
                read,
                f"the extract has {read:,} rows, at least {limits.min_rows:,} are needed",
                "check that the export was complete",
            )
        )
    if read and quarantined / read > limits.quarantine:
        found.append(
            Finding(
                "table.quarantine",
                None,
                "table_stop",
                quarantined,
                read,
                f"{quarantined:,} of {read:,} rows had to be set aside, more than the "
                f"{limits.quarantine:.0%} that the contract allows",
                "settle the row-critical findings first",
            )
        )
    if duplicates:
        too_many = duplicates / read > limits.duplicates or site.duplicates == "refuse"
        found.append(
            Finding(
                f"{contract.id_column}.unique",
                contract.id_column,
                "table_stop" if too_many else "table_warning",
                duplicates,
                read,
                f"column '{contract.id_column}': {duplicates:,} of {read:,} rows repeat a patient, "
                f"{conflicting:,} patients with differing values",
                f"send one row a patient, or choose `duplicates: first` or `last` in {site.file}",
            )
        )
    return found


def _quarantine(
    frame: pd.DataFrame, contract: Contract, lines: Indices, broken: Mapping[str, Indices], repeated: Mask
) -> pd.DataFrame:
    """Lists every row that is not used, with the rules it broke."""
    pairs = [pd.Series(rule, index=positions) for rule, positions in broken.items()]
    pairs.append(pd.Series(f"{contract.id_column}.unique", index=np.flatnonzero(repeated)))
    rules = pd.concat(pairs)
    rules = rules.groupby(level=0, sort=True).agg("; ".join) if len(rules) else rules
    positions = rules.index.to_numpy(dtype=np.int64)
    ids = _harmless(frame[contract.id_column].iloc[positions]) if contract.id_column in frame else None
    return pd.DataFrame(
        {
            "id": ids if ids is not None else [None] * len(positions),
            "row": lines[positions],
            "rules": rules.to_numpy(dtype=object),
        }
    )


def _harmless(ids: pd.Series) -> Any:
    """Ids as text that a spreadsheet does not run."""
    return ids.str.replace(r"^([=@+\t])", r"'\1", regex=True).to_numpy(dtype=object)
