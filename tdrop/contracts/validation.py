"""Runs a contract's expectations with Great Expectations, in two steps, and accounts for every row.

The first step counts the rows that break each rule. The second lists them, but only for the rules that set rows aside
and that some row breaks. Every row is then used, quarantined, or a duplicate.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
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


@dataclass(frozen=True)
class Harmonised:
    """An extract with the contract's names, units and types.

    Attributes:
        frame: Columns of the contract that the extract holds, in the contract's order: ids as text, numbers as
            float64 in the contract's unit, ordinals and categories as categoricals of labels, binaries as 0 and 1.
        rows: Line of each row in the extract (rows,).
        unreadable: By column, which values were there but could not be read (rows,).
        hints: By rule, what the values that break it look like and what to do.
        findings: Findings so far.
    """

    frame: pd.DataFrame
    rows: Indices
    unreadable: Mapping[str, Mask]
    hints: Mapping[str, str] = field(default_factory=dict)
    findings: tuple[Finding, ...] = ()


def validate_rows(
    harmonised: Harmonised, contract: Contract, site: Site, aside: pd.DataFrame | None = None
) -> Prepared:
    """Checks a harmonised extract.

    Args:
        harmonised: The extract.
        contract: The table.
        site: The site, for its name, role and duplicates policy.
        aside: Rows of the extract that are not patients and not in the frame: id, row, rules.
    """
    frame, marks = harmonised.frame, harmonised.unreadable
    expectations = suite(
        contract, frame.columns, labels=site.role == "source", unreadable=marks, not_recorded=site.not_recorded
    )
    expectations = [replace(item, fix=harmonised.hints.get(item.rule) or item.fix) for item in expectations]
    table = _checkable(frame, contract, marks)
    counts, broken = _broken_rules(table, expectations)
    quarantined = np.isin(np.arange(len(table)), np.concatenate([np.array([], dtype=int), *broken.values()]))
    repeated, conflicting = _repeated(table, contract, site, quarantined)
    used_rows = ~quarantined & ~repeated
    used = (frame if used_rows.all() else frame[used_rows]).reset_index(drop=True)
    not_patients = 0 if aside is None else len(aside)
    read, out = len(table) + not_patients, int(quarantined.sum()) + not_patients
    failing = [item for item in expectations if item.rule in counts]
    all_findings = (
        *harmonised.findings,
        *(_finding(item, counts[item.rule], len(table), contract, site) for item in failing),
        *_table_findings(read, out, contract),
        *_repeat_findings(read, int(repeated.sum()), conflicting, contract, site),
        *_person_findings(used, contract),
    )
    rules = {**broken, f"{contract.id_column}.unique": np.flatnonzero(repeated)}
    quarantine = list_quarantine(harmonised, contract, rules, aside)
    if read != len(used) + len(quarantine):
        raise DataError(
            f"site '{site.name}': {read:,} rows were read but {len(used):,} used and {len(quarantine):,} quarantined "
            "or repeated, which do not add up to that; please report this"
        )
    validation = Validation(
        site=site.name,
        title=site.title,
        contract=contract.name,
        contract_version=contract.version,
        read=read,
        used=len(used),
        quarantined=out,
        duplicates=int(repeated.sum()),
        findings=sort_findings(all_findings),
        stopped=stops(all_findings),
        simulated=site.simulated,
        public=site.public,
    )
    return Prepared(site, contract, validation, used, quarantine, tuple(expectations))


def _broken_rules(
    table: pd.DataFrame, expectations: Sequence[Expectation]
) -> tuple[dict[str, int], Mapping[str, Indices]]:
    """Returns how many rows break each broken rule, and, by rule that sets rows aside, their positions."""
    counts = dict(run_expectations(table, expectations, _STEP_COUNTS))
    for rule in counts:
        if rule.endswith(".plausible"):
            # An impossible value is counted once, as impossible: the plausible range lies within the possible one.
            counts[rule] -= counts.get(f"{rule.removesuffix('.plausible')}.range", 0)
    broken = [
        item
        for item in expectations
        if counts[item.rule] and not item.rule.endswith(".unique") and not _only_unreadable(item, counts, len(table))
    ]
    critical = [item for item in broken if item.severity == "row_critical"]
    rows = run_expectations(table, critical, _STEP_ROWS) if critical else {}
    return {item.rule: counts[item.rule] for item in broken}, rows


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
                    gx.expectations.registry.get_expectation_impl(item.type)(**item.kwargs, meta={"rule": item.rule})
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


def _repeated(table: pd.DataFrame, contract: Contract, site: Site, quarantined: Mask) -> tuple[Mask, int]:
    """Returns further rows of a patient who is already listed (rows,), and how many patients have differing rows."""
    repeated = np.zeros(len(table), dtype=bool)
    if contract.id_column not in table:
        return repeated, 0
    rows = table.loc[~quarantined, [name for name in contract.names if name in table]]
    ids = rows[contract.id_column]
    repeated[~quarantined] = ids.duplicated(keep="last" if site.duplicates == "last" else "first").to_numpy()
    distinct = rows[ids.duplicated(keep=False)].drop_duplicates()[contract.id_column]
    return repeated, distinct[distinct.duplicated()].nunique()


def _table_findings(read: int, out: int, contract: Contract) -> Iterator[Finding]:
    """Yields findings about the size of the table and the share that was set aside."""
    limits = contract.limits
    if read < limits.min_rows:
        sentence = f"the extract has {{count}} rows, at least {limits.min_rows:,} are needed"
        yield Finding("table.rows", None, "table_stop", read, read, sentence, "check that the export was complete")
    if out > limits.quarantine * read:
        sentence = f"{{count}} of {{total}} rows had to be set aside, more than the {limits.quarantine:.0%} allowed"
        fix = "fix the problems below that set rows aside"
        yield Finding("table.quarantine", None, "table_stop", out, read, sentence, fix)


def _repeat_findings(read: int, repeated: int, conflicting: int, contract: Contract, site: Site) -> Iterator[Finding]:
    """Yields a finding about patients who are listed more than once."""
    if not repeated:
        return
    too_many = repeated > contract.limits.duplicates * read or site.duplicates == "refuse"
    severity: Severity = "table_stop" if too_many else "table_warning"
    many = "{count} of {total} rows repeat a patient (patients whose rows differ: {conflicting})"
    fix = f"send one row per patient, or choose `duplicates: first` or `last` in {site.file}"
    name, others = contract.id_column, {"conflicting": conflicting}
    yield Finding(f"{name}.unique", name, severity, repeated, read, f"column '{name}': {many}", fix, others=others)


def _person_findings(used: pd.DataFrame, contract: Contract) -> Iterator[Finding]:
    """Yields the number of persons behind the used rows, where the table has a column of persons."""
    if contract.person is None or contract.person not in used or not len(used):
        return
    # A row without a person is a person of its own.
    persons = used[contract.person].nunique() + int(used[contract.person].isna().sum())
    yield Finding("table.persons", None, "info", persons, len(used), "{total} rows of {count} persons")


def list_quarantine(
    harmonised: Harmonised, contract: Contract, broken: Mapping[str, Indices], aside: pd.DataFrame | None
) -> pd.DataFrame:
    """Returns every row that is not used, duplicates included: id, row, and the rules that it breaks."""
    rules = pd.concat([pd.Series(rule, index=positions) for rule, positions in broken.items()])
    rules = rules.groupby(level=0, sort=True).agg("; ".join) if len(rules) else rules
    frame, positions = harmonised.frame, rules.index.to_numpy(dtype=np.int64)
    ids = frame[contract.id_column].iloc[positions].to_numpy(dtype=object) if contract.id_column in frame else None
    columns = {"id": ids, "row": harmonised.rows[positions], "rules": rules.to_numpy(dtype=object)}
    listed = pd.DataFrame(columns, index=pd.RangeIndex(len(positions)))
    if aside is None or aside.empty:
        return listed
    both = pd.concat([listed.astype(object), aside.astype(object)], ignore_index=True).astype({"row": np.int64})
    return both.sort_values("row", kind="stable", ignore_index=True)
