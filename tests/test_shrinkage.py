"""The Gaussian of one mode: the shrinkage against its formula, and what it is worth as a proposal."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.scipy.linalg import solve_triangular

from vhmc_jax.fit.shrinkage import fit_gaussian, mean_share

fit = jax.jit(fit_gaussian)


def test_share_of_the_mean_maximises_held_out_likelihood():
    rng = np.random.default_rng(1)
    white, weights = rng.normal([0.2, 0.0, -0.1], size=(103, 3)), rng.uniform(size=103)
    folds = np.arange(103) * 10 // 103

    def held_out(share):
        total = 0.0
        for fold in range(10):
            mine, rest = folds == fold, folds != fold
            mean = share * np.average(white[rest], axis=0, weights=weights[rest])
            total -= 0.5 * np.sum(weights[mine, None] * (white[mine] - mean) ** 2)
        return total

    grid = np.linspace(0.0, 1.0, 2001)
    best = grid[np.argmax([held_out(share) for share in grid])]
    assert 0.05 < best < 0.99  # inside, so that the formula and not the cut is compared
    assert mean_share(jnp.asarray(white), jnp.asarray(weights)) == pytest.approx(best, abs=5e-4)


def acceptance(key, mean, scale_tril, dim, num=4000):
    """Mean acceptance of an independence move with proposal N(mean, LLᵀ) on N(0, I), from exact draws."""
    current_key, proposal_key = jax.random.split(key)
    current = jax.random.normal(current_key, (num, dim))
    proposal = mean + jax.random.normal(proposal_key, (num, dim)) @ scale_tril.T

    def log_ratio(x):
        white = solve_triangular(scale_tril, (x - mean).T, lower=True)
        return 0.5 * jnp.sum(white**2, axis=0) - 0.5 * jnp.sum(x**2, axis=1)

    return float(jnp.mean(jnp.minimum(1.0, jnp.exp(log_ratio(proposal) - log_ratio(current)))))


@pytest.mark.statistical
def test_shrunk_fit_is_a_good_proposal_in_128_dimensions_with_1000_draws():
    dim, num = 128, 1000
    draws = jax.random.normal(jax.random.key(0), (num, dim))
    shrunk = fit(draws, jnp.zeros(dim), jnp.eye(dim))
    sample_mean = jnp.mean(draws, axis=0)
    likelihood = jnp.linalg.cholesky(jnp.cov(draws.T, bias=True))
    key = jax.random.key(1)
    assert acceptance(key, shrunk.mean, shrunk.scale_tril, dim) > 0.95
    # Power: with the sample mean, and with the maximum-likelihood fit, the figure falls as predicted.
    assert acceptance(key, sample_mean, shrunk.scale_tril, dim) == pytest.approx(0.80, abs=0.04)
    assert acceptance(key, sample_mean, likelihood, dim) == pytest.approx(0.035, abs=0.015)


def test_whitening_undoes_the_shape_of_the_mode():
    rng = np.random.default_rng(2)
    scale = np.tril(rng.normal(size=(4, 4))) + 3 * np.diag([1.0, 10.0, 0.1, 1.0])
    mode, white = rng.normal(size=4), rng.normal(size=(60, 4))
    reference = fit(jnp.asarray(white), jnp.zeros(4), jnp.eye(4))
    found = fit(jnp.asarray(mode + white @ scale.T), jnp.asarray(mode), jnp.asarray(scale))
    np.testing.assert_allclose(found.mean, mode + scale @ reference.mean, rtol=1e-10)
    np.testing.assert_allclose(found.scale_tril, scale @ reference.scale_tril, rtol=1e-7, atol=1e-9)
    plain = fit_gaussian(jnp.asarray(white), jnp.zeros(4))
    np.testing.assert_allclose(plain.scale_tril, reference.scale_tril, rtol=1e-12)


@pytest.mark.statistical
def test_many_draws_are_believed():
    rng = np.random.default_rng(3)
    covariance = np.array([[2.0, 0.9, 0.0], [0.9, 1.0, 0.0], [0.0, 0.0, 0.2]])
    draws = rng.multivariate_normal([1.0, 0.0, -1.0], covariance, size=100_000)
    found = fit(jnp.asarray(draws), jnp.zeros(3), jnp.eye(3))
    np.testing.assert_allclose(found.mean, [1.0, 0.0, -1.0], atol=0.03)
    np.testing.assert_allclose(found.scale_tril @ found.scale_tril.T, covariance, atol=0.04)
    assert found.mean_share > 0.99
    assert found.intensity < 0.01


def test_weightless_draws_do_not_count():
    draws = np.random.default_rng(4).normal(size=(100, 2))
    others = np.where(np.arange(100)[:, None] % 2, draws, np.nan)
    weights = (np.arange(100) % 2).astype(float)
    found = fit(jnp.asarray(others), jnp.zeros(2), jnp.eye(2), weights=jnp.asarray(weights))
    alone = fit(jnp.asarray(draws[1::2]), jnp.zeros(2), jnp.eye(2))
    np.testing.assert_allclose(found.mean, alone.mean, rtol=1e-10)
    np.testing.assert_allclose(found.scale_tril, alone.scale_tril, rtol=1e-10)


HOPELESS = {
    "all_alike": np.full((40, 3), 2.0),
    "all_at_the_mode": np.zeros((40, 3)),
    "on_a_line": np.linspace(-1, 1, 40)[:, None] * np.ones(3),
    "huge": 1e30 * np.random.default_rng(5).normal(size=(40, 3)),
}


@pytest.mark.parametrize("name", HOPELESS)
@pytest.mark.parametrize("dtype", [jnp.float32, jnp.float64])
def test_fit_is_positive_definite_whatever_the_draws(name, dtype):
    draws = jnp.asarray(HOPELESS[name] * (1e-15 if dtype == jnp.float32 else 1.0), dtype)
    found = fit(draws, jnp.zeros(3, dtype), jnp.eye(3, dtype=dtype))
    assert all(leaf.dtype == dtype for leaf in found)
    assert all(bool(jnp.all(jnp.isfinite(leaf))) for leaf in found)
    assert jnp.all(jnp.diagonal(found.scale_tril) > 0)


def test_fewer_draws_than_dimensions_fall_back_on_the_hessian():
    draws = jax.random.normal(jax.random.key(6), (5, 40))
    found = fit_gaussian(draws, jnp.zeros(40), jnp.eye(40))
    assert found.intensity > 0.8
    assert jnp.linalg.cond(found.scale_tril) < 10
