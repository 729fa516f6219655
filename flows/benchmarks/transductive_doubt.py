"""Does doubt harm or help? Transductive dropout and ensemble against TDNR and ensemble, where nothing was settled.

Draws of the simulated extrapolation family, and the real transfers of five collections of public tables. All
methods with the same decay, everything else at its default. docs/UNLABELLED.md reports a run.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from flows.benchmarks.paired import error_auroc, error_left, mean_of, mean_over_problems
from flows.benchmarks.results import Row, Table
from flows.benchmarks.table_one import RIVALS
from flows.benchmarks.transfers import collection
from flows.benchmarks.units import QUICK_NETWORK, run_units
from tdrop.base import Cohort, Doubles, Summary
from tdrop.data import extrapolation
from tdrop.home import Place
from tdrop.methods import build, label
from tdrop.methods.parts.network_method import FittedNetwork
from tdrop.metrics import CalibrationError, auroc, misclassified, per_row_log_loss

METHODS = tuple(name for pair in RIVALS.items() for name in pair)
#: Draws of the family that settled nothing.
DRAWS = range(400, 420)
DECAY = 1e-3
PASSES = 200
#: A ranking of fewer errors is mostly chance.
FEWEST_ERRORS = 10
CURVED, REAL = "curved (simulated)", "real"
SECOND, THIRD, FOURTH, FIFTH = (f"real, {name} collection" for name in ("second", "third", "fourth", "fifth"))
#: Rows over several collections: all, and those that were defined after every form was settled.
ALL, UNSEEN = "real, all collections", "real, second to fifth collection"
_COLLECTIONS = {REAL: "first", SECOND: "second", THIRD: "third", FOURTH: "fourth", FIFTH: "fifth"}
#: What is measured.
MEASURES = (
    "errors in 1,000",
    "error AUROC by sd",
    "error left after 20% referred by sd",
    "AUROC",
    "log loss",
    "calibration error",
    "width of the intervals",
)
#: What is counted by problem too, and the smallest difference that counts.
COUNTED, SMALLEST = ("log loss", "calibration error"), 0.0005
#: By family and name, the problems of a full run.
DOUBT_PROBLEMS: Mapping[str, Sequence[str]] = {
    CURVED: [str(draw) for draw in DRAWS],
    **{family: list(collection(name)) for family, name in _COLLECTIONS.items()},
}

#: By measure, what a fit does on the target; None where a measure is not defined.
Values = Mapping[str, float | None]
#: The same by method.
Measured = Mapping[str, Values]


def measure_doubts(place: Place, *, quick: bool, refits: int) -> list[Table]:
    """The tables of doubt: every problem of every family, or two simulated ones to see that it works."""
    problems = {CURVED: DOUBT_PROBLEMS[CURVED][:2]} if quick else DOUBT_PROBLEMS
    units = [
        {"family": family, "name": name, "quick": quick, "refits": refits}
        for family, names in problems.items()
        for name in names
    ]
    measured = iter(run_units(place, "transductive", measure_doubt, units))
    found = {family: {name: next(measured) for name in names} for family, names in problems.items()}
    return [doubt_table(_with_pooled(found)), _problems_table(found)]


def _with_pooled(found: Mapping[str, Mapping[str, Measured]]) -> dict[str, list[Measured]]:
    """By family its problems, and where there are real ones the collections together."""
    families = {family: list(own.values()) for family, own in found.items()}
    real = {family: own for family, own in families.items() if family in _COLLECTIONS}
    pooled = {ALL: real, UNSEEN: {family: own for family, own in real.items() if family != REAL}}
    return families | {name: [one for own in parts.values() for one in own] for name, parts in pooled.items() if parts}


def measure_doubt(family: str, name: str, quick: bool, refits: int) -> Measured:
    """By method, what a fit does on the target of one problem, in the mean over refits."""
    source, labelled = _draw(family, name, 200 if quick else 1_000)
    found: dict[str, list[Values]] = {method: [] for method in METHODS}
    for main, rival in RIVALS.items():
        built = build(main, **{"weight_decay": DECAY, **(QUICK_NETWORK if quick else {})})
        for seed in range(refits):
            fitted = built.fit(source, labelled.unlabelled(), None, seed=seed)
            assert isinstance(fitted, FittedNetwork)
            # The risk alone is the rival's own fit, to the last bit.
            for method, one in ((main, fitted), (rival, fitted.risk_alone())):
                found[method].append(measure_fit(labelled, one.summarise(labelled.X, 10 if quick else PASSES, seed=0)))
    return {method: {name: mean_of([one[name] for one in each]) for name in MEASURES} for method, each in found.items()}


def measure_fit(labelled: Cohort, summary: Summary) -> Values:
    """What one fit does on the target, by measure."""
    y = labelled.y
    assert y is not None
    wrong = misclassified(y, summary.mean)
    low, high = summary.interval()
    calibration = CalibrationError.measure(y, summary.mean)
    assert calibration is not None
    values = (
        1_000 * float(wrong.mean()),
        error_auroc(y, summary) if wrong.sum() >= FEWEST_ERRORS else None,
        error_left(y, summary),
        auroc(y, summary.mean),
        float(per_row_log_loss(y, summary.mean).mean()),
        calibration.value,
        float((high - low).mean()),
    )
    return dict(zip(MEASURES, values, strict=True))


def _draw(family: str, name: str, rows: int) -> tuple[Cohort, Cohort]:
    if family == CURVED:
        return extrapolation(rows, seed=int(name))
    return collection(_COLLECTIONS[family])[name].sides()


def doubt_table(
    found: Mapping[str, Sequence[Measured]], name: str = "transductive_doubt", how: str = "Defaults with equal decay."
) -> Table:
    """By family and pair of methods, both and their difference, paired by problem."""
    rows: list[Row] = []
    for family, problems in found.items():
        for main, rival in RIVALS.items():
            known = {
                each: [own for own in problems if own[main][each] is not None and own[rival][each] is not None]
                for each in MEASURES
            }
            values = {
                method: {each: np.array([own[method][each] for own in known[each]], dtype=float) for each in MEASURES}
                for method in (main, rival)
            }
            values["difference"] = {each: values[main][each] - values[rival][each] for each in MEASURES}
            rows += [
                {
                    "problems": family,
                    "method": method if method == "difference" else label(method),
                    **{
                        each: mean_over_problems(own[each].tolist(), 1 if each == MEASURES[0] else 3)
                        for each in MEASURES
                    },
                    **{
                        f"{each}, lower / higher": _lower_and_higher(own[each]) if method == "difference" else None
                        for each in COUNTED
                    },
                    "n": len(problems),
                }
                for method, own in values.items()
            ]
    caption = (
        "Methods with risk apart from doubt, and the same networks without the unlabelled patients, simulated and real "
        f"as named. {how} Mean over problems with Student's 95% interval; the difference is paired by problem; the "
        f"ranking of errors where both methods make at least {FEWEST_ERRORS}."
    )
    return Table(name, caption, rows)


def _lower_and_higher(differences: Doubles) -> str:
    """At how many problems a difference of at least half a thousandth is below and above 0."""
    return f"{(differences <= -SMALLEST).sum()} / {(differences >= SMALLEST).sum()}"


def _problems_table(found: Mapping[str, Mapping[str, Measured]]) -> Table:
    rows: list[Row] = [
        {"problems": family, "problem": name, "method": label(method), **own[method]}
        for family, problems in found.items()
        for name, own in problems.items()
        for method in METHODS
    ]
    return Table("transductive_doubt_problems", "The same by problem, simulated and real as named.", rows)
