"""Magnetic HMC leaves its targets invariant; with a field that never changes its sign it does not."""

import importlib

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from cases import DENSE, KEY, TARGETS, assert_acceptance, every_dtype, every_target
from counting import counted
from invariance import assert_invariant, assert_not_invariant, check_invariance, check_mixing
from jax.tree_util import Partial

import vhmc_jax as vj
from vhmc_jax import random
from vhmc_jax.base import Kernel
from vhmc_jax.metropolis import accept

MODULE = importlib.import_module("vhmc_jax.kernels.magnetic_hmc")
SETTINGS = {
    "gaussian": {"step_size": 0.13, "num_integration_steps": 3},
    "skewed": {"step_size": 0.85, "num_integration_steps": 3},
    "mixture": {"step_size": 0.6, "num_integration_steps": 4},
}


def magnetic(name, **settings):
    defaults = SETTINGS[name] | {"field": 2.0, "inverse_mass_matrix": DENSE}
    return MODULE.magnetic_hmc(TARGETS[name].logdensity, **defaults | settings)


@pytest.mark.statistical
@every_target
@every_dtype
def test_invariant_with_dense_mass(name, dtype):
    report = check_invariance(magnetic(name), TARGETS[name], KEY, dtype=dtype)
    assert_acceptance(report)
    assert_invariant(report)


@pytest.mark.statistical
def test_invariant_in_a_plane_with_random_length():
    """Without a dense mass, where the drift takes no matrices, and the field's other direction."""
    kernel = magnetic(
        "skewed", step_size=0.9, num_integration_steps=(1, 4), field=-1.5, inverse_mass_matrix=np.array([1.3, 0.6])
    )
    report = check_invariance(kernel, TARGETS["skewed"], KEY)
    assert_acceptance(report)
    assert_invariant(report)


@pytest.mark.statistical
def test_mixes_from_a_bad_start():
    assert_invariant(check_mixing(magnetic("skewed"), TARGETS["skewed"], [-6.0, 5.0], KEY, num_steps=60))


@pytest.mark.statistical
@pytest.mark.parametrize("name", ["skewed", "mixture"])
def test_without_a_change_of_sign_it_is_not_invariant(name):
    """Not on the Gaussian: there a reflection turns one sign into the other, and hides which one it is."""
    sound = magnetic(name)

    def step(settings, rng_key, state):
        key_proposal, key_accept = random.split(rng_key)
        state = state._replace(field_sign=jnp.ones_like(state.field_sign))
        return accept(key_accept, state, MODULE.propose(settings, key_proposal, state))

    broken = Kernel(sound.init, Partial(step, *sound.step.args))
    assert_not_invariant(check_invariance(broken, TARGETS[name], KEY))


@pytest.mark.statistical
def test_composed_kernels_keep_the_sign():
    """The sign is the kernel's own variable: another kernel's step in between must leave it as it is."""
    other = vj.hmc(TARGETS["skewed"].logdensity, step_size=0.8, num_integration_steps=2)
    kernel = vj.cycle(magnetic("skewed"), other)
    state = kernel.init(jnp.array([0.3, -0.7]))
    signs = []
    step = jax.jit(kernel.step)
    for key in jax.random.split(KEY, 40):
        before = state.own[0].field_sign
        state, info = step(key, state)
        after = state.own[0].field_sign
        if before != 0:
            assert after == (before if info.parts[0].is_accepted else -before)
        signs.append(float(after))
    assert set(signs) == {-1.0, 1.0}
    assert_invariant(check_invariance(kernel, TARGETS["skewed"], KEY))


def test_sign_is_drawn_first_then_kept_or_changed():
    kernel = magnetic("skewed", step_size=1.2)
    states = jax.vmap(kernel.init)(TARGETS["skewed"].sample(KEY, 500))
    np.testing.assert_array_equal(states.field_sign, 0.0)
    step = jax.jit(jax.vmap(kernel.step))
    states, infos = step(jax.random.split(KEY, 500), states)
    np.testing.assert_array_equal(np.abs(states.field_sign), 1.0)
    assert abs(np.mean(states.field_sign)) < 5 / np.sqrt(500)
    new_states, infos = step(jax.random.split(jax.random.key(1), 500), states)
    expected = np.where(infos.is_accepted, states.field_sign, -states.field_sign)
    np.testing.assert_array_equal(new_states.field_sign, expected)
    assert 0 < np.mean(infos.is_accepted) < 1


def test_without_a_field_it_is_hmc():
    """The same momentum gives the same proposal."""
    settings = SETTINGS["skewed"] | {"inverse_mass_matrix": DENSE}
    kernel, hmc = magnetic("skewed", field=0.0), vj.hmc(TARGETS["skewed"].logdensity, **settings)
    x = jnp.array([0.3, -0.7])
    state = kernel.init(x)._replace(field_sign=jnp.ones(()))
    proposal, expected = MODULE.propose(*kernel.step.args, KEY, state), hmc.step.propose(KEY, hmc.init(x))
    np.testing.assert_allclose(proposal.state.position, expected.state.position, rtol=1e-12)
    np.testing.assert_allclose(proposal.log_acceptance, expected.log_acceptance, rtol=1e-9)
    assert np.linalg.norm(proposal.state.position - x) > 0.1


def test_step_size_may_be_traced():
    """One program for several step sizes, as adaptation needs it."""

    def rate(step_size):
        kernel = magnetic("skewed", step_size=step_size)
        return kernel.step(KEY, kernel.init(jnp.array([0.3, -0.7])))[1].acceptance_rate

    step_sizes = [0.5, 1.0, 1.5]
    rates = jax.jit(jax.vmap(rate))(jnp.array(step_sizes))
    np.testing.assert_allclose(rates, [rate(step_size) for step_size in step_sizes], rtol=1e-9)
    assert np.ptp(rates) > 0.01


def test_gradients_of_a_step_are_counted():
    calls, logdensity_fn = counted(TARGETS["skewed"].logdensity)
    kernel = MODULE.magnetic_hmc(logdensity_fn, step_size=0.2, num_integration_steps=4, field=1.0)
    state = kernel.init(jnp.zeros(2))
    before = calls()
    _, info = kernel.step(KEY, state)
    assert calls() - before == info.num_gradients == 4


def test_bad_input():
    with pytest.raises(ValueError, match="field must be antisymmetric"):
        magnetic("skewed", field=np.eye(2))
    with pytest.raises(ValueError, match="step_size must be positive, got 0"):
        magnetic("skewed", step_size=0.0)
    kernel = magnetic("skewed", inverse_mass_matrix=1.0)
    with pytest.raises(ValueError, match="plane of the first two coordinates, got a position of 1 number"):
        MODULE.magnetic_hmc(jnp.sum, step_size=0.1, num_integration_steps=1, field=1.0).init(jnp.zeros(1))
    matrix = MODULE.magnetic_hmc(jnp.sum, step_size=0.1, num_integration_steps=1, field=np.zeros((2, 2)))
    with pytest.raises(ValueError, match=r"a scalar or a 3 × 3 matrix for a position of 3 numbers, got shape \(2, 2\)"):
        matrix.init(jnp.zeros(3))
    assert kernel.init(jnp.zeros(2)).field_sign == 0
