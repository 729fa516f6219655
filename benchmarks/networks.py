"""Leave one site out over public networks: which source a new site should learn from, and what it may expect.

`contracts/networks.yaml` lists tables with a natural site column. By counts alone, before anything is fitted: a site is
a group of at least FEWEST_ROWS people with a known outcome and FEWEST_EVENTS of each kind; a network is a table with at
least four, of which the largest MOST_SITES take part with at most MOST_ROWS people each. Every site in turn is the new
one. Its people are seen without outcomes; what is chosen, and the interval, come from leaving each of the other sites
out in turn as well. The placebo gives every source another source's share.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np
import pandas as pd
import yaml
from scipy.stats import norm, t as student

from benchmarks import CONTRACTS
from benchmarks.public_tables import FEWEST_IN_CATEGORY, NO_FEATURES, Transfer, encode, load_public
from benchmarks.results import Estimate, Results, Row, Table
from benchmarks.units import Options, run_units
from tdrop.base import Cohort, Doubles, Fitted, UsageError, did_you_mean, read
from tdrop.forecast import Evidence, HeldOutSite, NextSite, forecast_methods, look_up_tau, measure_site
from tdrop.methods import build
from tdrop.methods.parts.site_input import FittedWithSites
from tdrop.shift import density_ratio_weights, estimate_shares, propensity

FEWEST_ROWS, FEWEST_EVENTS, FEWEST_SITES, MOST_SITES, MOST_ROWS = 100, 20, 4, 8, 1_000
#: People per site of the quick form.
QUICK_ROWS = 150
#: Fewer refits than the defaults: the risk is their mean, and 1,800 fits have to end.
METHODS: Mapping[str, Mapping[str, int]] = {"logistic_regression": {"refits": 5}, "gradient_boosting": {"refits": 3}}
#: The mean of both methods' risks.
BOTH = "both"
#: What may be chosen: a way to use the sources, with one of the methods or their mean.
WAYS = ("pooled", "shares")
SEED = 0
#: For the error rate, which no table here shows.
THRESHOLD = 0.5
#: Half of a 95% interval, in standard deviations.
REACH = float(norm.ppf(0.975))
#: Name of a candidate: method and way.
Candidate = str


@dataclass(frozen=True)
class PublicNetwork:
    """A table and the column that says its sites; the other fields are those of a `Transfer`."""

    table: str
    site: str
    outcome: str = "event == 1"
    rows: str | None = None
    time: str = "time"
    horizon: float | None = None
    known: str | None = None
    leave_out: tuple[str, ...] = ()
    only: tuple[str, ...] = ()

    def cohorts(self, most_rows: int = MOST_ROWS) -> dict[str, Cohort]:
        """By site, its people, at most so many; encoded alike, without any outcome. None where counts are too low."""
        table = load_public(self.table)
        table = table if self.rows is None else table.query(self.rows, engine="python")
        asked = Transfer(self.table, "", self.outcome, self.time, self.horizon, self.known)
        y = pd.Series(asked.outcomes(table), index=table.index)
        sites = table[self.site].astype(str)[y.notna()]
        counts = pd.crosstab(sites, y[y.notna()]).reindex(columns=[0.0, 1.0], fill_value=0)
        enough = counts[(counts.sum(axis=1) >= FEWEST_ROWS) & (counts.min(axis=1) >= FEWEST_EVENTS)]
        largest = enough.sum(axis=1).sort_values(ascending=False, kind="stable").index[:MOST_SITES]
        generator = np.random.default_rng(SEED)
        rows_of = {str(site): sites.index[sites == site] for site in largest}
        chosen = {site: own[np.sort(generator.permutation(len(own))[:most_rows])] for site, own in rows_of.items()}
        kept = table.loc[np.concatenate(list(chosen.values())) if chosen else []]
        columns = kept[list(self.only)] if self.only else kept
        away = [self.site, *self.leave_out, *NO_FEATURES[asked.package]]
        X = encode(columns.drop(columns=away, errors="ignore"), np.ones(len(kept), bool), fewest=FEWEST_IN_CATEGORY)
        names = tuple(map(str, X.columns))

        def cohort(site: str, rows: pd.Index) -> Cohort:
            x, own = X.loc[rows].to_numpy(float), y.loc[rows].to_numpy()
            return Cohort(site, rows.to_numpy(), names, x, own, origins=np.full(len(rows), site))

        return {site: cohort(site, rows) for site, rows in chosen.items()}


@cache
def public_networks() -> Mapping[str, PublicNetwork]:
    """By title, all that are listed."""
    document = yaml.safe_load((CONTRACTS / "networks.yaml").read_text(encoding="utf-8"))
    return {title: read(PublicNetwork, given) for title, given in document.items()}


@dataclass(frozen=True)
class NewSite:
    """What became of one site that was the new one.

    Attributes:
        site: Its name.
        people: With a known outcome.
        log_loss: By candidate.
        auroc: By candidate.
        ratio: By candidate, outcomes observed divided by expected.
        chosen: The candidate that held-out sources chose.
        promised: By number and by what promised it, the value for the chosen one with its interval.
        chance: By number, half of the 95% interval that the site's own number of people leaves, on the scale of the
            table: nobody can promise more closely than that.
    """

    site: str
    people: int
    log_loss: dict[Candidate, float]
    auroc: dict[Candidate, float]
    ratio: dict[Candidate, float]
    chosen: Candidate
    promised: dict[str, dict[str, tuple[float, float, float]]]
    chance: dict[str, float]


def measure_network(title: str, most_rows: int, methods: list[str]) -> list[NewSite]:
    """Plays every site of a network as the new one; an empty list where counts do not make it a network."""
    cohorts = public_networks()[title].cohorts(most_rows)
    if len(cohorts) < FEWEST_SITES:
        return []
    inner = _measure_pairs(cohorts, methods)
    return [_play(site, cohorts, inner[site], methods) for site in cohorts]


@dataclass(frozen=True)
class Held:
    """A held-out source: its people, their risks by candidate (rows,), and how each candidate did."""

    cohort: Cohort
    risks: Mapping[Candidate, Doubles]
    scores: Mapping[Candidate, HeldOutSite]


def _measure_pairs(cohorts: Mapping[str, Cohort], methods: Sequence[str]) -> dict[str, list[Held]]:
    """By new site, its held-out sources; one fit serves both of a pair."""
    names = list(cohorts)
    results: dict[str, list[Held]] = {name: [] for name in names}
    for place, first in enumerate(names):
        for second in names[place + 1 :]:
            pool = _pool([cohorts[name] for name in names if name not in (first, second)])
            fits = _fit(pool, methods)
            for new, held in ((first, cohorts[second]), (second, cohorts[first])):
                risks = _predict(fits, pool, held)
                results[new].append(Held(held, risks, {name: _score(held, risk) for name, risk in risks.items()}))
    return results


def _play(site: str, cohorts: Mapping[str, Cohort], held: Sequence[Held], methods: Sequence[str]) -> NewSite:
    """Chooses by held-out sources, then fits on all of them and opens the new site's outcomes."""
    target, sources = cohorts[site], [own.cohort for own in held]
    means = {name: np.mean([own.scores[name].value("log_loss") for own in held]) for name in held[0].scores}
    chosen = min(means, key=lambda name: means[name])
    pool = _pool(sources)
    risks = _predict(fits := _fit(pool, methods), pool, target) | _permuted(fits, pool, target)
    largest = _fit(max(sources, key=len), methods, ways=("pooled",))
    risks |= {name.replace("pooled", "largest"): risk for name, risk in _predict(largest, pool, target).items()}
    promised = _promise(held, chosen, pool, target.unlabelled(), risks[chosen])
    scores = {name: _score(target, risk) for name, risk in risks.items()}
    return NewSite(
        site,
        len(target),
        {name: score.value("log_loss") for name, score in scores.items()},
        {name: score.value("auroc") for name, score in scores.items()},
        {name: score.value("observed_expected") for name, score in scores.items()},
        chosen,
        promised,
        {number: REACH * spread for number, spread in _chance(scores[chosen]).items()},
    )


def _chance(score: HeldOutSite) -> dict[str, float]:
    """Standard deviations of a site's own AUROC and log O/E."""
    ratio = np.sqrt(score.variances["observed_expected"]) / score.observed_expected
    return {"auroc": float(np.sqrt(score.variances["auroc"])), "ratio": float(ratio)}


def _promise(
    held: Sequence[Held], chosen: Candidate, pool: Cohort, target: Cohort, risk: Doubles
) -> dict[str, dict[str, tuple[float, float, float]]]:
    """What a forecast says of the new site: by held-out sites, without labels, and by both together."""
    assert pool.y is not None
    weights = density_ratio_weights(propensity(pool, target, kind="logistic"))
    own = np.concatenate([one.risks[chosen] for one in held])
    evidence = Evidence(chosen, own, pool.y.astype(np.float64), weights, risk, origins=pool.origins)
    forecast = forecast_methods("new", [evidence], THRESHOLD, resamples=50)
    answer, expected = forecast.find(chosen), forecast.next_site[chosen]
    assert answer is not None
    alone = answer.by[forecast.estimator]
    assert None not in (answer.value, answer.low, answer.high, answer.sampling, alone)
    tau = look_up_tau("auroc", forecast.effective_n / len(weights))
    half = float(REACH * np.hypot(answer.sampling or 0.0, tau))
    return {
        "auroc": {
            "held-out sites": _ends(expected["auroc"]),
            "without labels": (alone or 0.0, (alone or 0.0) - half, (alone or 0.0) + half),
            "both": (answer.value or 0.0, answer.low or 0.0, answer.high or 1.0),
        },
        "ratio": {"held-out sites": _ends(expected["observed_expected"])},
    }


def _ends(expected: NextSite) -> tuple[float, float, float]:
    return expected.mean, expected.low, expected.high


def _pool(cohorts: Sequence[Cohort]) -> Cohort:
    first = cohorts[0]
    X, y, origins, ids = (
        np.concatenate([np.asarray(getattr(cohort, name)) for cohort in cohorts])
        for name in ("X", "y", "origins", "ids")
    )
    return Cohort("pool", ids, first.features, X, y, origins=origins)


def _fit(pool: Cohort, methods: Sequence[str], ways: Sequence[str] = WAYS) -> dict[tuple[str, str], Fitted]:
    """Every method on a pool, with and without the site; the pool itself stands for the target, whose shares follow."""
    return {
        (method, way): build(method, site_input=way == "shares", **METHODS[method]).fit(
            pool, pool.unlabelled(), seed=SEED
        )
        for method in methods
        for way in ways
    }


def _predict(fits: Mapping[tuple[str, str], Fitted], pool: Cohort, target: Cohort) -> dict[Candidate, Doubles]:
    """Risks (rows,) of a site's people by candidate."""
    shares = estimate_shares(pool, target).weights
    return _mean_risks(fits, target, shares)


def _permuted(fits: Mapping[tuple[str, str], Fitted], pool: Cohort, target: Cohort) -> dict[Candidate, Doubles]:
    """The placebo: each source has the next one's share."""
    shares = estimate_shares(pool, target).weights
    moved = dict(zip(shares, np.roll(list(shares.values()), 1).tolist(), strict=True))
    knowing = {key: fitted for key, fitted in fits.items() if key[1] == "shares"}
    return {name.replace("shares", "permuted"): risk for name, risk in _mean_risks(knowing, target, moved).items()}


def _mean_risks(
    fits: Mapping[tuple[str, str], Fitted], target: Cohort, shares: Mapping[str, float]
) -> dict[Candidate, Doubles]:
    risks: dict[Candidate, Doubles] = {}
    for (method, way), fitted in fits.items():
        here = fitted.with_shares(shares) if isinstance(fitted, FittedWithSites) else fitted
        risks[f"{method} {way}"] = here.sample(target.X, 1, seed=SEED).samples.mean(axis=0, dtype=np.float64)
    if len({method for method, _ in fits}) == 1:
        return risks
    for way in {way for _, way in fits}:
        own = [risk for name, risk in risks.items() if name.endswith(f" {way}")]
        risks[f"{BOTH} {way}"] = np.asarray(np.mean(own, axis=0), dtype=np.float64)
    return risks


def _score(cohort: Cohort, risk: Doubles) -> HeldOutSite:
    assert cohort.y is not None
    score = measure_site(cohort.site, cohort.y.astype(np.float64), risk, THRESHOLD)
    assert score is not None
    return score


def run(options: Options) -> Results:
    """Every network with every method, or those that `only` and `methods` name."""
    known = public_networks()
    for given, names, what in ((options.only, known, "network"), (options.methods, METHODS, "method")):
        for name in given:
            if name not in names:
                raise UsageError(f"there is no {what} '{name}' in this study{did_you_mean(name, names)}")
    methods = list(options.methods or METHODS)
    titles = list(options.only) or (["death with AIDS by state"] if options.quick else list(known))
    most_rows = QUICK_ROWS if options.quick else MOST_ROWS
    units = [{"title": title, "most_rows": most_rows, "methods": methods} for title in titles]
    measured = dict(zip(titles, run_units(options, "networks", measure_network, units), strict=True))
    networks = {title: sites for title, sites in measured.items() if sites}
    sites = sum(map(len, networks.values()))
    return Results(
        title="Networks of several labelled sites",
        about=(
            f"{sites} sites of {len(networks)} public networks; each in turn was the new one, at most {most_rows:,} "
            f"people per site, {' and '.join(methods)} with fixed settings. Differences are means over sites with 95% "
            "intervals over networks."
        ),
        tables=[_ways_table(networks), _networks_table(networks), _choice_table(networks), _interval_table(networks)],
    )


def _methods(networks: Mapping[str, Sequence[NewSite]]) -> list[str]:
    """The methods that were measured, and their mean."""
    names = next(iter(networks.values()))[0].log_loss
    return [method for method in (*METHODS, BOTH) if f"{method} pooled" in names]


def _ways_table(networks: Mapping[str, Sequence[NewSite]]) -> Table:
    """What each way of using the sources costs, beside pooling."""
    rows: list[Row] = []
    for method in _methods(networks):
        for way in ("largest", "pooled", "shares", "permuted"):
            name, beside = f"{method} {way}", f"{method} pooled"
            row: Row = {"method": method, "way": way}
            for number in ("auroc", "log_loss"):
                row[number] = float(np.mean([getattr(one, number)[name] for own in networks.values() for one in own]))
                row[f"{number} beyond pooled"] = _difference(networks, number, name, beside)
            off = [abs(np.log(one.ratio[name])) for own in networks.values() for one in own]
            row["mean |log O/E|"] = float(np.mean(off))
            rows.append(row)
        row = {"method": method, "way": "shares against permuted"}
        row |= dict.fromkeys(("auroc", "auroc beyond pooled", "log_loss"), "")
        row["log_loss beyond pooled"] = _difference(networks, "log_loss", f"{method} shares", f"{method} permuted")
        rows.append({**row, "mean |log O/E|": ""})
    return Table("ways", "What a new site's predictions cost, by how the sources are used (real people)", rows)


def _difference(networks: Mapping[str, Sequence[NewSite]], number: str, name: str, beside: str) -> Estimate:
    """The mean over networks of the mean difference over their sites, with an interval over networks."""
    means = [np.mean([_beyond(one, number, name, beside) for one in own]) for own in networks.values()]
    return _over(np.array(means))


def _beyond(site: NewSite, number: str, name: Candidate, beside: Candidate) -> float:
    values: Mapping[Candidate, float] = getattr(site, number)
    return values[name] - values[beside]


def _over(values: Doubles) -> Estimate:
    mean = float(values.mean())
    if len(values) < 2:
        return Estimate(mean, digits=4)
    half = float(student.ppf(0.975, len(values) - 1) * values.std(ddof=1) / np.sqrt(len(values)))
    return Estimate(mean, mean - half, mean + half, digits=4)


def _networks_table(networks: Mapping[str, Sequence[NewSite]]) -> Table:
    """Network by network: log loss beside pooling, with logistic regression and with both methods."""
    rows: list[Row] = []
    for title, own in networks.items():
        row: Row = {"network": title, "sites": len(own), "people": sum(one.people for one in own)}
        for method in (name for name in _methods(networks) if name in ("logistic_regression", BOTH)):
            for way in ("largest", "shares", "permuted"):
                names = f"{method} {way}", f"{method} pooled"
                difference = np.mean([_beyond(one, "log_loss", *names) for one in own])
                row[names[0]] = Estimate(float(difference), digits=4)
        rows.append(row)
    return Table("networks", "Log loss beyond pooling, by network (real people)", rows)


def _choice_table(networks: Mapping[str, Sequence[NewSite]]) -> Table:
    """What choosing by held-out sources costs beside the best candidate in hindsight."""
    candidates = [f"{method} {way}" for method in _methods(networks) for way in WAYS]
    everyone = [one for own in networks.values() for one in own]

    def regrets(chosen: Mapping[str, Candidate] | None, number: str, sign: int) -> Iterator[float]:
        for title, own in networks.items():
            for one in own:
                name, values = one.chosen if chosen is None else chosen[title], getattr(one, number)
                yield sign * (values[name] - min((values[each] for each in candidates), key=lambda value: sign * value))

    rows: list[Row] = []
    for label, fixed in [("held-out sites", None), *((name, dict.fromkeys(networks, name)) for name in candidates)]:
        row: Row = {"chosen": label, "times": sum(one.chosen == label for one in everyone)}
        for number, sign in (("auroc", -1), ("log_loss", 1)):
            values = list(regrets(fixed, number, sign))
            row |= {f"{number} regret": Estimate(float(np.mean(values)), digits=4), f"worst {number}": max(values)}
        rows.append(row)
    return Table("choice", "Regret beside the best candidate in hindsight (real people)", rows)


def _interval_table(networks: Mapping[str, Sequence[NewSite]]) -> Table:
    """Whether 95% prediction intervals held at the new site, and how far off their values were."""
    everyone = [one for own in networks.values() for one in own]
    rows: list[Row] = []
    for number, scale in (("auroc", np.asarray), ("ratio", np.log)):
        for promise in everyone[0].promised[number]:
            ends = scale(np.array([one.promised[number][promise] for one in everyone]))
            seen = scale(np.array([getattr(one, number)[one.chosen] for one in everyone]))
            held = (ends[:, 1] <= seen) & (seen <= ends[:, 2])
            rows.append(
                {
                    "number": "AUROC" if number == "auroc" else "log O/E",
                    "promised by": promise,
                    "sites": len(everyone),
                    "held": float(held.mean()),
                    "mean half-width": float((ends[:, 2] - ends[:, 1]).mean() / 2),
                    "mean distance": float(np.abs(ends[:, 0] - seen).mean()),
                }
            )
        chance = float(np.mean([one.chance[number] for one in everyone]))
        row: Row = {**dict.fromkeys(rows[-1], ""), "number": rows[-1]["number"], "sites": len(everyone)}
        rows.append(row | {"promised by": "nobody: chance in the site's own people", "mean half-width": chance})
    return Table("intervals", "95% prediction intervals for the new site, of the chosen candidate (real people)", rows)
