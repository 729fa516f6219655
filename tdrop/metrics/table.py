"""Every metric, one entry each: what it is called, what it means, and the function that computes it.

To add one, add a function here. Its name, without the underscore that keeps it apart from the functions of this
package, is the metric's name in files. Its docstring is its line in docs/EVALUATION.md (`python docs/write_metrics.py`
puts it there); `evaluation.json`, the report's table of methods and MLflow take it from its entry. The order here is
the order in every table.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np

from tdrop.base import Task
from tdrop.metrics.metric import Mean, Patients, Ranking, Ratio, Total, metric
from tdrop.metrics.referral import (
    capacity_count,
    expected_error,
    expected_loss,
    highest,
    lowest,
    per_row_benefit,
    stretch_to_level,
)
from tdrop.metrics.resampling import Statistic, calibration_error_statistic, macro_ranking_statistic
from tdrop.metrics.scores import CLASS_THRESHOLD, class_brier, crps, per_row_loss

#: The shares of patients at which retained error is tabulated.
SHARES = (0.05, 0.10, 0.20)
#: The outcomes that a metric may be for: all, or those with classes.
EVERY_TASK: tuple[Task, ...] = ("binary", "classes", "regression")
CLASSIFIED: tuple[Task, ...] = ("binary", "classes")


@metric("Patients", "Patients with a prediction.", needs="patients", shape="count", subgroups=True, tasks=EVERY_TASK)
def _patients(patients: Patients) -> Total:
    """patients with a prediction"""
    return Total(np.ones(len(patients.risk)))


@metric("Outcome rate", "Share of patients with the outcome.", shape="share", subgroups=True)
def _outcome_rate(patients: Patients) -> Mean:
    """share of patients with the outcome"""
    return Mean(patients.y)


@metric(
    "Mean risk",
    "Average predicted risk.",
    *("subgroups", "recorded"),
    needs="patients",
    shape="share",
    tells="means",
    views=("unlabelled",),
)
def _mean_risk(patients: Patients) -> Mean:
    """mean of the risk, which is the mean of a patient's samples"""
    return Mean(patients.risk)


@metric("Predicted positive", "Patients with a risk of 0.5 or more.", needs="patients", shape="count")
def _predicted_positive(patients: Patients) -> Total:
    """patients with a risk of 0.5 or more"""
    return Total(patients.risk >= CLASS_THRESHOLD)


@metric(
    "Test AUROC",
    "How often a patient with the outcome has the higher risk of two.",
    *("floor", "bounded", "subgroups", "compared", "recorded"),
    views=("main",),
    tasks=CLASSIFIED,
)
def _auroc(patients: Patients) -> Ranking | Statistic:
    """test AUROC: share of pairs (one with, one without the outcome) in which the first has the higher risk; ties count
    half. Of several classes the mean over classes, each against the others"""
    if patients.task == "classes":
        return macro_ranking_statistic(patients.y, patients.risk)
    return Ranking(patients.y, patients.risk)


@metric(
    "Error AUROC by sd",
    "How often, of two patients, the one whose class at 0.5 is wrong has the larger sd.",
    *("spread", "floor", "bounded", "recorded"),
    needs="errors",
    views=("main",),
    tasks=EVERY_TASK,
)
def _error_auroc_sd(patients: Patients) -> Ranking:
    """AUROC of the sd for "is an error" (the paper's "Error Pred.")"""
    return Ranking(patients.wrong, patients.sd)


@metric(
    "Error AUROC by p(1-p)",
    "The same, by how close the risk is to 0.5.",
    *("floor", "bounded", "recorded"),
    needs="errors",
    views=("main",),
    tasks=CLASSIFIED,
)
def _error_auroc_risk(patients: Patients) -> Ranking:
    """the same by p(1-p) of the risk p, or by one minus the likeliest class's probability. Where errors come from label
    noise this is close to the best possible, so it stands beside the paper's"""
    if patients.task == "classes":
        return Ranking(patients.wrong, expected_error(patients.summary))
    return Ranking(patients.wrong, patients.risk * (1 - patients.risk))


@metric(
    "Misclassified sd",
    "Average sd at patients whose class at 0.5 is wrong.",
    needs="errors",
    spread=True,
    views=("main",),
    tasks=CLASSIFIED,
)
def _misclassified_sd(patients: Patients) -> Mean:
    """mean sd at errors"""
    return Mean(patients.wrong * patients.sd, patients.wrong)


@metric("Errors at 0.5", "Patients whose class at 0.5 is wrong.", shape="count", views=("main",), tasks=EVERY_TASK)
def _errors(patients: Patients) -> Total:
    """patients whose class at 0.5 is wrong; of several classes, whose likeliest class is; of a continuous outcome,
    whose value is off by more than the tolerance"""
    return Total(patients.wrong)


@metric(
    "Referrals at the risk level",
    "Patients whose risk is below the risk level while the upper end of their interval reaches it.",
    *("spread", "subgroups"),
    needs="patients",
    shape="count",
    views=("main", "unlabelled", "equal"),
)
def _referrals(patients: Patients) -> Total:
    """patients with risk < r <= upper end of the interval, r being the site's risk level (15%)"""
    return Total(patients.referrals.by_level)


@metric(
    "INPT",
    "Patients referred at the risk level who had the outcome.",
    shape="count",
    spread=True,
    views=("main", "equal"),
)
def _inpt(patients: Patients) -> Total:
    """referrals at the risk level whose outcome was positive (the paper's INPT)"""
    return Total(patients.referrals.by_level * patients.y)


@metric(
    "INPT at equal referrals",
    "The same when every method's intervals are stretched or shrunk until it refers as many as capacity allows.",
    shape="count",
    spread=True,
    views=("equal",),
)
def _inpt_equal(patients: Patients) -> Total:
    """INPT at an equal number of referrals: every method's intervals are stretched or shrunk by one factor until it
    refers as many patients as capacity allows. Wide intervals earn nothing by being wide"""
    factor = stretch_to_level(patients.risk, patients.high, patients.decision.risk_level)
    return Total(lowest(factor, capacity_count(len(patients.y), patients.decision.capacity)) * patients.y)


@metric(
    "INPT at equal referrals, by risk alone",
    "Patients with the outcome among as many referrals, taken closest below the risk level without any interval.",
    shape="count",
    views=("equal",),
)
def _inpt_equal_risk(patients: Patients) -> Total:
    """as many referrals, taken closest below the risk level by the risk alone: what the interval has to beat"""
    level = patients.decision.risk_level
    below = np.where(patients.risk < level, level - patients.risk, np.inf)
    return Total(lowest(below, capacity_count(len(patients.y), patients.decision.capacity)) * patients.y)


@metric(
    "Referrals at capacity",
    "The share of patients with most expected loss that clinicians can look at.",
    needs="patients",
    shape="count",
    views=("unlabelled",),
    tasks=EVERY_TASK,
)
def _capacity_referrals(patients: Patients) -> Total:
    """the site's capacity (10%) of patients, those with most expected loss at the site's level t: p (1 - t) below t,
    (1 - p) t from t on; or by sd where a site says so"""
    return Total(patients.referrals.by_capacity)


@metric(
    "Unlike the source",
    "Patients unlike anyone the model learned from.",
    needs="patients",
    shape="count",
    tasks=EVERY_TASK,
)
def _unlike_referrals(patients: Patients) -> Total:
    """patients unlike anyone the model learned from (docs/CHOOSING.md says when)"""
    return Total(patients.referrals.unlike)


@metric(
    "Referred",
    "Patients on the list, whatever their reason.",
    *("subgroups", "recorded"),
    needs="patients",
    shape="count",
    views=("unlabelled",),
    tasks=EVERY_TASK,
)
def _referred(patients: Patients) -> Total:
    """patients with any of the three reasons: `refer` in `patients.csv`; with `within_capacity`, at most the capacity,
    those with more reasons first, then those with more expected loss"""
    return Total(patients.referrals.referred)


@metric(
    "Left out",
    "Patients with a reason to be referred beyond a capacity that bounds them all.",
    needs="patients",
    shape="count",
    tasks=EVERY_TASK,
)
def _left_out(patients: Patients) -> Total:
    """patients with a reason whom `within_capacity` leaves out"""
    return Total(patients.referrals.left_out)


@metric(
    "Interval width",
    "Average width of the central interval of the samples.",
    *("spread", "recorded"),
    needs="patients",
    views=("main", "unlabelled"),
    tasks=("binary", "regression"),
)
def _interval_width(patients: Patients) -> Mean:
    """mean width of the central interval of the samples (the paper's "CI width"); of a continuous outcome the interval
    holds its noise too"""
    low, high = patients.summary.interval(patients.decision.interval_level)
    return Mean(high - low)


@metric(
    "Mean sd",
    "Average standard deviation of the samples.",
    needs="patients",
    spread=True,
    views=("unlabelled",),
    tasks=EVERY_TASK,
)
def _mean_sd(patients: Patients) -> Mean:
    """mean over patients of the standard deviation of the samples"""
    return Mean(patients.sd)


@metric(
    "Calibration intercept",
    "0: risks are right on average; above 0: too low; below 0: too high.",
    *("floor", "recorded"),
    views=("scores",),
)
def _calibration_intercept(patients: Patients) -> Statistic:
    """a in logit P(outcome) = a + logit(risk): 0 right on average, above 0 risks too low"""
    return patients.calibration


@metric(
    "Calibration slope",
    "1: risks spread as they should; below 1: too extreme; above 1: too timid.",
    *("floor", "recorded"),
    views=("scores",),
)
def _calibration_slope(patients: Patients) -> Statistic:
    """b in logit P(outcome) = a + b logit(risk): 1 right spread, below 1 risks too extreme"""
    return patients.calibration


@metric(
    "Calibration error",
    "Average distance of predicted and observed risk over ten groups, beyond what chance explains.",
    *("floor", "bounded"),
    views=("scores",),
    tasks=CLASSIFIED,
)
def _ece(patients: Patients) -> Statistic:
    """mean distance of mean risk and observed share over ten groups of similar size (equal risks stay together),
    weighted by patients, beyond what chance explains; of several classes the mean over classes"""
    return calibration_error_statistic(patients.y, patients.risk, patients.weight)


@metric(
    "Brier score",
    "Mean squared distance of risk and outcome.",
    *("compared", "recorded"),
    views=("scores",),
    tasks=CLASSIFIED,
)
def _brier(patients: Patients) -> Mean:
    """mean of (risk - outcome)^2; of several classes half the sum over them, which for two is the same"""
    if patients.task == "classes":
        return Mean(class_brier(patients.y, patients.risk))
    return Mean((patients.risk - patients.y) ** 2)


@metric("Log loss", "Mean surprise at what happened.", *("compared", "recorded"), views=("scores",), tasks=CLASSIFIED)
def _log_loss(patients: Patients) -> Mean:
    """mean of -log of the probability given to what happened; risks are kept 1e-7 away from 0 and 1"""
    return Mean(per_row_loss(patients.y, patients.risk, patients.task))


@metric(
    "Error rate",
    "Share of wrong classes at the decision level.",
    *("subgroups", "compared", "recorded"),
    shape="share",
    views=("scores", "retained"),
    short="Nobody referred",
    tasks=EVERY_TASK,
)
def _error_rate(patients: Patients) -> Mean:
    """share of wrong classes at the site's level (its risk level, 15%); without a level, share of errors"""
    return Mean(patients.acted_wrongly)


def _retained_by_expected_loss(patients: Patients, share: float) -> Mean:
    """share of wrong classes at the site's level among those who stay when 5, 10, 20% are referred by expected loss; of
    several classes by expected error"""
    score = (
        expected_loss(patients.risk, patients.decision.threshold)
        if patients.task == "binary"
        else expected_error(patients.summary)
    )
    stay = ~highest(score, capacity_count(len(patients.y), share))
    return Mean(stay * patients.acted_wrongly, stay)


def _retained_by_sd(patients: Patients, share: float) -> Mean:
    """the same, referred by sd"""
    stay = ~highest(patients.sd, capacity_count(len(patients.y), share))
    return Mean(stay * patients.acted_wrongly, stay)


def _enter_retained(share: float, by: str, words: str, function: Callable[..., Mean]) -> None:
    ranking = words if by == "expected" else "the spread (sd) of the predictions"
    enter = metric(
        f"Error left when {share:.0%} are referred, by {words}",
        f"Share of wrong classes among patients who stay with the model when the {share:.0%} highest by {ranking} are "
        "referred.",
        shape="share",
        spread=by == "sd",
        views=("retained",),
        short=f"{share:.0%} by {words}",
        name=f"retained_error_{100 * share:.0f}_{by}",
        tasks=CLASSIFIED if by == "expected" else EVERY_TASK,
        definition=str(function.__doc__),
    )
    enter(partial(function, share=share))


for _share in SHARES:
    _enter_retained(_share, "expected", "expected loss", _retained_by_expected_loss)
    _enter_retained(_share, "sd", "sd", _retained_by_sd)


@metric(
    "Net benefit",
    "True positives less weighted false positives per patient, acting from the risk level on.",
    tells="weights",
    views=("benefit",),
    recorded=True,
)
def _net_benefit(patients: Patients) -> Mean:
    """(true positives - false positives * t/(1-t)) / n, acting from t = the risk level on"""
    return Mean(per_row_benefit(patients.y, patients.risk, patients.decision.risk_level))


@metric(
    "Net benefit with referral",
    "The same when referred patients go to a clinician who is assumed to decide correctly; looking costs nothing here.",
    tells="weights",
    views=("benefit",),
)
def _net_benefit_refer(patients: Patients) -> Mean:
    """the same when referred patients go to a clinician who is assumed to decide correctly (the paper's assumption);
    the cost of looking is not subtracted"""
    return Mean(per_row_benefit(patients.y, patients.risk, patients.decision.risk_level, patients.referrals.referred))


@metric(
    "Referrals per net true positive",
    "How many referrals buy one more net true positive.",
    digits=1,
    tells="gains",
    views=("benefit",),
)
def _referrals_per_gain(patients: Patients) -> Ratio:
    """referrals that buy one more net true positive: share referred / (net_benefit_refer - net_benefit)"""
    level = patients.decision.risk_level
    with_referral = per_row_benefit(patients.y, patients.risk, level, patients.referrals.referred)
    return Ratio(patients.referrals.referred, with_referral - per_row_benefit(patients.y, patients.risk, level))


# What follows is of several classes or of a continuous outcome alone.


@metric(
    "Accuracy",
    "Share of patients whose likeliest class is the true one.",
    *("subgroups", "compared", "recorded"),
    shape="share",
    tasks=("classes",),
)
def _accuracy(patients: Patients) -> Mean:
    """share of patients whose likeliest class is the true one; several classes only"""
    return Mean(~patients.wrong)


@metric(
    "Root mean squared error",
    "Typical distance of value and outcome, in the outcome's unit; large ones count most.",
    recorded=True,
    tasks=("regression",),
)
def _rmse(patients: Patients) -> Statistic:
    """root of the mean of (value - outcome)^2; continuous outcomes only, as are those below"""
    return patients.fit


@metric(
    "Explained share (R2)",
    "Share of the outcome's variance that the values explain; below 0: worse than the mean of these patients.",
    recorded=True,
    tasks=("regression",),
)
def _r2(patients: Patients) -> Statistic:
    """1 - mean of (value - outcome)^2 / variance of the outcome"""
    return patients.fit


@metric(
    "Mean absolute error",
    "Average distance of value and outcome, in the outcome's unit.",
    *("subgroups", "compared", "recorded"),
    tasks=("regression",),
)
def _mae(patients: Patients) -> Mean:
    """mean absolute difference of value and outcome"""
    return Mean(np.abs(patients.risk - patients.y))


@metric(
    "Interval coverage",
    "Share of patients whose outcome lies in their interval; it should be the interval's level.",
    *("spread", "subgroups", "recorded"),
    shape="share",
    tasks=("regression",),
)
def _coverage(patients: Patients) -> Mean:
    """share of outcomes within the interval"""
    low, high = patients.summary.interval(patients.decision.interval_level)
    return Mean((low <= patients.y) & (patients.y <= high))


@metric(
    "CRPS",
    "Distance of the whole prediction from the outcome, in the outcome's unit: small for narrow intervals that hold.",
    *("spread", "compared", "recorded"),
    tasks=("regression",),
)
def _crps(patients: Patients) -> Mean:
    """mean continuous ranked probability score of a normal prediction with the value as mean and the sd"""
    return Mean(crps(patients.y, patients.risk, patients.sd))
