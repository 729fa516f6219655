"""The list that a clinician works from: one patient a line, and why somebody should look."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from tdrop.data.cells import neutralise
from tdrop.errors import DataError
from tdrop.evaluate.referrals import Decision, has_spread, refer
from tdrop.types import Summary


def patients_table(
    ids: NDArray[Any], summary: Summary, decision: Decision, unlike: NDArray[np.bool_] | None = None
) -> pd.DataFrame:
    """Returns id, risk, sd, low, high, refer and why, one row a patient in the order given.

    Args:
        ids: Patient identifiers (rows,).
        summary: Predictions of the first seed.
        decision: The site's level, interval level and capacity.
        unlike: Who is unlike anyone the model learned from (rows,); nobody where that is not known.
    """
    if len(ids) != len(summary.mean):
        raise DataError(f"{len(ids):,} patients but {len(summary.mean):,} predictions; give one prediction a patient")
    low, high = summary.interval(decision.interval_level)
    found = refer(summary, decision, unlike)
    reasons = {
        f"interval reaches the {decision.risk_level:.0%} risk level": found.by_level,
        f"among the {decision.capacity:.0%} with most expected loss": found.by_capacity,
        "unlike anyone the model learned from": found.unlike,
    }
    why = [
        "; ".join(reason for reason, mask in reasons.items() if mask[row]) if found.referred[row] else ""
        for row in range(len(ids))
    ]
    spread = has_spread(summary)
    return pd.DataFrame(
        {
            "id": ids,
            "risk": summary.mean.astype(np.float64),
            "sd": summary.sd.astype(np.float64) if spread else np.nan,
            "low": low.astype(np.float64) if spread else np.nan,
            "high": high.astype(np.float64) if spread else np.nan,
            "refer": found.referred,
            "why": why,
        }
    )


def write_patients(path: Path, table: pd.DataFrame) -> None:
    """Writes a table of patients that only its owner can read, with no cell that a spreadsheet would run.

    The file appears whole or not at all: it is written beside its place and moved there.
    """
    safe = table.copy()
    safe.columns = [neutralise(str(name)) for name in safe.columns]
    for name in safe.columns:
        if not pd.api.types.is_numeric_dtype(safe[name]) and not pd.api.types.is_bool_dtype(safe[name]):
            safe[name] = safe[name].map(neutralise)
        elif pd.api.types.is_float_dtype(safe[name]):
            safe[name] = safe[name].round(6)
    beside = path.with_name(f".{path.name}.part")
    beside.unlink(missing_ok=True)
    # Opened with its final mode: there is no moment in which others could read it.
    with os.fdopen(os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", newline="") as stream:
        safe.to_csv(stream, index=False)
    beside.replace(path)
