"""Choosing a method for a site without a single label of that site.

Two criteria, as a setting: importance-weighted log loss on out-of-fold source predictions (weights
from the cross-fitted propensity), or log loss on the matched validation set. docs/CHOOSING.md has
the measurement behind the default.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np

from tdrop.base import Amount, Cohort, Count, DataError, Doubles, FitError, Hidden, UsageError, did_you_mean
from tdrop.choose.out_of_fold import Losses, OutOfFold, out_of_fold_losses
from tdrop.choose.tuning import Trial
from tdrop.methods import COMMITTEE
from tdrop.shift import effective_n

Criterion = Literal["importance_weighted", "matched_validation"]
CRITERIA: tuple[str, ...] = get_args(Criterion)
DEFAULT_CRITERION: Criterion = "importance_weighted"

#: Which of the methods that score alike is taken, first to last: several of them together; an ensemble that uses the
#: site's unlabelled patients; a linear model, which a reader can check by hand; other networks; trees, which do not
#: extrapolate; the method that learns from its own guesses. docs/CHOOSING.md has the measurement.
PREFERENCE = (
    COMMITTEE,
    "transductive_ensemble",
    "logistic_regression",
    "ensemble",
    "transductive_dropout",
    "tdnr",
    "mc_dropout",
    "concrete_dropout",
    "last_layer",
    "mlp",
    "gradient_boosting",
    "mixmatch",
)
#: Methods count as alike whose difference, patient by patient, is within this many standard errors ...
ERRORS = 2.0
#: ... and within this log loss: under a large shift the error grows until a straight line counts as good as a curve.
ALIKE = 0.02
#: Added to a method's log loss before methods are compared. Trees gain this much among source patients and lose it
#: again beyond them, where their predictions do not change.
HANDICAP = {"gradient_boosting": 0.03}
#: With fewer effective source patients the evidence for a choice is weak, and the report says so. Averaging one method
#: of each kind instead was no better (docs/CHOOSING.md).
FEWEST_TO_CHOOSE = 35
#: Methods that are no networks. Only one network joins a committee, because networks make similar errors.
OTHER_KINDS = ("logistic_regression", "gradient_boosting")


@dataclass(frozen=True)
class FoldScore:
    """Importance-weighted log loss of out-of-fold source predictions.

    Attributes:
        method: Name of the method.
        losses: Weighted mean, its standard error, and sums by block to compare methods patient by patient.
        plain_log_loss: Unweighted mean, for comparison.
        n: Source rows scored.
        effective_n: Equally weighted rows that say as much about the target.
    """

    method: str
    losses: Losses
    plain_log_loss: float
    n: int
    effective_n: float


def weigh_out_of_fold(
    method: str, risks: OutOfFold, source: Cohort, weights: Doubles, *, coverage: float = 1.0
) -> FoldScore:
    """Scores the out-of-fold risks that tuning stored, weighted to look like the target: no fit is needed.

    Args:
        method: Name of the method.
        risks: Risks of source rows by fits that did not see them.
        source: Labelled source.
        weights: Density-ratio weights (source rows,); those of the outcomes themselves are multiplied in.
        coverage: Share of the target that the source's patients can stand for.
    """
    if source.y is None:
        raise DataError(f"site '{source.site}': choosing needs the source's outcomes and came without")
    if weights.shape != (len(source),):
        raise DataError(
            f"site '{source.site}': expected one weight per source row ({len(source):,}), came shape {weights.shape}"
        )
    losses = out_of_fold_losses(source, risks)
    persons = None if source.persons is None else source.persons[risks.rows]
    outcome_weights = None if source.weight is None else source.weight[risks.rows].astype(np.float64)
    row_weights = weights[risks.rows] if outcome_weights is None else weights[risks.rows] * outcome_weights
    return FoldScore(
        method=method,
        losses=Losses.collect(losses, row_weights, persons),
        plain_log_loss=float(np.average(losses, weights=outcome_weights)),
        n=len(risks),
        effective_n=coverage * effective_n(row_weights),
    )


@dataclass(frozen=True)
class Score:
    """The scores of a method before choosing.

    Attributes:
        method: Name of the method.
        has_samples: Whether it can be chosen; a method without samples is only reported.
        trial: Its picked trial.
        folds: Its out-of-fold score; needed by "importance_weighted" only.
    """

    method: str
    has_samples: bool
    trial: Trial | None = None
    folds: FoldScore | None = None

    def losses(self, criterion: Criterion) -> Losses | None:
        """Returns the losses that `criterion` compares; None when there are none."""
        if criterion == "importance_weighted":
            return None if self.folds is None else self.folds.losses
        return None if self.trial is None else self.trial.matched_losses

    def size(self, criterion: Criterion) -> tuple[Count, Amount | None]:
        """Returns the rows behind these losses, and how many equally weighted rows say as much."""
        if criterion == "importance_weighted":
            return (0, None) if self.folds is None else (self.folds.n, self.folds.effective_n)
        return (0, None) if self.trial is None else (self.trial.matched_n, self.trial.matched_n)

    @property
    def members(self) -> tuple[str, ...]:
        """The members of a committee; empty for any other method."""
        settings = self.trial.settings if self.method == COMMITTEE and self.trial is not None else {}
        return tuple(settings.get("members", ()))

    @property
    def plain_log_loss(self) -> float | None:
        """Unweighted mean log loss of out-of-fold source patients."""
        if self.folds is not None:
            return self.folds.plain_log_loss
        return None if self.trial is None else self.trial.log_loss


@dataclass(frozen=True)
class ChoiceRow:
    """One method's line in the table behind a choice.

    Attributes:
        method: Name of the method.
        candidate: Whether it could be chosen.
        log_loss: By the criterion; None when it could not be scored.
        standard_error: Of that mean.
        behind: Log loss above the best candidate's, patient by patient.
        behind_error: Standard error of that difference.
        tied: Whether source patients cannot tell it from the best: see `make_choice`.
        matched_log_loss: On the matched validation set, whatever the criterion.
        weighted_log_loss: Importance-weighted out of fold, whatever the criterion.
        n: Rows behind log_loss.
        effective_n: Kish's size of these rows under their weights.
        plain_log_loss: Unweighted mean of out-of-fold source patients.
    """

    method: str
    candidate: bool
    log_loss: float | None
    standard_error: float | None
    behind: float | None
    behind_error: float | None
    tied: bool
    matched_log_loss: float | None
    weighted_log_loss: float | None
    n: Count
    effective_n: Amount | None
    plain_log_loss: float | None = None


@dataclass(frozen=True)
class Choice:
    """The chosen method and why.

    Attributes:
        method: Name of the chosen method.
        runner_up: The next best candidate, or None without one.
        criterion: What was compared.
        table: All methods, lowest log loss first; those without a score last.
        mlp_better: Whether the plain network, which cannot be chosen, scores better than the chosen one.
        members: Of the committee, where that was chosen.
    """

    method: str
    runner_up: str | None
    criterion: Criterion
    table: tuple[ChoiceRow, ...]
    mlp_better: bool
    members: tuple[str, ...] = ()

    @property
    def rests_on_little(self) -> bool:
        """Whether so few source patients speak for this site that another method might as well have been chosen."""
        sizes = [row.effective_n for row in self.table if row.method == self.method and row.effective_n is not None]
        return any(size.below is not None if isinstance(size, Hidden) else size < FEWEST_TO_CHOOSE for size in sizes)


def make_choice(scores: Sequence[Score], *, criterion: Criterion = DEFAULT_CRITERION) -> Choice:
    """Chooses the committee where there is one, else among the methods alike the first of PREFERENCE.

    Alike are candidates that source patients cannot tell from the best: within ERRORS standard errors and within
    ALIKE of the lowest log loss by the criterion; a method with a HANDICAP has it added first.
    """
    if criterion not in CRITERIA:
        raise UsageError(f"unknown criterion '{criterion}'{did_you_mean(criterion, CRITERIA)}")
    scored = {score.method: losses for score in scores if (losses := score.losses(criterion)) is not None}
    candidates = [score.method for score in scores if score.has_samples and score.method in scored]
    if not candidates:
        raise FitError(f"no method could be scored by '{criterion}'; see the trials for what failed")
    best = min(candidates, key=lambda name: scored[name].mean + HANDICAP.get(name, 0.0))
    tied = {name for name in candidates if _alike(name, best, scored)}
    described = (_describe(score, scored, best, criterion, score.method in tied) for score in scores)
    table = sorted(
        described, key=lambda row: (np.inf if row.log_loss is None else row.log_loss, preference(row.method))
    )
    chosen = COMMITTEE if COMMITTEE in candidates else min(tied, key=preference)
    others = [row.method for row in table if row.candidate and row.method != chosen and row.log_loss is not None]
    return Choice(
        method=chosen,
        runner_up=others[0] if others else None,
        criterion=criterion,
        table=tuple(table),
        mlp_better="mlp" in scored and scored["mlp"].mean < scored[chosen].mean,
        members=next((score.members for score in scores if score.method == chosen), ()),
    )


def _alike(name: str, best: str, scored: Mapping[str, Losses]) -> bool:
    """Whether source patients cannot tell the method from the best, each with its handicap."""
    behind, error = scored[name].compare(scored[best])
    reach = ALIKE if error is None else min(ALIKE, ERRORS * error)
    return behind + HANDICAP.get(name, 0.0) - HANDICAP.get(best, 0.0) <= reach


def _describe(score: Score, scored: Mapping[str, Losses], best: str, criterion: Criterion, tied: bool) -> ChoiceRow:
    losses = scored.get(score.method)
    behind, error = losses.compare(scored[best]) if losses is not None else (None, None)
    n, size = score.size(criterion)
    return ChoiceRow(
        method=score.method,
        candidate=score.has_samples and losses is not None,
        log_loss=None if losses is None else losses.mean,
        standard_error=None if losses is None else losses.standard_error,
        behind=behind,
        behind_error=error,
        tied=tied,
        matched_log_loss=score.trial.matched_log_loss if score.trial else None,
        weighted_log_loss=score.folds.losses.mean if score.folds else None,
        n=n,
        effective_n=size,
        plain_log_loss=score.plain_log_loss,
    )


def preference(name: str) -> int:
    """A method's place in PREFERENCE; unknown ones are last."""
    return PREFERENCE.index(name) if name in PREFERENCE else len(PREFERENCE)


def pick_members(scores: Sequence[Score], *, criterion: Criterion = DEFAULT_CRITERION) -> tuple[str, ...]:
    """Picks the members of the committee, the preferred first; none where fewer than two methods qualify.

    These are methods of different kinds that source patients cannot tell from the best: a line, trees and the preferred
    network, each when its log loss by the criterion is within ALIKE of the lowest among them; and the method that would
    be taken alone.
    """
    losses = {
        score.method: losses.mean
        for score in scores
        if score.has_samples and (losses := score.losses(criterion)) is not None
    }
    if len(losses) < 2:
        return ()
    known = sorted(losses, key=preference)
    networks = [name for name in known if name not in OTHER_KINDS]
    kinds = [*networks[:1], *(name for name in known if name in OTHER_KINDS)]
    lowest = min(losses[name] for name in kinds)
    members = {name for name in kinds if losses[name] <= lowest + ALIKE}
    members.add(make_choice(scores, criterion=criterion).method)
    return tuple(name for name in known if name in members) if len(members) > 1 else ()
