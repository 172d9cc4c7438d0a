"""Every kernel leaves its target invariant, and deliberately broken copies of it fail the same assertion.

Settings are chosen for an acceptance of 0.7 to 0.9: near 1 a mistake in the accept step would not show.
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from invariance import assert_invariant, assert_not_invariant, check_invariance, check_mixing
from jax.tree_util import Partial

import vhmc_jax as vj
from vhmc_jax import targets
from vhmc_jax.arguments import cast
from vhmc_jax.base import Kernel
from vhmc_jax.density import flatten
from vhmc_jax.dynamics.leapfrog import kick, leapfrog
from vhmc_jax.metropolis import MetropolisStep, Proposal, accept, log_acceptance, metropolis_info
from vhmc_jax.moves.trajectory import init, trajectory

pytestmark = pytest.mark.statistical

GAUSSIAN = targets.correlated_gaussian()
SKEWED = targets.skewed()
# Two modes near enough that trajectories cross between them, of unequal weight, shape and direction.
MIXTURE = targets.GaussianMixtureTarget(
    [0.7, 0.3], [[-1.5, 0.0], [1.5, 1.0]], [[[1.0, 0.0], [0.5, 0.8]], [[0.6, 0.0], [-0.3, 0.9]]]
)
TARGETS: dict[str, Any] = {"gaussian": GAUSSIAN, "skewed": SKEWED, "mixture": MIXTURE}
SETTINGS: dict[str, Any] = {
    "gaussian": {"step_size": 0.15, "num_integration_steps": 5},
    "skewed": {"step_size": 1.0, "num_integration_steps": 3},
    "mixture": {"step_size": 0.95, "num_integration_steps": 3},
}
KEY = jax.random.key(2019)
every_target = pytest.mark.parametrize("name", TARGETS)
every_dtype = pytest.mark.parametrize("dtype", [jnp.float32, jnp.float64])


def hmc(name, **settings):
    return vj.hmc(TARGETS[name].logdensity, **SETTINGS[name] | settings)


def assert_acceptance(report):
    assert 0.7 < report.info_means.acceptance_rate < 0.9, f"choose another step size: {report}"


@every_target
@every_dtype
def test_hmc(name, dtype):
    report = check_invariance(hmc(name), TARGETS[name], KEY, dtype=dtype)
    assert_acceptance(report)
    assert_invariant(report)


@pytest.mark.parametrize("inverse_mass", [[1.3, 0.6], [[1.3, -0.4], [-0.4, 0.6]]], ids=["vector", "matrix"])
def test_hmc_with_a_mass_and_a_random_length(inverse_mass):
    kernel = hmc("skewed", step_size=0.85, num_integration_steps=(1, 4), inverse_mass_matrix=np.array(inverse_mass))
    report = check_invariance(kernel, SKEWED, KEY)
    assert_acceptance(report)
    assert_invariant(report)


# Broken copies. ``propose`` below is HMC's, with one place left open for each mistake.


def propose(settings, rng_key, state, **mistake):
    density, start = flatten(settings.logdensity_fn, state)
    dtype = start.position.dtype
    step_size, kinetic, mistake = cast((settings.step_size, settings.kinetic, mistake), dtype)
    (momentum,) = kinetic.draw(rng_key, like=start.position)
    num_steps = settings.step_count.low
    end, end_momentum = leapfrog(density, kinetic, step_size, num_steps, start, momentum)
    end_momentum = kick(end_momentum, end.logdensity_grad, mistake["last_kick"] * step_size)
    energy = mistake["kinetic_share"] * kinetic.energy(momentum) - start.logdensity
    end_energy = mistake["kinetic_share"] * kinetic.energy(end_momentum) - end.logdensity
    log_alpha, is_divergent = log_acceptance(mistake["energy_share"] * energy, mistake["energy_share"] * end_energy)
    return Proposal(density.unflatten(end), log_alpha, metropolis_info(log_alpha, is_divergent, num_steps))


def hmc_with(name, **mistake):
    """HMC with a mistake in its proposal; with none it is HMC. One program for all: mistakes are numbers."""
    mistake = {"last_kick": 0.0, "kinetic_share": 1.0, "energy_share": 1.0} | mistake
    settings = trajectory(TARGETS[name].logdensity, **SETTINGS[name], inverse_mass_matrix=1.0)
    return Kernel(Partial(init, settings), MetropolisStep(Partial(propose, settings, **mistake)))


@every_target
def test_copy_without_a_mistake_passes(name):
    assert_invariant(check_invariance(hmc_with(name), TARGETS[name], KEY))


@every_target
@pytest.mark.parametrize(
    "mistake",
    [{"kinetic_share": 0.0}, {"last_kick": 0.5}, {"energy_share": 0.5}],
    ids=["kinetic term dropped", "full last kick", "halved energy difference"],
)
def test_mistakes_are_seen(name, mistake):
    assert_not_invariant(check_invariance(hmc_with(name, **mistake), TARGETS[name], KEY))


@every_target
def test_coin_with_the_momentums_key_is_seen(name):
    sound = hmc_with(name)

    def step(rng_key, state):
        return accept(rng_key, state, sound.step.propose(rng_key, state))

    assert_not_invariant(check_invariance(Kernel(sound.init, Partial(step)), TARGETS[name], KEY))


class KeyedState(NamedTuple):
    """A state that remembers the key it was made with."""

    position: Any
    logdensity: Any
    logdensity_grad: Any
    rng_key: Any


@every_target
def test_same_key_at_every_step_is_seen(name):
    sound = hmc(name)

    def init_keyed(position, rng_key):
        return KeyedState(**sound.init(position)._asdict(), rng_key=rng_key)

    def step(rng_key, state):
        new_state, info = sound.step(state.rng_key, vj.State(*state[:3]))
        return KeyedState(**new_state._asdict(), rng_key=state.rng_key), info

    assert_not_invariant(check_invariance(Kernel(Partial(init_keyed), Partial(step)), TARGETS[name], KEY))


def test_hmc_mixes_from_a_bad_start():
    assert_invariant(check_mixing(hmc("skewed"), SKEWED, [-6.0, 5.0], KEY, num_steps=60))


def test_kernel_that_never_moves_is_seen():
    """It leaves every target invariant: only the start gives it away."""
    sound = hmc("skewed")

    def step(rng_key, state):
        _, info = sound.step(rng_key, state)
        return state, info

    still = Kernel(sound.init, Partial(step))
    assert_invariant(check_invariance(still, SKEWED, KEY))
    assert_not_invariant(check_mixing(still, SKEWED, [-6.0, 5.0], KEY, num_steps=60))
