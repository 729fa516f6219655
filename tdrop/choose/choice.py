"""Choosing a method for a site without a single label of that site.

Two criteria, as a setting: importance-weighted log loss on out-of-fold source predictions (weights
from the cross-fitted propensity), or log loss on the matched validation set. docs/CHOOSING.md has
the measurement behind the default.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, get_args

from tdrop.base import Amount, Count, FitError, UsageError, did_you_mean
from tdrop.choose.folds import FoldScore
from tdrop.choose.losses import Losses
from tdrop.choose.trial import Trial
from tdrop.methods import COMMITTEE

Criterion = Literal["importance_weighted", "matched_validation"]
CRITERIA: tuple[str, ...] = get_args(Criterion)
DEFAULT_CRITERION: Criterion = "importance_weighted"

#: What is taken among methods that score alike, first to last: several of them together; networks that this site's
#: unlabelled patients keep humble; a line that a reader can check by hand; other networks; then trees, which say beyond
#: the source what they said at its edge; last what learns from its own guesses. docs/CHOOSING.md has the measurement.
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
#: Added to a method's log loss before methods are compared: what trees gain where source patients are, and lose again
#: beyond them, where their risk no longer changes.
HANDICAP = {"gradient_boosting": 0.03}


@dataclass(frozen=True)
class Score:
    """What is known of a method before choosing.

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

    @property
    def members(self) -> tuple[str, ...]:
        """Of a committee, its members; of any other method nobody."""
        settings = self.trial.settings if self.method == COMMITTEE and self.trial is not None else {}
        return tuple(settings.get("members", ()))

    @property
    def plain_log_loss(self) -> float | None:
        """Mean log loss of out-of-fold source patients, all of them alike."""
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
        plain_log_loss: Of out-of-fold source patients, all of them alike.
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
    best = min(candidates, key=lambda name: scored[name].mean + _handicap(name))
    tied = {name for name in candidates if _alike(name, best, scored)}
    described = (_describe(score, scored, best, criterion, score.method in tied) for score in scores)
    table = tuple(sorted(described, key=_table_order))
    chosen = COMMITTEE if COMMITTEE in candidates else min(tied, key=preference)
    others = [row.method for row in table if row.candidate and row.method != chosen and row.log_loss is not None]
    return Choice(
        method=chosen,
        runner_up=others[0] if others else None,
        criterion=criterion,
        table=table,
        mlp_better="mlp" in scored and scored["mlp"].mean < scored[chosen].mean,
        members=next((score.members for score in scores if score.method == chosen), ()),
    )


def _alike(name: str, best: str, scored: Mapping[str, Losses]) -> bool:
    """Whether source patients cannot tell the method from the best, each with its handicap."""
    behind, error = scored[name].compare(scored[best])
    reach = ALIKE if error is None else min(ALIKE, ERRORS * error)
    return behind + _handicap(name) - _handicap(best) <= reach


def _describe(score: Score, scored: Mapping[str, Losses], best: str, criterion: Criterion, tied: bool) -> ChoiceRow:
    losses = scored.get(score.method)
    behind, error = losses.compare(scored[best]) if losses is not None else (None, None)
    kept = score.folds if criterion == "importance_weighted" else score.trial
    return ChoiceRow(
        method=score.method,
        candidate=score.has_samples and losses is not None,
        log_loss=None if losses is None else losses.mean,
        standard_error=None if losses is None else losses.standard_error,
        behind=behind,
        behind_error=error,
        tied=tied,
        matched_log_loss=score.trial.matched_log_loss if score.trial else None,
        weighted_log_loss=score.folds.log_loss if score.folds else None,
        n=_rows_of(kept),
        effective_n=_effective_n(kept),
        plain_log_loss=score.plain_log_loss,
    )


def _rows_of(kept: Trial | FoldScore | None) -> Count:
    if kept is None:
        return 0
    return kept.n if isinstance(kept, FoldScore) else kept.matched_n


def _effective_n(kept: Trial | FoldScore | None) -> Amount | None:
    if kept is None:
        return None
    return kept.effective_n if isinstance(kept, FoldScore) else kept.matched_n


def _table_order(row: ChoiceRow) -> tuple[float, int]:
    return (float("inf") if row.log_loss is None else row.log_loss, preference(row.method))


def preference(name: str) -> int:
    """A method's place in PREFERENCE; unknown ones are last."""
    return PREFERENCE.index(name) if name in PREFERENCE else len(PREFERENCE)


def _handicap(name: str) -> float:
    return HANDICAP.get(name, 0.0)
