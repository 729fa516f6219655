"""Every metric's name, meaning and what it needs: read by evaluation, report and documentation."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Literal

#: Below this many events, or this many non-events, a ranking or a calibration line is noise.
FEWEST_EVENTS = 10

#: The shares of patients at which retained error is tabulated.
SHARES = (0.05, 0.10, 0.20)

Needs = Literal["patients", "outcomes", "errors"]
Shape = Literal["count", "share", "number"]
Better = Literal["higher", "lower", "neither"]


@dataclass(frozen=True)
class Metric:
    """One metric.

    Attributes:
        title: Its name for people.
        meaning: One sentence that a clinician can read.
        needs: What it rests on: patients only, known outcomes, or errors of the class at 0.5.
        shape: How it is written: a count, a share (per cent) or a plain number.
        better: Which direction is good.
        spread: Whether it needs samples that spread; a method with one prediction a patient has none.
        floor: Whether it is not estimable with fewer than `FEWEST_EVENTS` events or non-events.
        digits: Decimals that are shown of a plain number.
    """

    title: str
    meaning: str
    needs: Needs = "outcomes"
    shape: Shape = "number"
    better: Better = "neither"
    spread: bool = False
    floor: bool = False
    digits: int = 3


def _retained(share: float, by: str) -> Metric:
    ranking = "expected loss" if by == "expected" else "the spread (sd) of the predictions"
    return Metric(
        f"Error left when {share:.0%} are referred, by {'expected loss' if by == 'expected' else 'sd'}",
        f"Share of wrong classes among patients who stay with the model when the {share:.0%} highest by {ranking} are "
        "referred.",
        shape="share",
        better="lower",
        spread=by == "sd",
    )


_WITHOUT_LABELS = {
    "patients": Metric("Patients", "Patients with a prediction.", "patients", "count"),
    "mean_risk": Metric("Mean risk", "Average predicted risk.", "patients", "share"),
    "predicted_positive": Metric("Predicted positive", "Patients with a risk of 0.5 or more.", "patients", "count"),
    "mean_sd": Metric("Mean sd", "Average standard deviation of the samples.", "patients", "number", spread=True),
    "interval_width": Metric(
        "Interval width", "Average width of the central interval of the samples.", "patients", "number", spread=True
    ),
    "referrals": Metric(
        "Referrals at the risk level",
        "Patients whose risk is below the risk level while the upper end of their interval reaches it.",
        "patients",
        "count",
        spread=True,
    ),
    "capacity_referrals": Metric(
        "Referrals at capacity",
        "The share of patients with most expected loss that clinicians can look at.",
        "patients",
        "count",
    ),
    "unlike_referrals": Metric(
        "Unlike the source", "Patients unlike anyone the model learned from.", "patients", "count"
    ),
    "referred": Metric("Referred", "Patients on the list, whatever their reason.", "patients", "count"),
    "left_out": Metric(
        "Left out", "Patients with a reason to be referred beyond a capacity that bounds them all.", "patients", "count"
    ),
}

_WITH_LABELS = {
    "outcome_rate": Metric("Outcome rate", "Share of patients with the outcome.", shape="share"),
    "auroc": Metric(
        "Test AUROC", "How often a patient with the outcome has the higher risk of two.", better="higher", floor=True
    ),
    "errors": Metric("Errors", "Patients whose class at 0.5 is wrong.", shape="count", better="lower"),
    "error_auroc_sd": Metric(
        "Error AUROC by sd",
        "How often, of two patients, the wrongly classed one has the larger sd.",
        "errors",
        better="higher",
        spread=True,
        floor=True,
    ),
    "error_auroc_risk": Metric(
        "Error AUROC by p(1-p)", "The same, by how close the risk is to 0.5.", "errors", better="higher", floor=True
    ),
    "misclassified_sd": Metric(
        "Misclassified sd", "Average sd at wrongly classed patients.", "errors", better="higher", spread=True
    ),
    "inpt": Metric(
        "INPT", "Patients referred at the risk level who had the outcome.", shape="count", better="higher", spread=True
    ),
    "inpt_equal": Metric(
        "INPT at equal referrals",
        "The same when every method's intervals are stretched or shrunk until it refers as many as capacity allows.",
        shape="count",
        better="higher",
        spread=True,
    ),
    "inpt_equal_risk": Metric(
        "INPT at equal referrals, by risk alone",
        "Patients with the outcome among as many referrals, taken closest below the risk level without any interval.",
        shape="count",
        better="higher",
    ),
    "error_rate": Metric("Error rate", "Share of wrong classes at the decision level.", shape="share", better="lower"),
    "brier": Metric("Brier score", "Mean squared distance of risk and outcome.", better="lower"),
    "log_loss": Metric("Log loss", "Mean surprise at what happened.", better="lower"),
    "calibration_intercept": Metric(
        "Calibration intercept", "0: risks are right on average; above 0: too low; below 0: too high.", floor=True
    ),
    "calibration_slope": Metric(
        "Calibration slope", "1: risks spread as they should; below 1: too extreme; above 1: too timid.", floor=True
    ),
    "ece": Metric(
        "Calibration error",
        "Average distance of predicted and observed risk over ten groups, beyond what chance makes of it.",
        better="lower",
        floor=True,
    ),
    **{
        f"retained_error_{share:.0%}_{by}".replace("%", ""): _retained(share, by)
        for share in SHARES
        for by in ("expected", "sd")
    },
    "net_benefit": Metric(
        "Net benefit",
        "True positives less weighted false positives per patient, acting from the risk level on.",
        better="higher",
    ),
    "net_benefit_refer": Metric(
        "Net benefit with referral",
        "The same when referred patients go to a clinician who is taken to decide rightly; looking costs nothing here.",
        better="higher",
    ),
    "referrals_per_gain": Metric(
        "Referrals per net true positive",
        "How many referrals buy one more net true positive.",
        better="lower",
        digits=1,
    ),
}

_DIFFERENCES = {
    f"{name}_difference": Metric(
        f"{_WITH_LABELS[name].title}, difference",
        "The method minus the reference named in the note, on the same resamples of patients.",
        better=_WITH_LABELS[name].better,
        floor=_WITH_LABELS[name].floor,
        shape=_WITH_LABELS[name].shape,
        spread=_WITH_LABELS[name].spread,
    )
    for name in ("auroc", "brier", "log_loss", "error_rate")
}

METRICS: Mapping[str, Metric] = MappingProxyType({**_WITHOUT_LABELS, **_WITH_LABELS, **_DIFFERENCES})

#: The columns of the paper's Table 1, with what belongs beside them.
TABLE_ONE = (
    "auroc",
    "error_auroc_sd",
    "error_auroc_risk",
    "interval_width",
    "misclassified_sd",
    "inpt",
    "referrals",
)

#: What is computed for each subgroup.
SUBGROUP_METRICS = ("patients", "outcome_rate", "mean_risk", "auroc", "error_rate", "referrals", "referred")
