"""Kernels of others as parts of ours: BlackJAX's, as they are.

BlackJAX keeps single precision only while double precision is off, and mixes dtypes. So these tests have double
precision and JAX's own promotion of dtypes, and one of them has double precision off.
"""

from typing import Any, NamedTuple

import blackjax
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from cases import KEY, PAIR, guide_of_a_pair
from invariance import assert_invariant, assert_not_invariant, check_invariance
from jax.tree_util import Partial

import vhmc_jax as vj
from vhmc_jax.base import Kernel
from vhmc_jax.kernels.part import as_part, info_of, shares

UNIT = jnp.ones(2)
LOGDENSITY = PAIR.logdensity


def gaussian_step(rng_key, position):
    return 1.5 * jax.random.normal(rng_key, position.shape, position.dtype)


def likelihood(x):
    """Of the elliptical slice sampler, whose prior is N(0, 9 I): its state's log density is not the target's."""
    return LOGDENSITY(x) + 0.5 * jnp.sum(x**2) / 9


NUTS = blackjax.nuts(LOGDENSITY, step_size=1.3, inverse_mass_matrix=UNIT, max_num_doublings=3)
HMC = blackjax.hmc(LOGDENSITY, step_size=1.2, inverse_mass_matrix=UNIT, num_integration_steps=3)
FOREIGN: dict[str, Any] = {
    "nuts": NUTS,
    "mala": blackjax.mala(LOGDENSITY, step_size=1.0),
    "ghmc": blackjax.ghmc(LOGDENSITY, step_size=0.9, momentum_inverse_scale=UNIT, alpha=0.7, delta=0.3),
    "dynamic_hmc": blackjax.dynamic_hmc(LOGDENSITY, step_size=0.8, inverse_mass_matrix=UNIT),
    "random walk": blackjax.additive_step_random_walk(LOGDENSITY, gaussian_step),
    "elliptical slice": blackjax.elliptical_slice(likelihood, mean=jnp.zeros(2), cov=9 * jnp.eye(2)),
}
JUMP = vj.jump(LOGDENSITY, guide_of_a_pair(PAIR, float), log_envelope=0.0)


@pytest.fixture(autouse=True)
def _promotion():
    with jax.numpy_dtype_promotion("standard"):
        yield


def with_jumps(local, jump_probability=0.3):
    return vj.with_jumps(local, guide_of_a_pair(PAIR, float), jump_probability=jump_probability, log_envelope=0.0)


@pytest.mark.statistical
@pytest.mark.parametrize("name", ["nuts", "ghmc"])
def test_with_jumps_is_invariant(name):
    report = check_invariance(with_jumps(FOREIGN[name]), PAIR, KEY, num_steps=3, dtype=jnp.float64)
    assert_invariant(report)
    assert report.info_means.jump_accepted > 0.15
    assert report.info_means.is_second_stage == 0
    assert 0.7 < report.info_means.acceptance_rate < 0.97


@pytest.mark.statistical
def test_a_jump_that_leaves_the_density_behind_is_not_invariant():
    """The local state after a jump must be that of the candidate."""
    sound = with_jumps(HMC)

    def step(rng_key, state):
        moved, info = sound.step(rng_key, state)
        return moved._replace(logdensity=jnp.where(info.jump_accepted, state.logdensity, moved.logdensity)), info

    assert_not_invariant(check_invariance(Kernel(sound.init, Partial(step)), PAIR, KEY, dtype=jnp.float64))


@pytest.mark.statistical
@pytest.mark.parametrize("name", ["elliptical slice"])
def test_mixture_is_invariant(name):
    """Also where a part's state has no gradient, or another log density."""
    report = check_invariance(vj.mixture([FOREIGN[name], JUMP], [2.0, 1.0]), PAIR, KEY, num_steps=3, dtype=jnp.float64)
    assert_invariant(report)
    assert report.info_means.parts[0].is_accepted > 0.15
    assert report.info_means.parts[1].is_accepted > 0.15


def test_state_follows_the_position():
    kernel = vj.cycle(FOREIGN["random walk"], JUMP)
    states = jax.vmap(kernel.init)(PAIR.sample(KEY, 64), jax.random.split(KEY, 64))
    moved, infos = jax.jit(jax.vmap(kernel.step))(jax.random.split(KEY, 64), states)
    values, gradients = jax.vmap(jax.value_and_grad(LOGDENSITY))(moved.position)
    np.testing.assert_allclose(moved.logdensity, values, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(moved.logdensity_grad, gradients, rtol=1e-3, atol=1e-4)
    assert np.any(infos.parts[0].is_accepted)
    # The walk's state is made anew, and then the common one.
    np.testing.assert_array_equal(infos.parts[0].num_gradients, 1)
    np.testing.assert_array_equal(infos.parts[0].num_densities, 2)


@pytest.mark.parametrize("name", ["mala", "dynamic_hmc"])
def test_runs_with_keys_for_init(name):
    """A run gives each chain's ``init`` a key of its own."""
    chains = vj.run_chains(KEY, vj.cycle(FOREIGN[name], JUMP), jnp.zeros((4, 2)), 5)
    assert chains.draws.shape == (4, 5, 2)
    assert isinstance(chains.infos.parts[0], vj.Info)
    assert np.all(chains.infos.num_gradients >= 1)


def test_works_without_double_precision():
    with jax.enable_x64(False):
        local = blackjax.nuts(LOGDENSITY, 0.7, jnp.ones(2))
        kernel = vj.with_jumps(local, guide_of_a_pair(PAIR), jump_probability=0.3, log_envelope=0.0)
        chains = vj.run_chains(KEY, kernel, jnp.zeros((4, 2)), 5)
        assert chains.draws.dtype == jnp.float32
        assert np.all(np.isfinite(chains.draws))


def test_nuts_keeps_double_precision_and_counts_its_steps():
    kernel = with_jumps(NUTS, 0.0)
    state = kernel.init(jnp.array([2.0, -2.0]))
    moved, info = jax.jit(kernel.step)(KEY, state)
    assert moved.position.dtype == jnp.float64
    assert type(moved) is type(state)
    assert 1 <= info.num_gradients <= 7
    assert info.is_accepted
    assert not info.is_second_stage
    assert info.local is None


def test_an_own_variable_is_kept_by_jumps():
    kernel = with_jumps(FOREIGN["ghmc"], 1.0)
    state = kernel.init(jnp.array([2.5, -2.5]), KEY)
    steps = [jax.jit(kernel.step)(key, state) for key in jax.random.split(KEY, 5)]
    assert any(bool(info.jump_accepted) for _, info in steps)
    for moved, _ in steps:
        np.testing.assert_array_equal(moved.momentum, state.momentum)


class Found(NamedTuple):
    position: Any
    is_accepted: Any = None


def test_info_of_a_step_that_reports_little():
    class Nothing(NamedTuple):
        pass

    old, new = Found({"a": jnp.zeros(2), "b": jnp.ones(())}), Found({"a": jnp.zeros(2), "b": jnp.zeros(())})
    for there, has_moved in ((new, True), (old, False)):
        info = info_of(Nothing(), old, there)
        assert bool(info.is_accepted) == has_moved
        assert float(info.acceptance_rate) == has_moved
        assert not info.is_divergent
        assert (int(info.num_gradients), int(info.num_densities)) == (0, 1)
    assert not shares(old)


def test_bad_input():
    with pytest.raises(TypeError, match="local must have the functions init and step, got function"):
        with_jumps(lambda: None)
    with pytest.raises(TypeError, match=r"kernels\[1\] must have the functions init and step, got int"):
        vj.cycle(HMC, 3)
    with pytest.raises(TypeError, match=r"local must be a kernel whose state has .* got a state of type RWState"):
        with_jumps(FOREIGN["random walk"]).init(jnp.zeros(2))
    with pytest.raises(TypeError, match=r"at least one kernel must have a state with .* got states RWState, Ellip"):
        vj.cycle(FOREIGN["random walk"], FOREIGN["elliptical slice"]).init(jnp.zeros(2))
    assert isinstance(as_part(HMC), Kernel)
