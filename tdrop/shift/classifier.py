"""A classifier that tells target patients from source patients, and the weights that follow from it.

Every probability is cross-fitted: a row is scored by a model that never saw it. Outcomes are not
read, neither the source's nor the target's.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.linear_model import LogisticRegression
from threadpoolctl import threadpool_limits

from tdrop.errors import DataError, UsageError, did_you_mean
from tdrop.types import Cohort, Doubles, Indices

Kind = Literal["logistic", "boosting"]
KINDS: tuple[str, ...] = get_args(Kind)

#: Folds of the cross-fitting; fewer when a site has fewer rows than this.
FOLDS = 5
#: Rows behind one fit of each kind; every row is scored, whatever was left out of the fit. Twenty
#: coefficients are known to three digits from 200,000 rows; boosting is the slow one.
MOST_ROWS: dict[str, int] = {"logistic": 200_000, "boosting": 50_000}
#: Logits are kept within this: a density ratio beyond e^30 says "no overlap" and nothing more.
LARGEST_LOGIT = 30.0
#: No source row counts for more than this many average ones in an importance-weighted mean.
WEIGHT_CAP = 20.0


@dataclass(frozen=True)
class Propensity:
    """Cross-fitted probabilities of being a target patient.

    Attributes:
        source: P(target | x) of the source rows (source rows,).
        target: P(target | x) of the target rows (target rows,).
        kind: The classifier behind it.
        folds: Folds of the cross-fitting.
        rows_fitted: Rows behind one fit, at most.
    """

    source: Doubles
    target: Doubles
    kind: Kind = "logistic"
    folds: int = FOLDS
    rows_fitted: int = 0

    def logits(self) -> tuple[Doubles, Doubles]:
        """Log odds of source and target rows, within +-LARGEST_LOGIT."""
        return _logit(self.source), _logit(self.target)


def propensity(
    source: Cohort, target: Cohort, *, seed: int = 0, kind: Kind = "logistic", folds: int = FOLDS
) -> Propensity:
    """Estimates P(target | x) for every row of both sites, cross-fitted.

    A site with many rows is thinned for the fit (MOST_ROWS) and the odds are corrected for that,
    so the probabilities are those of the two sites as given.
    """
    _check(source, target, kind)
    X, is_target = stack(source, target)
    folds = max(2, min(folds, len(source), len(target)))
    generator = np.random.default_rng([seed, 1])
    fold_of = _assign_folds(is_target, folds, generator)
    logits = np.empty(len(X))
    most = 0
    with threadpool_limits(1):
        for fold in range(folds):
            held = fold_of == fold
            rows = np.flatnonzero(~held)
            logits[held], fitted = _fit_and_score(kind, X, is_target, rows, X[held], generator)
            most = max(most, fitted)
    probability = 1.0 / (1.0 + np.exp(-np.clip(logits, -LARGEST_LOGIT, LARGEST_LOGIT)))
    return Propensity(probability[: len(source)], probability[len(source) :], kind, folds, most)


def density_ratio_weights(fitted: Propensity, cap: float | None = WEIGHT_CAP) -> Doubles:
    """Weights (source rows,) that make the source look like the target; mean 1.

    The ratio of densities is the odds times source rows / target rows. `cap` bounds a weight in
    units of the mean weight: it buys a smaller variance with a little bias. None does not bound.
    """
    logits, _ = fitted.logits()
    # Subtracting the largest logit first keeps exp() finite; the mean is taken out anyway.
    weights: Doubles = np.exp(logits - logits.max())
    weights /= weights.mean()
    if cap is None:
        return weights
    # Capping lowers the mean, so the bound is approached in a few rounds.
    for _ in range(20):
        weights = np.minimum(weights, cap)
        weights /= weights.mean()
        if weights.max() <= cap * 1.001:
            break
    return weights


def effective_n(weights: NDArray[Any]) -> float:
    """Kish's effective sample size: the number of equally weighted rows with the same variance."""
    weights = np.asarray(weights, dtype=np.float64)
    squares = float((weights**2).sum())
    return float(weights.sum()) ** 2 / squares if squares > 0 else 0.0


def stack(source: Cohort, target: Cohort) -> tuple[Doubles, NDArray[np.bool_]]:
    """Returns both sites' rows, standardised together, and which of them are the target's."""
    X = np.concatenate([source.X, target.X]).astype(np.float64)
    X -= X.mean(axis=0)
    scale = X.std(axis=0)
    X /= np.where(scale > 0, scale, 1.0)
    return X, np.arange(len(X)) >= len(source)


def fit_classifier(kind: Kind, X: Doubles, is_target: NDArray[np.bool_], seed: int) -> Any:
    """Fits one source-vs-target classifier with a `decision_function`."""
    if kind == "boosting":
        model: Any = HistGradientBoostingClassifier(
            max_iter=100, max_leaf_nodes=15, early_stopping=False, random_state=seed
        )
    else:
        # newton-cholesky solves (features x features) systems: fast for many rows, not for many features.
        solver = "newton-cholesky" if X.shape[1] <= 200 else "lbfgs"
        model = LogisticRegression(C=1.0, solver=solver, max_iter=200)
    return model.fit(X, is_target)


def thin(is_target: NDArray[np.bool_], rows: Indices, most: int, generator: np.random.Generator) -> Indices:
    """Returns at most `most` of `rows`, the smaller site kept as whole as possible."""
    if len(rows) <= most:
        return rows
    kept: list[Indices] = []
    sides = sorted((rows[~is_target[rows]], rows[is_target[rows]]), key=len)
    for side, room in zip(sides, (most // 2, most), strict=True):
        take = min(len(side), room - sum(len(one) for one in kept))
        kept.append(generator.choice(side, size=take, replace=False))
    return np.sort(np.concatenate(kept))


def _fit_and_score(
    kind: Kind,
    X: Doubles,
    is_target: NDArray[np.bool_],
    rows: Indices,
    held: Doubles,
    generator: np.random.Generator,
) -> tuple[Doubles, int]:
    """Fits on `rows` (thinned) and returns the logits of the held-out rows and how many rows were fitted."""
    kept = thin(is_target, rows, MOST_ROWS[kind], generator)
    targets, sources = int(is_target[rows].sum()), int((~is_target[rows]).sum())
    model = fit_classifier(kind, X[kept], is_target[kept], seed=int(generator.integers(2**31)))
    kept_targets, kept_sources = int(is_target[kept].sum()), int((~is_target[kept]).sum())
    # Thinning one site more than the other shifts every log odds by the same amount.
    correction = np.log(targets / sources) - np.log(kept_targets / kept_sources)
    return np.asarray(model.decision_function(held), dtype=np.float64) + correction, len(kept)


def _assign_folds(is_target: NDArray[np.bool_], folds: int, generator: np.random.Generator) -> Indices:
    """Returns the fold of every row, each site spread evenly over the folds."""
    fold_of = np.empty(len(is_target), dtype=np.int64)
    for side in (False, True):
        rows = np.flatnonzero(is_target == side)
        fold_of[generator.permutation(rows)] = np.arange(len(rows)) % folds
    return fold_of


def _logit(probability: Doubles) -> Doubles:
    with np.errstate(divide="ignore"):
        logits: Doubles = np.log(probability) - np.log1p(-probability)
    return np.clip(logits, -LARGEST_LOGIT, LARGEST_LOGIT)


def check_same_features(source: Cohort, target: Cohort) -> None:
    """Refuses two cohorts that were not encoded alike, or that have nothing to compare."""
    if not source.features:
        raise DataError(
            f"sites '{source.site}' and '{target.site}': expected at least 1 feature to compare, came 0; "
            "give a column of their table the role feature"
        )
    if source.features != target.features:
        both = set(source.features) & set(target.features)
        raise DataError(
            f"sites '{source.site}' and '{target.site}': expected the same features in the same order, came "
            f"{len(source.features)} and {len(target.features)} with {len(both)} in common; "
            "encode both with the source's encoder"
        )


def _check(source: Cohort, target: Cohort, kind: str) -> None:
    if kind not in KINDS:
        raise UsageError(f"unknown propensity kind '{kind}'{did_you_mean(kind, KINDS)}")
    check_same_features(source, target)
    if min(len(source), len(target)) < 2:
        raise DataError(
            f"sites '{source.site}' and '{target.site}': a cross-fitted propensity needs at least 2 rows a site, "
            f"came {len(source):,} and {len(target):,}; check the extract's counts"
        )
