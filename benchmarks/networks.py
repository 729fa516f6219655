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
from itertools import chain, combinations
from typing import Any

import numpy as np
import pandas as pd
import yaml
from scipy.stats import norm

from benchmarks import CONTRACTS
from benchmarks.public_tables import FEWEST_IN_CATEGORY, NO_FEATURES, Transfer, encode, load_public
from benchmarks.results import Estimate, Results, Row, Table
from benchmarks.units import Options, run_units
from tdrop.base import Cohort, Doubles, Fitted, UsageError, did_you_mean, read
from tdrop.choose import OutOfFold, Score, make_choice, pick_members, site_weights, weigh_out_of_fold
from tdrop.forecast import Evidence, HeldOutSite, forecast_methods, look_up_tau, measure_site
from tdrop.methods import build
from tdrop.methods.parts.site_input import FittedWithSites
from tdrop.metrics import auroc, per_row_log_loss
from tdrop.shift import density_ratio_weights, estimate_shares, propensity

FEWEST_ROWS, FEWEST_EVENTS, FEWEST_SITES, MOST_SITES, MOST_ROWS = 100, 20, 4, 8, 1_500
#: People per site of the quick form.
QUICK_ROWS = 150
#: The methods, unless others are asked for.
METHODS = ("logistic_regression", "gradient_boosting")
#: Fewer refits and networks than the defaults: the risk is their mean, and hundreds of pools are fitted.
REFITS: Mapping[str, Mapping[str, int]] = {
    "logistic_regression": {"refits": 5},
    "gradient_boosting": {"refits": 3},
    "ensemble": {"members": 3},
}
#: Between the names of methods whose mean is meant; samples behind a risk of a network.
MEAN, PASSES = " + ", 50
#: What may be chosen: a way to use the sources, with one of the methods or their mean.
WAYS = ("pooled", "shares")
SEED = 0
#: How often a new site's people are dealt into halves, one of which picks the best candidate for the other.
DEALS = 20
#: For the error rate, which no table here shows.
THRESHOLD = 0.5
#: Half of a 95% interval, in standard deviations.
REACH = float(norm.ppf(0.975))
#: Name of a candidate: method, or methods whose mean is meant, and way. What tells a new site from the others.
Candidate = str
SITE = ["network", "site"]
#: By number that candidates are compared by, 1 where less is better.
NUMBERS: Mapping[str, int] = {"auroc": -1, "log_loss": 1}
#: By number that is promised, its title and scale.
PROMISED: Mapping[str, tuple[str, Callable[..., Any]]] = {
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
class Held:
    """A held-out source: its people, and their risks by candidate (rows,)."""

    cohort: Cohort
    risks: Mapping[Candidate, Doubles]


def measure_network(title: str, most_rows: int, methods: Sequence[str]) -> dict[str, list[Row]]:
    """Plays every site of a network as the new one; no rows where counts do not make it a network.

    Returns:
        `scores`, a row per new site and candidate, `promised`, a row per new site, number and what promised it, and
        `halves`, a row per new site.
    """
    cohorts = public_networks()[title].cohorts(most_rows)
    rows: dict[str, list[Row]] = {"scores": [], "promised": [], "halves": []}
    if len(cohorts) < FEWEST_SITES:
        return rows
    held = _measure_pairs(cohorts, methods)
    for site, cohort in cohorts.items():
        risks, chosen, promised = _play(cohort, held[site], methods)
        about: Row = {"network": title, "site": site, "people": len(cohort)}
        for name, score in _score(cohort, risks).items():
            row: Row = {**about, "candidate": name, "chosen": name == chosen}
            for number in ("auroc", "log_loss", "observed_expected"):
                row |= {number: score.value(number), f"{number} error": float(np.sqrt(score.variances[number]))}
            rows["scores"].append(row)
        rows["promised"] += [{**about, **promise} for promise in promised]
        rows["halves"].append({**about, **regret_by_halves(cohort, risks, chosen)})
    return rows


def _measure_pairs(cohorts: Mapping[str, Cohort], methods: Sequence[str]) -> dict[str, list[Held]]:
    """By new site, its held-out sources; one fit serves both of a pair, and only pooled, as a transfer chooses."""
    held: dict[str, list[Held]] = {name: [] for name in cohorts}
    for first, second in combinations(cohorts, 2):
        pool = _pool([cohort for name, cohort in cohorts.items() if name not in (first, second)])
        fits = _fit(pool, methods, ways=("pooled",))
        for new, left_out in ((first, cohorts[second]), (second, cohorts[first])):
            held[new].append(Held(left_out, _predict(fits, left_out)))
    return held


def _play(
    target: Cohort, held: Sequence[Held], methods: Sequence[str]
) -> tuple[dict[Candidate, Doubles], Candidate, list[Row]]:
    """Chooses by held-out sources and fits on all of them: the new site's risks, the choice, and what it promises."""
    sources = [source.cohort for source in held]
    pool = _pool(sources)
    chosen = choose_pooled(held, pool, methods)
    fits, shares = _fit(pool, methods), estimate_shares(pool, target).weights
    risks = _predict(fits, target, shares)
    # The placebo: each source has the next one's share.
    moved = dict(zip(shares, np.roll(list(shares.values()), 1).tolist(), strict=True))
    knowing = {key: fitted for key, fitted in fits.items() if key[1] == "shares"}
    risks |= {name.replace("shares", "permuted"): risk for name, risk in _predict(knowing, target, moved).items()}
    largest = _fit(max(sources, key=len), methods, ways=("pooled",))
    risks |= {name.replace("pooled", "largest"): risk for name, risk in _predict(largest, target).items()}
    return risks, chosen, _promise(held, chosen, pool, target.unlabelled(), risks[chosen])


def regret_by_halves(cohort: Cohort, risks: Mapping[Candidate, Doubles], chosen: Candidate) -> Row:
    """What the choice costs on half of a site's people, beside the candidate that is best on the other half.

    The best by the same people is partly the luckiest, and beside it every choice looks worse than it is.
    """
    assert cohort.y is not None
    y, generator = cohort.y.astype(np.float64), np.random.default_rng(SEED)
    names = [name for name in risks if name.endswith(WAYS)]
    place, regrets = names.index(chosen), np.zeros((DEALS, len(NUMBERS)))
    for deal in range(DEALS):
        # Every other one of each kind of outcome.
        order = np.lexsort((generator.random(len(y)), y))
        picking, judging = (
            _losses(y[half], [risks[name][half] for name in names]) for half in (order[::2], order[1::2])
        )
        regrets[deal] = judging[place] - judging[picking.argmin(axis=0), np.arange(len(NUMBERS))]
    return dict(zip(NUMBERS, regrets.mean(axis=0).tolist(), strict=True))


def _losses(y: Doubles, risks: Sequence[Doubles]) -> Doubles:
    """Each of NUMBERS of every candidate's risks (candidates, numbers), less where it is better."""
    return np.array([(-(auroc(y, risk) or 0.5), per_row_log_loss(y, risk).mean()) for risk in risks])


def choose_pooled(held: Sequence[Held], pool: Cohort, methods: Sequence[str]) -> Candidate:
    """What a transfer would use for these sources: one method, or the mean of those that held-out sites find alike."""
    each_site_alike = site_weights(pool)
    assert each_site_alike is not None
    rows, fold = np.arange(len(pool)), np.repeat(np.arange(len(held)), [len(source.cohort) for source in held])
    scores = []
    for method in methods:
        risk = np.concatenate([source.risks[f"{method} pooled"] for source in held])
        out_of_fold = OutOfFold(rows, fold, risk, np.zeros(len(rows)), passes=1)
        folds = weigh_out_of_fold(method, out_of_fold, pool, each_site_alike)
        scores.append(Score(method, build(method).has_samples, folds=folds))
    members = [method for method in methods if method in pick_members(scores)]
    return f"{MEAN.join(members) or make_choice(scores).method} pooled"


def _promise(held: Sequence[Held], chosen: Candidate, pool: Cohort, target: Cohort, risk: Doubles) -> list[Row]:
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
    alone, half = alone or 0.0, float(REACH * np.hypot(answer.sampling or 0.0, tau))
    sites, level = expected["auroc"], expected["observed_expected"]
    ends = [
        ("auroc", "held-out sites", sites.mean, sites.low, sites.high),
        ("auroc", "without labels", alone, alone - half, alone + half),
        ("auroc", "both", answer.value, answer.low, answer.high),
        ("observed_expected", "held-out sites", level.mean, level.low, level.high),
    ]
    return [dict(zip(("number", "promised by", "value", "low", "high"), end, strict=True)) for end in ends]


def _pool(cohorts: Sequence[Cohort]) -> Cohort:
    X, y, origins, ids = (
        np.concatenate([np.asarray(getattr(cohort, name)) for cohort in cohorts])
        for name in ("X", "y", "origins", "ids")
    )
    return Cohort("pool", ids, cohorts[0].features, X, y, origins=origins)


def _fit(pool: Cohort, methods: Sequence[str], ways: Sequence[str] = WAYS) -> dict[tuple[str, str], Fitted]:
    """Every method on a pool, with and without the site; the pool itself stands for the target, whose shares follow."""
    return {
        (method, way): build(method, site_input=way == "shares", **REFITS.get(method, {})).fit(
            pool, pool.unlabelled(), seed=SEED
        )
        for method in methods
        for way in ways
    }


def _predict(
    fits: Mapping[tuple[str, str], Fitted], target: Cohort, shares: Mapping[str, float] | None = None
) -> dict[Candidate, Doubles]:
    """Risks (rows,) of a site's people by candidate: every method, and the mean of every two or more.

    A fit that knows the sites predicts by `shares`, and needs them.
    """
    risks: dict[Candidate, Doubles] = {}
    for (method, way), fitted in fits.items():
        here = fitted
        if isinstance(fitted, FittedWithSites):
            assert shares is not None
            here = fitted.with_shares(shares)
        risks[f"{method} {way}"] = here.sample(target.X, PASSES, seed=SEED).samples.mean(axis=0, dtype=np.float64)
    for way in dict.fromkeys(way for _, way in fits):
        for members in _means([method for method, other in fits if other == way]):
            of_members = [risks[f"{method} {way}"] for method in members]
            risks[f"{MEAN.join(members)} {way}"] = np.asarray(np.mean(of_members, axis=0), dtype=np.float64)
    return risks


def _means(methods: Sequence[str]) -> list[tuple[str, ...]]:
    return [members for size in range(2, len(methods) + 1) for members in combinations(methods, size)]


def _score(cohort: Cohort, risks: Mapping[Candidate, Doubles]) -> dict[Candidate, HeldOutSite]:
    assert cohort.y is not None
    y = cohort.y.astype(np.float64)
    scores = {name: measure_site(cohort.site, y, risk, THRESHOLD) for name, risk in risks.items()}
    return {name: score for name, score in scores.items() if score is not None}


def run(options: Options) -> Results:
    """Every network, or those that `only` names."""
    known = public_networks()
    for title in options.only:
        if title not in known:
            raise UsageError(f"there is no network '{title}' in this study{did_you_mean(title, known)}")
    methods = options.methods_or(METHODS)
    titles = options.only or (("death with AIDS by state",) if options.quick else tuple(known))
    most_rows = QUICK_ROWS if options.quick else MOST_ROWS
    units = [{"title": title, "most_rows": most_rows, "methods": methods} for title in titles]
    measured = run_units(options, "networks", measure_network, units)
    scores, promised, halves = (
        pd.DataFrame(chain.from_iterable(rows[kind] for rows in measured)) for kind in measured[0]
    )
    taken = [*methods, *map(MEAN.join, _means(methods))]
    sites = scores.groupby(SITE, sort=False)
    return Results(
        title="Networks of several labelled sites",
        about=(
            f"{sites.ngroups} sites of {scores['network'].nunique()} public networks; each in turn was the new one, at "
            f"most {most_rows:,} people per site, {' and '.join(methods)} with fixed settings. Differences are means "
            "over sites with 95% intervals over networks."
        ),
        tables=[
            ways_table(scores, taken),
            networks_table(scores, taken),
            choice_table(scores, halves, taken),
            interval_table(scores, promised),
        ],
    )


def values_of(scores: pd.DataFrame, number: str) -> pd.DataFrame:
    """One number of every new site (rows) and candidate (columns)."""
    values = scores.set_index([*SITE, "candidate"])[number].unstack()
    return values.reindex(scores.set_index(SITE).index.unique())


def _by_network(differences: pd.Series) -> pd.Series:
    """The mean over the sites of each network."""
    return differences.groupby(level=0, sort=False).mean()


def ways_table(scores: pd.DataFrame, methods: Sequence[str]) -> Table:
    """What each way of using the sources costs, beside pooling."""
    rows: list[Row] = []
    values = {number: values_of(scores, number) for number in NUMBERS}
    off = values_of(scores, "observed_expected").map(np.log).abs().mean()
    for method in methods:
        for way in ("largest", "pooled", "shares", "permuted"):
            name = f"{method} {way}"
            row: Row = {"method": method, "way": way}
            for number, of_sites in values.items():
                beyond = _by_network(of_sites[name] - of_sites[f"{method} pooled"])
                row |= {number: float(of_sites[name].mean()), f"{number} beyond pooled": Estimate.mean(beyond, 4)}
            rows.append({**row, "mean |log O/E|": float(off[name])})
        beyond = _by_network(values["log_loss"][f"{method} shares"] - values["log_loss"][f"{method} permuted"])
        row = {**dict.fromkeys(rows[-1], ""), "method": method, "way": "shares against permuted"}
        rows.append({**row, "log_loss beyond pooled": Estimate.mean(beyond, 4)})
    return Table("ways", "What a new site's predictions cost, by how the sources are used (real people)", rows)


def networks_table(scores: pd.DataFrame, methods: Sequence[str]) -> Table:
    """Network by network, log loss beside pooling, with the first method and the mean of all."""
    values, rows = values_of(scores, "log_loss"), []
    for title, sites in scores.groupby("network", sort=False):
        people = sites.drop_duplicates("site")["people"]
        row: Row = {"network": str(title), "sites": len(people), "people": int(people.sum())}
        for method in dict.fromkeys((methods[0], methods[-1])):
            for way in ("largest", "shares", "permuted"):
                beyond = (values[f"{method} {way}"] - values[f"{method} pooled"])[title].mean()
                row[f"{method} {way}"] = Estimate(float(beyond), digits=4)
        rows.append(row)
    return Table("networks", "Log loss beyond pooling, by network (real people)", rows)


def choice_table(scores: pd.DataFrame, halves: pd.DataFrame, methods: Sequence[str]) -> Table:
    """What choosing by held-out sources costs beside the best candidate in hindsight."""
    candidates = [f"{method} {way}" for method in methods for way in WAYS]
    rule = scores[scores["chosen"]].set_index(SITE)["candidate"]
    rows: list[Row] = []
    for label in ("held-out sites", *candidates):
        taken = rule if label == "held-out sites" else rule.where(rule == label, label)
        row: Row = {"chosen": label, "times": int((rule == taken).sum())}
        for number, sign in NUMBERS.items():
            values = sign * values_of(scores, number)[candidates]
            places = np.arange(len(values)), values.columns.get_indexer(pd.Index(taken))
            regret = values.to_numpy()[places] - values.min(axis=1).to_numpy()
            row |= {f"{number} regret": Estimate(float(regret.mean()), digits=4)}
            row |= {f"worst {number}": float(regret.max())}
        rows.append(row)
    by_halves: Row = {"chosen": "held-out sites, beside the best by other people", "times": len(halves)}
    for number in NUMBERS:
        regret = halves[number]
        by_halves |= {
            f"{number} regret": Estimate(float(regret.mean()), digits=4),
            f"worst {number}": float(regret.max()),
        }
    rows.insert(1, by_halves)
    return Table("choice", "Regret beside the best candidate in hindsight (real people)", rows)


def interval_table(scores: pd.DataFrame, promised: pd.DataFrame) -> Table:
    """Whether 95% prediction intervals held at the new site, and how far off their values were."""
    rows: list[Row] = []
    seen = scores[scores["chosen"]].set_index(SITE)
    for number, (title, scale) in PROMISED.items():
        observed = scale(seen[number])
        for promise, ends in promised[promised["number"] == number].groupby("promised by", sort=False):
            value, low, high = (scale(ends.set_index(SITE)[end]) for end in ("value", "low", "high"))
            rows.append(
                {
                    "number": title,
                    "promised by": str(promise),
                    "sites": len(ends),
                    "held": float(((low <= observed) & (observed <= high)).mean()),
                    "mean half-width": float((high - low).mean() / 2),
                    "mean distance": float(np.abs(value - observed).mean()),
                }
            )
        # Nobody can promise more closely than the site's own number of people allows.
        chance = float((REACH * seen[f"{number} error"] / (seen[number] if scale is np.log else 1)).mean())
        row: Row = {**dict.fromkeys(rows[-1], ""), "number": title, "sites": len(seen)}
        rows.append(row | {"promised by": "nobody: chance in the site's own people", "mean half-width": chance})
    caption = "95% prediction intervals for the new site, of the chosen candidate (real people)"
    return Table("intervals", caption, rows)
