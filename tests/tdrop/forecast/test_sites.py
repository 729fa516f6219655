"""What held-out sites say about the next one, on simulated networks of known truth."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import expit, logit

from tdrop.base import Cohort
from tdrop.choose import count_folds, deal_folds, site_weights
from tdrop.forecast import HeldOutSite, expect_next, measure_held_out


def held_out(aurocs, n=1000, rate=0.3) -> list[HeldOutSite]:
    variance = 0.0003
    variances = {"auroc": variance, **dict.fromkeys(("log_loss", "error_rate", "net_benefit"), 0.001)}
    variances |= {"observed_expected": 0.01, "slope": 0.01}
    return [HeldOutSite(f"s{k}", n, int(n * rate), a, 0.5, 0.2, 0.1, 1.0, 1.0, variances) for k, a in enumerate(aurocs)]


def next_auroc(sites, rows):
    return expect_next(sites, rows).get("auroc")


def test_the_interval_for_the_next_site_covers_what_it_promises():
    """Sites differ by .04 of AUROC and are measured with error; the next one's observed value is inside in 95%."""
    generator = np.random.default_rng(0)
    inside = 0
    for _ in range(300):
        truth = expit(logit(0.75) + generator.normal(0, 0.04 / (0.75 * 0.25), 7))
        seen = truth + generator.normal(0, np.sqrt(0.0003), 7)
        expected = next_auroc(held_out(seen[:6]), 1000)
        inside += expected.low <= seen[6] <= expected.high
    assert inside / 300 > 0.92


def test_few_sites_borrow_from_others_and_two_say_nothing():
    assert next_auroc(held_out([0.75, 0.75]), 1000) is None
    alike, apart = (next_auroc(held_out(values), 1000) for values in ([0.75] * 3, [0.65, 0.75, 0.85]))
    assert 0.02 < alike.tau < apart.tau
    many = next_auroc(held_out([0.75] * 20), 1000)
    assert many.high - many.low < alike.high - alike.low


def test_sites_are_measured_by_their_own_patients():
    generator = np.random.default_rng(1)
    origins = np.repeat(["a", "b", "c"], 400)
    risk = generator.uniform(0.05, 0.6, 1200)
    y = (generator.random(1200) < np.where(origins == "b", np.clip(1.5 * risk, 0, 1), risk)).astype(float)
    sites = {site.site: site for site in measure_held_out(origins, y, risk, 0.3)}
    assert sites["b"].observed_expected == pytest.approx(1.5, abs=0.15)
    assert sites["a"].observed_expected == pytest.approx(1.0, abs=0.15)
    assert sites["a"].slope == pytest.approx(1.0, abs=0.35)
    assert sites["a"].net_benefit == pytest.approx(np.mean((risk[:400] >= 0.3) * (y[:400] - (1 - y[:400]) * 3 / 7)))
    expected = expect_next(list(sites.values()), 500)
    assert set(expected) == {"auroc", "log_loss", "error_rate", "net_benefit", "observed_expected", "slope"}
    assert all(own.low < own.mean < own.high for own in expected.values())
    assert expected["observed_expected"].low < 1.0 < expected["observed_expected"].high
    one_kind = measure_held_out(origins, np.where(origins == "c", 0.0, y), risk, 0.3)
    assert [site.site for site in one_kind] == ["a", "b"]


def pool(sizes) -> Cohort:
    generator = np.random.default_rng(2)
    rows = sum(sizes.values())
    origins = np.repeat(list(sizes), list(sizes.values()))
    y = generator.random(rows) < 0.3
    return Cohort("pool", np.arange(rows), ("x",), generator.normal(size=(rows, 1)), y, origins=origins)


def test_folds_are_sites_from_three_on():
    source = pool({"a": 300, "b": 200, "c": 100})
    rows, fold = deal_folds(source, seed=0, folds=5)
    assert count_folds(source, 5) == 3
    for site in "abc":
        assert len(set(fold[source.origins[rows] == site])) == 1
    assert site_weights(source)[source.origins == "c"].sum() == pytest.approx(200)
    two = pool({"a": 300, "b": 200})
    assert count_folds(two, 5) == 5
    assert site_weights(two) is None


def test_forty_sites_share_ten_folds():
    source = pool({f"s{k:02d}": 20 + k for k in range(40)})
    assert count_folds(source, 3) == 10
    rows, fold = deal_folds(source, seed=0)
    sizes = np.bincount(fold)
    assert sizes.min() > 0.7 * sizes.max()
    assert all(len(set(fold[source.origins[rows] == site])) == 1 for site in set(source.origins))
