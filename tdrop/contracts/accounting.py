"""Where every row of an extract went: used, quarantined, or a duplicate."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from tdrop.contracts.findings import Finding
from tdrop.contracts.site import Site
from tdrop.contracts.table import Contract
from tdrop.types import Indices

Mask = NDArray[np.bool_]


@dataclass(frozen=True)
class Account:
    """Every row of an extract in one of three places.

    Attributes:
        quarantined: Rows that break a row-critical rule (rows,).
        repeated: Other rows of a patient who is listed already (rows,).
        conflicting: Patients listed several times with differing values.
    """

    quarantined: Mask
    repeated: Mask
    conflicting: int

    @property
    def used(self) -> Mask:
        """The rest (rows,)."""
        return ~self.quarantined & ~self.repeated


def account_for(table: pd.DataFrame, contract: Contract, site: Site, broken: Mapping[str, Indices]) -> Account:
    """Decides where each row goes; `broken` has the positions of rows that break each row-critical rule."""
    out = np.zeros(len(table), dtype=bool)
    for positions in broken.values():
        out[positions] = True
    repeated = np.zeros(len(table), dtype=bool)
    kept = table.loc[~out, [name for name in contract.names if name in table]]
    if contract.id_column not in table or not kept[contract.id_column].duplicated().any():
        return Account(out, repeated, 0)
    ids = kept[contract.id_column]
    repeated[~out] = ids.duplicated(keep="last" if site.duplicates == "last" else "first").to_numpy()
    distinct = kept[ids.duplicated(keep=False)].drop_duplicates()[contract.id_column]
    return Account(out, repeated, distinct[distinct.duplicated()].nunique())


def table_findings(account: Account, contract: Contract, site: Site) -> Iterator[Finding]:
    """Yields what concerns the table as a whole: its size, and how much of it was set aside."""
    limits, read, out = contract.limits, len(account.used), int(account.quarantined.sum())
    if read < limits.min_rows:
        sentence = f"the extract has {{count}} rows, at least {limits.min_rows:,} are needed"
        yield Finding("table.rows", None, "table_stop", read, read, sentence, "check that the export was complete")
    if out > limits.quarantine * read:
        sentence = f"{{count}} of {{total}} rows had to be set aside, more than the {limits.quarantine:.0%} allowed"
        yield Finding("table.quarantine", None, "table_stop", out, read, sentence, "settle the row-critical findings")
    if account.repeated.any():
        yield _duplicates(account, contract, site)


def _duplicates(account: Account, contract: Contract, site: Site) -> Finding:
    read, repeated, name = len(account.used), int(account.repeated.sum()), contract.id_column
    too_many = repeated > contract.limits.duplicates * read or site.duplicates == "refuse"
    return Finding(
        f"{name}.unique",
        name,
        "table_stop" if too_many else "table_warning",
        repeated,
        read,
        f"column '{name}': {{count}} of {{total}} rows repeat a patient, "
        "{conflicting} patients with differing values",
        f"send one row a patient, or choose `duplicates: first` or `last` in {site.file}",
        others={"conflicting": account.conflicting},
    )


def list_quarantine(
    frame: pd.DataFrame, contract: Contract, lines: Indices, broken: Mapping[str, Indices], account: Account
) -> pd.DataFrame:
    """Returns every row that is not used, duplicates included: id, row, and the rules it broke."""
    pairs = [pd.Series(rule, index=positions) for rule, positions in broken.items()]
    pairs.append(pd.Series(f"{contract.id_column}.unique", index=np.flatnonzero(account.repeated)))
    rules = pd.concat(pairs)
    rules = rules.groupby(level=0, sort=True).agg("; ".join) if len(rules) else rules
    positions = rules.index.to_numpy(dtype=np.int64)
    ids = _harmless(frame[contract.id_column].iloc[positions]) if contract.id_column in frame else None
    columns = {"id": ids, "row": lines[positions], "rules": rules.to_numpy(dtype=object)}
    return pd.DataFrame(columns, index=pd.RangeIndex(len(positions)))


def _harmless(ids: pd.Series) -> NDArray[np.object_]:
    """Ids as text that a spreadsheet does not run (rows,)."""
    return ids.astype("str").str.replace(r"^([=@+\t])", r"'\1", regex=True).to_numpy(dtype=object)
