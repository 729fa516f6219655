"""Every metric, one entry each: what it is called, what it means, and the function that computes it.

To add one, add a function here. Its name, without the underscore that keeps it apart from the functions of this
package, is the metric's name in files. Its docstring's first line is what a clinician reads about it, the rest is its
line in docs/EVALUATION.md (`python docs/write_metrics.py` puts it there); `evaluation.json`, the report's table of
methods and MLflow take it from its entry. The order here is the order in every table.
"""

from __future__ import annotations

from typing import Literal

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


@metric("Patients", "subgroups", needs="patients", shape="count", tasks=EVERY_TASK)
def _patients(patients: Patients) -> Total:
    """Patients with a prediction."""
    return Total(np.ones(len(patients.risk)))


@metric("Outcome rate", "subgroups", shape="share")
def _outcome_rate(patients: Patients) -> Mean:
    """Share of patients with the outcome."""
    return Mean(patients.y)


@metric("Mean risk", "subgroups", "recorded", needs="patients", shape="share", tells="means", views=("unlabelled",))
def _mean_risk(patients: Patients) -> Mean:
    """Average predicted risk.

    Mean of the risk, which is the mean of a patient's samples.
    """
    return Mean(patients.risk)


@metric("Predicted positive", needs="patients", shape="count")
def _predicted_positive(patients: Patients) -> Total:
    """Patients with a risk of 0.5 or more."""
    return Total(patients.risk >= CLASS_THRESHOLD)


@metric("Test AUROC", "floor", "bounded", "subgroups", "compared", "recorded", views=("main",), tasks=CLASSIFIED)
def _auroc(patients: Patients) -> Ranking | Statistic:
    """How often a patient with the outcome has the higher risk of two.

    Test AUROC: share of pairs (one with, one without the outcome) in which the first has the higher risk; ties count
    half. Of several classes the mean over classes, each against the others.
    """
    if patients.task == "classes":
        return macro_ranking_statistic(patients.y, patients.risk)
    return Ranking(patients.y, patients.risk)


@metric(
    "Error AUROC by sd", "spread", "floor", "bounded", "recorded", needs="errors", views=("main",), tasks=EVERY_TASK
)
def _error_auroc_sd(patients: Patients) -> Ranking:
    """How often, of two patients, the one whose class at 0.5 is wrong has the larger sd.

    AUROC of the sd for "is an error" (the paper's "Error Pred.").
    """
    return Ranking(patients.wrong, patients.sd)


@metric("Error AUROC by p(1-p)", "floor", "bounded", "recorded", needs="errors", views=("main",), tasks=CLASSIFIED)
def _error_auroc_risk(patients: Patients) -> Ranking:
    """The same, by how close the risk is to 0.5.

    The same by p(1-p) of the risk p, or by one minus the likeliest class's probability. Where errors come from label
    noise this is close to the best possible, so it stands beside the paper's.
    """
    if patients.task == "classes":
        return Ranking(patients.wrong, expected_error(patients.summary))
    return Ranking(patients.wrong, patients.risk * (1 - patients.risk))


@metric("Misclassified sd", "spread", needs="errors", views=("main",), tasks=CLASSIFIED)
def _misclassified_sd(patients: Patients) -> Mean:
    """Average sd at patients whose class at 0.5 is wrong.

    Mean sd at errors.
    """
    return Mean(patients.wrong * patients.sd, patients.wrong)


@metric("Errors at 0.5", shape="count", views=("main",), tasks=EVERY_TASK)
def _errors(patients: Patients) -> Total:
    """Patients whose class at 0.5 is wrong.

    Patients whose class at 0.5 is wrong; of several classes, whose likeliest class is; of a continuous outcome, whose
    value is off by more than the tolerance.
    """
    return Total(patients.wrong)


@metric(
    "Referrals at the risk level",
    "spread",
    "subgroups",
    needs="patients",
    shape="count",
    views=("main", "unlabelled", "equal"),
)
def _referrals(patients: Patients) -> Total:
    """Patients whose risk is below the risk level while the upper end of their interval reaches it.

    Patients with risk < r <= upper end of the interval, r being the site's risk level (15%).
    """
    return Total(patients.referrals.by_level)


@metric("INPT", "spread", shape="count", views=("main", "equal"))
def _inpt(patients: Patients) -> Total:
    """Patients referred at the risk level who had the outcome.

    Referrals at the risk level whose outcome was positive (the paper's INPT).
    """
    return Total(patients.referrals.by_level * patients.y)


@metric("INPT at equal referrals", "spread", shape="count", views=("equal",))
def _inpt_equal(patients: Patients) -> Total:
    """The same when every method's intervals are stretched or shrunk until it refers as many as capacity allows.

    INPT at an equal number of referrals: every method's intervals are stretched or shrunk by one factor until it refers
    as many patients as capacity allows. Wide intervals earn nothing by being wide.
    """
    factor = stretch_to_level(patients.risk, patients.high, patients.decision.risk_level)
    return Total(lowest(factor, capacity_count(len(patients.y), patients.decision.capacity)) * patients.y)


@metric("INPT at equal referrals, by risk alone", shape="count", views=("equal",))
def _inpt_equal_risk(patients: Patients) -> Total:
    """Patients with the outcome among as many referrals, taken closest below the risk level without any interval.

    As many referrals, taken closest below the risk level by the risk alone: what the interval has to beat.
    """
    level = patients.decision.risk_level
    below = np.where(patients.risk < level, level - patients.risk, np.inf)
    return Total(lowest(below, capacity_count(len(patients.y), patients.decision.capacity)) * patients.y)


@metric("Referrals at capacity", needs="patients", shape="count", views=("unlabelled",), tasks=EVERY_TASK)
def _capacity_referrals(patients: Patients) -> Total:
    """The share of patients with most expected loss that clinicians can look at.

    The site's capacity (10%) of patients, those with most expected loss at the site's level t: p (1 - t) below t, (1 -
    p) t from t on; or by sd where a site says so.
    """
    return Total(patients.referrals.by_capacity)


@metric("Unlike the source", needs="patients", shape="count", tasks=EVERY_TASK)
def _unlike_referrals(patients: Patients) -> Total:
    """Patients unlike anyone the model learned from.

    Patients unlike anyone the model learned from (docs/CHOOSING.md says when).
    """
    return Total(patients.referrals.unlike)


@metric("Referred", "subgroups", "recorded", needs="patients", shape="count", views=("unlabelled",), tasks=EVERY_TASK)
def _referred(patients: Patients) -> Total:
    """Patients on the list, whatever their reason.

    Patients with any of the three reasons: `refer` in `patients.csv`; with `within_capacity`, at most the capacity,
    those with more reasons first, then those with more expected loss.
    """
    return Total(patients.referrals.referred)


@metric("Left out", needs="patients", shape="count", tasks=EVERY_TASK)
def _left_out(patients: Patients) -> Total:
    """Patients with a reason to be referred beyond a capacity that bounds them all.

    Patients with a reason whom `within_capacity` leaves out.
    """
    return Total(patients.referrals.left_out)


@metric(
    "Interval width",
    "spread",
    "recorded",
    needs="patients",
    views=("main", "unlabelled"),
    tasks=("binary", "regression"),
)
def _interval_width(patients: Patients) -> Mean:
    """Average width of the central interval of the samples.

    Mean width of the central interval of the samples (the paper's "CI width"); of a continuous outcome the interval
    holds its noise too.
    """
    low, high = patients.summary.interval(patients.decision.interval_level)
    return Mean(high - low)


@metric("Mean sd", "spread", needs="patients", views=("unlabelled",), tasks=EVERY_TASK)
def _mean_sd(patients: Patients) -> Mean:
    """Average standard deviation of the samples.

    Mean over patients of the standard deviation of the samples.
    """
    return Mean(patients.sd)


@metric("Calibration intercept", "floor", "recorded", views=("scores",))
def _calibration_intercept(patients: Patients) -> Statistic:
    """0: risks are right on average; above 0: too low; below 0: too high.

    a in logit P(outcome) = a + logit(risk): 0 right on average, above 0 risks too low.
    """
    return patients.calibration


@metric("Calibration slope", "floor", "recorded", views=("scores",))
def _calibration_slope(patients: Patients) -> Statistic:
    """1: risks spread as they should; below 1: too extreme; above 1: too timid.

    b in logit P(outcome) = a + b logit(risk): 1 right spread, below 1 risks too extreme.
    """
    return patients.calibration


@metric("Calibration error", "floor", "bounded", views=("scores",), tasks=CLASSIFIED)
def _ece(patients: Patients) -> Statistic:
    """Average distance of predicted and observed risk over ten groups, beyond what chance explains.

    Mean distance of mean risk and observed share over ten groups of similar size (equal risks stay together), weighted
    by patients, beyond what chance explains; of several classes the mean over classes.
    """
    return calibration_error_statistic(patients.y, patients.risk, patients.weight)


@metric("Brier score", "compared", "recorded", views=("scores",), tasks=CLASSIFIED)
def _brier(patients: Patients) -> Mean:
    """Mean squared distance of risk and outcome.

    Mean of (risk - outcome)^2; of several classes half the sum over them, which for two is the same.
    """
    if patients.task == "classes":
        return Mean(class_brier(patients.y, patients.risk))
    return Mean((patients.risk - patients.y) ** 2)


@metric("Log loss", "compared", "recorded", views=("scores",), tasks=CLASSIFIED)
def _log_loss(patients: Patients) -> Mean:
    """Mean surprise at what happened.

    Mean of -log of the probability given to what happened; risks are kept 1e-7 away from 0 and 1.
    """
    return Mean(per_row_loss(patients.y, patients.risk, patients.task))


@metric(
    "Error rate",
    "subgroups",
    "compared",
    "recorded",
    shape="share",
    views=("scores", "retained"),
    short="Nobody referred",
    tasks=EVERY_TASK,
)
def _error_rate(patients: Patients) -> Mean:
    """Share of wrong classes at the decision level.

    Share of wrong classes at the site's level (its risk level, 15%); without a level, share of errors.
    """
    return Mean(patients.acted_wrongly)


def _enter_retained(share: float, by: Literal["expected", "sd"]) -> None:
    """Enters the share of errors among those who stay when a share of the patients is referred."""
    words, ranking = ("expected loss",) * 2 if by == "expected" else ("sd", "the spread (sd) of the predictions")
    definition = {
        "expected": "Share of wrong classes at the site's level among those who stay when 5, 10, 20% are referred by "
        "expected loss; of several classes by expected error.",
        "sd": "The same, referred by sd.",
    }

    def retained(patients: Patients) -> Mean:
        score = patients.sd
        if by == "expected" and patients.task == "binary":
            score = expected_loss(patients.risk, patients.decision.threshold)
        elif by == "expected":
            score = expected_error(patients.summary)
        stay = ~highest(score, capacity_count(len(patients.y), share))
        return Mean(stay * patients.acted_wrongly, stay)

    metric(
        f"Error left when {share:.0%} are referred, by {words}",
        shape="share",
        spread=by == "sd",
        views=("retained",),
        short=f"{share:.0%} by {words}",
        name=f"retained_error_{100 * share:.0f}_{by}",
        tasks=CLASSIFIED if by == "expected" else EVERY_TASK,
        text=f"Share of wrong classes among patients who stay with the model when the {share:.0%} highest by {ranking} "
        f"are referred.\n\n{definition[by]}",
    )(retained)


for _share in SHARES:
    _enter_retained(_share, "expected")
    _enter_retained(_share, "sd")


@metric("Net benefit", "recorded", tells="weights", views=("benefit",))
def _net_benefit(patients: Patients) -> Mean:
    """True positives less weighted false positives per patient, acting from the risk level on.

    (true positives - false positives * t/(1-t)) / n, acting from t = the risk level on.
    """
    return Mean(per_row_benefit(patients.y, patients.risk, patients.decision.risk_level))


@metric("Net benefit with referral", tells="weights", views=("benefit",))
def _net_benefit_refer(patients: Patients) -> Mean:
    """The same when referred patients go to a clinician who is assumed to decide correctly; looking costs nothing here.

    The same when referred patients go to a clinician who is assumed to decide correctly (the paper's assumption); the
    cost of looking is not subtracted.
    """
    return Mean(per_row_benefit(patients.y, patients.risk, patients.decision.risk_level, patients.referrals.referred))


@metric("Referrals per net true positive", digits=1, tells="gains", views=("benefit",))
def _referrals_per_gain(patients: Patients) -> Ratio:
    """How many referrals buy one more net true positive.

    Referrals that buy one more net true positive: share referred / (net_benefit_refer - net_benefit).
    """
    level = patients.decision.risk_level
    with_referral = per_row_benefit(patients.y, patients.risk, level, patients.referrals.referred)
    return Ratio(patients.referrals.referred, with_referral - per_row_benefit(patients.y, patients.risk, level))


# What follows is of several classes or of a continuous outcome alone.


@metric("Accuracy", "subgroups", "compared", "recorded", shape="share", tasks=("classes",))
def _accuracy(patients: Patients) -> Mean:
    """Share of patients whose likeliest class is the true one.

    Share of patients whose likeliest class is the true one; several classes only.
    """
    return Mean(~patients.wrong)


@metric("Root mean squared error", "recorded", tasks=("regression",))
def _rmse(patients: Patients) -> Statistic:
    """Typical distance of value and outcome, in the outcome's unit; large ones count most.

    Root of the mean of (value - outcome)^2; continuous outcomes only, as are those below.
    """
    return patients.fit


@metric("Explained share (R2)", "recorded", tasks=("regression",))
def _r2(patients: Patients) -> Statistic:
    """Share of the outcome's variance that the values explain; below 0: worse than the mean of these patients.

    1 - mean of (value - outcome)^2 / variance of the outcome.
    """
    return patients.fit


@metric("Mean absolute error", "subgroups", "compared", "recorded", tasks=("regression",))
def _mae(patients: Patients) -> Mean:
    """Average distance of value and outcome, in the outcome's unit.

    Mean absolute difference of value and outcome.
    """
    return Mean(np.abs(patients.risk - patients.y))


@metric("Interval coverage", "spread", "subgroups", "recorded", shape="share", tasks=("regression",))
def _coverage(patients: Patients) -> Mean:
    """Share of patients whose outcome lies in their interval; it should be the interval's level.

    Share of outcomes within the interval.
    """
    low, high = patients.summary.interval(patients.decision.interval_level)
    return Mean((low <= patients.y) & (patients.y <= high))


@metric("CRPS", "spread", "compared", "recorded", tasks=("regression",))
def _crps(patients: Patients) -> Mean:
    """Distance of the whole prediction from the outcome, in the outcome's unit: small for narrow intervals that hold.

    Mean continuous ranked probability score of a normal prediction with the value as mean and the sd.
    """
    return Mean(crps(patients.y, patients.risk, patients.sd))
