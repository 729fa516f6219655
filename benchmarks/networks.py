"""Leave one site out over public networks: which source a new site should learn from, and what it may expect.

`contracts/networks.yaml` lists tables with a natural site column. By counts alone, before anything is fitted: a site is
a group of at least FEWEST_ROWS people with a known outcome and FEWEST_EVENTS of each kind; a network is a table with at
least four, of which the largest MOST_SITES take part with at most MOST_ROWS people each. Every site in turn is the new
one. Its people are seen without outcomes; what is chosen, and the interval, come from leaving each of the other sites
out in turn as well. The placebo gives every source another source's share.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import pandas as pd
import yaml
from scipy.stats import norm

from benchmarks import CONTRACTS
from benchmarks.paired import mean_over_problems
from benchmarks.public_tables import FEWEST_IN_CATEGORY, NO_FEATURES, Transfer, encode, load_public
from benchmarks.results import Estimate, Results, Row, Table
from benchmarks.units import Options, run_units
from tdrop.base import Cohort, Doubles, Fitted, UsageError, did_you_mean, read
from tdrop.choose import OutOfFold, Score, make_choice, pick_members, site_weights, weigh_out_of_fold
from tdrop.forecast import Evidence, HeldOutSite, NextSite, SiteNumber, forecast_methods, look_up_tau, measure_site
from tdrop.methods import build
from tdrop.methods.parts.site_input import FittedWithSites
from tdrop.shift import density_ratio_weights, estimate_shares, propensity

FEWEST_ROWS, FEWEST_EVENTS, FEWEST_SITES, MOST_SITES, MOST_ROWS = 100, 20, 4, 8, 1_500
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
#: By number that candidates are compared by, 1 where less is better.
NUMBERS: Mapping[SiteNumber, int] = {"auroc": -1, "log_loss": 1}
#: By number that is promised, its title and scale.
PROMISED: Mapping[SiteNumber, tuple[str, Callable[..., Any]]] = {
    "auroc": ("AUROC", np.asarray),
    "observed_expected": ("log O/E", np.log),
}


@dataclass(frozen=True)
class PublicNetwork(Transfer):
    """A table and the column that names its sites; it has no `source`, because every site is a source in turn.

    Attributes:
        site: The column.
        rows: Who takes part, as an expression; by default everybody.
    """

    source: str = ""
    site: str = ""
    rows: str | None = None

    def cohorts(self, most_rows: int = MOST_ROWS) -> dict[str, Cohort]:
        """The people of each site, at most so many, encoded without outcomes; empty where counts are too low."""
        table = load_public(self.table)
        table = table if self.rows is None else table.query(self.rows, engine="python")
        y = pd.Series(self.outcomes(table), index=table.index)
        sites = table[self.site].astype(str)[y.notna()]
        counts = pd.crosstab(sites, y[y.notna()]).reindex(columns=[0.0, 1.0], fill_value=0)
        enough = counts[(counts.sum(axis=1) >= FEWEST_ROWS) & (counts.min(axis=1) >= FEWEST_EVENTS)]
        largest = enough.sum(axis=1).sort_values(ascending=False, kind="stable").index[:MOST_SITES]
        generator = np.random.default_rng(SEED)
        rows_of = {str(site): sites.index[sites == site] for site in largest}
        chosen = {site: rows[np.sort(generator.permutation(len(rows))[:most_rows])] for site, rows in rows_of.items()}
        people = table.loc[np.concatenate(list(chosen.values())) if chosen else []]
        columns = people[list(self.only)] if self.only else people
        away = [self.site, *self.leave_out, *NO_FEATURES[self.package]]
        X = encode(columns.drop(columns=away, errors="ignore"), np.ones(len(people), bool), fewest=FEWEST_IN_CATEGORY)
        names = tuple(map(str, X.columns))

        def cohort(site: str, rows: pd.Index) -> Cohort:
            x, outcomes = X.loc[rows].to_numpy(float), y.loc[rows].to_numpy()
            return Cohort(site, rows.to_numpy(), names, x, outcomes, origins=np.full(len(rows), site))

        return {site: cohort(site, rows) for site, rows in chosen.items()}


@cache
def public_networks() -> Mapping[str, PublicNetwork]:
    """All networks of `networks.yaml`, by title."""
    document = yaml.safe_load((CONTRACTS / "networks.yaml").read_text(encoding="utf-8"))
    return {title: read(PublicNetwork, given) for title, given in document.items()}


@dataclass(frozen=True)
class NewSite:
    """The result of one site that played the new site.

    Attributes:
        people: With a known outcome.
        scores: By candidate, how it did.
        chosen: The candidate that held-out sources chose.
        promised: By number and by what promised it, the value for the chosen one with its interval.
    """

    people: int
    scores: dict[Candidate, HeldOutSite]
    chosen: Candidate
    promised: dict[str, dict[str, tuple[float, float, float]]]


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
                risks = _predict(fits, held, estimate_shares(pool, held).weights)
                results[new].append(Held(held, risks, _score(held, risks)))
    return results


def _play(site: str, cohorts: Mapping[str, Cohort], held: Sequence[Held], methods: Sequence[str]) -> NewSite:
    """Chooses by held-out sources, then fits on all of them and opens the new site's outcomes."""
    target, sources = cohorts[site], [source.cohort for source in held]
    pool = _pool(sources)
    chosen = choose_pooled(held, pool, methods)
    fits, shares = _fit(pool, methods), estimate_shares(pool, target).weights
    risks = _predict(fits, target, shares)
    # The placebo: each source has the next one's share.
    moved = dict(zip(shares, np.roll(list(shares.values()), 1).tolist(), strict=True))
    knowing = {key: fitted for key, fitted in fits.items() if key[1] == "shares"}
    risks |= {name.replace("shares", "permuted"): risk for name, risk in _predict(knowing, target, moved).items()}
    largest = _fit(max(sources, key=len), methods, ways=("pooled",))
    risks |= {name.replace("pooled", "largest"): risk for name, risk in _predict(largest, target, shares).items()}
    promised = _promise(held, chosen, pool, target.unlabelled(), risks[chosen])
    return NewSite(len(target), _score(target, risks), chosen, promised)


def choose_pooled(held: Sequence[Held], pool: Cohort, methods: Sequence[str]) -> Candidate:
    """What a transfer would use for these sources: one method, or the mean of those that held-out sites find alike."""
    each_site_alike = site_weights(pool)
    assert each_site_alike is not None
    rows, fold = np.arange(len(pool)), np.repeat(np.arange(len(held)), [len(source.cohort) for source in held])
    scores = []
    for method in methods:
        risk = np.concatenate([source.risks[f"{method} pooled"] for source in held])
        out_of_fold = OutOfFold(rows, fold, risk, np.zeros(len(rows)), passes=1)
        scores.append(Score(method, True, folds=weigh_out_of_fold(method, out_of_fold, pool, each_site_alike)))
    return f"{BOTH if len(pick_members(scores)) > 1 else make_choice(scores).method} pooled"


def _promise(
    held: Sequence[Held], chosen: Candidate, pool: Cohort, target: Cohort, risk: Doubles
) -> dict[str, dict[str, tuple[float, float, float]]]:
    """The forecast for the new site: by held-out sites, without labels, and by both together."""
    assert pool.y is not None
    weights = density_ratio_weights(propensity(pool, target, kind="logistic"))
    held_out_risk = np.concatenate([source.risks[chosen] for source in held])
    evidence = Evidence(chosen, held_out_risk, pool.y.astype(np.float64), weights, risk, origins=pool.origins)
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
        "observed_expected": {"held-out sites": _ends(expected["observed_expected"])},
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


def _predict(
    fits: Mapping[tuple[str, str], Fitted], target: Cohort, shares: Mapping[str, float]
) -> dict[Candidate, Doubles]:
    """Risks (rows,) of a site's people by candidate: every method and, where there are two, their mean."""
    risks: dict[Candidate, Doubles] = {}
    for (method, way), fitted in fits.items():
        here = fitted.with_shares(shares) if isinstance(fitted, FittedWithSites) else fitted
        risks[f"{method} {way}"] = here.sample(target.X, 1, seed=SEED).samples.mean(axis=0, dtype=np.float64)
    if len({method for method, _ in fits}) == 1:
        return risks
    for way in {way for _, way in fits}:
        of_methods = [risk for name, risk in risks.items() if name.endswith(f" {way}")]
        risks[f"{BOTH} {way}"] = np.asarray(np.mean(of_methods, axis=0), dtype=np.float64)
    return risks


def _score(cohort: Cohort, risks: Mapping[Candidate, Doubles]) -> dict[Candidate, HeldOutSite]:
    assert cohort.y is not None
    y = cohort.y.astype(np.float64)
    scores = {name: measure_site(cohort.site, y, risk, THRESHOLD) for name, risk in risks.items()}
    return {name: score for name, score in scores.items() if score is not None}


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
    study = Study({title: sites for title, sites in measured.items() if sites}, methods)
    return Results(
        title="Networks of several labelled sites",
        about=(
            f"{len(study.sites)} sites of {len(study.networks)} public networks; each in turn was the new one, at most "
            f"{most_rows:,} people per site, {' and '.join(methods)} with fixed settings. Differences are means over "
            "sites with 95% intervals over networks."
        ),
        tables=[study.ways_table(), study.networks_table(), study.choice_table(), study.interval_table()],
    )


class Study:
    """The tables of the study.

    Attributes:
        networks: By title, the sites that were the new one.
        sites: All of them.
        methods: The methods and, where there are two, their mean.
    """

    def __init__(self, networks: Mapping[str, Sequence[NewSite]], methods: Sequence[str]) -> None:
        self.networks = networks
        self.sites = [site for new_sites in networks.values() for site in new_sites]
        self.methods = [*methods, BOTH] if len(methods) > 1 else list(methods)
        self._titles = np.repeat(list(networks), [len(new_sites) for new_sites in networks.values()])

    def values(self, number: SiteNumber) -> pd.DataFrame:
        """One number of every site (rows) and candidate (columns)."""
        rows = [{name: score.value(number) for name, score in site.scores.items()} for site in self.sites]
        return pd.DataFrame(rows, index=self._titles)

    def beyond(self, number: SiteNumber, name: Candidate, beside: Candidate) -> pd.Series:
        """By network, the mean difference of two candidates over its sites."""
        values = self.values(number)
        return (values[name] - values[beside]).groupby(level=0, sort=False).mean()

    def ways_table(self) -> Table:
        """What each way of using the sources costs, beside pooling."""
        rows: list[Row] = []
        off = self.values("observed_expected").map(np.log).abs().mean()
        for method in self.methods:
            for way in ("largest", "pooled", "shares", "permuted"):
                name = f"{method} {way}"
                row: Row = {"method": method, "way": way}
                for number in NUMBERS:
                    row[number] = float(self.values(number)[name].mean())
                    difference = self.beyond(number, name, f"{method} pooled")
                    row[f"{number} beyond pooled"] = mean_over_problems(difference.tolist(), 4)
                rows.append({**row, "mean |log O/E|": float(off[name])})
            difference = self.beyond("log_loss", f"{method} shares", f"{method} permuted")
            row = {**dict.fromkeys(rows[-1], ""), "method": method, "way": "shares against permuted"}
            rows.append({**row, "log_loss beyond pooled": mean_over_problems(difference.tolist(), 4)})
        return Table("ways", "What a new site's predictions cost, by how the sources are used (real people)", rows)

    def networks_table(self) -> Table:
        """Network by network: log loss beside pooling, with logistic regression and with both methods."""
        shown = [method for method in self.methods if method in ("logistic_regression", BOTH)]
        beyond = {
            f"{method} {way}": self.beyond("log_loss", f"{method} {way}", f"{method} pooled")
            for method in shown
            for way in ("largest", "shares", "permuted")
        }
        rows: list[Row] = [
            {
                "network": title,
                "sites": len(new_sites),
                "people": sum(site.people for site in new_sites),
                **{name: Estimate(float(by_network[title]), digits=4) for name, by_network in beyond.items()},
            }
            for title, new_sites in self.networks.items()
        ]
        return Table("networks", "Log loss beyond pooling, by network (real people)", rows)

    def choice_table(self) -> Table:
        """What choosing by held-out sources costs beside the best candidate in hindsight."""
        candidates = [f"{method} {way}" for method in self.methods for way in WAYS]
        chosen = [site.chosen for site in self.sites]
        rows: list[Row] = []
        for label in ("held-out sites", *candidates):
            taken = chosen if label == "held-out sites" else [label] * len(chosen)
            row: Row = {"chosen": label, "times": chosen.count(label)}
            for number, sign in NUMBERS.items():
                values = sign * self.values(number)
                taken_values = np.array([values[name].iloc[place] for place, name in enumerate(taken)])
                regret = taken_values - values[candidates].min(axis=1).to_numpy()
                row[f"{number} regret"] = Estimate(float(regret.mean()), digits=4)
                row[f"worst {number}"] = float(regret.max())
            rows.append(row)
        return Table("choice", "Regret beside the best candidate in hindsight (real people)", rows)

    def interval_table(self) -> Table:
        """Whether 95% prediction intervals held at the new site, and how far off their values were."""
        rows: list[Row] = []
        scores = [site.scores[site.chosen] for site in self.sites]
        for number, (title, scale) in PROMISED.items():
            values = np.array([score.value(number) for score in scores])
            seen = scale(values)
            for promise in self.sites[0].promised[number]:
                ends = scale(np.array([site.promised[number][promise] for site in self.sites]))
                rows.append(
                    {
                        "number": title,
                        "promised by": promise,
                        "sites": len(self.sites),
                        "held": float(((ends[:, 1] <= seen) & (seen <= ends[:, 2])).mean()),
                        "mean half-width": float((ends[:, 2] - ends[:, 1]).mean() / 2),
                        "mean distance": float(np.abs(ends[:, 0] - seen).mean()),
                    }
                )
            # Nobody can promise more closely than the site's own number of people allows.
            errors = np.sqrt([score.variances[number] for score in scores])
            chance = float((REACH * errors / (values if scale is np.log else 1)).mean())
            row: Row = {**dict.fromkeys(rows[-1], ""), "number": title, "sites": len(self.sites)}
            rows.append(row | {"promised by": "nobody: chance in the site's own people", "mean half-width": chance})
        caption = "95% prediction intervals for the new site, of the chosen candidate (real people)"
        return Table("intervals", caption, rows)
