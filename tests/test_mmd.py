"""MMD: the feature map against the double sum, exact moments against many draws, blocks against the whole."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from vhmc_jax.diagnostics import gaussian_kernel, mmd, mmd_curve

RNG = np.random.default_rng(0)
DRAWS = RNG.normal(size=(2, 40, 3)) + 1.0
REFERENCE = RNG.normal(size=(30, 3))


def quadratic(x, y):
    return (1 + x @ y.T) ** 2


def double_sum(x, y, kernel):
    return kernel(x, x).mean() + kernel(y, y).mean() - 2 * kernel(x, y).mean()


@pytest.mark.parametrize(("dtype", "tolerance"), [(np.float64, 1e-12), (np.float32, 2e-5)])
def test_curve_equals_the_double_sum_to_rounding(dtype, tolerance):
    curve = mmd_curve(DRAWS.astype(dtype), REFERENCE.astype(dtype))
    assert curve.shape == (2, 40)
    assert curve.dtype == dtype
    for t in (1, 2, 17, 40):
        by_pairs = [double_sum(chain[:t], REFERENCE, quadratic) for chain in DRAWS]
        np.testing.assert_allclose(curve[:, t - 1], by_pairs, rtol=tolerance)


def test_double_sum_with_another_kernel_differs():
    linear = [double_sum(chain, REFERENCE, lambda x, y: 1 + x @ y.T) for chain in DRAWS]
    assert not np.allclose(mmd_curve(DRAWS, REFERENCE)[:, -1], linear, rtol=1e-2)


def test_exact_moments_stand_for_a_reference_with_those_moments():
    mean, second = REFERENCE.mean(0), REFERENCE.T @ REFERENCE / len(REFERENCE)
    by_moments = mmd_curve(
        {"a": DRAWS[..., 0], "b": DRAWS[..., 1:]},
        mean={"a": mean[0], "b": mean[1:]},
        covariance=second - np.outer(mean, mean),
    )
    np.testing.assert_allclose(by_moments, mmd_curve(DRAWS, REFERENCE), rtol=1e-12)
    traced = jax.jit(lambda x: mmd_curve(x, REFERENCE))(jnp.asarray(DRAWS))
    np.testing.assert_allclose(traced, mmd_curve(DRAWS, REFERENCE), rtol=1e-12)


def test_single_precision_curve_falls_as_it_should_over_many_draws():
    x = np.random.default_rng(1).normal(size=(1, 20000, 2))
    single = mmd_curve(x.astype(np.float32), mean=np.zeros(2), covariance=np.eye(2))
    double = mmd_curve(x, mean=np.zeros(2), covariance=np.eye(2))
    np.testing.assert_allclose(single, double, rtol=1e-2)
    assert double[0, -1] < 1e-2


def gaussian(x, y):
    return np.exp(-((x[:, None] - y[None]) ** 2).sum(-1) / (2 * 0.7**2))


def unbiased(x, y, kernel):
    n, m = len(x), len(y)
    within = [(kernel(z, z).sum() - np.trace(kernel(z, z))) / (k * (k - 1)) for z, k in ((x, n), (y, m))]
    return sum(within) - 2 * kernel(x, y).mean()


def test_one_block_is_the_unbiased_double_sum_and_more_blocks_are_their_mean():
    pooled = DRAWS.reshape(-1, 3)
    kernel = gaussian_kernel(0.7)
    np.testing.assert_allclose(
        mmd(DRAWS, REFERENCE, kernel, block_size=80), unbiased(pooled, REFERENCE, gaussian), rtol=1e-12
    )
    blocks = np.mean([unbiased(pooled[b::4], REFERENCE[b:28:4], gaussian) for b in range(4)])
    np.testing.assert_allclose(mmd(DRAWS, REFERENCE, kernel, block_size=20), blocks, rtol=1e-12)


@pytest.mark.statistical
def test_any_kernel_sees_what_two_moments_do_not():
    """Random signs have the mean and variance of a normal: only a Gaussian kernel tells them apart."""
    rng = np.random.default_rng(2)
    signs, normal, reference = (
        rng.choice([-1.0, 1.0], (4, 2000, 1)),
        rng.normal(size=(4, 2000, 1)),
        rng.normal(size=(8000, 1)),
    )
    kernel = gaussian_kernel(0.5)
    assert mmd(signs, reference, kernel) > 0.05
    assert abs(mmd(normal, reference, kernel)) < 0.005
    assert mmd_curve(signs.reshape(1, -1, 1), mean=np.zeros(1), covariance=np.eye(1))[0, -1] < 0.01


def test_bad_input():
    with pytest.raises(ValueError, match="either reference or both"):
        mmd_curve(DRAWS, mean=np.zeros(3))
    with pytest.raises(ValueError, match="components"):
        mmd_curve(DRAWS, mean=np.zeros(2), covariance=np.eye(2))
    with pytest.raises(ValueError, match="reference has 2 components"):
        mmd_curve(DRAWS, REFERENCE[:, :2])
    with pytest.raises(ValueError, match="two draws"):
        mmd(DRAWS, REFERENCE[:1], gaussian_kernel(1.0))
    with pytest.raises(ValueError, match="bandwidth"):
        gaussian_kernel(0.0)
    spoiled = DRAWS.copy()
    spoiled[0, 10, 0] = np.nan
    np.testing.assert_array_equal(np.isnan(mmd_curve(spoiled, REFERENCE)).sum(1), [30, 0])
