"""The list that a clinician works from: one patient a line, and why somebody should look."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from tdrop.base import DataError, Summary
from tdrop.metrics import Decision, has_spread, refer


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
