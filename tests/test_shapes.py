"""Densities of other shapes than a few Gaussians, from end to end: right within errors, and trusted."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

import vhmc_jax as vj

pytestmark = [pytest.mark.slow, pytest.mark.statistical]
SETTINGS = {"num_chains": 32, "num_samples": 500, "progress": False}


def cube(dim, low, high):
    return vj.box(jnp.full(dim, low), jnp.full(dim, high))


def sampled(density, region, seed=0):
    """A result, and no warning: every one is an error here."""
    return vj.sample(jax.random.key(seed), density, region, **SETTINGS)


def worst_z(values, truths):
    """The largest |z| of the means of (chain, draw, quantity)."""
    return np.max(np.abs((np.mean(values, (0, 1)) - truths) / np.asarray(vj.diagnostics.mcse(values))))


def evidence_z(result, truth):
    return abs(result.log_evidence - truth) / result.log_evidence_error


def banana(x):
    return -0.5 * x[0] ** 2 - 0.5 * ((x[1] - x[0] ** 2) / 0.5) ** 2


def test_a_banana():
    result = sampled(banana, cube(2, -6.0, 10.0))
    assert result.is_trusted
    x = np.asarray(result.draws)
    white = np.stack([x[..., 0], (x[..., 1] - x[..., 0] ** 2) / 0.5], axis=-1)
    assert worst_z(white, [0.0, 0.0]) < 4
    assert worst_z(white**2, [1.0, 1.0]) < 4
    assert worst_z(x[..., 1:], [1.0]) < 4
    assert evidence_z(result, np.log(2 * np.pi * 0.5)) < 4
    assert worst_z(white**2, [1.1, 1.1]) > 4, "a variance that is off by a tenth would show"


def ring(x):
    return -0.5 * ((jnp.sqrt(jnp.sum(x**2)) - 10.0) / 0.5) ** 2


def test_a_ring():
    result = sampled(ring, cube(2, -15.0, 15.0))
    assert result.is_trusted
    assert len(result.modes.weights) == 1
    x = np.asarray(result.draws)
    assert worst_z(x, [0.0, 0.0]) < 4
    # The radius has density r N(r | 10, 1/4), so that E r² = (10³ + 3·10/4) / 10.
    squared = np.sum(x**2, axis=-1, keepdims=True)
    assert worst_z(squared, [100.75]) < 4
    assert worst_z(squared, [102.0]) > 4
    shares = [np.mean((x[..., 0] * a > 0) & (x[..., 1] * b > 0)) for a in (-1, 1) for b in (-1, 1)]
    np.testing.assert_allclose(shares, 0.25, atol=0.03)
    assert evidence_z(result, np.log(2 * np.pi * 10 * np.sqrt(2 * np.pi) * 0.5)) < 4


def broad(x):
    """½N(0, I) + ½N(0, 100 I)."""
    return jnp.logaddexp(-0.5 * x @ x, -0.5 * x @ x / 100 - 8 * jnp.log(10.0))


def test_a_broad_component_around_a_narrow_one():
    result = sampled(broad, cube(8, -30.0, 30.0))
    assert result.is_trusted
    x = np.asarray(result.draws)
    assert worst_z(x, np.zeros(8)) < 4
    assert worst_z(x**2, np.full(8, 50.5)) < 4
    is_broad = (np.sum(x**2, axis=-1, keepdims=True) > 60.0).astype(float)
    assert worst_z(is_broad, [0.5 * stats.chi2(8).sf(60.0) + 0.5 * stats.chi2(8).sf(0.6)]) < 4
    assert evidence_z(result, np.log(2.0) + 4 * np.log(2 * np.pi)) < 4
    assert np.mean(is_broad) == pytest.approx(0.5, abs=0.05)


def test_a_cauchy_density_by_its_quantiles():
    result = sampled(lambda x: -jnp.log1p(x[0] ** 2), cube(1, -20.0, 20.0))
    assert result.is_trusted
    for probability in (0.05, 0.25, 0.5, 0.75, 0.95, 0.99):
        is_below = (np.asarray(result.draws) < stats.cauchy.ppf(probability)).astype(float)
        assert worst_z(is_below, [probability]) < 4
    assert result.log_evidence == pytest.approx(np.log(np.pi), abs=0.01)


def exponential_and_gaussian(x):
    """½Exp(1), which has its top at the edge of its support, and ½N(40, 1)."""
    exponential = jnp.where(x[0] > 0, -x[0], -jnp.inf)
    return jnp.logaddexp(exponential, -0.5 * (x[0] - 40.0) ** 2 - 0.5 * jnp.log(2 * jnp.pi)) + jnp.log(0.5)


def test_a_mode_at_the_edge_of_the_support():
    result = sampled(exponential_and_gaussian, cube(1, -5.0, 60.0))
    assert result.is_trusted
    x = np.asarray(result.draws)
    assert np.all(x > 0)
    assert worst_z((x < 20.0).astype(float), [0.5]) < 4
    assert worst_z(np.where(x < 20.0, x - 1.0, 0.0), [0.0]) < 4
    assert worst_z(np.where(x < 20.0, x - 1.1, 0.0), [0.0]) > 4, "a mean that is off by a tenth would show"
    assert evidence_z(result, 0.0) < 4


def test_a_density_without_a_peak():
    """exp(-r) / r on the plane, without bound at the origin: the radius is Exp(1)."""

    def spike(x):
        radius = jnp.sqrt(jnp.sum(x**2))
        return -jnp.log(radius) - radius

    result = sampled(spike, cube(2, -10.0, 10.0))
    assert result.is_trusted
    x = np.asarray(result.draws)
    radius = np.linalg.norm(x, axis=-1, keepdims=True)
    assert worst_z(x, [0.0, 0.0]) < 4
    assert worst_z(radius, [1.0]) < 4
    assert worst_z(radius**2, [2.0]) < 4
    assert worst_z(radius, [1.15]) > 4
    assert evidence_z(result, np.log(2 * np.pi)) < 4


def signs(x):
    """2¹² modes: each coordinate is 4 with weight 0.3, else −4."""
    return jnp.sum(jnp.logaddexp(jnp.log(0.7) - 0.5 * (x + 4) ** 2, jnp.log(0.3) - 0.5 * (x - 4) ** 2))


def test_more_modes_than_are_listed():
    result = sampled(signs, cube(12, -10.0, 10.0))
    assert result.is_trusted
    assert isinstance(result.frozen.guide, vj.ProductMixture)
    x = np.asarray(result.draws)
    assert worst_z((x > 0).astype(float), np.full(12, 0.3)) < 4
    assert worst_z(((x[..., :1] > 0) & (x[..., 1:2] > 0)).astype(float), [0.09]) < 4
    assert evidence_z(result, 6 * np.log(2 * np.pi)) < 4
