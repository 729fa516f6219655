"""The site as an input: sites of different levels, shares that know them, models that are saved and rebuilt."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy.special import expit

from tdrop import TransferClassifier
from tdrop.base import Cohort
from tdrop.choose import Trial, pick_place
from tdrop.methods import build, load
from tdrop.methods.parts.fitted import Noise
from tdrop.metrics import log_loss
from tdrop.shift import estimate_shares

LEVELS = {"high": 1.5, "low": -1.5, "middle": 0.0}


def patients(site: str, rows: int, seed: int) -> Cohort:
    """Sites whose patients differ, and whose level of risk no feature explains."""
    generator = np.random.default_rng([seed, *site.encode()])
    X = generator.normal(size=(rows, 3))
    X[:, 0] += list(LEVELS).index(site)
    y = generator.random(rows) < expit(LEVELS[site] + X[:, 1])
    return Cohort(site, np.arange(rows), ("a", "b", "c"), X, y, origins=np.full(rows, site))


def pool(rows: int = 400) -> Cohort:
    parts = [patients(site, rows, 0) for site in LEVELS]
    X, y, origins = (np.concatenate([getattr(part, name) for part in parts]) for name in ("X", "y", "origins"))
    return Cohort("pool", np.arange(len(X)), parts[0].features, X, y, origins=origins)


def test_shares_find_whom_the_patients_resemble():
    mixed = [patients("high", 600, 1), patients("low", 200, 1)]
    X = np.concatenate([part.X for part in mixed])
    target = Cohort("new", np.arange(800), mixed[0].features, X)
    shares = estimate_shares(pool(), target)
    assert shares.sites == ("high", "low", "middle")
    assert shares.resembled == pytest.approx((0.75, 0.25, 0.0), abs=0.12)
    assert sum(shares.weights.values()) == pytest.approx(1.0)
    alike = estimate_shares(pool(), pool().unlabelled())
    assert alike.resembled == pytest.approx((1 / 3,) * 3, abs=0.02)


@pytest.mark.parametrize("name", ["logistic_regression", "gradient_boosting", "transductive_dropout"])
def test_a_site_of_known_level_is_predicted_better_with_the_site_as_an_input(name, tmp_path):
    quick = {"steps": 60} if name == "transductive_dropout" else {"refits": 3}
    # A site without a column of its own for its level: only resemblance can tell it.
    source, target = pool(), patients("high", 500, 2)
    hidden = [np.delete(cohort.X, 2, axis=1) for cohort in (source, target)]
    source, target = (
        Cohort(c.site, c.ids, ("a", "b"), x, c.y, origins=c.origins)
        for c, x in zip((source, target), hidden, strict=True)
    )
    fits = {
        site: build(name, site_input=site, **quick).fit(source, target.unlabelled(), seed=0) for site in (False, True)
    }
    risks = {site: fitted.summarise(target.X, 10, seed=0).mean for site, fitted in fits.items()}
    assert fits[True].features == ("a", "b")
    wrong = fits[True].with_shares({"high": 0.0, "low": 1.0, "middle": 0.0})
    losses = [log_loss(target.y, risk) for risk in (risks[True], wrong.summarise(target.X, 10, seed=0).mean)]
    assert losses[0] < losses[1] - 0.1, "the placebo has another site's share"
    fits[True].save(tmp_path / "model")
    again = load(tmp_path / "model")
    np.testing.assert_array_equal(again.summarise(target.X, 10, seed=0).mean, risks[True])
    assert again.method.settings()["site_input"] is True
    alone = source.take(source.origins == "low")
    plain = [build(name, site_input=site, **quick).fit(alone, target.unlabelled(), seed=0) for site in (False, True)]
    np.testing.assert_array_equal(*(one.summarise(target.X, 10, seed=0).mean for one in plain))


def test_held_out_sites_decide_whether_the_site_is_an_input():
    def trial(loss, by_site, **settings):
        return Trial("mlp", settings, folds=3, log_loss=loss, site_log_loss=by_site)

    plain = [trial(0.50, 0.50), trial(0.498, 0.49, C=2.0)]
    assert pick_place("mlp", plain) == 0
    assert pick_place("mlp", [*plain, trial(0.51, 0.49, site_input=True)]) == 2
    assert pick_place("mlp", [*plain, trial(0.40, 0.51, site_input=True)]) == 0
    assert pick_place("mlp", [*plain, Trial("mlp", {"site_input": True}, failure="no")]) == 0


def test_a_classifier_with_groups_knows_the_site_where_held_out_sites_prefer_it():
    """Each level has two sites: whoever resembles one of them has its level. Two sites alone decide nothing."""
    target = patients("high", 300, 3)
    parts = [patients(site, 200, seed) for site in LEVELS for seed in (4, 5)]
    X, y = (np.concatenate([getattr(part, name) for part in parts]) for name in ("X", "y"))
    sites = np.repeat([f"{part.site} {place % 2}" for place, part in enumerate(parts)], 200)
    model = TransferClassifier(settings={"refits": 3})
    assert set(model.fit(X, y, target.X, groups=sites).fitted_.shares) == set(sites)
    knowing = log_loss(target.y, model.predict_proba(target.X)[:, 1])
    plain = model.fit(X, y, target.X)
    assert not hasattr(plain.fitted_, "shares")
    assert knowing < log_loss(target.y, plain.predict_proba(target.X)[:, 1])
    assert not hasattr(model.fit(X[:400], y[:400], target.X, groups=sites[:400]).fitted_, "shares")
    with pytest.raises(ValueError, match="inconsistent"):
        model.fit(X, y, groups=sites[:-1])


def test_a_continuous_outcome_keeps_its_task_and_its_noise(tmp_path):
    source = pool(60)
    source = replace(source, y=source.X[:, 1] * 3 + 10, task="regression")
    target = patients("high", 30, 1).unlabelled()
    fitted = build("logistic_regression", refits=3, site_input=True).fit(source, target, seed=0)
    noisy = fitted.with_noise(Noise(2.0, (0.5, 0.6, 0.7, 0.9, 1.2, 2.0, 2.5)))
    noisy.save(tmp_path)
    plain, wide, loaded = (one.summarise(target.X, 3, seed=0) for one in (fitted, noisy, load(tmp_path)))
    assert plain.task == wide.task == "regression"
    assert (wide.high - wide.low).min() > (plain.high - plain.low).max()
    assert np.array_equal(loaded.high, wide.high)
