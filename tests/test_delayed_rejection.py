"""Delayed rejection is exact for any two kernels; without the ghost, or with shared random numbers, it is not."""

import importlib
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from cases import KEY, PAIR, TARGETS, guide_of_a_pair, retraced
from counting import counted
from invariance import assert_invariant, assert_not_invariant, check_invariance, check_mixing

import vhmc_jax as vj

MODULE: Any = importlib.import_module("vhmc_jax.kernels.delayed_rejection")
STEP_SIZES = {"gaussian": (0.17, 0.06), "skewed": (1.0, 0.4), "mixture": (0.55, 0.25)}


def kernel(name, factory=vj.lhmc, logdensity_fn=None):
    logdensity_fn = TARGETS[name].logdensity if logdensity_fn is None else logdensity_fn
    lengths = (2, 4), 6
    return vj.delayed_rejection(
        *(
            factory(logdensity_fn, step_size=step_size, num_integration_steps=length)
            for step_size, length in zip(STEP_SIZES[name], lengths, strict=True)
        )
    )


@pytest.mark.statistical
@pytest.mark.parametrize(
    ("name", "factory", "dtype"),
    [
        ("gaussian", vj.lhmc, jnp.float32),
        ("skewed", vj.lhmc, jnp.float64),
        ("mixture", vj.lhmc, jnp.float32),
    ],
)
def test_invariant(name, factory, dtype):
    report = check_invariance(kernel(name, factory), TARGETS[name], KEY, dtype=dtype)
    assert_invariant(report)
    assert 0.6 < report.info_means.acceptance_rate < 0.9, report
    assert report.info_means.second_stage_accepted > 0.05, "the second stage is not put to the test"


@pytest.mark.statistical
def test_mixes_from_a_bad_start():
    report = check_mixing(kernel("skewed"), TARGETS["skewed"], [-6.0, 5.0], KEY, num_steps=40)
    assert_invariant(report)


@pytest.mark.statistical
def test_invariant_with_jumps():
    """The second stage of ``with_jumps`` is off: this kernel's own takes its place."""
    first, second = (vj.lhmc(PAIR.logdensity, step_size=e, num_integration_steps=3) for e in (1.3, 0.6))
    local = vj.delayed_rejection(first, second)
    both = vj.with_jumps(local, guide_of_a_pair(PAIR), jump_probability=0.2, log_envelope=0.0)
    report = check_invariance(both, PAIR, KEY)
    assert_invariant(report)
    assert report.info_means.is_second_stage == 0
    assert report.info_means.local.second_stage_accepted > 0.02


# Broken copies.


@pytest.mark.statistical
def test_without_the_ghost_it_is_not_invariant(monkeypatch):
    def no_ghost(propose, state, ghost=MODULE._ghost):
        *cost, log_acceptance = ghost(propose, state)
        return *cost, jnp.full_like(log_acceptance, -jnp.inf)

    monkeypatch.setattr(MODULE, "_ghost", no_ghost)
    assert_not_invariant(check_invariance(retraced(kernel("skewed")), TARGETS["skewed"], KEY))


@pytest.mark.statistical
def test_with_the_momentum_of_the_first_stage_it_is_not_invariant(monkeypatch):
    """The second proposal's random numbers must be its own: those of the first are known to have been rejected."""

    def shared(settings, key_first, key_second, *arguments, second_stage=MODULE._second_stage):
        return second_stage(settings, key_first, key_first, *arguments)

    monkeypatch.setattr(MODULE, "_second_stage", shared)
    assert_not_invariant(check_invariance(retraced(kernel("skewed", vj.hmc)), TARGETS["skewed"], KEY))


# What a step reports.


def test_evaluations_are_counted():
    """For one chain what is not needed is not evaluated, and what is evaluated is counted."""
    calls, logdensity_fn = counted(TARGETS["skewed"].logdensity)
    first, second = (vj.hmc(logdensity_fn, step_size=e, num_integration_steps=n) for e, n in ((1.6, 2), (0.9, 5)))
    both = vj.delayed_rejection(first, second)
    state, step = both.init(jnp.array([0.5, -0.5])), jax.jit(both.step)
    seen = set()
    for key in jax.random.split(KEY, 40):
        before = calls()
        state, info = step(key, state)
        assert calls() - before == info.num_gradients
        seen.add((bool(info.is_second_stage), int(info.num_gradients)))
    assert seen == {(False, 2), (True, 7), (True, 9)}, "no ghost where the second proposal is rejected by itself"


def test_info_is_consistent():
    both = kernel("mixture")
    states = jax.vmap(both.init)(TARGETS["mixture"].sample(KEY, 500))
    moved, infos = jax.jit(jax.vmap(both.step))(jax.random.split(KEY, 500), states)
    has_moved = np.any(moved.position != states.position, axis=1)
    np.testing.assert_array_equal(infos.is_accepted, has_moved)
    assert not np.any(infos.second_stage_accepted & ~infos.is_second_stage)
    values = jax.vmap(TARGETS["mixture"].logdensity)(moved.position)
    np.testing.assert_allclose(moved.logdensity, values, rtol=1e-10)


def test_bad_input():
    good = vj.hmc(TARGETS["skewed"].logdensity, step_size=1.0, num_integration_steps=2)
    magnetic = vj.magnetic_hmc(TARGETS["skewed"].logdensity, step_size=1.0, num_integration_steps=2, field=1.0)
    with pytest.raises(TypeError, match=r"second must be a kernel whose step exposes propose\(rng_key, state\)"):
        vj.delayed_rejection(good, magnetic)
    with pytest.raises(TypeError, match=r"first must be .* got a step of type NoneType"):
        vj.delayed_rejection(TARGETS["skewed"].logdensity, good)
    dense = vj.hmc(TARGETS["skewed"].logdensity, step_size=1.0, num_integration_steps=2, inverse_mass_matrix=np.eye(3))
    with pytest.raises(ValueError, match="inverse_mass_matrix must be"):
        vj.delayed_rejection(good, dense).init(jnp.zeros(2))
