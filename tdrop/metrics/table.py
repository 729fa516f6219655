"""Every metric, one entry each: what it is called, what it means, and the function that computes it.

To add one, add a function here. Its docstring is its line in docs/EVALUATION.md (`python docs/write_metrics.py` puts it
there); `evaluation.json`, the report's table of methods and MLflow take it from its entry. The order here is the order
in every table.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np

from tdrop.metrics.calibration import MeasuredError
from tdrop.metrics.metric import Mean, Patients, Ranking, Ratio, Total, metric
from tdrop.metrics.referral import capacity_count, expected_loss, fewest, most, per_row_benefit, stretch_to_level
from tdrop.metrics.resampling import Statistic
from tdrop.metrics.scores import CLASS_THRESHOLD, per_row_log_loss

#: The shares of patients at which retained error is tabulated.
SHARES = (0.05, 0.10, 0.20)


@metric("Patients", "Patients with a prediction.", needs="patients", shape="count", subgroups=True)
def patients(of: Patients) -> Total:
    """patients with a prediction"""
    return Total(np.ones(len(of.risk)))


@metric("Outcome rate", "Share of patients with the outcome.", shape="share", subgroups=True)
def outcome_rate(of: Patients) -> Mean:
    """share of patients with the outcome"""
    return Mean(of.y)


@metric(
    "Mean risk",
    "Average predicted risk.",
    needs="patients",
    shape="share",
    tells="means",
    views=("unlabelled",),
    subgroups=True,
    recorded=True,
)
def mean_risk(of: Patients) -> Mean:
    """mean of the risk, which is the mean of a patient's samples"""
    return Mean(of.risk)


@metric("Predicted positive", "Patients with a risk of 0.5 or more.", needs="patients", shape="count")
def predicted_positive(of: Patients) -> Total:
    """patients with a risk of 0.5 or more"""
    return Total(of.risk >= CLASS_THRESHOLD)


@metric(
    "Test AUROC",
    "How often a patient with the outcome has the higher risk of two.",
    better="higher",
    floor=True,
    bounded=True,
    views=("main",),
    subgroups=True,
    compared=True,
    recorded=True,
)
def auroc(of: Patients) -> Ranking:
    """test AUROC: share of pairs (one with, one without the outcome) in which the first has the higher risk; ties count
    half"""
    return Ranking(of.y, of.risk)


@metric(
    "Error AUROC by sd",
    "How often, of two patients, the one whose class at 0.5 is wrong has the larger sd.",
    needs="errors",
    better="higher",
    spread=True,
    floor=True,
    bounded=True,
    views=("main",),
    recorded=True,
)
def error_auroc_sd(of: Patients) -> Ranking:
    """AUROC of the sd for "is an error" (the paper's "Error Pred.")"""
    return Ranking(of.wrong, of.sd)


@metric(
    "Error AUROC by p(1-p)",
    "The same, by how close the risk is to 0.5.",
    needs="errors",
    better="higher",
    floor=True,
    bounded=True,
    views=("main",),
    recorded=True,
)
def error_auroc_risk(of: Patients) -> Ranking:
    """the same by p(1-p) of the risk p. Where errors come from label noise this is close to the best possible, so it
    stands beside the paper's"""
    return Ranking(of.wrong, of.risk * (1 - of.risk))


@metric(
    "Misclassified sd",
    "Average sd at patients whose class at 0.5 is wrong.",
    needs="errors",
    better="higher",
    spread=True,
    views=("main",),
)
def misclassified_sd(of: Patients) -> Mean:
    """mean sd at errors"""
    return Mean(of.wrong * of.sd, of.wrong)


@metric("Errors at 0.5", "Patients whose class at 0.5 is wrong.", shape="count", better="lower", views=("main",))
def errors(of: Patients) -> Total:
    """patients whose class at 0.5 is wrong"""
    return Total(of.wrong)


@metric(
    "Referrals at the risk level",
    "Patients whose risk is below the risk level while the upper end of their interval reaches it.",
    needs="patients",
    shape="count",
    spread=True,
    views=("main", "unlabelled", "equal"),
    subgroups=True,
)
def referrals(of: Patients) -> Total:
    """patients with risk < r <= upper end of the interval, r being the site's risk level (15%)"""
    return Total(of.referrals.by_level)


@metric(
    "INPT",
    "Patients referred at the risk level who had the outcome.",
    shape="count",
    better="higher",
    spread=True,
    views=("main", "equal"),
)
def inpt(of: Patients) -> Total:
    """referrals at the risk level whose outcome was positive (the paper's INPT)"""
    return Total(of.referrals.by_level * of.y)


@metric(
    "INPT at equal referrals",
    "The same when every method's intervals are stretched or shrunk until it refers as many as capacity allows.",
    shape="count",
    better="higher",
    spread=True,
    views=("equal",),
)
def inpt_equal(of: Patients) -> Total:
    """INPT at an equal number of referrals: every method's intervals are stretched or shrunk by one factor until it
    refers as many patients as capacity allows. Wide intervals earn nothing by being wide"""
    factor = stretch_to_level(of.risk, of.high, of.decision.risk_level)
    return Total(fewest(factor, capacity_count(len(of.y), of.decision.capacity)) * of.y)


@metric(
    "INPT at equal referrals, by risk alone",
    "Patients with the outcome among as many referrals, taken closest below the risk level without any interval.",
    shape="count",
    better="higher",
    views=("equal",),
)
def inpt_equal_risk(of: Patients) -> Total:
    """as many referrals, taken closest below the risk level by the risk alone: what the interval has to beat"""
    level = of.decision.risk_level
    below = np.where(of.risk < level, level - of.risk, np.inf)
    return Total(fewest(below, capacity_count(len(of.y), of.decision.capacity)) * of.y)


@metric(
    "Referrals at capacity",
    "The share of patients with most expected loss that clinicians can look at.",
    needs="patients",
    shape="count",
    views=("unlabelled",),
)
def capacity_referrals(of: Patients) -> Total:
    """the site's capacity (10%) of patients, those with most expected loss at the site's level t: p (1 - t) below t,
    (1 - p) t from t on; or by sd where a site says so"""
    return Total(of.referrals.by_capacity)


@metric("Unlike the source", "Patients unlike anyone the model learned from.", needs="patients", shape="count")
def unlike_referrals(of: Patients) -> Total:
    """patients unlike anyone the model learned from (docs/CHOOSING.md says when)"""
    return Total(of.referrals.unlike)


@metric(
    "Referred",
    "Patients on the list, whatever their reason.",
    needs="patients",
    shape="count",
    views=("unlabelled",),
    subgroups=True,
    recorded=True,
)
def referred(of: Patients) -> Total:
    """patients with any of the three reasons: `refer` in `patients.csv`; with `within_capacity`, at most the capacity,
    those with more reasons first and among these those with more expected loss"""
    return Total(of.referrals.referred)


@metric(
    "Left out",
    "Patients with a reason to be referred beyond a capacity that bounds them all.",
    needs="patients",
    shape="count",
)
def left_out(of: Patients) -> Total:
    """patients with a reason whom `within_capacity` leaves out"""
    return Total(of.referrals.left_out)


@metric(
    "Interval width",
    "Average width of the central interval of the samples.",
    needs="patients",
    spread=True,
    views=("main", "unlabelled"),
    recorded=True,
)
def interval_width(of: Patients) -> Mean:
    """mean width of the central interval of the samples (the paper's "CI width")"""
    low, high = of.summary.interval(of.decision.interval_level)
    return Mean(high - low)


@metric(
    "Mean sd",
    "Average standard deviation of the samples.",
    needs="patients",
    spread=True,
    views=("unlabelled",),
)
def mean_sd(of: Patients) -> Mean:
    """mean over patients of the standard deviation of the samples"""
    return Mean(of.sd)


@metric(
    "Calibration intercept",
    "0: risks are right on average; above 0: too low; below 0: too high.",
    floor=True,
    views=("scores",),
    recorded=True,
)
def calibration_intercept(of: Patients) -> Statistic:
    """a in logit P(outcome) = a + logit(risk): 0 right on average, above 0 risks too low"""
    return of.calibration


@metric(
    "Calibration slope",
    "1: risks spread as they should; below 1: too extreme; above 1: too timid.",
    floor=True,
    views=("scores",),
    recorded=True,
)
def calibration_slope(of: Patients) -> Statistic:
    """b in logit P(outcome) = a + b logit(risk): 1 right spread, below 1 risks too extreme"""
    return of.calibration


@metric(
    "Calibration error",
    "Average distance of predicted and observed risk over ten groups, beyond what chance makes of it.",
    better="lower",
    floor=True,
    bounded=True,
    views=("scores",),
)
def ece(of: Patients) -> Statistic:
    """mean distance of mean risk and observed share over ten groups of like size (equal risks stay together), weighted
    by patients, beyond what chance makes of it"""
    return MeasuredError.of(of.y, of.risk)


@metric(
    "Brier score",
    "Mean squared distance of risk and outcome.",
    better="lower",
    views=("scores",),
    compared=True,
    recorded=True,
)
def brier(of: Patients) -> Mean:
    """mean of (risk - outcome)^2"""
    return Mean((of.risk - of.y) ** 2)


@metric("Log loss", "Mean surprise at what happened.", better="lower", views=("scores",), compared=True, recorded=True)
def log_loss(of: Patients) -> Mean:
    """mean of -log of the probability given to what happened; risks are kept 1e-7 away from 0 and 1"""
    return Mean(per_row_log_loss(of.y, of.risk))


@metric(
    "Error rate",
    "Share of wrong classes at the decision level.",
    shape="share",
    better="lower",
    views=("scores", "retained"),
    short="Nobody referred",
    subgroups=True,
    compared=True,
    recorded=True,
)
def error_rate(of: Patients) -> Mean:
    """share of wrong classes at the site's level (its risk level, 15%)"""
    return Mean(of.acted_wrongly)


def _retained_by_expected_loss(of: Patients, share: float) -> Mean:
    """share of wrong classes at the site's level among those who stay when 5, 10, 20% are referred by expected loss"""
    stay = ~most(expected_loss(of.risk, of.decision.threshold), capacity_count(len(of.y), share))
    return Mean(stay * of.acted_wrongly, stay)


def _retained_by_sd(of: Patients, share: float) -> Mean:
    """the same, referred by sd"""
    stay = ~most(of.sd, capacity_count(len(of.y), share))
    return Mean(stay * of.acted_wrongly, stay)


def _enter_retained(share: float, by: str, words: str, function: Callable[..., Mean]) -> None:
    ranking = words if by == "expected" else "the spread (sd) of the predictions"
    enter = metric(
        f"Error left when {share:.0%} are referred, by {words}",
        f"Share of wrong classes among patients who stay with the model when the {share:.0%} highest by {ranking} are "
        "referred.",
        shape="share",
        better="lower",
        spread=by == "sd",
        views=("retained",),
        short=f"{share:.0%} by {words}",
        name=f"retained_error_{100 * share:.0f}_{by}",
        definition=str(function.__doc__),
    )
    enter(partial(function, share=share))


for _share in SHARES:
    _enter_retained(_share, "expected", "expected loss", _retained_by_expected_loss)
    _enter_retained(_share, "sd", "sd", _retained_by_sd)


@metric(
    "Net benefit",
    "True positives less weighted false positives per patient, acting from the risk level on.",
    better="higher",
    tells="weights",
    views=("benefit",),
    recorded=True,
)
def net_benefit(of: Patients) -> Mean:
    """(true positives - false positives * t/(1-t)) / n, acting from t = the risk level on"""
    return Mean(per_row_benefit(of.y, of.risk, of.decision.risk_level))


@metric(
    "Net benefit with referral",
    "The same when referred patients go to a clinician who is taken to decide rightly; looking costs nothing here.",
    better="higher",
    tells="weights",
    views=("benefit",),
)
def net_benefit_refer(of: Patients) -> Mean:
    """the same when referred patients go to a clinician who is taken to decide rightly (the paper's assumption); the
    cost of looking is not subtracted"""
    return Mean(per_row_benefit(of.y, of.risk, of.decision.risk_level, of.referrals.referred))


@metric(
    "Referrals per net true positive",
    "How many referrals buy one more net true positive.",
    better="lower",
    digits=1,
    tells="gains",
    views=("benefit",),
)
def referrals_per_gain(of: Patients) -> Ratio:
    """referrals that buy one more net true positive: share referred / (net_benefit_refer - net_benefit)"""
    level = of.decision.risk_level
    with_referral = per_row_benefit(of.y, of.risk, level, of.referrals.referred)
    return Ratio(of.referrals.referred, with_referral - per_row_benefit(of.y, of.risk, level))
