"""Effective sample sizes and Monte Carlo errors against ArviZ, against theory, and on bad input."""

import warnings

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from vhmc_jax.diagnostics import ess, mcse
from vhmc_jax.diagnostics.draws import BLOCK_SIZE

with warnings.catch_warnings():  # ArviZ 0.x announces 1.x when it is imported
    warnings.simplefilter("ignore", FutureWarning)
    import arviz

KINDS = ("bulk", "tail", "mean", "sd")


def autoregressive(coefficient, shape, seed=0):
    """Stationary AR(1) of unit variance along axis 1."""
    noise = np.random.default_rng(seed).normal(size=shape) * np.sqrt(1 - coefficient**2)
    noise[:, 0] /= np.sqrt(1 - coefficient**2)
    for t in range(1, shape[1]):
        noise[:, t] += coefficient * noise[:, t - 1]
    return noise


if hasattr(arviz, "Numba"):  # its branch for Numba, which PyMC brings, fails with recent releases of NumPy
    arviz.Numba.disable_numba()


def arviz_figure(function, draws, method):
    options = {"method": method} | ({"prob": (0.05, 0.95)} if method == "tail" else {})
    return np.array([function(draws[:, :, j], **options) for j in range(draws.shape[2])])


def four_kinds_of_data():
    """Correlated, independent, antithetic with ties, and heavy-tailed draws; an odd number of them."""
    draws = np.stack([autoregressive(rho, (4, 501), seed) for seed, rho in enumerate((0.95, 0.0, -0.6, 0.5))], axis=-1)
    draws[:, :, 3] = np.tan(draws[:, :, 3] / 2) + np.arange(4)[:, None]
    draws[:, 1::3, 2] = draws[:, 0:-1:3, 2]
    return draws


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_ess_agrees_with_arviz(kind, dtype):
    draws = four_kinds_of_data().astype(dtype)
    ours = ess(draws, kind)
    assert ours.dtype == dtype
    np.testing.assert_allclose(ours, arviz_figure(arviz.ess, draws, kind), rtol=1e-2 if dtype == np.float32 else 1e-9)


@pytest.mark.parametrize("num_draws", [4, 5, 6, 7, 8, 9, 10, 12, 16, 23])
def test_short_chains_agree_with_arviz(num_draws):
    draws = autoregressive(0.3, (3, num_draws, 20))
    np.testing.assert_allclose(ess(draws, "mean"), arviz_figure(arviz.ess, draws, "mean"), rtol=1e-9)


def test_ess_of_autoregressive_chain_is_the_theoretical_one():
    draws = autoregressive(0.9, (64, 4000, 1))
    np.testing.assert_allclose(ess(draws, "mean") / (64 * 4000), (1 - 0.9) / (1 + 0.9), rtol=0.05)
    assert not np.allclose(ess(draws[:, ::2], "mean") / (64 * 2000), (1 - 0.9) / (1 + 0.9), rtol=0.05)


@pytest.mark.parametrize("kind", ["mean", "sd"])
def test_mcse_agrees_with_arviz(kind):
    draws = four_kinds_of_data()
    np.testing.assert_allclose(mcse(draws, kind), arviz_figure(arviz.mcse, draws, kind), rtol=1e-9)


@pytest.mark.parametrize("kind", KINDS)
def test_shift_and_scale_do_not_matter_in_single_precision(kind):
    draws = four_kinds_of_data().astype(np.float32)[..., :3]
    moved = (draws * np.float32(2**-10) + np.float32(1)).astype(np.float32)
    np.testing.assert_allclose(ess(moved, kind), ess(draws, kind), rtol=1e-2)


def test_function_indicator_and_pytree():
    draws = {"a": autoregressive(0.5, (2, 300, 3)), "b": autoregressive(0.5, (2, 300), 1)}
    by_function = ess(draws, "mean", function=lambda x: x["a"][0] > x["b"])
    by_hand = arviz.ess((draws["a"][..., 0] > draws["b"]).astype(float), method="mean")
    np.testing.assert_allclose(by_function, by_hand, rtol=1e-9)
    assert jax.tree.map(jnp.shape, ess(draws)) == {"a": (3,), "b": ()}
    np.testing.assert_allclose(ess(draws["b"] > 0, "mean"), ess((draws["b"] > 0).astype(float), "mean"))


def test_jit_of_mean_equals_eager_and_bulk_says_why_not():
    draws = jnp.asarray(four_kinds_of_data())
    np.testing.assert_allclose(jax.jit(lambda x: ess(x, "mean"))(draws), ess(draws, "mean"), rtol=1e-12)
    with pytest.raises(TypeError, match="cannot be traced"):
        jax.jit(ess)(draws)


def test_draws_read_in_blocks_agree_with_arviz():
    draws = autoregressive(0.7, (6, 100_000, 2))
    assert draws.size > BLOCK_SIZE
    np.testing.assert_allclose(ess(draws, "mean"), arviz_figure(arviz.ess, draws, "mean"), rtol=1e-9)


@pytest.mark.parametrize("kind", KINDS)
def test_bad_draws_give_nan_for_their_component_alone(kind):
    draws = autoregressive(0.5, (2, 100, 3))
    draws[1, 7, 0] = np.nan
    draws[:, :, 1] = 0.1
    np.testing.assert_array_equal(np.isnan(ess(draws, kind)), [True, True, False])
    assert np.isnan(ess(draws[:, :3], kind)).all()
    assert np.isfinite(ess(draws[:1], kind)[2])


def test_half_precision_and_empty_components_are_no_obstacle():
    draws = autoregressive(0.5, (2, 100, 2))
    half = ess(jnp.asarray(draws, jnp.bfloat16), "mean")
    assert half.dtype == jnp.float32
    np.testing.assert_allclose(half, ess(draws, "mean"), rtol=0.02)
    for kind in KINDS:
        assert ess(draws[..., :0], kind).shape == (0,)


def test_bad_arguments_are_named():
    with pytest.raises(ValueError, match=r"draws\['x'\] must have axes"):
        ess({"x": np.zeros(10)})
    with pytest.raises(TypeError, match="real numbers"):
        ess(np.zeros((2, 10), complex))
    with pytest.raises(ValueError, match="agree on"):
        ess([np.zeros((2, 10)), np.zeros((2, 11))])
    with pytest.raises(ValueError, match="kind must be"):
        ess(np.zeros((2, 10)), "middle")
    with pytest.raises(ValueError, match="empty"):
        ess({})
