"""What held-out sites say about the next one, on simulated networks of known truth."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import expit, logit, softmax
from sklearn.metrics import accuracy_score, log_loss, r2_score, roc_auc_score, root_mean_squared_error

from tdrop.base import Cohort, plain, read
from tdrop.choose import count_folds, deal_folds, site_weights
from tdrop.forecast import HeldOutSite, expect_next, measure_held_out, measure_kind


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


@pytest.mark.parametrize("task", ["classes", "regression"])
def test_numbers_of_classes_and_values_at_a_site_are_scikit_learns_with_bootstrap_variances(task) -> None:
    random = np.random.default_rng(9)
    rows = 400
    if task == "classes":
        predicted = softmax(1.5 * random.standard_normal((rows, 3)), axis=1)
        y = np.array([random.choice(3, p=own) for own in predicted]).astype(float)
        own = {
            "auroc": roc_auc_score(y, predicted, multi_class="ovr"),
            "log_loss": log_loss(y, predicted),
            "accuracy": accuracy_score(y, predicted.argmax(axis=1)),
        }
    else:
        predicted = random.normal(10, 3, rows)
        y = predicted + random.normal(0, 2, rows)
        own = {"rmse": root_mean_squared_error(y, predicted), "r2": r2_score(y, predicted)}
    site = measure_kind("a", y, predicted, task)
    draws = [random.integers(0, rows, rows) for _ in range(300)]
    resampled = [measure_kind("a", y[drawn], predicted[drawn], task) for drawn in draws]
    for name, value in own.items():
        assert site.value(name) == pytest.approx(value)
        spread = np.std([one.value(name) for one in resampled])
        # Classes are taken to vary together, which is cautious.
        assert 0.85 * spread < site.variances[name] ** 0.5 < (1.6 if name == "auroc" else 1.15) * spread
    assert measure_kind("a", np.ones(5), predicted[:5], task) is None
    written = plain(site)
    assert set(written) == {"site", "n", "variances", *own}
    assert read(HeldOutSite, written) == site
    assert set(expect_next([site] * 3, 500)) == set(own)
