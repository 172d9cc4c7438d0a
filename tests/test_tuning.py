"""Step size, length and mass by trying: what is chosen, that nothing is compiled twice, and bad input."""

import functools
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from counting import compiled_during
from invariance import assert_invariant, assert_not_invariant, check_invariance

import vhmc_jax as vj
from vhmc_jax.runner.lengths import Stage, best_of, efficiencies_of, interval_of

SCALES = jnp.array([1.0, 30.0])


def stretched(x):
    return -0.5 * jnp.sum((x / SCALES) ** 2)


def kernel(logdensity, step_size, num_integration_steps, inverse_mass_matrix):
    return vj.hmc(
        logdensity,
        step_size=step_size,
        num_integration_steps=num_integration_steps,
        inverse_mass_matrix=inverse_mass_matrix,
    )


STRETCHED = jax.tree_util.Partial(kernel, jax.tree_util.Partial(stretched))
STARTS = SCALES * jax.random.normal(jax.random.key(1), (32, 2))
tune = functools.partial(vj.tune, jax.random.key(0), STRETCHED, STARTS)


def test_long_trajectories_where_one_direction_is_long():
    tuned = tune(inverse_mass_matrix=1.0, target_acceptance=0.9)
    assert np.mean(tuned.num_integration_steps) >= 16, "a quarter of the long direction's period is 47 / ε steps"
    efficiencies = [trial.efficiency for trial in tuned.trials]
    assert max(efficiencies) > 3 * efficiencies[0], "in proportion to the length while the motion is straight"
    assert tuned.acceptance_rate == pytest.approx(0.9, abs=0.06)
    assert tuned.inverse_mass_matrix == 1.0


def test_short_ones_where_the_mass_fits():
    tuned = tune()
    assert np.mean(tuned.num_integration_steps) <= 4
    np.testing.assert_allclose(np.sqrt(np.diag(tuned.inverse_mass_matrix)), SCALES, rtol=0.3)


def test_another_key_and_other_numbers_compile_nothing():
    numbers = {"inverse_mass_matrix": 1.0, "lengths": (2, 4)}
    tune(**numbers)
    key, starts = jax.random.key(7), STARTS + 1.0
    again = functools.partial(vj.tune, target_acceptance=0.7, inverse_mass_matrix=2.0, lengths=(3, 7))
    _, num_programs = compiled_during(again, key, STRETCHED, starts)
    assert num_programs == 0


def test_a_move_is_compared_with_the_variance_within_its_mode():
    """Without labels the distance between modes hides that short moves suffice within them."""
    rng = np.random.default_rng(0)
    path = rng.normal(size=(40, 32, 1)) + np.where(np.arange(32) < 16, -50.0, 50.0)[:, None]
    stage = Stage(None, path, rng.normal(size=(40, 32)), np.ones(()), np.ones(()), np.asarray(39 * 32))
    one_mode, two_modes = (efficiencies_of([stage], labels)[0] for labels in (np.zeros(32), np.arange(32) // 16))
    assert two_modes == pytest.approx(1.0, rel=0.2), "independent draws for a gradient each"
    assert one_mode < 0.1 * two_modes


def test_a_longer_one_has_to_be_better_by_enough():
    assert best_of(np.array([1.0, 1.05, 1.08])) == 0
    assert best_of(np.array([1.0, 1.5, 1.6, 0.2])) == 1


@pytest.mark.parametrize("length", [1, 2, 5, 64])
def test_lengths_are_jittered_around_their_mean(length):
    low, high = interval_of(length)
    assert 1 <= low <= length < high
    assert (low + high) / 2 == pytest.approx(length, abs=0.5)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"lengths": ()}, "lengths must be one or more rising numbers"),
        ({"lengths": (4, 2)}, "lengths must be one or more rising numbers"),
        ({"lengths": (0, 2)}, "lengths must be at least 1"),
        ({"labels": [0, 1]}, r"labels must have the shape \(32,\)"),
        ({"target_acceptance": 1.5}, "target_acceptance must be at most 1"),
        ({"num_iterations": 1}, "num_iterations must be at least 4"),
    ],
)
def test_bad_settings_are_named(settings, message):
    with pytest.raises(ValueError, match=message):
        tune(**settings)


def test_one_chain_is_too_few():
    with pytest.raises(ValueError, match="initial_positions must hold at least 2 chains"):
        vj.tune(jax.random.key(0), STRETCHED, STARTS[:1])


class Moving(NamedTuple):
    """A state of HMC with a step size that goes on adapting."""

    position: Any
    state: Any
    log_step_size: Any


def moving_hmc(logdensity, gain):
    """HMC whose step size follows its own acceptance while draws are made; with a gain of zero it is frozen."""

    def hmc(log_step_size):
        return vj.hmc(logdensity, step_size=jnp.exp(log_step_size), num_integration_steps=(1, 3))

    def init(position, rng_key=None):
        log_step_size = jnp.zeros((), position.dtype)
        return Moving(position, hmc(log_step_size).init(position), log_step_size)

    def step(rng_key, moving):
        state, info = hmc(moving.log_step_size).step(rng_key, moving.state)
        return Moving(state.position, state, moving.log_step_size + gain * (info.acceptance_rate - 0.8)), info

    return vj.Kernel(jax.tree_util.Partial(init), jax.tree_util.Partial(step))


@pytest.mark.statistical
@pytest.mark.parametrize(("gain", "check"), [(0.0, assert_invariant), (2.0, assert_not_invariant)])
def test_a_tuned_parameter_that_moves_during_production_is_not_invariant(gain, check):
    """Why tuning ends before production: the step size would remember where the chain has been."""
    target = vj.targets.skewed()
    report = check_invariance(moving_hmc(target.logdensity, gain), target, jax.random.key(5))
    check(report)
    assert 0.7 < report.info_means.acceptance_rate < 0.9, report
