"""Autocorrelation against the double sum, in single precision, and on bad input."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from vhmc_jax.diagnostics import autocorrelation
from vhmc_jax.diagnostics.draws import smooth_length


def by_definition(x, mean=None):
    """Autocorrelation of (chain, draw) by the sum over pairs."""
    y = x - (x.mean(1, keepdims=True) if mean is None else mean)
    n = x.shape[1]
    return np.stack([(y[:, : n - t] * y[:, t:]).sum(1) for t in range(n)], axis=1) / (y**2).sum(1, keepdims=True)


@pytest.mark.parametrize(("dtype", "tolerance"), [(np.float32, 2e-6), (np.float64, 1e-13)])
def test_equals_the_sum_over_pairs(dtype, tolerance):
    draws = np.cumsum(np.random.default_rng(0).normal(size=(3, 50, 2)), axis=1).astype(dtype)
    ours = autocorrelation(draws)
    assert ours.dtype == dtype
    for j in range(2):
        np.testing.assert_allclose(ours[:, :, j], by_definition(draws[:, :, j].astype(float)), atol=tolerance)


def test_known_mean_shows_a_chain_stuck_in_one_mode():
    draws = np.random.default_rng(1).normal(size=(2, 200)) + np.array([[-5.0], [5.0]])
    np.testing.assert_allclose(autocorrelation(draws, mean=0.0), by_definition(draws, 0.0), atol=1e-13)
    assert autocorrelation(draws, 1, mean=0.0)[:, 1].min() > 0.9
    assert jnp.abs(autocorrelation(draws, 1)[:, 1]).max() < 0.3


def test_max_lag_is_a_prefix_and_jit_equals_eager():
    draws = {"x": np.random.default_rng(2).normal(size=(2, 64, 3))}
    short = jax.jit(lambda x: autocorrelation(x, 5))(draws)["x"]
    np.testing.assert_allclose(short, autocorrelation(draws)["x"][:, :6], atol=1e-13)


def test_bad_input():
    draws = np.random.default_rng(3).normal(size=(3, 20))
    draws[0] = 0.1
    draws[1, 4] = np.nan
    np.testing.assert_array_equal(np.isnan(autocorrelation(draws)).all(1), [True, True, False])
    with pytest.raises(ValueError, match="max_lag"):
        autocorrelation(draws, 20)
    with pytest.raises(ValueError, match="mean must have"):
        autocorrelation(draws, mean={"x": 0.0})


def test_smooth_length_is_the_smallest():
    def is_smooth(n):
        for p in (2, 3, 5):
            while n % p == 0:
                n //= p
        return n == 1

    for n in [1, 2, 7, 11, 100, 997, 1025, 19999]:
        assert smooth_length(n) == next(m for m in range(n, 2 * n + 1) if is_smooth(m))
