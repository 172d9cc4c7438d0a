"""Equipotential transformations, alone and within Langevin HMC, leave their targets invariant.

Broken copies fail: without the Jacobian, without the check of the way back, with an unfair coin.
"""

import importlib
import types

import jax.numpy as jnp
import pytest
from cases import DENSE, KEY, TARGETS, assert_acceptance, every_dtype, every_target, retraced
from invariance import assert_invariant, assert_not_invariant, check_invariance, check_mixing

import vhmc_jax as vj
from vhmc_jax import random, targets
from vhmc_jax.dynamics import equipotential as dynamics

LHMC_ET_MODULE = importlib.import_module("vhmc_jax.kernels.lhmc_et")
STEP_SIZES = {"gaussian": 0.13, "skewed": 0.75, "mixture": 0.5}
NUM_TRANSFORMATIONS = {"gaussian": 2, "skewed": 3, "mixture": 4}
# One line through three modes: the other end of a chord is not the only point of its energy.
LINE = targets.GaussianMixtureTarget([0.3, 0.4, 0.3], [[-3.0], [0.0], [3.5]], [0.6, 1.0, 0.8])


def et(name, **settings):
    settings = {"num_transformations": NUM_TRANSFORMATIONS[name]} | settings
    return vj.equipotential(TARGETS[name].logdensity, **settings)


def lhmc_et(name, **settings):
    settings = {"step_size": STEP_SIZES[name], "num_integration_steps": 3, "friction": 0.8} | settings
    return vj.lhmc_et(
        TARGETS[name].logdensity, inverse_mass_matrix=DENSE, num_transformations=2, direction_metric=DENSE, **settings
    )


pytestmark = pytest.mark.statistical


@every_target
@every_dtype
def test_equipotential_is_invariant(name, dtype):
    report = check_invariance(et(name), TARGETS[name], KEY, dtype=dtype)
    if name != "gaussian":
        assert_acceptance(report)
    assert report.info_means.num_transformed > 0.85 * NUM_TRANSFORMATIONS[name]
    assert_invariant(report)


@every_target
@every_dtype
def test_lhmc_et_is_invariant(name, dtype):
    report = check_invariance(lhmc_et(name), TARGETS[name], KEY, dtype=dtype)
    assert_acceptance(report)
    assert_invariant(report)


def test_lhmc_et_mixes_from_a_bad_start():
    report = check_mixing(lhmc_et("skewed"), TARGETS["skewed"], [-6.0, 5.0], KEY, num_steps=60)
    assert_invariant(report)


@pytest.mark.parametrize("factory", [et, lhmc_et])
def test_without_the_jacobian_it_is_not_invariant(monkeypatch, factory):
    def without_jacobian(*arguments, transform=dynamics.transform):
        return transform(*arguments)._replace(log_jacobian=jnp.zeros_like(arguments[3]))

    monkeypatch.setattr(dynamics, "transform", without_jacobian)
    report = check_invariance(retraced(factory("skewed")), TARGETS["skewed"], KEY)
    assert_not_invariant(report)


def on_line():
    return vj.equipotential(LINE.logdensity)


@every_dtype
def test_invariant_on_a_line_with_three_modes(dtype):
    report = check_invariance(on_line(), LINE, KEY, dtype=dtype)
    assert report.info_means.num_transformed < 0.9, "every chord leads back: the check is not put to the test"
    assert_invariant(report)


def test_without_the_check_of_the_way_back_it_is_not_invariant(monkeypatch):
    def believe(solver, along_line, is_root, origin, energy, slope, s0, known):
        return dynamics.Root(known.s, known.energy, known.slope, jnp.bool_(True), jnp.int32(0))

    monkeypatch.setattr(dynamics, "_solve_back", believe)
    report = check_invariance(retraced(on_line()), LINE, KEY)
    assert_not_invariant(report)


@pytest.mark.parametrize("name", ["skewed", "mixture"])
def test_with_an_unfair_coin_it_is_not_invariant(monkeypatch, name):
    """Transformations first with probability 0.8."""

    def unfair(rng_key):
        return random.uniform(rng_key) * (0.5 / 0.8)

    monkeypatch.setattr(LHMC_ET_MODULE, "random", types.SimpleNamespace(split=random.split, uniform=unfair))
    report = check_invariance(retraced(lhmc_et(name)), TARGETS[name], KEY)
    assert_not_invariant(report)
