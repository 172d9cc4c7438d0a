"""Langevin HMC leaves its targets invariant; without the heat, or with another noise, it does not."""

import importlib
from typing import Any

import chex
import jax.numpy as jnp
import numpy as np
import pytest
from cases import DENSE, KEY, TARGETS, assert_acceptance, every_dtype, every_target, retraced
from counting import counted
from invariance import assert_invariant, assert_not_invariant, check_invariance, check_mixing

import vhmc_jax as vj
from vhmc_jax.dynamics import langevin

LHMC_MODULE = importlib.import_module("vhmc_jax.kernels.lhmc")
STEP_SIZES = {"gaussian": 0.13, "skewed": 0.75, "mixture": 0.5}


def lhmc(name, **settings):
    defaults = {"num_integration_steps": 3, "friction": 0.8, "inverse_mass_matrix": DENSE}
    return vj.lhmc(TARGETS[name].logdensity, step_size=STEP_SIZES[name], **defaults | settings)


@pytest.mark.statistical
@every_target
@every_dtype
def test_invariant_with_dense_mass(name, dtype):
    report = check_invariance(lhmc(name), TARGETS[name], KEY, dtype=dtype)
    assert_acceptance(report)
    assert_invariant(report)


@pytest.mark.statistical
def test_invariant_with_random_length_and_little_friction():
    report = check_invariance(lhmc("skewed", num_integration_steps=(1, 5), friction=0.05), TARGETS["skewed"], KEY)
    assert_acceptance(report)
    assert_invariant(report)


@pytest.mark.statistical
def test_invariant_with_random_step_sizes():
    kernel = vj.lhmc(TARGETS["skewed"].logdensity, step_size=(0.3, 1.5), num_integration_steps=(1, 5), friction=0.8)
    report = check_invariance(kernel, TARGETS["skewed"], KEY)
    assert_acceptance(report)
    assert_invariant(report)


@pytest.mark.statistical
def test_step_sizes_that_look_at_the_position_are_not_invariant(monkeypatch):
    """The law of the step size must not depend on where the chain is."""

    def shorter_on_the_right(settings, friction, rng_key, state):
        share = jnp.where(state.position[0] > 0.5, 0.5, 1.0)
        return honest(settings._replace(step_size=settings.step_size * share), friction, rng_key, state)

    honest = LHMC_MODULE.propose
    monkeypatch.setattr(LHMC_MODULE, "propose", shorter_on_the_right)
    assert_not_invariant(check_invariance(retraced(lhmc("skewed")), TARGETS["skewed"], KEY))


@pytest.mark.statistical
def test_mixes_from_a_bad_start():
    report = check_mixing(lhmc("skewed"), TARGETS["skewed"], [-6.0, 5.0], KEY, num_steps=60)
    assert_invariant(report)


@pytest.mark.statistical
@every_target
def test_without_the_heat_it_is_not_invariant(monkeypatch, name):
    def heatless(*arguments):
        end, momentum, heat = langevin.dlhmc(*arguments)
        return end, momentum, 0 * heat

    monkeypatch.setattr(LHMC_MODULE, "dlhmc", heatless)
    report = check_invariance(retraced(lhmc(name)), TARGETS[name], KEY)
    assert_not_invariant(report)


@pytest.mark.statistical
@every_target
def test_with_a_wrong_noise_scale_it_is_not_invariant(monkeypatch, name):
    """a₂ = 1 − a₁, with the heat that belongs to it."""

    def wrong(noise, momentum, kinetic, friction, step_size):
        a1 = jnp.exp(-friction * step_size)
        refreshed = a1 * momentum + (1 - a1) * noise
        return refreshed, kinetic.energy(refreshed) - kinetic.energy(momentum)

    monkeypatch.setattr(langevin, "thermostat", wrong)
    report = check_invariance(retraced(lhmc(name)), TARGETS[name], KEY)
    assert_not_invariant(report)


@pytest.mark.parametrize("num_steps", [1, 4])
def test_gradients_of_a_step_are_counted(num_steps):
    calls, logdensity_fn = counted(TARGETS["skewed"].logdensity)
    kernel = vj.lhmc(logdensity_fn, step_size=0.2, num_integration_steps=num_steps)
    state = kernel.init(jnp.zeros(2))
    before = calls()
    _, info = kernel.step(KEY, state)
    assert calls() - before == info.num_gradients == num_steps + 2
    assert info.num_densities == 0


def test_without_friction_it_is_hmc_of_two_more_steps():
    """The same momentum gives the same proposal."""
    settings = {"step_size": 0.75, "inverse_mass_matrix": DENSE}
    langevin_kernel = lhmc("skewed", friction=0.0)
    kernel = vj.hmc(TARGETS["skewed"].logdensity, num_integration_steps=5, **settings)
    state = kernel.init(jnp.array([0.3, -0.7]))
    steps: list[Any] = [langevin_kernel.step, kernel.step]
    proposals = [step.propose(KEY, state) for step in steps]
    chex.assert_trees_all_close(*proposals, rtol=1e-9)
    assert np.linalg.norm(proposals[0].state.position - state.position) > 0.1


@pytest.mark.parametrize(
    ("friction", "message"),
    [
        (-0.1, "friction must not be negative, got -0.1"),
        (jnp.nan, "friction must be finite, got nan"),
        ([0.5, 0.5], r"friction must be a scalar, got shape \(2,\)"),
    ],
)
@pytest.mark.parametrize("factory", [vj.lhmc, vj.lhmc_et])
def test_bad_friction(factory, friction, message):
    with pytest.raises(ValueError, match=message):
        factory(TARGETS["skewed"].logdensity, step_size=0.1, num_integration_steps=3, friction=friction)
