"""How networks train: noise that does not repeat, decay by role, rates that can come back, a linear term."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from method_cases import NETWORKS, quick, small_cohorts

from tdrop.methods import build
from tdrop.methods.parts.network import Pool, Shape, logistic_pool, mask_pool, odds_pool
from tdrop.methods.parts.training import Optimiser


def make(name: str, features: int = 3, **settings):
    method = quick(name, **settings)
    return method, method.network(Shape(features, 50), torch.Generator().manual_seed(0))


def test_a_step_larger_than_the_pool_has_passes_that_differ():
    pool = odds_pool(np.random.default_rng(0), 0.1, size=64)
    passes = pool.take(20, 64)
    assert len({tuple(each.tolist()) for each in passes}) == 20
    assert not torch.equal(pool.take(20, 64), pool.take(20, 64)), "every step reads the same noise"


@pytest.mark.parametrize("make_pool", [lambda g: logistic_pool(g, 0.1, 64), lambda g: mask_pool(g, 0.5, 64)])
def test_a_pool_that_grew_still_depends_on_its_seed_alone(make_pool):
    first, again, other = (make_pool(np.random.default_rng(seed)) for seed in (0, 0, 1))
    shapes = [(5, 4), (50, 10), (5, 4)]
    assert all(torch.equal(first.take(*shape), again.take(*shape)) for shape in shapes)
    assert not torch.equal(first.take(50, 10), other.take(50, 10))


def test_a_pool_is_drawn_once_for_small_steps():
    drawn = []
    pool = Pool(lambda count: drawn.append(count) or torch.zeros(count), np.random.default_rng(0), 1000)
    for _ in range(5):
        pool.take(10, 40)
    assert drawn == [1000]


@pytest.mark.parametrize("name", NETWORKS)
@pytest.mark.parametrize("features", [1, 3])
def test_decay_shrinks_the_weights_between_units_and_nothing_else(name, features):
    method, network = make(name, features, weight_decay=0.5, linear=True)
    optimiser = Optimiser(network, method, method.decay_for(Shape(3, 90)))
    before = {key: value.clone() for key, value in network.named_parameters()}
    for parameter in network.parameters():
        parameter.data.add_(0.01)  # nothing is zero, so that decay shows
    moved = {key: value.clone() for key, value in network.named_parameters()}
    optimiser.step(0.0)
    for key, value in network.named_parameters():
        assert torch.equal(value, moved[key]) == ("weights" not in key), key
    assert any("weights.0" in key for key in before)


def test_weights_take_the_steps_of_torchs_adam():
    method, network = make("mlp", weight_decay=0.0, clip=1e9, learning_rate=0.01)
    optimiser = Optimiser(network, method, method.decay_for(Shape(3, 90)))
    copies = [parameter.detach().clone().requires_grad_() for parameter in network.parameters()]
    adam = torch.optim.Adam(copies, lr=0.01, fused=True)
    generator = torch.Generator().manual_seed(0)
    for _ in range(5):
        for parameter, copy in zip(network.parameters(), copies, strict=True):
            copy.grad = torch.randn(copy.shape, generator=generator)
            parameter.grad.copy_(copy.grad)
        optimiser.step(0.0)
        adam.step()
    for parameter, copy in zip(network.parameters(), copies, strict=True):
        assert torch.allclose(parameter, copy, rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize("bias", [-8.0, 8.0])
def test_a_rate_near_its_bound_has_a_gradient(bias):
    _, network = make("transductive_dropout", highest_rate=0.9)
    with torch.no_grad():
        network.rate_layers.bias(-1).fill_(bias)
    rates = torch.sigmoid(network.rate_logits(torch.randn(20, 3, generator=torch.Generator().manual_seed(0))))
    assert ((rates > 0.1) & (rates < 0.9)).all()
    rates.sum().backward()
    assert (network.rate_layers.bias(-1).grad.abs() > 0).all()


def test_rates_start_where_they_are_asked_to():
    _, network = make("transductive_dropout", initial_keep=0.7)
    assert torch.sigmoid(network.rate_logits(torch.zeros(1, 3))).tolist()[0] == pytest.approx([0.3, 0.3], abs=1e-4)


@pytest.mark.parametrize("name", NETWORKS)
def test_a_linear_term_starts_at_zero_and_carries_on_beyond_the_hidden_layers(name):
    _, plain = make(name)
    _, linear = make(name, linear=True)
    x = torch.randn(128, 3, generator=torch.Generator().manual_seed(1))
    with torch.no_grad():
        assert torch.equal(plain.outputs(x, plain.draw(4, 0)), linear.outputs(x, linear.draw(4, 0)))
    source, target, _ = small_cohorts("regression", rows=200)
    straight = source.X[:, 0] * 5
    cohort = type(source)("line", source.ids, source.features, source.X, straight, "regression")
    far = np.array([[30.0, 0.0, 0.0]])

    def predicted(**settings) -> float:
        method = quick(name, steps=200, learning_rate=0.02, hidden=(8,), weight_decay=0.03, **settings)
        return float(method.fit(cohort, target, seed=0).sample(far, 50, seed=0).mean[0])

    assert abs(predicted(linear=True) - 150) < abs(predicted() - 150)


@pytest.mark.parametrize("name", NETWORKS)
def test_a_row_with_a_linear_term_does_not_depend_on_the_others(name):
    source, target, _ = small_cohorts()
    fitted = quick(name, linear=True).fit(source, target, seed=0)
    X = np.random.default_rng(1).normal(size=(300, 3))
    whole = fitted.sample(X, 9, seed=5).samples
    for rows in (slice(7, 8), slice(120, 140), slice(None, None, 17)):
        assert np.array_equal(whole[:, rows], fitted.sample(X[rows], 9, seed=5).samples)


def test_mixmatchs_guesses_count_by_the_share_of_steps_done():
    source, target, _ = small_cohorts()

    def shares(steps: int, batch: int) -> list[float]:
        method = quick("mixmatch", steps=steps, batch=batch)
        seen: list[float] = []
        original = method.network

        def watched(*arguments):
            network = original(*arguments)
            loss = network.loss
            network.loss = lambda batch, pool: seen.append(batch.done) or loss(batch, pool)
            return network

        object.__setattr__(method, "network", watched)
        method.fit(source, target, seed=0)
        return seen

    assert shares(8, 10) == shares(8, 90) == pytest.approx([step / 8 for step in range(8)])


@pytest.mark.parametrize("name", NETWORKS)
def test_steps_grow_with_the_rows_between_their_bounds_unless_they_are_given(name):
    steps = [build(name).count_steps(Shape(10, rows)) for rows in (6, 640, 1_190, 1_200, 5_000, 20_000, 1_000_000)]
    assert steps == [40, 40, 74, 240, 312, 1250, 1600]
    assert [build(name, length=length).count_steps(Shape(10, 5_000)) for length in (0.25, 4)] == [78, 1250]
    assert build(name).count_steps(Shape(10, 1_200, "regression")) == 75, "settled on binary outcomes alone"
    source, target, _ = small_cohorts()
    for rows in (6, 90):
        fitted = quick(name, steps=7, batch=32).fit(source.take(np.arange(rows)), target, seed=0)
        assert fitted.steps == fitted.history[-1]["step"] == 7
    assert quick(name, steps=None, batch=32).fit(source, target, seed=0).steps == 45
    assert "length" not in build(name, steps=7).search_space()


@pytest.mark.parametrize("name", NETWORKS)
def test_networks_shrink_more_where_rows_per_feature_are_few_unless_their_decay_is_given(name):
    own = 0.0 if name == "concrete_dropout" else None
    decays = [build(name).decay_for(Shape(10, rows)) for rows in (1_190, 1_200)]
    assert decays == ([own, own] if own is not None else [3e-2, 1e-3])
    longer = [build(name, length=4).decay_for(Shape(10, rows)) for rows in (1_190, 1_200)]
    assert longer == ([own, own] if own is not None else [1e-2, 1e-3]), "longer fits look for a curved truth"
    assert build(name, weight_decay=0.5).decay_for(Shape(10, 1_190)) == 0.5
    assert build(name).decay_for(Shape(10, 1_190, "classes")) == (1e-3 if own is None else own)
