"""The parts of transductive dropout: its regulariser, its passes by hand, its relation to TDNR."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from method_cases import quick, small_cohorts

from tdrop.base import UsageError
from tdrop.methods import build
from tdrop.methods.parts.network import Shape, as_odds
from tdrop.methods.transductive_dropout import TransductiveDropout, transductive_regulariser


def make_network(hidden: tuple[int, ...] = (24, 16), **settings):
    method = TransductiveDropout(hidden=hidden, passes=6, **settings)
    return method.network(Shape(4, 100), torch.Generator().manual_seed(0))


def test_tdnr_is_transductive_dropout_with_lambda_0():
    source, target, validation = small_cohorts()
    tdnr = quick("tdnr").fit(source, target, validation, seed=1)
    zero = quick("transductive_dropout", **{"lambda": 0.0}).fit(source, target, validation, seed=1)
    X = target.X
    assert np.array_equal(tdnr.sample(X, 9, seed=0).samples, zero.sample(X, 9, seed=0).samples)
    assert np.array_equal(tdnr.dropout_rates(X), zero.dropout_rates(X))
    assert isinstance(build("tdnr"), TransductiveDropout)
    assert "lambda_" not in build("tdnr").search_space()
    with pytest.raises(UsageError, match="no setting"):
        build("tdnr", lambda_=0.1)


def test_without_the_regulariser_the_target_changes_nothing():
    source, target, _ = small_cohorts()
    elsewhere = small_cohorts(seed=9)[1]
    X = target.X

    def samples(name: str, rows):
        return quick(name).fit(source, rows, seed=1).sample(X, 5, seed=0).samples

    assert np.array_equal(samples("tdnr", target), samples("tdnr", elsewhere))
    assert not np.array_equal(samples("transductive_dropout", target), samples("transductive_dropout", elsewhere))


def test_the_passes_by_hand_equal_the_plain_ones():
    network = make_network()
    generator = torch.Generator().manual_seed(1)
    x = torch.randn(50, 4, generator=generator)
    x[0] = 0.0  # a row at the centre has first activations of exactly zero
    uniform = [torch.rand(6, 50, units, generator=generator) for units in (24, 16)]
    noise = [as_odds(torch.logit(each, eps=1e-6), 0.1) for each in uniform]
    upstream = torch.randn(6, 50, generator=generator)
    expected, found = (
        network.run_passes(network.run_shared(x), noise),
        network.run_fused(network.run_shared(x), noise),
    )
    assert torch.allclose(expected, found, atol=1e-6)
    parameters = list(network.parameters())
    for expected_gradient, found_gradient in zip(
        torch.autograd.grad((expected * upstream).sum(), parameters),
        torch.autograd.grad((found * upstream).sum(), parameters),
        strict=True,
    ):
        assert torch.allclose(expected_gradient, found_gradient, atol=1e-5, rtol=1e-3)


@pytest.mark.parametrize("hidden", [(12,), (12, 8), (12, 8, 6)])
def test_any_depth_trains_and_samples(hidden):
    source, target, validation = small_cohorts()
    method = quick("transductive_dropout", hidden=hidden)
    fitted = method.fit(source, target, validation, seed=0)
    assert fitted.dropout_rates(target.X).shape == (len(hidden), len(target))
    assert fitted.summarise(target.X, 30, seed=0).sd.min() > 0


def test_relaxed_masks_have_the_mean_and_nearly_the_variance_of_the_dropout_they_relax():
    """At rate p a scaled mask has mean about 1 and variance about p / (1 - p)."""
    network = make_network((200,), initial_keep=0.7)
    with torch.no_grad():
        network.layers.bias(0).fill_(20.0)  # tanh = 1
        network.layers.weight(1).fill_(1 / 200)
        outputs = network.outputs(torch.zeros(1, 4), network.draw(4000, seed=0))[:, 0]
    assert outputs.mean() == pytest.approx(1.0, abs=0.02)
    assert float(outputs.var() * 200) == pytest.approx(0.3 / 0.7, rel=0.2)


def test_the_regulariser_is_the_cross_entropy_of_the_text():
    source, target = torch.tensor([0.1, 0.4]), torch.tensor([0.2, 3.0])

    def g(variance):
        return 1 - 1 / (1 + variance)

    expected = -torch.log(1 - g(source)).mean() - torch.log(g(target)).mean()
    assert transductive_regulariser(source, target) == pytest.approx(float(expected), rel=1e-4)


def test_minimising_it_raises_the_variance_on_the_target_and_lowers_it_on_the_source():
    source, target = torch.tensor([0.3], requires_grad=True), torch.tensor([0.3], requires_grad=True)
    transductive_regulariser(source, target).backward()
    assert target.grad.item() < 0 < source.grad.item()


def test_a_vanishing_variance_keeps_the_gradient_finite():
    variance = torch.zeros(3, requires_grad=True)
    transductive_regulariser(variance, variance).backward()
    assert torch.isfinite(variance.grad).all()


def test_a_mask_written_as_a_quotient_is_the_relaxed_mask():
    rates, uniform = torch.tensor([0.06, 0.2, 0.5, 0.94]), torch.linspace(0.001, 0.999, 101)[:, None]
    keep = torch.logit(1 - rates)
    expected = torch.sigmoid((keep + torch.logit(uniform)) / 0.1)
    odds = torch.exp(keep / 0.1)
    assert torch.allclose(odds / (odds + as_odds(torch.logit(uniform), 0.1)), expected, atol=1e-6)
