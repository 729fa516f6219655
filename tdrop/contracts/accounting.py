"""Where every row of an extract went: used, quarantined, or a duplicate."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from tdrop.base import Indices
from tdrop.contracts.findings import Finding
from tdrop.contracts.site import Site
from tdrop.contracts.table import Contract

Mask = NDArray[np.bool_]


@dataclass(frozen=True)
class Account:
    """Every row of an extract in one of three places.

    Attributes:
        quarantined: Rows that break a row-critical rule (rows,).
        repeated: Other rows of a patient who is listed already (rows,).
        conflicting: Patients listed several times with differing values.
        aside: Rows that are no patients and were not checked.
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
        """How many of them are neither used nor duplicates."""
        return int(self.quarantined.sum()) + self.aside

    @property
    def used(self) -> Mask:
        """The rest (rows,)."""
        return ~self.quarantined & ~self.repeated


def account_for(
    table: pd.DataFrame, contract: Contract, site: Site, broken: Mapping[str, Indices], *, aside: int = 0
) -> Account:
    """Decides where each row goes.

    Args:
        table: The rows that were checked.
        contract: The table.
        site: The site, for its duplicates policy.
        broken: By row-critical rule, the positions of the rows that break it.
        aside: Rows that are no patients and were not checked.
    """
    out = np.zeros(len(table), dtype=bool)
    for positions in broken.values():
        out[positions] = True
    repeated = np.zeros(len(table), dtype=bool)
    kept = table.loc[~out, [name for name in contract.names if name in table]]
    if contract.id_column not in table or not kept[contract.id_column].duplicated().any():
        return Account(out, repeated, 0, aside)
    ids = kept[contract.id_column]
    repeated[~out] = ids.duplicated(keep="last" if site.duplicates == "last" else "first").to_numpy()
    distinct = kept[ids.duplicated(keep=False)].drop_duplicates()[contract.id_column]
    return Account(out, repeated, distinct[distinct.duplicated()].nunique(), aside)


def table_findings(account: Account, contract: Contract, site: Site) -> Iterator[Finding]:
    """Yields what concerns the table as a whole: its size, and how much of it was set aside."""
    limits, read, out = contract.limits, account.read, account.set_aside
    if read < limits.min_rows:
        sentence = f"the extract has {{count}} rows, at least {limits.min_rows:,} are needed"
        yield Finding("table.rows", None, "table_stop", read, read, sentence, "check that the export was complete")
    if out > limits.quarantine * read:
        sentence = f"{{count}} of {{total}} rows had to be set aside, more than the {limits.quarantine:.0%} allowed"
        yield Finding("table.quarantine", None, "table_stop", out, read, sentence, "settle what sets them aside")
    if account.repeated.any():
        yield _duplicates(account, contract, site)


def person_findings(used: pd.DataFrame, contract: Contract) -> Iterator[Finding]:
    """Yields how many persons the used rows are of, where the table says whose they are."""
    if contract.person is None or contract.person not in used or not len(used):
        return
    named = used[contract.person]
    persons = named.nunique() + int(named.isna().sum())
    yield Finding("table.persons", None, "info", persons, len(used), "{total} rows of {count} persons")


def _duplicates(account: Account, contract: Contract, site: Site) -> Finding:
    read, repeated, name = account.read, int(account.repeated.sum()), contract.id_column
    too_many = repeated > contract.limits.duplicates * read or site.duplicates == "refuse"
    return Finding(
        f"{name}.unique",
        name,
        "table_stop" if too_many else "table_warning",
        repeated,
        read,
        f"column '{name}': {{count}} of {{total}} rows repeat a patient (patients whose rows differ: {{conflicting}})",
        f"send one row a patient, or choose `duplicates: first` or `last` in {site.file}",
        others={"conflicting": account.conflicting},
    )


def list_quarantine(
    frame: pd.DataFrame,
    contract: Contract,
    lines: Indices,
    broken: Mapping[str, Indices],
    account: Account,
    aside: pd.DataFrame | None = None,
) -> pd.DataFrame:
    """Returns every row that is not used, duplicates included: id, row, and the rules it broke."""
    pairs = [pd.Series(rule, index=positions) for rule, positions in broken.items()]
    pairs.append(pd.Series(f"{contract.id_column}.unique", index=np.flatnonzero(account.repeated)))
    rules = pd.concat(pairs)
    rules = rules.groupby(level=0, sort=True).agg("; ".join) if len(rules) else rules
    positions = rules.index.to_numpy(dtype=np.int64)
    ids = frame[contract.id_column].iloc[positions].to_numpy(dtype=object) if contract.id_column in frame else None
    columns = {"id": ids, "row": lines[positions], "rules": rules.to_numpy(dtype=object)}
    listed = pd.DataFrame(columns, index=pd.RangeIndex(len(positions)))
    if aside is None or aside.empty:
        return listed
    both = pd.concat([listed.astype(object), aside.astype(object)], ignore_index=True).astype({"row": np.int64})
    return both.sort_values("row", kind="stable", ignore_index=True)
