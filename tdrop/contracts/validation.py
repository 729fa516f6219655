"""Runs a contract's expectations with Great Expectations, in two steps, and accounts for every row.

The first step counts the rows that break each rule. The second lists them, but only for the rules that set rows aside
and that some row breaks. Every row is then used, quarantined, or a duplicate.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from threading import Lock
from typing import Any

import numpy as np
import pandas as pd

from tdrop.base import DataError, Indices, Mask
from tdrop.contracts.expectations import HOLDS_SUFFIX, READABLE_SUFFIX, Expectation, mark_rule, suite
from tdrop.contracts.findings import About, Finding, Validation, sort_findings, stops
from tdrop.contracts.record import Severity
from tdrop.contracts.site import Site
from tdrop.contracts.table import Contract
from tdrop.contracts.yaml_file import shorten

_SEVERITIES = {
    "row_critical": "critical",
    "table_stop": "critical",
    "row_warning": "warning",
    "table_warning": "warning",
    "info": "info",
}
_STEP_COUNTS = {"result_format": "BASIC", "partial_unexpected_count": 0}
_STEP_ROWS = {"result_format": "COMPLETE", "partial_unexpected_count": 0, "return_unexpected_index_query": False}
#: Expectations that are run as one suite, on the columns that they are about.
AT_ONCE = 50
#: Great Expectations keeps one current project for all threads.
_ONE_PROJECT = Lock()


@dataclass(frozen=True)
class Prepared:
    """An extract after validation, ready to be encoded.

    Attributes:
        site: The site.
        contract: Its table.
        validation: The findings, and where every row went; `validation.stopped` says whether the rest may be used.
        frame: The rows to use, in the contract's columns.
        quarantine: The other rows, duplicates included: id, row (line in the extract), rules.
        suite: The expectations that were run.
    """

    site: Site
    contract: Contract
    validation: Validation
    frame: pd.DataFrame
    quarantine: pd.DataFrame
    suite: tuple[Expectation, ...]


def validate_rows(
    frame: pd.DataFrame,
    contract: Contract,
    site: Site,
    *,
    rows: Indices | None = None,
    unreadable: Mapping[str, Mask] | None = None,
    findings: Sequence[Finding] = (),
    hints: Mapping[str, str] | None = None,
    aside: pd.DataFrame | None = None,
) -> Prepared:
    """Checks a harmonised extract.

    Args:
        frame: Columns by the contract's names, one row per patient.
        contract: The table.
        site: The site, for its name, role and duplicates policy.
        rows: Line of each row in the extract (rows,); 1, 2, ... unless given.
        unreadable: By column, which values were there but could not be read (rows,).
        findings: Findings from before this check.
        hints: By rule, advice that follows from the values as they were sent.
        aside: Rows of the extract that are not patients and not in `frame`: id, row, rules.
    """
    marks = {name: mask for name, mask in (unreadable or {}).items() if mask.any()}
    expectations = suite(
        contract, frame.columns, labels=site.role == "source", unreadable=marks, not_recorded=site.not_recorded
    )
    expectations = [replace(item, fix=(hints or {}).get(item.rule) or item.fix) for item in expectations]
    table = _checkable(frame, contract, marks)
    counts = dict(run_expectations(table, expectations, _STEP_COUNTS))
    for rule in counts:
        if rule.endswith(".plausible"):
            # An impossible value is counted once, as impossible: the plausible range lies within the possible one.
            counts[rule] -= counts.get(f"{rule.removesuffix('.plausible')}.range", 0)
    failing = [
        item
        for item in expectations
        if counts[item.rule] and not item.rule.endswith(".unique") and not _only_unreadable(item, counts, len(table))
    ]
    critical = [item for item in failing if item.severity == "row_critical"]
    broken = run_expectations(table, critical, _STEP_ROWS) if critical else {}
    account = account_for(table, contract, site, broken, 0 if aside is None else len(aside))
    used = (frame if account.used.all() else frame[account.used]).reset_index(drop=True)
    all_findings = (
        *findings,
        *(_finding(item, counts[item.rule], len(table), contract, site) for item in failing),
        *_table_findings(account, contract, site),
        *_person_findings(used, contract),
    )
    lines = np.arange(1, len(frame) + 1) if rows is None else np.asarray(rows)
    quarantine = _list_quarantine(frame, contract, lines, broken, account, aside)
    validation = _validation(account, contract, site, all_findings)
    return Prepared(site, contract, validation, used, quarantine, tuple(expectations))


def _checkable(frame: pd.DataFrame, contract: Contract, marks: Mapping[str, Mask]) -> pd.DataFrame:
    """The extract as Great Expectations sees it."""
    table = frame.reset_index(drop=True)
    if contract.id_column in table:
        # Numbers in place of the ids: the checks have the same result, and numbers are much faster to compare.
        numbers = pd.factorize(table[contract.id_column])[0].astype(np.float64)
        table[contract.id_column] = np.where(numbers < 0, np.nan, numbers)
    for name, mask in marks.items():
        table[f"{name}{READABLE_SUFFIX}"] = ~mask
    for rule in (rule for rule in contract.rules if rule.columns <= set(frame.columns)):
        try:
            table[f"{rule.name}{HOLDS_SUFFIX}"] = mark_rule(rule, table, contract)
        except (TypeError, ValueError):
            raise _not_run(rule.name, rule.then.column) from None
    return table


def _not_run(rule: str, column: str) -> DataError:
    how = "check its type and the rule in the table's YAML"
    return DataError(f"rule '{rule}' could not be run on column '{column}'; {how}")


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
        stopped=stops(findings),
        simulated=site.simulated,
        public=site.public,
    )


def _only_unreadable(item: Expectation, counts: Mapping[str, int], rows: int) -> bool:
    """Whether too many values are missing only because unreadable ones, which have a finding, count as missing."""
    unread = counts.get(f"{item.column}.readable", 0)
    allowed = rows * (1 - float(item.kwargs.get("mostly", 1.0)))
    warns = item.rule.endswith(".missing") and item.severity != "row_critical"
    return warns and unread > 0 and counts[item.rule] - unread <= allowed


def run_expectations(
    table: pd.DataFrame, expectations: Sequence[Expectation], step: Mapping[str, Any]
) -> Mapping[str, Any]:
    """Runs expectations; returns, by rule, how many rows break it, or their positions in the second step."""
    if not len(table) or not expectations:
        return {item.rule: int(item.type == "expect_column_to_exist") for item in expectations}
    os.environ.setdefault("GX_ANALYTICS_ENABLED", "false")
    with _ONE_PROJECT, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        # Imported here because it takes longer than most commands.
        import great_expectations as gx

        context = gx.get_context(mode="ephemeral")
        context.variables.progress_bars = {"globally": False}
        asset = context.data_sources.add_pandas("extract").add_dataframe_asset("extract")
        definition = asset.add_batch_definition_whole_dataframe("all")
        results = []
        for part in (expectations[start : start + AT_ONCE] for start in range(0, len(expectations), AT_ONCE)):
            compiled = gx.ExpectationSuite(
                name="contract",
                expectations=[
                    gx.expectations.registry.get_expectation_impl(item.type)(
                        **item.kwargs, severity=_SEVERITIES[item.severity], meta={"rule": item.rule}
                    )
                    for item in part
                ],
            )
            # Each expectation copies the rows of its table.
            columns = {item.kwargs["column"] for item in part}
            batch = definition.get_batch({"dataframe": table[[name for name in table if name in columns]]})
            results += batch.validate(compiled, result_format=step).results
    by_rule = {result.expectation_config.meta["rule"]: result for result in results}
    return {item.rule: _broken_by(by_rule[item.rule], item, step) for item in expectations}


def _broken_by(result: Any, expectation: Expectation, step: Mapping[str, Any]) -> Any:
    """The count, or the positions, of the rows that break an expectation."""
    if expectation.type == "expect_column_to_exist":
        return int(not result.success)
    if result.exception_info.get("raised_exception") or "unexpected_count" not in result.result:
        raise _not_run(expectation.rule, expectation.column)
    if step is _STEP_ROWS:
        return np.asarray(result.result["unexpected_index_list"], dtype=np.int64)
    return 0 if result.success else int(result.result["unexpected_count"])


def _finding(expectation: Expectation, count: int, total: int, contract: Contract, site: Site) -> Finding:
    column = contract.column(expectation.column)
    sent_as = next((header for header, name in site.renames.items() if name == column.name), None)
    name = f"column '{column.name}'" + (f" ('{shorten(sent_as)}' in the extract)" if sent_as is not None else "")
    about: About = "patients"
    if expectation.type == "expect_column_to_exist":
        about, sentence = "file", f"{name} ({column.label}) {expectation.sentence}"
    else:
        counted = "rows" if column.role == "id" or "." not in expectation.rule else "values"
        sentence = f"{name}: {{count}} of {{total}} {counted} {expectation.sentence}"
    rule, severity, fix = expectation.rule, expectation.severity, expectation.fix
    return Finding(rule, column.name, severity, count, total, sentence, fix, about=about)


@dataclass(frozen=True)
class Account:
    """Where every row of an extract went.

    Attributes:
        quarantined: Rows that break a row-critical rule (rows,).
        repeated: Further rows of a patient who is already listed (rows,).
        conflicting: Patients listed several times with differing values.
        aside: How many rows are not patients and were not checked.
    """

    quarantined: Mask
    repeated: Mask
    conflicting: int
    aside: int = 0

    @property
    def read(self) -> int:
        """How many rows the extract has."""
        return len(self.quarantined) + self.aside

    @property
    def set_aside(self) -> int:
        """How many rows are neither used nor duplicates."""
        return int(self.quarantined.sum()) + self.aside

    @property
    def used(self) -> Mask:
        """Rows that are neither quarantined nor duplicates (rows,)."""
        return ~self.quarantined & ~self.repeated


def account_for(
    table: pd.DataFrame, contract: Contract, site: Site, broken: Mapping[str, Indices], aside: int
) -> Account:
    """Decides where each row goes.

    Args:
        table: The rows that were checked.
        contract: The table.
        site: The site, for its duplicates policy.
        broken: By row-critical rule, the positions of the rows that break it.
        aside: How many rows are not patients and were not checked.
    """
    quarantined = np.zeros(len(table), dtype=bool)
    for positions in broken.values():
        quarantined[positions] = True
    repeated = np.zeros(len(table), dtype=bool)
    if contract.id_column not in table:
        return Account(quarantined, repeated, 0, aside)
    rows = table.loc[~quarantined, [name for name in contract.names if name in table]]
    ids = rows[contract.id_column]
    repeated[~quarantined] = ids.duplicated(keep="last" if site.duplicates == "last" else "first").to_numpy()
    distinct = rows[ids.duplicated(keep=False)].drop_duplicates()[contract.id_column]
    return Account(quarantined, repeated, distinct[distinct.duplicated()].nunique(), aside)


def _table_findings(account: Account, contract: Contract, site: Site) -> Iterator[Finding]:
    """Yields findings about the table as a whole: its size, the share set aside, repeated patients."""
    limits, read, out, name = contract.limits, account.read, account.set_aside, contract.id_column
    if read < limits.min_rows:
        sentence = f"the extract has {{count}} rows, at least {limits.min_rows:,} are needed"
        yield Finding("table.rows", None, "table_stop", read, read, sentence, "check that the export was complete")
    if out > limits.quarantine * read:
        sentence = f"{{count}} of {{total}} rows had to be set aside, more than the {limits.quarantine:.0%} allowed"
        fix = "fix the problems below that set rows aside"
        yield Finding("table.quarantine", None, "table_stop", out, read, sentence, fix)
    repeated = int(account.repeated.sum())
    if repeated:
        too_many = repeated > limits.duplicates * read or site.duplicates == "refuse"
        severity: Severity = "table_stop" if too_many else "table_warning"
        many = "{count} of {total} rows repeat a patient (patients whose rows differ: {conflicting})"
        fix = f"send one row per patient, or choose `duplicates: first` or `last` in {site.file}"
        others = {"conflicting": account.conflicting}
        yield Finding(f"{name}.unique", name, severity, repeated, read, f"column '{name}': {many}", fix, others=others)


def _person_findings(used: pd.DataFrame, contract: Contract) -> Iterator[Finding]:
    """Yields the number of persons behind the used rows, where the table has a column of persons."""
    if contract.person is None or contract.person not in used or not len(used):
        return
    # A row without a person is a person of its own.
    persons = used[contract.person].nunique() + int(used[contract.person].isna().sum())
    yield Finding("table.persons", None, "info", persons, len(used), "{total} rows of {count} persons")


def _list_quarantine(
    frame: pd.DataFrame,
    contract: Contract,
    lines: Indices,
    broken: Mapping[str, Indices],
    account: Account,
    aside: pd.DataFrame | None,
) -> pd.DataFrame:
    """Returns every row that is not used, duplicates included: id, row, and the rules that it breaks."""
    unique = {f"{contract.id_column}.unique": np.flatnonzero(account.repeated)}
    rules = pd.concat([pd.Series(rule, index=positions) for rule, positions in {**broken, **unique}.items()])
    rules = rules.groupby(level=0, sort=True).agg("; ".join) if len(rules) else rules
    positions = rules.index.to_numpy(dtype=np.int64)
    ids = frame[contract.id_column].iloc[positions].to_numpy(dtype=object) if contract.id_column in frame else None
    columns = {"id": ids, "row": lines[positions], "rules": rules.to_numpy(dtype=object)}
    listed = pd.DataFrame(columns, index=pd.RangeIndex(len(positions)))
    if aside is None or aside.empty:
        return listed
    both = pd.concat([listed.astype(object), aside.astype(object)], ignore_index=True).astype({"row": np.int64})
    return both.sort_values("row", kind="stable", ignore_index=True)
