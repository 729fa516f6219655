"""Two exports of nearly the same patients, as whole folders: the same bytes, or far enough apart to tell nothing.

The attacker has both folders and knows how many patients came; a solver looks for what is true of those who came.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from disclosure_attack import Attack
from exported_folder import METHOD, METHODS, attack_folder, confusion, groups_of
from numpy.typing import NDArray
from report_cases import CONTRACTS, predict, report_data, simulate

from tasks.export import patients_of, question_of, write_export
from tdrop.base import Summary
from tdrop.contracts import load_network
from tdrop.data import LabelCounts, learn_encoder, subgroups_of
from tdrop.disclosure import Published, disclose
from tdrop.evaluate import evaluate_methods
from tdrop.report import ReportData, SiteSummary
from tdrop.shift import estimate_shift, match

SOURCE_ROWS = 300
HIDDEN = ["died_10y", "true_risk"]
#: Counts that are sums over patients: what both reports say of them differs by those who came.
SUMS = ("TP", "FP", "FN", "TN", "outcome_rate", "error_rate", "patients")


@dataclass(frozen=True)
class Drawn:
    """Everyone who could be a patient of a site, with what a model says of each."""

    frame: Any
    predictions: dict[str, list[Summary]]
    base: ReportData


def draw(seed: int, most: int) -> Drawn:
    frame = simulate("moderate", most, seed=1000 + seed)
    frame["patient_id"] = [f"P{number}" for number in range(most)]
    predictions = predict(frame["true_risk"].to_numpy(), METHODS, 1, seed=seed)
    base = report_data(
        target_rows=60, source_rows=SOURCE_ROWS, methods=METHODS, method=METHOD, seeds=1, bootstrap=10, exempt=False
    )
    return Drawn(frame, predictions, base)


def of_whom(drawn: Drawn, people: NDArray[np.intp], unknown: int, older: int = 0) -> ReportData:
    """The report of some of them; the first `unknown` have no known outcome, and `older` are older by a year."""
    base = drawn.base
    frame = drawn.frame.iloc[people].reset_index(drop=True)
    frame.loc[: older - 1, "age"] += 1
    y = frame["died_10y"].to_numpy(np.float64).copy()
    y[:unknown] = np.nan
    predictions = {name: [chosen(one, people) for one in found] for name, found in drawn.predictions.items()}
    evaluation = evaluate_methods(
        base.site.name, predictions, y, base.site.decision, seeds=range(1), bootstrap=10,
        subgroups=subgroups_of(frame, base.contract),
    )  # fmt: skip
    source_frame = simulate("source", SOURCE_ROWS, seed=1)
    encoder = learn_encoder(source_frame, load_network(CONTRACTS).contracts["prostate"])
    source, target = encoder.encode(source_frame, "registry"), encoder.encode(frame, "harbour")
    rows = len(people)
    validation = replace(base.validation, read=rows + 7, used=rows, quarantined=4, duplicates=3, findings=())
    return replace(
        base, y=y, evaluation=evaluation, predictions=predictions, validation=validation,
        shift=estimate_shift(source, target), matching=match(source, target), target_frame=frame.drop(columns=HIDDEN),
        labels=LabelCounts(known=rows - unknown, missing=unknown), previous=None,
    )  # fmt: skip


def chosen(summary: Summary, people: NDArray[np.intp]) -> Summary:
    ends = (summary.low[:, people], summary.high[:, people])
    return replace(summary, mean=summary.mean[people], sd=summary.sd[people], low=ends[0], high=ends[1])


def export(published: Published, data: ReportData, folder: Path) -> dict[str, bytes]:
    """What a person gets who asks for an export, by the steps of the command."""
    now, question, policy = patients_of(data), question_of(data), data.site.disclosure
    if not published.objection(now, question, policy.threshold):
        shown = replace(disclose(data, policy), previous=published.before(now, question, SiteSummary))
        published.keep(now, question, lambda files: write_export(shown, files))
    published.copy(question.site, folder)
    return {file.name: file.read_bytes() for file in folder.iterdir()}


#: Fewer patients than the threshold, by how each second report differs from the first: people, unknown, older.
FEW = {
    "one more": lambda n: (np.arange(n + 1), 5, 0),
    "three fewer": lambda n: (np.arange(n - 3), 5, 0),
    "one for another": lambda n: (np.append(np.arange(n - 1), n), 5, 0),
    "one corrected": lambda n: (np.arange(n), 5, 1),
    "an outcome more": lambda n: (np.arange(n), 4, 0),
    "nine more": lambda n: (np.arange(n + 9), 5, 0),
}


def attack_pairs(seed: int, kinds: list[str], folder: Path) -> int:
    """Exports a site and nearly the same again and again; returns how many pairs there were."""
    size = 60 + 23 * (seed % 13)
    drawn, published = draw(seed, size + 30), Published(folder / "published")
    first = export(published, of_whom(drawn, np.arange(size), 5), folder / "first")
    assert set(first) == {
        "report.html",
        "details.html",
        "evaluation.json",
        "shift.json",
        "validation.json",
        "choice.json",
    }
    for kind in kinds:
        second = export(published, of_whom(drawn, *FEW[kind](size)), folder / kind)
        assert second == first, (seed, kind)
    return len(kinds)


def attack_newcomers(seed: int, coming: int, folder: Path) -> tuple[int, int]:
    """Lets enough patients come for a second report, and looks for what is true of few of them: looked for, found."""
    size = 60 + 23 * (seed % 13)
    drawn, published = draw(seed, size + coming), Published(folder / "published")
    reports = [of_whom(drawn, np.arange(rows), 5) for rows in (size, size + coming)]
    folders = [folder / name for name in ("before", "after")]
    for data, one in zip(reports, folders, strict=True):
        export(published, data, one)
    assert (folders[0] / "evaluation.json").read_bytes() != (folders[1] / "evaluation.json").read_bytes()
    attack = Attack()
    for name, data, one in zip(("before", "after"), reports, folders, strict=True):
        told = attack_folder(one, groups_of(data))
        attack.ranges |= {f"{count} {name}": ends for count, ends in told.ranges.items()}
        for weights, low, high in told.sums:
            attack.require({f"{count} {name}": weight for count, weight in weights.items()}, low, high)
    counts = [count for count in SUMS if f"{count} before" in attack.ranges]
    for count in counts:
        attack.ranges[f"{count} new"] = (0, coming)
        attack.require({f"{count} after": 1, f"{count} before": -1, f"{count} new": -1}, 0, 0)
    attack.require({"patients new": 1}, coming, coming)
    cells = [confusion(data) for data in reports]
    new = {name: cells[1][name] - cells[0][name] for name in ("TP", "FP", "FN", "TN")}
    small = [name for name, value in new.items() if 0 < value < 10]
    ends = [attack.possible(f"{name} new") for name in small]
    return len(small), sum(low == high for low, high in ends)


def test_a_pair_of_nearly_the_same_patients_is_the_same_folder(tmp_path: Path) -> None:
    assert attack_pairs(1, ["one for another", "an outcome more"], tmp_path) == 2


def test_nothing_is_told_of_few_who_came_with_enough_others(tmp_path: Path) -> None:
    tried, found = attack_newcomers(2, 12, tmp_path)
    assert tried
    assert found == 0


@pytest.mark.slow
@pytest.mark.timeout(7200)
def test_forty_sites_tell_nothing_by_pairs_of_exports(tmp_path: Path) -> None:
    kinds = list(FEW)
    assert sum(attack_pairs(seed, kinds, tmp_path / f"few {seed}") for seed in range(40)) == 40 * len(kinds)
    told = [attack_newcomers(seed, 10 + seed % 15, tmp_path / f"new {seed}") for seed in range(40)]
    assert sum(tried for tried, _ in told) > 60
    assert sum(found for _, found in told) == 0
