"""Discovery: peaks by climbing, mass by a population, and what is said where one of them fails."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import vhmc_jax as vj
from vhmc_jax.pipeline.discover import (
    NUM_AUDITORS,
    NUM_PARTICLES,
    as_population,
    discover,
    larger_population,
    rediscover,
)
from vhmc_jax.pipeline.phase import Cost
from vhmc_jax.pipeline.produce import Produced
from vhmc_jax.search.modes import mode_of_mass
from vhmc_jax.search.population import Population

pytestmark = pytest.mark.slow
KEY = jax.random.key(0)
PAIR = vj.targets.far_pair(0.7)
BUDGET = 2_000_000


def cube(dim, low, high):
    return vj.box(jnp.full(dim, low), jnp.full(dim, high))


def found_by(density, region, num_starts=None, max_evaluations=BUDGET):
    return discover(KEY, density, region, num_starts, max_evaluations, False)


def funnel(x):
    """Neal's: the log variance of all others, then these."""
    return -0.5 * x[0] ** 2 / 9.0 - 0.5 * jnp.exp(-x[0]) * jnp.sum(x[1:] ** 2) - 0.5 * (len(x) - 1) * x[0]


def spike(x):
    """exp(-r) / r on the plane: proper, and without bound at the origin."""
    radius = jnp.sqrt(jnp.sum(x**2))
    return -jnp.log(radius) - radius


@pytest.fixture(scope="module")
def pair():
    return found_by(PAIR.logdensity, cube(2, -10.0, 10.0))


def test_peaks_and_mass_are_found(pair):
    assert pair.has_peaks
    assert pair.notes == ()
    order = np.argsort(pair.modes.positions[:, 0])
    np.testing.assert_allclose(pair.modes.positions[order], PAIR.means[np.argsort(PAIR.means[:, 0])], atol=1e-3)
    assert pair.audit.has_arrived
    assert len(pair.audit.flat) == NUM_AUDITORS
    assert abs(pair.audit.log_evidence) < 5 * pair.audit.log_evidence_error


def test_particles_climb_too(pair):
    assert pair.modes.num_starts >= 512 + NUM_AUDITORS
    alone = found_by(PAIR.logdensity, cube(2, -10.0, 10.0), num_starts=16)
    assert alone.modes.num_starts == 16 + NUM_AUDITORS
    assert len(alone.modes.logdensities) == 2


def test_evaluations_are_those_of_climbing_and_of_the_population(pair):
    assert pair.cost.num_gradients == pair.modes.num_gradients + pair.audit.num_gradients
    assert pair.cost.num_densities == pair.modes.num_densities


def test_a_larger_population_is_another_one(pair):
    more = larger_population(pair, PAIR.logdensity, cube(2, -10.0, 10.0))()
    assert len(more.flat) == NUM_PARTICLES
    assert more.has_arrived
    again = larger_population(pair, PAIR.logdensity, cube(2, -10.0, 10.0))()
    np.testing.assert_array_equal(more.flat, again.flat)
    assert not np.isin(pair.audit.flat, more.flat).any()


def test_a_density_without_a_peak_gets_one_mode_for_its_mass():
    found = found_by(spike, cube(2, -10.0, 10.0))
    assert not found.has_peaks
    assert found.modes.failures.unconverged == found.modes.num_starts
    assert len(found.modes.logdensities) == 1
    best = np.argmax(found.audit.logdensities)
    np.testing.assert_array_equal(found.modes.positions[0], found.audit.flat[best])
    assert float(found.modes.logdensities[0]) == pytest.approx(float(spike(found.modes.positions[0])), rel=1e-10)
    np.testing.assert_allclose(found.modes.covariances[0], np.cov(found.audit.flat.T, bias=True), rtol=1e-6)
    with pytest.raises(ValueError, match="no mode found"):
        vj.find_modes(KEY, spike, cube(2, -10.0, 10.0), num_starts=64)


def test_a_funnel_has_its_peak_in_the_neck_and_its_mass_elsewhere():
    found = found_by(funnel, cube(3, -10.0, 10.0))
    assert found.has_peaks
    np.testing.assert_allclose(found.modes.positions, [[-9.0, 0.0, 0.0]], atol=1e-3)
    assert found.audit.has_arrived
    assert np.mean(found.audit.flat[:, 0] > -6.0) > 0.8, "of the true mass, 0.98"


def beyond(edge):
    return lambda x: jnp.where(x[0] > edge, -0.5 * jnp.sum((x - edge - 1.0) ** 2), -jnp.inf)


def test_a_region_that_misses_the_target_is_an_error():
    with pytest.raises(ValueError, match="no mode found: of 64 starts 64 began where the density is zero"):
        found_by(beyond(100.0), cube(2, -3.0, 3.0), num_starts=64)


def test_a_region_that_hardly_meets_the_target_is_noted():
    """Three starts inside are enough for climbing, and too few for a population."""
    starts = jnp.concatenate([jnp.full((61, 2), -50.0), jnp.array([[100.5, 101.0], [101.0, 100.0], [101.5, 102.0]])])
    found = found_by(beyond(100.0), starts + 0.01 * jax.random.normal(KEY, (64, 2)))
    assert found.has_peaks
    np.testing.assert_allclose(found.modes.positions, [[101.0, 101.0]], atol=1e-3)
    assert found.audit is None
    assert larger_population(found, beyond(100.0), starts) is None
    assert found.notes[0].startswith("No second opinion on where the mass is: the density is zero or not a number")


def test_starts_in_one_place_are_noted():
    starts = PAIR.means[0] + 0.3 * jax.random.normal(KEY, (32, 2))
    found = found_by(PAIR.logdensity, starts)
    assert any("Give a region that covers more" in note for note in found.notes)
    wide = found_by(PAIR.logdensity, jnp.concatenate([starts, -starts]))
    assert wide.notes == ()


@pytest.mark.parametrize("max_evaluations", [4_000, 40_000])
def test_the_most_evaluations_are_about_obeyed(max_evaluations):
    """A shell in ten dimensions with many bumps: the search would go on for long."""

    def bumpy(x):
        return -0.5 * jnp.sum(x**2) / 100.0 + 4.0 * jnp.sum(jnp.cos(3.0 * x))

    found = found_by(bumpy, cube(10, -20.0, 20.0), max_evaluations=max_evaluations)
    block = 512 * 60 + NUM_AUDITORS * 14  # the block of starts and the stage that were under way
    assert found.cost.num_gradients < max_evaluations + 2 * block
    assert found.audit.num_gradients < max_evaluations // 4 + NUM_AUDITORS * 14


def test_a_population_that_ran_out_of_evaluations_has_not_arrived():
    short = found_by(PAIR.logdensity, cube(2, -10.0, 10.0), num_starts=16, max_evaluations=4_000)
    assert not short.audit.has_arrived
    assert len(short.modes.logdensities) == 2


def produced_at(x):
    """Draws (chain, draw, d) of the pair, as chains would have left them."""
    return Produced(x, None, np.asarray(jax.vmap(jax.vmap(PAIR.logdensity))(x)), None, 0, Cost(0, 0))


def test_draws_of_chains_are_a_population_with_their_log_densities():
    found = as_population(KEY, produced_at(np.asarray(PAIR.sample(KEY, 60)).reshape(4, 15, 2)))
    assert found.positions.shape == (60, 2)
    np.testing.assert_allclose(found.logdensities, jax.vmap(PAIR.logdensity)(found.positions), rtol=1e-12)
    assert not found.has_arrived
    assert np.isnan(found.log_evidence)


def test_a_mode_that_chains_alone_saw_is_found_in_the_second_round():
    starts = PAIR.means[0] + 0.3 * jax.random.normal(KEY, (32, 2))
    first = found_by(PAIR.logdensity, starts)
    assert len(first.modes.logdensities) == 1
    produced = produced_at(np.asarray(PAIR.sample(KEY, 60)).reshape(4, 15, 2))
    second = rediscover(KEY, PAIR.logdensity, starts, None, BUDGET, False, first, produced)
    assert len(second.modes.logdensities) == 2
    assert larger_population(second, PAIR.logdensity, starts)().flat.shape == (60, 2)
    lost = produced_at(np.asarray(PAIR.means[0] + 0.1 * jax.random.normal(KEY, (4, 15, 2))))
    again = rediscover(KEY, PAIR.logdensity, starts, None, BUDGET, False, first, lost)
    assert len(again.modes.logdensities) == 1


def test_a_density_that_never_falls_is_named():
    for far in ([[1e25, 0.0], [-1e25, 1.0], [0.0, 2.0]], [[1e25, 0.0]] * 3):
        ran_off = Population(
            **dict.fromkeys(Population._fields) | {"positions": np.float32(far), "logdensities": np.zeros(3)}
        )
        with pytest.raises(ValueError, match="improper: particles ran off to 1e\\+25"):
            mode_of_mass(ran_off, None)
