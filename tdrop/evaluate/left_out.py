"""What it costs to do without features that a target does not record, measured on source patients."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import pandas as pd

from tdrop.base import Cohort, Count, DataError, Doubles, Indices
from tdrop.choose import deal_folds, predict_folds
from tdrop.contracts import Contract
from tdrop.data import Encoder, follow_up_of, learn_encoder, persons_of, source_outcome, weigh_outcomes
from tdrop.evaluate.recalibration import mean_and_error
from tdrop.methods import build
from tdrop.metrics import auroc, per_row_log_loss

#: A usual model, quick to fit: what is lost is a property of the features far more than of the method.
MEASURED_BY = "logistic_regression"
LEFT_OUT_REFITS = 10


@dataclass(frozen=True)
class LeftOut:
    """Features that a target does not record, and what doing without them costs on source patients.

    Attributes:
        columns: The contract's columns.
        indicators: Columns that are used, without a feature that says whether the value is missing.
        rows: Source patients behind the numbers; 0 where nothing could be measured.
        outcomes: How many of them had the outcome.
        log_loss_with: Out-of-fold log loss with all features.
        log_loss_without: The same without them.
        standard_error: Of the difference between the two, patient by patient.
        auroc_with: Out-of-fold AUROC with all features.
        auroc_without: The same without them.
    """

    columns: tuple[str, ...]
    indicators: tuple[str, ...] = ()
    rows: Count = 0
    outcomes: Count = 0
    log_loss_with: float | None = None
    log_loss_without: float | None = None
    standard_error: float | None = None
    auroc_with: float | None = None
    auroc_without: float | None = None


def measure_left_out(source_frame: pd.DataFrame, contract: Contract, encoder: Encoder, *, seed: int = 0) -> LeftOut:
    """Fits on source patients with and without the features that an encoder leaves out.

    Args:
        source_frame: The source's used rows.
        contract: The table.
        encoder: How the pair of sites is encoded.
        seed: Decides folds and fits, the same ones for both.
    """
    unknown = [name for name in encoder.left_out if name not in source_frame or source_frame[name].isna().all()]
    if contract.task != "binary" or len(unknown) == len(encoder.left_out):
        return LeftOut(encoder.left_out, encoder.without_indicator)
    y, _ = source_outcome(source_frame, contract)
    known = ~np.isnan(y)
    frame = source_frame[known].reset_index(drop=True)
    whole = learn_encoder(source_frame, contract, unknown, encoder.without_indicator)
    persons = persons_of(frame, contract)
    pair = [encode_by.encode(frame, "source", y=y[known], persons=persons) for encode_by in (whole, encoder)]
    followed, weight = follow_up_of(source_frame, contract), None
    if followed is not None:
        X = whole.encode(source_frame.reset_index(drop=True), "source").X
        outcome_weight, _ = weigh_outcomes(followed, X, "source", asked=contract.outcome.censoring, fewest=1)
        weight = None if outcome_weight is None else outcome_weight[known]
        pair = [replace(cohort, weight=None if weight is None else weight.astype(np.float32)) for cohort in pair]
    try:
        rows, outcomes, (full, lean) = _out_of_fold(pair, seed)
    except DataError:
        # Too few outcomes to deal: the verdict says that as well.
        return LeftOut(encoder.left_out, encoder.without_indicator)
    losses = [per_row_log_loss(outcomes, risk) for risk in (full, lean)]
    row_weight = np.ones(len(rows)) if weight is None else weight[rows]
    return LeftOut(
        columns=encoder.left_out,
        indicators=encoder.without_indicator,
        rows=len(rows),
        outcomes=int(outcomes.sum()),
        log_loss_with=float(np.average(losses[0], weights=row_weight)),
        log_loss_without=float(np.average(losses[1], weights=row_weight)),
        standard_error=mean_and_error(losses[1] - losses[0], row_weight)[1],
        auroc_with=auroc(outcomes, full, None if weight is None else row_weight),
        auroc_without=auroc(outcomes, lean, None if weight is None else row_weight),
    )


def _out_of_fold(pair: list[Cohort], seed: int) -> tuple[Indices, Doubles, list[Doubles]]:
    """Which source patients were predicted (rows,), their outcomes (rows,), and by cohort their risks (rows,)."""
    assert pair[0].y is not None
    rows, fold = deal_folds(pair[0], seed=seed)
    method = build(MEASURED_BY, refits=LEFT_OUT_REFITS)
    held = tuple(np.unique(fold).tolist())
    risks = [predict_folds(method, cohort, cohort.unlabelled(), (rows, fold), held, seed=seed).risk for cohort in pair]
    return rows, pair[0].y[rows].astype(np.float64), risks
