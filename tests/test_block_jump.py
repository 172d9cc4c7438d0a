"""Jumps of blocks: exact whether the blocks are independent or not, and however far the guide is off."""

import importlib
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from cases import KEY, TARGETS, assert_acceptance, every_dtype, retraced
from counting import counted
from invariance import assert_invariant, assert_not_invariant, check_invariance, check_mixing

import vhmc_jax as vj
from vhmc_jax import metropolis

module = importlib.import_module("vhmc_jax.kernels.block_jump")  # the package has the function under this name


def mixture(weights: Any, means: Any, scales: Any, dtype: Any) -> vj.GaussianMixture:
    """Components of a block: means (k, m), scales (k, m) or (k, m, m)."""
    scales = np.asarray(scales)
    factors = scales if scales.ndim == 3 else scales[..., None] * np.eye(scales.shape[1])
    return vj.GaussianMixture(*(jnp.asarray(array, dtype) for array in (np.log(weights), means, factors)))


def gaussian_guide(dtype):
    """For a Gaussian whose blocks are correlated: a block whose coordinates are neither neighbours nor in order."""
    pair = mixture([1.0], [[-0.1, 0.2]], [[[1.1, 0.0], [0.3, 1.0]]], dtype)
    return vj.ProductMixture([[2, 0], [1]], [pair, mixture([1.0], [[0.1]], [[1.2]], dtype)])


def skewed_guide(dtype):
    first = mixture([0.6, 0.4], [[0.2], [-1.6]], [[0.8], [1.4]], dtype)
    return vj.ProductMixture([[1], [0]], [mixture([1.0], [[-0.3]], [[1.2]], dtype), first])


def mixture_guide(dtype):
    """The marginals of the target, a little off."""
    first = mixture([0.6, 0.4], [[0.1], [1.15]], [[1.25], [0.65]], dtype)
    second = mixture([0.6, 0.4], [[0.0], [0.75]], [[1.05], [0.65]], dtype)
    return vj.ProductMixture([[0], [1]], [first, second])


CORRELATED = vj.targets.GaussianMixtureTarget(
    [1.0], [[0.0, 0.0, 0.0]], [[[1.0, 0.0, 0.0], [0.35, 0.95, 0.0], [0.3, 0.25, 0.95]]]
)
OVERLAPPING = vj.targets.GaussianMixtureTarget(
    [0.6, 0.4], [[0.0, 0.0], [1.2, 0.8]], [[[1.2, 0.0], [0.2, 1.0]], [[0.6, 0.0], [-0.1, 0.6]]]
)
CASES = {
    "gaussian": (CORRELATED, gaussian_guide),
    "skewed": (TARGETS["skewed"], skewed_guide),
    "mixture": (OVERLAPPING, mixture_guide),
}


def kernel_of(name, dtype=jnp.float32, **settings):
    target, guide = CASES[name]
    return vj.block_jump(target.logdensity, guide(dtype), **settings)


@pytest.mark.statistical
@pytest.mark.parametrize("name", CASES)
@every_dtype
def test_invariant(name, dtype):
    report = check_invariance(kernel_of(name, dtype), CASES[name][0], KEY, dtype=dtype)
    assert_invariant(report)
    assert_acceptance(report)


@pytest.mark.statistical
@pytest.mark.parametrize("num_jumps", [1, 5])
def test_invariant_with_fewer_and_more_jumps_than_blocks(num_jumps):
    report = check_invariance(kernel_of("gaussian", num_jumps=num_jumps), CORRELATED, KEY)
    assert_invariant(report)
    assert report.info_means.num_densities == num_jumps


@pytest.mark.statistical
def test_invariant_after_a_local_move():
    target, guide = CASES["skewed"]
    local = vj.lhmc(target.logdensity, step_size=0.7, num_integration_steps=1)
    kernel = vj.cycle(local, vj.block_jump(target.logdensity, guide(jnp.float32)))
    assert_invariant(check_invariance(kernel, target, KEY))


# Broken copies.


def ignore_the_guide(energy, proposed_energy, log_ratio):
    """Without q_B(x_B) / q_B(x_B')."""
    del log_ratio
    return metropolis.log_acceptance(energy, proposed_energy)


jump_once = module.jump_once


def look_at_the_position(density, settings, here, draw):
    """The block of the largest coordinate."""
    largest = jnp.argmax(jnp.abs(here.position))
    return jump_once(density, settings, here, draw._replace(block=settings.block_of[largest]))


def forget_where_it_went(density, settings, here, draw):
    """Values of log q_B of the place where the step began, after a jump from there."""
    there, info = jump_once(density, settings, here, draw)
    return there._replace(log_probs=here.log_probs), info


BROKEN = {
    "ratio left out": ("log_acceptance", ignore_the_guide, None),
    "a rule that looks": ("jump_once", look_at_the_position, 1),
    "old log q": ("jump_once", forget_where_it_went, 6),
}


@pytest.mark.statistical
@pytest.mark.parametrize(("part", "broken", "num_jumps"), BROKEN.values(), ids=BROKEN.keys())
def test_broken_copies_are_not_invariant(part, broken, num_jumps, monkeypatch):
    monkeypatch.setattr(module, part, broken)
    report = check_invariance(retraced(kernel_of("gaussian", num_jumps=num_jumps)), CORRELATED, KEY)
    assert_not_invariant(report)


# Mixing.


class Signs:
    """2ᵈ modes: every coordinate is 0.7 N(−3, 0.6²) + 0.3 N(3, 0.6²)."""

    DIM = 10
    mean, covariance = np.full(DIM, -1.2), (0.36 + 9 - 1.44) * np.eye(DIM)

    def logdensity(self, x):
        parts = [jnp.log(w) - 0.5 * ((x - c) / 0.6) ** 2 for w, c in ((0.7, -3.0), (0.3, 3.0))]
        return jnp.sum(jnp.logaddexp(*parts))

    def sample(self, rng_key, num_draws, dtype=jnp.float32):
        key_sign, key_noise = jax.random.split(rng_key)
        is_left = jax.random.uniform(key_sign, (num_draws, self.DIM), dtype) < 0.7
        return jnp.where(is_left, -3.0, 3.0) + 0.6 * jax.random.normal(key_noise, is_left.shape, dtype)


SIGNS = Signs()


def signs_guide(dtype=jnp.float32):
    sign = mixture([0.5, 0.5], [[-2.9], [3.1]], [[0.7], [0.65]], dtype)
    return vj.ProductMixture([[i] for i in range(Signs.DIM)], [sign] * Signs.DIM)


@pytest.mark.statistical
def test_mixes_between_a_thousand_modes():
    """All chains in one mode of 1,024, of weight 0.3¹⁰."""
    kernel = vj.block_jump(SIGNS.logdensity, signs_guide())
    start = np.full(Signs.DIM, 3.0)
    report = check_mixing(kernel, SIGNS, start, KEY, num_steps=20)
    assert_invariant(report)
    assert_acceptance(report)
    assert_not_invariant(check_mixing(kernel, SIGNS, start, KEY, num_steps=1))


# What one step does.


@jax.jit
def one_step(kernel, positions):
    """The states of many chains before a step and after it, and the infos."""
    states = jax.vmap(kernel.init)(positions)
    return states, *jax.vmap(kernel.step)(jax.random.split(KEY, len(positions)), states)


def test_acceptance_is_the_ratio():
    """By its definition, in single precision with a log density that is rounded to 1/128."""

    def logdensity(x):
        return CORRELATED.logdensity(x) + jnp.float32(1e5)

    guide, num = gaussian_guide(jnp.float32), 300
    kernel = vj.block_jump(logdensity, guide, num_jumps=1)
    states, new_states, infos = one_step(kernel, CORRELATED.sample(KEY, num, jnp.float32))
    moved = np.asarray(infos.is_accepted)
    changed = np.asarray(new_states.position != states.position)
    # Either block, whole or not at all.
    is_second = guide.block_of == 1
    np.testing.assert_array_equal(changed.any(axis=1), moved)
    assert set(map(tuple, changed[moved])) == {tuple(is_second), tuple(~is_second)}
    np.testing.assert_array_equal(infos.num_jumps_accepted, moved)
    np.testing.assert_array_equal(infos.num_gradients, moved)
    here, there = (np.asarray(each.position, np.float64) for each in (states, new_states))
    values = [np.asarray(jax.vmap(logdensity)(each.position), np.float64) for each in (states, new_states)]
    log_q = [guide.on_host().at(x).log_prob for x in (here, there)]  # the other block's part cancels
    expected = np.exp(np.minimum(values[1] - values[0] - (log_q[1] - log_q[0]), 0.0))
    np.testing.assert_allclose(infos.acceptance_rate[moved], expected[moved], rtol=1e-5)
    assert 0.3 < np.mean(expected[moved] < 1) < 0.9


def test_evaluations_are_counted():
    calls, logdensity_fn = counted(CORRELATED.logdensity)
    kernel = vj.block_jump(logdensity_fn, gaussian_guide(jnp.float64), num_jumps=3)
    state = kernel.init(jnp.array([0.1, 0.1, 0.1]))
    before = calls()
    step, seen = jax.jit(kernel.step), set()
    for key in jax.random.split(KEY, 20):
        _, info = step(key, state)
        seen.add((int(info.num_gradients), int(info.num_densities), calls() - before, bool(info.is_accepted)))
        before = calls()
    assert seen == {(1, 3, 4, True), (0, 3, 3, False)}, "a gradient at the end, only where the chain moved"


def test_a_block_jumps_where_the_others_may_not():
    """Beyond a wall the density is zero: candidates there are rejected, and the other blocks jump all the same."""

    def walled(x):
        return jnp.where(x[1] > 0.0, jnp.nan, CORRELATED.logdensity(x))

    kernel = vj.block_jump(walled, gaussian_guide(jnp.float64))
    _, new_states, infos = one_step(kernel, jnp.tile(jnp.array([0.0, -1e-9, 0.0]), (200, 1)))
    position = np.asarray(new_states.position)
    assert np.all(position[:, 1] <= 0)
    assert np.all(np.isfinite(np.asarray(new_states.logdensity)))
    assert 0.2 < np.mean(position[:, 1] == -1e-9) < 0.8
    assert np.mean(position[:, 0] != 0.0) > 0.5
    assert not np.any(infos.is_divergent)


class Unregistered:
    """A guide with blocks that is no pytree."""

    block_of = np.array([0, 1, 0])

    def sample(self, rng_key):
        return jax.random.normal(rng_key, (3,))

    def log_prob(self, x):
        return jnp.sum(self.block_log_probs(x))

    def block_log_probs(self, x):
        return jnp.array([-0.5 * (x[0] ** 2 + x[2] ** 2), -0.5 * x[1] ** 2])


@pytest.mark.parametrize(
    ("guide", "settings", "error", "message"),
    [
        (mixture([1.0], [[0.0]], [[1.0]], float), {}, TypeError, "guide must be a product over blocks .* GaussianMixt"),
        (None, {}, TypeError, r"guide must have the methods sample\(rng_key\) and log_prob\(x\), got NoneType"),
        (Unregistered(), {}, TypeError, "guide must be a pytree of arrays, got Unregistered"),
        (gaussian_guide(float), {"num_jumps": 0}, ValueError, "num_jumps must be at least 1, got 0"),
        (gaussian_guide(float), {"num_jumps": 1.5}, TypeError, "num_jumps must be an integer, got float"),
    ],
)
def test_bad_argument(guide, settings, error, message):
    with pytest.raises(error, match=message):
        vj.block_jump(CORRELATED.logdensity, guide, **settings)


def test_guide_of_another_dimension():
    kernel = vj.block_jump(lambda x: -0.5 * jnp.sum(x**2), gaussian_guide(jnp.float64))
    with pytest.raises(ValueError, match=r"guide.sample must return .* float64\[4\], got float64\[3\]"):
        kernel.init(jnp.zeros(4))
