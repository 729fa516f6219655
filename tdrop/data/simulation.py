"""A simulated prostate-cancer network: a registry and two hospitals with outcomes, and four with growing shift.

Risks follow PREDICT Prostate (Thurtle et al., PLoS Med 2019;16(3):e1002758), covariates follow
published summary figures of the cohorts in the paper. No row is a real patient.

The demo's extracts have the format that each hospital would send. The YAML in `data_contracts/sites/` describes how to
read them: other column names, months for years, decimal commas, codes for missing values, a few rows that must not be
used, and one extract without a column. The risk function is the same at all sites. It falls again for old men with a
high PSA: few at the registry and many at Lakeside, so that a linear model is chosen for the hospitals that resemble the
registry, and another model at Lakeside.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pandas as pd
from scipy.special import expit, logit, softmax
from scipy.stats import norm

from tdrop.base import Cohort, Doubles, Feature, UsageError, did_you_mean

Cause = Literal["all_cause", "prostate"]
Support = Literal["full", "truncated"]
Truth = Literal["published", "turning"]

TREATMENTS = ("none", "prostatectomy", "radiotherapy", "hormone")
STAGES = ("T1", "T2", "T3", "T4")
YEARS = 10
#: Makes these random streams differ from those of callers with the same small seed.
SEED_TAG = 20190312
DAYS_A_YEAR = 365.25
#: PREDICT Prostate was fitted below this PSA; draws above it are drawn again.
PSA_LIMIT = 100.0
AGE_LIMITS = (40.0, 95.0)
#: Limits of a source without old patients and without high PSA: the hard version of the problem.
TRUNCATED_AGE, TRUNCATED_PSA = 70.0, 20.0
#: Beyond this age and PSA a "turning" risk falls again, by this many logits for 8 years and a factor e in PSA.
TURN_AGE, TURN_PSA, TURN = 72.0, 15.0, 3.0


#: The demo's target sites and the simulated population behind each.
DEMO_TARGETS: Mapping[str, str] = {
    "harbour": "mild",
    "hillside": "moderate",
    "lakeside": "severe",
    "ferryside": "moderate",
}
DEMO_SOURCE = "registry"
#: Hospitals with outcomes besides the registry: the population of each, and its patients' additional logits of risk.
DEMO_TEACHERS: Mapping[str, tuple[str, float]] = {"riverside": ("mild", 0.5), "southgate": ("moderate", -0.4)}
#: The target whose extract cannot be used, as an example of a stop.
DEMO_STOPPED = "ferryside"
DEMO_ROWS: Mapping[str, int] = {
    "registry": 3000,
    "riverside": 1200,
    "southgate": 800,
    "harbour": 3000,
    "hillside": 2000,
    "lakeside": 1000,
    "ferryside": 400,
}
FULL_ROWS: Mapping[str, int] = {**dict.fromkeys(DEMO_ROWS, 10000), "registry": 20000, "ferryside": 400}

_ID, _OUTCOME = "patient_id", "died_10y"


@dataclass(frozen=True)
class Population:
    """The parameters of a simulated population.

    Attributes:
        age: Mean and standard deviation before truncation.
        psa: Median, and standard deviation of the logarithm.
        grades: Shares of grade groups 1 to 5.
        stages: Shares of clinical stages T1 to T4.
        comorbidity: Log-odds of a Charlson index of at least one at age 70.
        treatments: Intercepts of none, prostatectomy, radiotherapy, hormone therapy.
    """

    age: tuple[float, float]
    psa: tuple[float, float]
    grades: tuple[float, ...]
    stages: tuple[float, ...]
    comorbidity: float
    treatments: tuple[float, ...]


POPULATIONS: Mapping[str, Population] = {
    "source": Population(
        (66, 9.0), (8.6, 1.22), (0.49, 0.25, 0.11, 0.09, 0.06), (0.40, 0.46, 0.12, 0.02), -2.1, (-0.15, 1.05, 0.8, -2.1)
    ),
    "mild": Population(
        (67.5, 8.8), (9.6, 1.18), (0.45, 0.25, 0.12, 0.10, 0.08), (0.44, 0.43, 0.11, 0.02), -1.9, (0, 0.6, 0.75, -1.5)
    ),
    "moderate": Population(
        (70, 8.5),
        (12.2, 1.08),
        (0.37, 0.24, 0.14, 0.13, 0.12),
        (0.52, 0.35, 0.11, 0.02),
        -1.7,
        (-0.1, 0.05, 0.6, -0.25),
    ),
    "severe": Population(
        (74.5, 7.0), (19.7, 1.05), (0.22, 0.21, 0.16, 0.19, 0.22), (0.40, 0.34, 0.20, 0.06), -1.3, (0.1, -1.0, 0.5, 0.1)
    ),
}


def simulate(
    population: str,
    rows: int,
    *,
    seed: int,
    outcome: Cause = "all_cause",
    support: Support = "full",
    hidden_treatment: bool = False,
    truth: Truth = "published",
) -> pd.DataFrame:
    """Draws patients with their outcome within ten years and the risk from which it was drawn.

    Args:
        population: One of `POPULATIONS`.
        rows: How many patients.
        seed: Seed of every draw.
        outcome: Death from any cause, or from prostate cancer.
        support: "truncated" keeps only age <= 70 and PSA <= 20.
        hidden_treatment: Records hormone therapy as none and drops comorbidity after the outcome
            is drawn: a concept shift that no method can see.
        truth: With "turning" the risk of old men with a high PSA falls again, as if a programme for them worked. A
            linear model cannot follow that, which matters most where there are many such men.

    Returns:
        Columns patient_id, age, psa, grade_group, stage, comorbidity, treatment, died_10y, true_risk.
    """
    if population not in POPULATIONS:
        raise UsageError(f"unknown population '{population}'{did_you_mean(population, POPULATIONS)}")
    generator = np.random.default_rng([seed, sorted(POPULATIONS).index(population), SEED_TAG])
    parts: list[pd.DataFrame] = []
    drawn_rows = 0
    while drawn_rows < rows:
        drawn = _draw_covariates(POPULATIONS[population], max(rows - drawn_rows, 64), generator)
        if support == "truncated":
            drawn = drawn[(drawn["age"] <= TRUNCATED_AGE) & (drawn["psa"] <= TRUNCATED_PSA)]
        parts.append(drawn)
        drawn_rows += len(drawn)
    frame = pd.concat(parts, ignore_index=True).head(rows)
    frame["true_risk"] = ten_year_risk(frame, outcome)
    if truth == "turning":
        frame["true_risk"] = expit(logit(frame["true_risk"]) - _turn(frame))
    frame["died_10y"] = (generator.random(rows) < frame["true_risk"]).astype(int)
    if hidden_treatment:
        frame["treatment"] = frame["treatment"].replace("hormone", "none")
        frame["comorbidity"] = 0
    frame.insert(0, "patient_id", [f"{population[:3].upper()}{i:07d}" for i in range(rows)])
    return frame


def _turn(frame: pd.DataFrame) -> Doubles:
    """The difference in logits (rows,) between the published risk and the turning risk."""
    years = np.clip((frame["age"].to_numpy(float) - TURN_AGE) / 8, 0, 2)
    above = np.clip(np.log1p(frame["psa"].to_numpy(float)) - np.log1p(TURN_PSA), 0, 2)
    return np.asarray(TURN * years * above)


def _draw_covariates(population: Population, rows: int, generator: np.random.Generator) -> pd.DataFrame:
    """Age, PSA, grade and stage share a latent severity u that is correlated with age."""
    mean, sd = population.age
    low, high = (norm.cdf((limit - mean) / sd) for limit in AGE_LIMITS)
    z_age = norm.ppf(low + (high - low) * generator.random(rows))
    age = mean + sd * z_age
    u = 0.30 * z_age + np.sqrt(1 - 0.09) * generator.normal(size=rows)
    psa = _draw_psa(population, u, generator)
    grade = _cut(0.75 * u + 0.66 * generator.normal(size=rows), population.grades) + 1
    stage = _cut(0.60 * u + 0.80 * generator.normal(size=rows), population.stages) + 1
    comorbid = generator.random(rows) < expit(population.comorbidity + 0.05 * (age - 70))
    treatment = _draw_treatment(population, age, psa, grade, stage, comorbid, generator)
    return pd.DataFrame(
        {
            "age": age.round(1),
            "psa": psa.round(2),
            "grade_group": grade,
            "stage": np.asarray(STAGES)[stage - 1],
            "comorbidity": comorbid.astype(int),
            "treatment": np.asarray(TREATMENTS)[treatment],
        }
    )


def _draw_psa(population: Population, u: Doubles, generator: np.random.Generator) -> Doubles:
    """PSA in ng/mL (rows,), drawn again where it reaches the limit."""
    median, sd = population.psa
    psa = np.full(len(u), PSA_LIMIT)
    while (over := psa >= PSA_LIMIT).any():
        noise = generator.normal(size=int(over.sum()))
        # With a very large severity the PSA would be redrawn for ever: redraw the severity too.
        severity = np.where(u[over] > 3, generator.normal(size=len(noise)), u[over])
        psa[over] = np.exp(np.log(median) + sd * (0.60 * severity + 0.80 * noise))
    return psa


def _cut(latent: Doubles, shares: tuple[float, ...]) -> Any:
    """Index of the category (rows,) when a latent normal is cut at the quantiles of `shares`."""
    scale = {5: np.hypot(0.75, 0.66), 4: np.hypot(0.60, 0.80)}[len(shares)]
    return np.searchsorted(norm.ppf(np.cumsum(shares)[:-1]) * scale, latent)


def _draw_treatment(
    population: Population,
    age: Doubles,
    psa: Doubles,
    grade: Any,
    stage: Any,
    comorbid: Any,
    generator: np.random.Generator,
) -> Any:
    """Index into TREATMENTS (rows,), by a softmax policy on age, grade, PSA and stage."""
    high = (grade >= 4) | (psa > 20) | (stage >= 3)
    low = (grade == 1) & (psa < 10) & (stage <= 2)
    none, surgery, radiation, hormone = population.treatments
    utilities = np.stack(
        [
            none + 0.04 * (age - 68) + 0.9 * low - 0.6 * high + 0.4 * comorbid,
            surgery - 0.16 * (age - 66) - 0.7 * high - 0.5 * comorbid,
            radiation - 0.01 * (age - 68) + 0.3 * high,
            hormone + 0.10 * (age - 70) + 1.3 * high - 1.2 * low,
        ],
        axis=1,
    )
    cumulative = np.cumsum(softmax(utilities, axis=1), axis=1)
    return (generator.random(len(age))[:, None] > cumulative[:, :-1]).sum(axis=1)


def ten_year_risk(frame: pd.DataFrame, outcome: Cause = "all_cause") -> Doubles:
    """Risk (rows,) of death within ten years by PREDICT Prostate's published coefficients."""
    age = frame["age"].to_numpy(float)
    stage = frame["stage"].map({"T1": 0.0, "T2": 0.1614922, "T3": 0.39767881, "T4": 0.6330977}).to_numpy(float)
    grade = np.asarray([0.0, 0.2791641, 0.5464889, 0.7411321, 1.367963])[frame["grade_group"].to_numpy(int) - 1]
    treatment = frame["treatment"].map(
        {"none": 0.0, "prostatectomy": -0.6837094, "radiotherapy": -0.6837094, "hormone": 0.9084921}
    )
    cancer = (
        0.0026005 * ((age / 10) ** 3 - 341.155151)
        + 0.185959 * (np.log((frame["psa"].to_numpy(float) + 1) / 100) + 1.636423432)
        + stage
        + grade
        + treatment.to_numpy(float)
    )
    other = 0.1226666 * (age - 69.87427439) + 0.6382002 * frame["comorbidity"].to_numpy(float)
    days: Doubles = np.arange(YEARS + 1, dtype=np.float64) * DAYS_A_YEAR
    cancer_death = _cumulative_death(cancer, days, -16.40532, 1.653947, 1.89e-12)
    other_death = _cumulative_death(other, days, -12.4841, 1.32274, 2.90e-12)
    any_death = 1 - (1 - cancer_death) * (1 - other_death)
    if outcome == "all_cause":
        return np.asarray(any_death[:, -1])
    # Each year's deaths are split in proportion to the two causes' own increments.
    by_cancer, by_other = np.diff(cancer_death, axis=1), np.diff(other_death, axis=1)
    return np.asarray((np.diff(any_death, axis=1) * by_cancer / (by_cancer + by_other)).sum(axis=1))


def _cumulative_death(index: Doubles, days: Doubles, a: float, b: float, c: float) -> Doubles:
    """1 - exp(-e^index exp(a + b ln T + c T^3)) for each row and day: (rows, days); 0 on day 0."""
    hazard = np.zeros(len(days))
    hazard[1:] = np.exp(a + b * np.log(days[1:]) + c * days[1:] ** 3)
    return np.asarray(1 - np.exp(-np.exp(index)[:, None] * hazard[None, :]))


def simulated_cohort(population: str, rows: int, *, seed: int, **options: Any) -> Cohort:
    """Draws an encoded cohort, for tests and benchmarks; options as in `simulate`."""
    frame = simulate(population, rows, seed=seed, **options)
    columns = {
        "age": frame["age"],
        "log_psa": np.log1p(frame["psa"]),
        "grade_group": frame["grade_group"],
        "stage": frame["stage"].str[1].astype(int),
        "comorbidity": frame["comorbidity"],
        **{f"treatment={name}": frame["treatment"] == name for name in TREATMENTS},
    }
    X = np.stack([np.asarray(column, dtype=np.float32) for column in columns.values()], axis=1)
    ids = frame["patient_id"].to_numpy(str)
    described = (
        Feature("log_psa", "psa", unit="ng/mL"),
        *(Feature(f"treatment={name}", "treatment", "level") for name in TREATMENTS),
    )
    y = frame["died_10y"].to_numpy(np.float32)
    return Cohort(f"simulated {population}", ids, tuple(columns), X, y, described=described)


def write_demo_network(folder: Path, rows: Mapping[str, int] = DEMO_ROWS, *, seed: int = 0) -> None:
    """Writes one extract per site, and the targets' outcomes in separate files.

    Args:
        folder: Where the files go; created when missing.
        rows: Patients by site; a target without an entry is left out.
        seed: Seed of every draw.
    """
    folder.mkdir(parents=True, exist_ok=True)
    writers = {"hillside": _write_hillside, "lakeside": _write_lakeside, "ferryside": _write_ferryside}
    for site, patients in demo_patients(rows, seed=seed).items():
        if site == DEMO_SOURCE or site in DEMO_TEACHERS:
            patients.to_csv(folder / f"{site}.csv", index=False)
            continue
        patients[[_ID, _OUTCOME]].to_csv(folder / f"{site}_outcomes.csv", index=False)
        sent = patients.drop(columns=_OUTCOME)
        if site in writers:
            writers[site](sent, folder)
        else:
            sent.to_csv(folder / f"{site}.csv", index=False)


def demo_patients(rows: Mapping[str, int] = DEMO_ROWS, *, seed: int = 0) -> dict[str, pd.DataFrame]:
    """By site of the demo network, its patients with the contract's names, and with missing and wrong values.

    Hillside's ages are in whole months. `write_demo_network` writes the patients as each site would send them.
    """
    patients = {DEMO_SOURCE: simulate("source", rows[DEMO_SOURCE], seed=seed, truth="turning")}
    for site in (site for site in DEMO_TEACHERS if site in rows):
        patients[site] = _draw_teacher(site, rows[site], seed)
    unknown = {"harbour": 0.02, "hillside": 0.04, "lakeside": 0.08}
    for site in (site for site in DEMO_TARGETS if site in rows):
        generator = np.random.default_rng([seed, 17])
        patients[site] = frame = simulate(DEMO_TARGETS[site], rows[site], seed=seed, truth="turning")
        if site in unknown:
            frame.loc[generator.random(len(frame)) < unknown[site], "psa"] = np.nan
        if site == "hillside":
            frame["age"] = (frame["age"] * 12).round().astype(int)
        elif site == "lakeside":
            planted = generator.choice(len(frame), size=10, replace=False)
            frame.loc[planted[:3], "age"] = 230.0
            frame.loc[planted[3:6], "psa"] = -1.0
            frame.attrs["twice"] = planted[6:].tolist()
        elif site == "ferryside":
            frame.loc[generator.choice(len(frame), size=3, replace=False), "age"] = 0.0
    return {site: frame.drop(columns="true_risk") for site, frame in patients.items()}


def _draw_teacher(site: str, rows: int, seed: int) -> pd.DataFrame:
    """Patients of a hospital with outcomes, whose risk has an offset that no column explains."""
    population, level = DEMO_TEACHERS[site]
    frame = simulate(population, rows, seed=seed + 1, truth="turning")
    risk = expit(logit(frame["true_risk"].to_numpy()) + level)
    generator = np.random.default_rng([seed, 18, len(site)])
    number = frame[_ID].str[3:]
    return frame.assign(**{_ID: site[:3].upper() + number, _OUTCOME: (generator.random(rows) < risk).astype(int)})


def _write_hillside(patients: pd.DataFrame, folder: Path) -> None:
    """Writes other names and codes, months for years, decimal commas, -9 for missing."""
    shaped = pd.DataFrame(
        {
            "Patient": patients[_ID],
            "Age_months": patients["age"],
            "PSA_ug_L": patients["psa"].fillna(-9),
            "GradeGroup": patients["grade_group"],
            "cT": patients["stage"].str[1],
            "Charlson_ge1": patients["comorbidity"].map({0: "no", 1: "yes"}),
            "Therapy": patients["treatment"].map(
                {"none": "AS", "prostatectomy": "RP", "radiotherapy": "RT", "hormone": "ADT"}
            ),
        }
    )
    shaped.to_csv(folder / "hillside.csv", index=False, sep=";", decimal=",")


def _write_lakeside(patients: pd.DataFrame, folder: Path) -> None:
    """Writes a compressed file with PSA "NA" in 8%, six impossible rows and four patients sent twice."""
    psa = patients["psa"].astype(object).where(patients["psa"].notna(), "NA")
    sent = pd.concat([patients, patients.iloc[patients.attrs["twice"]]], ignore_index=True)
    sent["psa"] = pd.concat([psa, psa.iloc[patients.attrs["twice"]]], ignore_index=True)
    # A fixed time in the header keeps the file's digest the same from run to run.
    sent.to_csv(folder / "lakeside.csv.gz", index=False, compression={"method": "gzip", "mtime": 0})


def _write_ferryside(patients: pd.DataFrame, folder: Path) -> None:
    """Writes an extract that must not be used: without the stage, and with an age of 0 in three rows."""
    patients.drop(columns="stage").to_csv(folder / "ferryside.csv", index=False)
