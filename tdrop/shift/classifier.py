"""Classifiers that tell target patients from source patients, cross-fitted and calibrated; the best is the propensity.

Three compete: a logistic regression of the features, one with their squares and products (`Terms`), and boosting. Means
alone do not tell sites apart whose patients have another spread, or whose features go together in another way: the log
ratio of two normal densities is a quadratic, so squares and products say all there is to say about those. Every
probability comes from a model that never saw the row. Overfitting shows in the slope of its calibration: without a
shift the slope is near 0 and every patient gets the same probability. The simplest that the best does not clearly beat,
patient by patient, is taken. Outcomes are not read, neither the source's nor the target's.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Self, TypeAlias, get_args

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.linear_model import LogisticRegression

from tdrop.base import (
    Cohort,
    DataError,
    Doubles,
    Indices,
    Mask,
    UsageError,
    count_persons,
    deal_persons,
    did_you_mean,
    one_thread,
)
from tdrop.metrics import auroc_interval, delong, fit_line, per_row_log_loss
from tdrop.shift.overlap import LARGEST_LOGIT, DomainAuroc, Kind, Propensity, find_unlike

#: From simple to involved.
KINDS: tuple[Kind, ...] = get_args(Kind)

#: Folds of the cross-fitting; fewer when a site has fewer rows than this.
PROPENSITY_FOLDS = 5
#: Rows behind one fit of each kind; every row is scored, whatever was left out of the fit. Twenty
#: coefficients are known to three digits from 200,000 rows; boosting is the slow one.
MOST_FITTED_ROWS: dict[str, int] = {"logistic": 200_000, "quadratic": 200_000, "boosting": 50_000}
#: Numbers in the table behind one fit with squares and products (64 MB).
MOST_CELLS = 8_000_000
#: Rows that are expanded at once when they are scored.
CHUNK = 20_000
#: A slope below this is noise: the propensity then ranks patients and gives them all the same weight.
SMALLEST_SLOPE = 1e-3
#: A more involved classifier must be better by this many standard errors of the difference, patient by patient.
CLEARLY = 2.0
#: From here on boosting is not taken: trees are flat beyond their last split, so they cannot say which of two
#: patients without overlap is the nearer one.
SEPARATED = 0.975
#: Standardised values beyond this are held there before they are multiplied: one patient's square must not decide.
FURTHEST_VALUE = 5.0
#: More terms than this are not made; then squares alone, and no products, stand beside the features.
MOST_TERMS = 1_000
#: Prior standard deviation of a square's or product's coefficient: all of them together may move the logit by about
#: TOGETHER, none by more than ALONE for a standard deviation. The ridge of a feature itself is 1.
ALONE = 0.5
TOGETHER = 1.5


def propensity(source: Cohort, target: Cohort, *, seed: int = 0, kind: Kind | None = None) -> Propensity:
    """Estimates P(target | x) for every row of both sites, cross-fitted and calibrated.

    A site with many rows is thinned for the fit (MOST_FITTED_ROWS) and the odds are corrected for that,
    so the probabilities are those of the two sites as given.

    Args:
        source: The labelled site; its outcomes are not read.
        target: The site to tell it from.
        seed: Decides folds and subsamples.
        kind: The only classifier to fit; None fits all and takes the best.
    """
    _check(source, target, kind)
    X, is_target = stack(source, target)
    folds = max(2, min(PROPENSITY_FOLDS, _people(source), _people(target)))
    generator = np.random.default_rng([seed, 1])
    fold_of = np.concatenate([_assign_folds(side, folds, generator) for side in (source, target)])
    with one_thread():
        kinds = KINDS if kind is None else (kind,)
        candidates = [_cross_fit(candidate, X, is_target, fold_of, seed) for candidate in kinds]
    probability, line, best = candidates[_pick(candidates, is_target)]
    fitted = Propensity(
        source=probability[: len(source)],
        target=probability[len(source) :],
        kind=best.kind,
        candidates=tuple(auroc for _, _, auroc in candidates),
        line=line,
    )
    return replace(fitted, unlike=find_unlike(source, target, fitted.target, fitted, seed=seed))


def unlike_newcomers(patients: Cohort, source: Cohort, target: Cohort, fitted: Propensity) -> Mask:
    """Finds new patients who are unlike all source patients (patients,), by the same rule as for the target's patients.

    Args:
        patients: New patients of the target site.
        source: The labelled site.
        target: The patients that the model was made for.
        fitted: The propensity of the two.
    """
    check_same_features(source, patients)
    X, is_target = stack(source, target)
    generator = np.random.default_rng([0, 1, KINDS.index(fitted.kind)])
    with one_thread():
        held = standardised(patients.X, source, target)
        logits, _ = _fit_and_score(fitted.kind, X, is_target, np.arange(len(X)), held, generator)
    likeness = _on_line(np.clip(logits, -LARGEST_LOGIT, LARGEST_LOGIT), fitted.line)
    return find_unlike(source, patients, likeness, fitted)


#: One classifier's calibrated probabilities (rows,), its calibration line and how well it separates the sites.
_CrossFitted: TypeAlias = tuple[Doubles, tuple[float, float], DomainAuroc]


def _pick(candidates: Sequence[_CrossFitted], is_target: Mask) -> int:
    """Returns the place of the simplest classifier whose log loss by patient is not clearly above the lowest."""
    losses = [per_row_log_loss(is_target, probability) for probability, _, _ in candidates]
    aurocs = [auroc for _, _, auroc in candidates]
    usable = [place for place, auroc in enumerate(aurocs) if auroc.kind != "boosting" or auroc.value < SEPARATED]
    usable = usable or list(range(len(candidates)))
    best = min(usable, key=lambda i: float(losses[i].mean()))
    for index in usable:
        behind = losses[index] - losses[best]
        if float(behind.mean()) <= CLEARLY * float(behind.std()) / np.sqrt(len(behind)):
            return index
    return best


def _cross_fit(kind: Kind, X: Doubles, is_target: Mask, fold_of: Indices, seed: int) -> _CrossFitted:
    generator = np.random.default_rng([seed, 1, KINDS.index(kind)])
    logits = np.empty(len(X))
    most = 0
    for fold in range(int(fold_of.max()) + 1):
        held = fold_of == fold
        logits[held], fitted = _fit_and_score(kind, X, is_target, np.flatnonzero(~held), X[held], generator)
        most = max(most, fitted)
    logits = np.clip(logits, -LARGEST_LOGIT, LARGEST_LOGIT)
    value, variance = delong(logits[~is_target], logits[is_target])
    low, high = auroc_interval(value, variance, int(min(is_target.sum(), (~is_target).sum())))
    line = _calibration(logits, is_target)
    probability = _on_line(logits, line)
    loss = float(per_row_log_loss(is_target, probability).mean())
    return probability, line, DomainAuroc(value, low, high, kind, most, loss)


def _on_line(logits: Doubles, line: tuple[float, float]) -> Doubles:
    """Probabilities (rows,) of logits after calibration by an intercept and a slope."""
    return np.asarray(expit(np.clip(line[0] + line[1] * logits, -LARGEST_LOGIT, LARGEST_LOGIT)), dtype=np.float64)


def _calibration(logits: Doubles, is_target: Mask) -> tuple[float, float]:
    """Intercept and slope that calibrate out-of-fold logits (rows,)."""
    line = fit_line(
        is_target.astype(np.float64), np.column_stack([np.ones(len(logits)), logits]), np.zeros(len(logits))
    )
    if line is None:  # separated sites, or logits that are all alike
        return 0.0, 1.0
    if line[1] > SMALLEST_SLOPE:
        return float(line[0]), float(line[1])
    prior = np.log(is_target.mean() / (1 - is_target.mean()))
    return float(prior - SMALLEST_SLOPE * logits.mean()), SMALLEST_SLOPE


def stack(source: Cohort, target: Cohort) -> tuple[Doubles, Mask]:
    """Returns both sites' rows, standardised together, and which of them are the target's."""
    X = standardised(np.concatenate([source.X, target.X]), source, target)
    return X, np.arange(len(X)) >= len(source)


def standardised(X: NDArray[Any], source: Cohort, target: Cohort) -> Doubles:
    """Returns features (rows, features) on the common scale of two sites."""
    both = np.concatenate([source.X, target.X]).astype(np.float64)
    centre, scale = both.mean(axis=0), both.std(axis=0)
    return np.asarray((X - centre) / np.where(scale > 0, scale, 1.0), dtype=np.float64)


@dataclass(frozen=True)
class Classifier:
    """A fitted source-vs-target classifier.

    Attributes:
        model: What gives logits.
        terms: The squares and products it was given, or None.
    """

    model: Any
    terms: Terms | None

    def logits(self, X: Doubles) -> Doubles:
        """Log odds of being a target patient (rows,) for standardised features (rows, features)."""
        if self.terms is None:
            return np.asarray(self.model.decision_function(X), dtype=np.float64)
        chunks = [X[start : start + CHUNK] for start in range(0, len(X), CHUNK)]
        return np.concatenate([self.model.decision_function(self.terms.expand(chunk)) for chunk in chunks])


def fit_classifier(kind: Kind, X: Doubles, is_target: Mask, seed: int) -> Classifier:
    """Fits one source-vs-target classifier on standardised features X (rows, features)."""
    if kind == "boosting":
        # Small trees and short steps: on few rows large ones mostly learn noise, which the calibration then undoes.
        boosted = HistGradientBoostingClassifier(
            max_iter=120, learning_rate=0.06, max_leaf_nodes=8, early_stopping=False, random_state=seed
        )
        return Classifier(boosted.fit(X, is_target), None)
    terms = Terms.learn(X) if kind == "quadratic" else None
    table = X if terms is None else terms.expand(X)
    # newton-cholesky solves (terms x terms) systems: fast for many rows, not for many terms.
    solver = "newton-cholesky" if table.shape[1] <= 200 else "lbfgs"
    return Classifier(LogisticRegression(C=1.0, solver=solver, max_iter=500, tol=1e-4).fit(table, is_target), terms)


def thin(is_target: Mask, rows: Indices, most: int, generator: np.random.Generator) -> Indices:
    """Returns at most `most` of `rows`, the smaller site kept as whole as possible."""
    if len(rows) <= most:
        return rows
    chosen: list[Indices] = []
    sides = sorted((rows[~is_target[rows]], rows[is_target[rows]]), key=len)
    for side, room in zip(sides, (most // 2, most), strict=True):
        take = min(len(side), room - sum(map(len, chosen)))
        chosen.append(generator.choice(side, size=take, replace=False))
    return np.sort(np.concatenate(chosen))


def _fit_and_score(
    kind: Kind,
    X: Doubles,
    is_target: Mask,
    rows: Indices,
    held: Doubles,
    generator: np.random.Generator,
) -> tuple[Doubles, int]:
    """Fits on `rows` (thinned) and returns the logits of the held-out rows and how many rows were fitted."""
    most, features = MOST_FITTED_ROWS[kind], X.shape[1]
    if kind == "quadratic":
        most = min(most, max(2_000, MOST_CELLS // (features * (features + 3) // 2)))
    thinned = thin(is_target, rows, most, generator)
    targets, sources = int(is_target[rows].sum()), int((~is_target[rows]).sum())
    model = fit_classifier(kind, X[thinned], is_target[thinned], seed=int(generator.integers(2**31)))
    thinned_targets, thinned_sources = int(is_target[thinned].sum()), int((~is_target[thinned]).sum())
    # Thinning one site more than the other shifts every log odds by the same amount.
    correction = np.log(targets / sources) - np.log(thinned_targets / thinned_sources)
    return model.logits(held) + correction, len(thinned)


def _people(cohort: Cohort) -> int:
    return len(cohort) if cohort.persons is None else count_persons(cohort.persons)


def _assign_folds(cohort: Cohort, folds: int, generator: np.random.Generator) -> Indices:
    """Returns the fold of every row of a site. Folds are equally large; the rows of a person share a fold."""
    # The rows of a single person cannot be kept together and still be both fitted and held out.
    if cohort.persons is not None and _people(cohort) > 1:
        return deal_persons(cohort.persons, folds, generator)
    fold_of = np.empty(len(cohort), dtype=np.int64)
    fold_of[generator.permutation(len(cohort))] = np.arange(len(cohort)) % folds
    return fold_of


def check_same_features(source: Cohort, target: Cohort) -> None:
    """Raises a DataError for two cohorts that were not encoded alike, or that have no feature."""
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


def _check(source: Cohort, target: Cohort, kind: str | None) -> None:
    if kind is not None and kind not in KINDS:
        raise UsageError(f"unknown propensity kind '{kind}'{did_you_mean(kind, KINDS)}")
    check_same_features(source, target)
    if min(len(source), len(target)) < 2:
        raise DataError(
            f"sites '{source.site}' and '{target.site}': a cross-fitted propensity needs at least 2 rows per site, "
            f"came {len(source):,} and {len(target):,}; check the extract's counts"
        )


@dataclass(frozen=True)
class Terms:
    """Which products are taken, and how each is scaled.

    Attributes:
        first: Feature of each product (terms,).
        second: The feature it is multiplied with; the same one for a square (terms,).
        mean: What is subtracted from a product (terms,).
        scale: What it is then multiplied by: small scales are penalised more by one and the same ridge (terms,).
    """

    first: Indices
    second: Indices
    mean: Doubles
    scale: Doubles

    @classmethod
    def learn(cls, X: Doubles) -> Self:
        """Picks the products of standardised features X (rows, features) that are neither constant nor a feature."""
        first, second = _pairs(X)
        products = _multiply(X, first, second)
        mean, sd = products.mean(axis=0), products.std(axis=0)
        telling = sd > 1e-9
        first, second, mean, sd = first[telling], second[telling], mean[telling], sd[telling]
        return cls(first, second, mean, min(ALONE, TOGETHER / max(1.0, np.sqrt(len(sd)))) / sd)

    def __len__(self) -> int:
        return len(self.first)

    def expand(self, X: Doubles) -> Doubles:
        """Returns the features with their scaled products beside them (rows, features + terms)."""
        products = _multiply(X, self.first, self.second)
        products -= self.mean
        products *= self.scale
        return np.concatenate([X, products], axis=1)


def _pairs(X: Doubles) -> tuple[Indices, Indices]:
    features = X.shape[1]
    first, second = np.triu_indices(features)
    if features + len(first) > MOST_TERMS:
        first = second = np.arange(features)
    # The square of a feature with two values is that feature again.
    many = np.array([np.any((column != column.min()) & (column != column.max())) for column in X.T], dtype=np.bool_)
    telling = (first != second) | many[first]
    return first[telling].astype(np.int64), second[telling].astype(np.int64)


def _multiply(X: Doubles, first: Indices, second: Indices) -> Doubles:
    held = np.clip(X, -FURTHEST_VALUE, FURTHEST_VALUE)
    product: Doubles = held[:, first] * held[:, second]
    return product
