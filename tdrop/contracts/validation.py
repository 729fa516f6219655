"""Runs a contract's expectations with Great Expectations, in two steps, and accounts for every row.

The first step asks how many rows break each rule; the second asks which, only for the rules that take rows out
and only where some did.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from threading import Lock
from typing import Any

import numpy as np
import pandas as pd

from tdrop.base import DataError, Indices
from tdrop.contracts.accounting import Account, Mask, account_for, list_quarantine, person_findings, table_findings
from tdrop.contracts.engine import great_expectations
from tdrop.contracts.expectations import READABLE_SUFFIX, Expectation, suite
from tdrop.contracts.explain import short
from tdrop.contracts.findings import Finding, Validation, sort_findings
from tdrop.contracts.site import Site
from tdrop.contracts.table import Contract

_SEVERITIES = {
    "row_critical": "critical",
    "table_stop": "critical",
    "row_warning": "warning",
    "table_warning": "warning",
    "info": "info",
}
_STEP_COUNTS = {"result_format": "SUMMARY", "partial_unexpected_count": 0}
_STEP_ROWS = {"result_format": "COMPLETE", "partial_unexpected_count": 0, "return_unexpected_index_query": False}
#: Great Expectations keeps one current project for all threads.
_ONE_PROJECT = Lock()


@dataclass(frozen=True)
class Checked:
    """An extract after validation.

    Attributes:
        validation: What was found, and where every row went.
        used: The rows to use, in the contract's columns.
        quarantine: The other rows, duplicates included: id, row (line in the extract), rules.
        suite: The expectations that were run.
    """

    validation: Validation
    used: pd.DataFrame
    quarantine: pd.DataFrame
    suite: tuple[Expectation, ...]


def validate(
    frame: pd.DataFrame,
    contract: Contract,
    site: Site,
    *,
    rows: Indices | None = None,
    unreadable: Mapping[str, Mask] | None = None,
    findings: Sequence[Finding] = (),
    hints: Mapping[str, str] | None = None,
    aside: pd.DataFrame | None = None,
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
        aside: Rows of the extract that are no patients and not in `frame`: id, row, rules.
    """
    marks = {name: mask for name, mask in (unreadable or {}).items() if mask.any()}
    expectations = suite(
        contract, frame.columns, labels=site.role == "source", unreadable=marks, not_recorded=site.not_recorded
    )
    expectations = [replace(item, fix=(hints or {}).get(item.rule) or item.fix) for item in expectations]
    table = _checkable(frame, contract, marks)
    counts = _once(run_expectations(table, expectations, _STEP_COUNTS))
    failing = [
        item
        for item in expectations
        if counts[item.rule] and not item.rule.endswith(".unique") and not _said_already(item, counts, len(table))
    ]
    broken = _broken_rows(table, [item for item in failing if item.severity == "row_critical"])
    account = account_for(table, contract, site, broken, aside=0 if aside is None else len(aside))
    used = (frame if account.used.all() else frame[account.used]).reset_index(drop=True)
    found = (
        *findings,
        *(_finding(item, counts[item.rule], len(table), contract, site) for item in failing),
        *table_findings(account, contract, site),
        *person_findings(used, contract),
    )
    lines = np.arange(1, len(frame) + 1) if rows is None else np.asarray(rows)
    return Checked(
        _validation(account, contract, site, found),
        used,
        list_quarantine(frame, contract, lines, broken, account, aside),
        tuple(expectations),
    )


def _checkable(frame: pd.DataFrame, contract: Contract, marks: Mapping[str, Mask]) -> pd.DataFrame:
    """The extract as Great Expectations sees it."""
    table = frame.reset_index(drop=True)
    if contract.id_column in table:
        # Numbers stand for the ids: checked alike, and far cheaper to compare than text.
        numbers = pd.factorize(table[contract.id_column])[0].astype(np.float64)
        table[contract.id_column] = np.where(numbers < 0, np.nan, numbers)
    for name, mask in marks.items():
        table[f"{name}{READABLE_SUFFIX}"] = ~mask
    return table


def _validation(account: Account, contract: Contract, site: Site, findings: tuple[Finding, ...]) -> Validation:
    used, repeated = int(account.used.sum()), int(account.repeated.sum())
    if account.read != used + account.set_aside + repeated:
        raise DataError(
            f"site '{site.name}': {account.read:,} rows were read but {used:,} used, {account.set_aside:,} quarantined "
            f"and {repeated:,} duplicates do not add up to that; please report this"
        )
    return Validation(
        site=site.name,
        title=site.title,
        contract=contract.name,
        contract_version=contract.version,
        read=account.read,
        used=used,
        quarantined=account.set_aside,
        duplicates=repeated,
        findings=sort_findings(findings),
        stopped=any(finding.severity == "table_stop" for finding in findings),
        simulated=site.simulated,
        public=site.public,
    )


def _once(counts: Mapping[str, int]) -> dict[str, int]:
    """Counts an impossible value once: not as implausible too (a plausible range lies within the possible one)."""
    impossible = {
        f"{rule.removesuffix('.range')}.plausible": count for rule, count in counts.items() if rule.endswith(".range")
    }
    return {
        rule: count - (impossible.get(rule, 0) if rule.endswith(".plausible") else 0) for rule, count in counts.items()
    }


def _said_already(item: Expectation, counts: Mapping[str, int], rows: int) -> bool:
    """Whether values are too many that are missing only with those that cannot be read, which are told apart."""
    unread = counts.get(f"{item.column}.readable", 0)
    allowed = rows * (1 - float(item.kwargs.get("mostly", 1.0)))
    warns = item.rule.endswith(".missing") and item.severity != "row_critical"
    return warns and unread > 0 and counts[item.rule] - unread <= allowed


def run_expectations(
    table: pd.DataFrame, expectations: Sequence[Expectation], step: Mapping[str, Any]
) -> Mapping[str, Any]:
    """Runs expectations; returns by rule a count, or with the second step the positions, of what breaks it."""
    if not len(table) or not expectations:
        return {item.rule: int(item.type == "expect_column_to_exist") for item in expectations}
    with _ONE_PROJECT, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        gx = great_expectations()
        context = gx.get_context(mode="ephemeral")
        context.variables.progress_bars = {"globally": False}
        asset = context.data_sources.add_pandas("extract").add_dataframe_asset("extract")
        batch = asset.add_batch_definition_whole_dataframe("all").get_batch({"dataframe": table})
        compiled = gx.ExpectationSuite(
            name="contract",
            expectations=[
                gx.expectations.registry.get_expectation_impl(item.type)(
                    **item.kwargs, severity=_SEVERITIES[item.severity], meta={"rule": item.rule}
                )
                for item in expectations
            ],
        )
        results = batch.validate(compiled, result_format=step)
    by_rule = {result.expectation_config.meta["rule"]: result for result in results.results}
    return {item.rule: _answer(by_rule[item.rule], item, step) for item in expectations}


def _answer(result: Any, expectation: Expectation, step: Mapping[str, Any]) -> Any:
    if expectation.type == "expect_column_to_exist":
        return int(not result.success)
    if result.exception_info.get("raised_exception") or "unexpected_count" not in result.result:
        raise DataError(
            f"rule '{expectation.rule}' could not be run on column '{expectation.column}'; "
            "check its type and the rule in the table's YAML"
        )
    if step is _STEP_ROWS:
        return np.asarray(result.result["unexpected_index_list"], dtype=np.int64)
    return 0 if result.success else int(result.result["unexpected_count"])


def _broken_rows(table: pd.DataFrame, expectations: Sequence[Expectation]) -> Mapping[str, Indices]:
    """By rule, the positions of the rows that break it."""
    return run_expectations(table, expectations, _STEP_ROWS) if expectations else {}


def _finding(expectation: Expectation, count: int, total: int, contract: Contract, site: Site) -> Finding:
    column = contract.column(expectation.column)
    sent_as = next((theirs for theirs, ours in site.renames.items() if ours == column.name), None)
    name = f"column '{column.name}'" + (f" ('{short(sent_as)}' in the extract)" if sent_as is not None else "")
    if expectation.type == "expect_column_to_exist":
        sentence = f"{name} ({column.label}) {expectation.sentence}"
    elif column.role == "id" or "." not in expectation.rule:
        sentence = f"{name}: {{count}} of {{total}} rows {expectation.sentence}"
    else:
        sentence = f"{name}: {{count}} of {{total}} values {expectation.sentence}"
    return Finding(
        expectation.rule,
        column.name,
        expectation.severity,
        count,
        total,
        sentence,
        expectation.fix,
        about="file" if expectation.type == "expect_column_to_exist" else "patients",
    )
