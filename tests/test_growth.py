"""How a guide grows: along a valley, and by division; and where it does not."""

import jax
import jax.numpy as jnp
import numpy as np
from test_attempt import RIGHT, components, fitting_of, pair

from vhmc_jax.fit.components import Components
from vhmc_jax.fit.growth import divided, grown


def valley(x):
    """Rosenbrock's: x₀ ~ N(0, 4), and x₁ | x₀ ~ N(x₀², 0.1)."""
    return -0.5 * (x[0] / 2) ** 2 - 5 * (x[1] - x[0] ** 2) ** 2


def test_a_guide_grows_along_the_ends_of_a_valley():
    fitting = fitting_of(valley, num_modes=1)
    along = np.linspace(-3, 3, 7)
    scales = np.stack([0.5 * np.array([[1.0, 0.0], [2 * a, 0.7]]) for a in along])
    short = Components(np.stack([along, along**2], axis=1), scales, np.zeros(7, int))
    first = fitting.assess(fitting.draw(short))
    longer = grown(fitting, first)
    rng = np.random.default_rng(0)
    x0 = 2 * rng.normal(size=4000)
    exact = np.stack([x0, x0**2 + np.sqrt(0.1) * rng.normal(size=4000)], axis=1)
    log_z = np.log(2 * np.pi) + np.log(2 * np.sqrt(0.1))

    def uncovered(attempt):
        ratios = jax.vmap(valley)(exact) - attempt.guide.on_host().at(exact).log_prob - log_z
        return np.mean(np.asarray(ratios) > np.log(5))

    assert uncovered(first) > 0.02
    assert uncovered(longer) < 0.2 * uncovered(first)
    assert first.pool.num_densities < longer.pool.num_densities
    assert len(longer.pool.points) == longer.pool.num_densities, "no draw is thrown away"
    np.testing.assert_array_equal(longer.pool.points[: len(first.pool.points)], first.pool.points)


def test_one_component_across_two_modes_is_divided():
    fitting = fitting_of(pair, num_modes=1)
    across = Components(np.zeros((1, 2)), np.array([[[4.0, 0.0], [-3.9, 1.0]]]), np.zeros(1, int))
    first = fitting.assess(fitting.draw(across))
    two = divided(fitting, first, 0.9, 8)
    assert first.score < 0.4
    assert two.score > 0.85
    assert two.pool.num_densities > first.pool.num_densities
    assert divided(fitting, first, 0.9, max_components=1) is first


def test_a_component_that_fits_is_not_divided():
    def one(x):
        return -0.5 * jnp.sum(x**2)

    fitting = fitting_of(one, num_modes=1)
    attempt = fitting.assess(fitting.draw(components(np.zeros((1, 2)), [1.0])))
    assert divided(fitting, attempt, 0.9, 8) is attempt
    unwanted = divided(fitting, attempt, 1.1, 8)
    assert unwanted.guide is attempt.guide, "two do no better than one"
    assert unwanted.pool.num_densities > attempt.pool.num_densities, "and what was tried is counted"


def test_a_guide_that_covers_everything_does_not_grow():
    fitting = fitting_of(pair)
    attempt = fitting.assess(fitting.draw(RIGHT))
    assert grown(fitting, attempt) is attempt
