"""Components for mass without a peak: many for a ring, one for a Gaussian, each with its mode."""

import jax
import numpy as np
import pytest

from vhmc_jax.fit.mass import MOST_COMPONENTS, components_of_mass, modes_at
from vhmc_jax.guide import GaussianMixture
from vhmc_jax.search.modes import Failures, Modes
from vhmc_jax.search.population import Population

KEY = jax.random.key(0)
NUM = 1000


def population_at(x):
    return Population(**dict.fromkeys(Population._fields) | {"positions": x})


def modes_of(positions, covariances, logdensities):
    positions = np.asarray(positions)
    counts = np.ones(len(positions), np.int32)
    return Modes(positions, np.asarray(logdensities), np.asarray(covariances), counts, 9, 0, Failures(), 0.0, 0, 0)


ONE = modes_of(np.zeros((1, 2)), np.eye(2)[None], [0.0])


def ring(seed, num=NUM):
    generator = np.random.default_rng(seed)
    angles, radii = generator.uniform(0, 2 * np.pi, num), 10.0 + 0.5 * generator.normal(size=num)
    return radii[:, None] * np.stack([np.cos(angles), np.sin(angles)], axis=1)


def mean_log_prob(means, scale_trils, x):
    num = len(means)
    mixture = GaussianMixture(np.full(num, -np.log(num)), means, scale_trils)
    return np.mean(mixture.on_host().at(x).log_prob)


def test_a_ring_gets_many_components_along_it():
    found = components_of_mass(KEY, population_at(ring(0)), ONE.positions, ONE)
    assert 8 <= len(found.modes) <= MOST_COMPONENTS
    np.testing.assert_array_equal(found.modes, 0)
    radii = np.linalg.norm(found.means, axis=1)
    assert np.all((radii > 7.0) & (radii < 11.0))
    fresh = ring(1)
    one = np.linalg.cholesky(np.cov(fresh.T))[None]
    gain = mean_log_prob(found.means, found.scale_trils, fresh) - mean_log_prob(np.zeros((1, 2)), one, fresh)
    assert gain > 0.8


def test_a_gaussian_gets_one_component():
    factor = np.array([[2.0, 0.0], [1.0, 0.5]])
    x = np.array([5.0, -3.0]) + np.random.default_rng(2).normal(size=(NUM, 2)) @ factor.T
    found = components_of_mass(KEY, population_at(x), ONE.positions, ONE)
    assert len(found.modes) == 1
    np.testing.assert_allclose(found.means[0], x.mean(axis=0))
    np.testing.assert_allclose(found.scale_trils[0] @ found.scale_trils[0].T, np.cov(x.T), rtol=0.02)


def test_few_particles_for_the_dimension_get_few_components():
    generator = np.random.default_rng(3)
    x = np.where(generator.uniform(size=(40, 1)) < 0.5, -20.0, 20.0) + generator.normal(size=(40, 10))
    none = modes_of(np.zeros((1, 10)), np.eye(10)[None], [0.0])
    assert len(components_of_mass(KEY, population_at(x), none.positions, none).modes) == 1
    many = np.repeat(x, 20, axis=0) + generator.normal(size=(800, 10))
    generator.shuffle(many)
    assert len(components_of_mass(KEY, population_at(many), none.positions, none).modes) > 1


@pytest.mark.parametrize("x", [np.full((NUM, 2), 3.0), np.linspace(-1.0, 1.0, NUM)[:, None] * np.ones(2)])
def test_particles_that_are_alike_or_on_a_line_are_not_singular(x):
    found = components_of_mass(KEY, population_at(x), ONE.positions, ONE)
    assert all(np.all(np.isfinite(part)) for part in found)
    assert np.all(np.diagonal(found.scale_trils, axis1=1, axis2=2) > 0)


def test_components_belong_to_the_modes_in_whose_reach_they_lie():
    generator = np.random.default_rng(4)
    is_first = generator.uniform(size=(NUM, 1)) < 0.5
    x = np.where(is_first, -10.0, 10.0) + generator.normal(size=(NUM, 2))
    pair = modes_of([[10.0, 10.0], [-10.0, -10.0]], np.broadcast_to(np.eye(2), (2, 2, 2)), [0.0, 0.0])
    found = components_of_mass(KEY, population_at(x), pair.positions, pair)
    assert set(found.modes.tolist()) == {0, 1}
    np.testing.assert_array_equal(found.modes, np.where(found.means[:, 0] > 0, 0, 1))


def test_a_point_belongs_to_the_mode_that_is_highest_there():
    wide = modes_of([[0.0], [6.0]], [[[1.0]], [[100.0]]], [0.0, -4.0])
    points = np.array([[0.0], [2.0], [-10.0], [6.0]])
    np.testing.assert_array_equal(modes_at(points, wide.positions, wide), [0, 0, 1, 1])
    np.testing.assert_array_equal(np.argmin(np.abs(points - wide.positions.T), axis=1), [0, 0, 0, 1])
    # Heights count: a mode that is nowhere highest owns nothing.
    low = wide._replace(logdensities=np.array([0.0, -1e4]))
    np.testing.assert_array_equal(modes_at(points, low.positions, low), 0)
