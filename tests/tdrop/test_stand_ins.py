"""Someone who knows all patients of a site but one, the program and everything that left, tries to tell the last."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
import pytest
from report_cases import CONTRACTS, predict, report_data, simulate
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.model_selection import cross_val_predict

from tdrop.base import Indices, Summary
from tdrop.contracts import load_network
from tdrop.data import learn_encoder, subgroups_of
from tdrop.disclosure import SHARE_LEFT_OUT, disclose_evaluation, disclose_shift, pick_stand_ins
from tdrop.evaluate import evaluate_methods
from tdrop.report import ReportData
from tdrop.shift import Shift, compare_features

METHODS = ("mc_dropout", "logistic_regression")
CONTRACT = load_network(CONTRACTS).contracts["prostate"]


def names(rows: int) -> pd.Series:
    return pd.Series([f"P{number}" for number in range(rows)])


def key(number: int) -> str:
    return f"{number:016d}"


def test_a_fifth_is_left_out_and_counted_nowhere() -> None:
    rows = pick_stand_ins(names(5000), key(1))
    left_out = rows != np.arange(5000)
    assert left_out.mean() == pytest.approx(SHARE_LEFT_OUT, abs=0.02)
    assert not set(np.flatnonzero(left_out)) & set(rows)
    assert (rows != pick_stand_ins(names(5000), key(2))).mean() > 0.3


def test_a_patient_is_left_out_of_every_report_or_of_none() -> None:
    """Newcomers, and patients in another order, change no choice but who stands in for a few."""
    before, people = names(400), names(420).sample(frac=1, random_state=0)
    counted = [
        dict(zip(series, series.to_numpy()[pick_stand_ins(series, key(1))], strict=True)) for series in (before, people)
    ]
    left_out = [{name for name, other in one.items() if name != other and name in set(before)} for one in counted]
    assert left_out[0] == left_out[1]
    assert sum(counted[0][name] != counted[1][name] for name in before) < 15


@dataclass(frozen=True)
class Site:
    """A site as the attacker knows it, but for one patient."""

    base: ReportData
    frame: pd.DataFrame
    predictions: Mapping[str, list[Summary]]
    source: Any

    @classmethod
    def draw(cls, rows: int, seed: int) -> Site:
        base = report_data(target_rows=60, source_rows=300, methods=METHODS, method=METHODS[0], seeds=1, bootstrap=0,
                           exempt=False)  # fmt: skip
        frame = simulate("moderate", rows, seed=100 + seed)
        predictions = predict(frame["true_risk"].to_numpy(), METHODS, 1, seed=seed)
        return cls(base, frame, predictions, simulate("source", 600, seed=1))

    def leaves(self, rows: Indices, changed: Callable[[pd.DataFrame], None] = lambda frame: None) -> dict[Any, float]:
        """Every number that leaves of evaluation and features, once something was changed about a patient."""
        frame = self.frame.copy()
        changed(frame)
        frame = frame.iloc[rows].reset_index(drop=True)
        policy = self.base.site.disclosure
        evaluation = evaluate_methods(
            "harbour", {name: [one.take(rows) for one in seeds] for name, seeds in self.predictions.items()},
            frame["died_10y"].to_numpy(np.float64), self.base.site.decision, seeds=range(1), bootstrap=0,
            subgroups=subgroups_of(frame, CONTRACT),
        )  # fmt: skip
        encoder = learn_encoder(self.source, CONTRACT)
        source, target = encoder.encode(self.source, "registry"), encoder.encode(frame, "harbour")
        features = compare_features(source, target)
        whole = Shift("a", "b", len(source), len(target), "go", None, (), None, None, None, None, None, features, ())
        numbers = {
            (row.method, row.metric, row.group): row.value for row in disclose_evaluation(evaluation, policy).rows
        }
        for one in disclose_shift(whole, policy).features:
            numbers |= {(one.feature, name): getattr(one, name) for name in ("target_mean", "smd", "distance")}
            numbers |= {(one.feature, place): bar for place, bar in enumerate(one.density.target)}
        return {name: value if isinstance(value, int | float) else np.nan for name, value in numbers.items()}


def flip(column: str, row: int) -> Callable[[pd.DataFrame], None]:
    def change(frame: pd.DataFrame) -> None:
        frame.loc[row, column] = 1 - frame.loc[row, column]

    return change


def guessed_rightly(site: Site, column: str, row: int, keys: int) -> float:
    """How often the attacker tells a patient's value from the other one, having tried both under many other secrets."""
    published = [
        site.leaves(pick_stand_ins(site.frame["patient_id"], key(1000 * truth + number)), change)
        for truth, change in enumerate((lambda frame: None, flip(column, row)))
        for number in range(keys)
    ]
    truth = np.repeat([0, 1], keys)
    table = pd.DataFrame(published)
    known = pd.concat([table.isna().astype(float), table.fillna(0.0)], axis=1)
    known = known.loc[:, known.std() > 0]
    known = (known - known.mean()) / known.std()
    attack = LinearDiscriminantAnalysis(solver="lsqr", shrinkage="auto")
    return float((cross_val_predict(attack, known.to_numpy(), truth, cv=5) == truth).mean())


def decided_before(site: Site, column: str, row: int) -> bool:
    """Whether numbers over the patients themselves differ by the one value: then the program tells which it is."""
    everybody = np.arange(len(site.frame))
    return not pd.Series(site.leaves(everybody)).equals(pd.Series(site.leaves(everybody, flip(column, row))))


COLUMNS = ("died_10y", "comorbidity")


@pytest.mark.parametrize("column", COLUMNS)
def test_a_patients_value_is_told_hardly_better_than_by_guessing(column: str) -> None:
    # Without stand-ins the numbers of these sites tell, so there is something to hide.
    site = next(site for rows in range(150, 175) if decided_before(site := Site.draw(rows, 0), column, 0))
    assert guessed_rightly(site, column, 0, 40) < 0.85


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("column", COLUMNS)
def test_values_of_twenty_patients_are_told_hardly_better_than_by_guessing(column: str) -> None:
    sites = [Site.draw(60 + 40 * number, number) for number in range(10)]
    tried = [(site, row) for site in sites for row in range(2)]
    before = np.mean([decided_before(site, column, row) for site, row in tried])
    after = np.mean([guessed_rightly(site, column, row, 60) for site, row in tried])
    print(f"{column}: decided {before:.2f} before, guessed rightly {after:.2f} over stand-ins")
    assert before > (0.8 if column == "died_10y" else 0.05)
    assert after < 0.75
