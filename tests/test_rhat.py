"""R-hat against ArviZ, and on chains that disagree, never move or are too short."""

import warnings

import jax
import numpy as np
import pytest

from vhmc_jax.diagnostics import rhat

with warnings.catch_warnings():  # ArviZ 0.x announces 1.x when it is imported
    warnings.simplefilter("ignore", FutureWarning)
    import arviz


def mixed_data(seed=0):
    """Well mixed, shifted chains, chains of unequal spread, ties; an odd number of draws."""
    draws = np.random.default_rng(seed).normal(size=(4, 301, 4))
    draws[:, :, 1] += 0.3 * np.arange(4)[:, None]
    draws[:, :, 2] *= 1 + np.arange(4)[:, None]
    draws[:, :, 3] = np.round(draws[:, :, 3])
    return draws


@pytest.mark.parametrize("kind", ["rank", "split"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_rhat_agrees_with_arviz(kind, dtype):
    draws = mixed_data().astype(dtype)
    ours = rhat(draws, kind)
    truth = [arviz.rhat(draws[:, :, j], method=kind) for j in range(4)]
    assert ours.dtype == dtype
    np.testing.assert_allclose(ours, truth, rtol=1e-4 if dtype == np.float32 else 1e-9)


def test_folding_sees_unequal_spread_and_splitting_does_not():
    draws = mixed_data()
    assert rhat(draws)[2] > 1.05
    assert rhat(draws, "split")[2] < 1.02


def test_one_chain_is_compared_with_itself():
    draws = mixed_data()[:1]
    draws[:, 150:, 0] += 1
    assert rhat(draws)[0] > 1.1
    assert rhat(draws)[1] < 1.05


def test_jit_of_split_and_refusal_of_rank():
    draws = mixed_data()
    np.testing.assert_allclose(jax.jit(lambda x: rhat(x, "split"))(draws), rhat(draws, "split"), rtol=1e-12)
    with pytest.raises(TypeError, match="cannot be traced"):
        jax.jit(rhat)(draws)
    with pytest.raises(ValueError, match="kind must be"):
        rhat(draws, "folded")


@pytest.mark.parametrize("kind", ["rank", "split"])
def test_bad_draws_give_nan_or_infinity_for_their_component_alone(kind):
    draws = mixed_data()
    draws[1, 7, 0] = np.nan
    draws[:, :, 1] = 0.1
    draws[:, :, 2] = np.array([0.1, 0.2, 0.3, 0.7])[:, None]
    figure = rhat({"x": draws}, kind)["x"]
    np.testing.assert_array_equal(np.isnan(figure), [True, True, False, False])
    assert np.isinf(figure[2])
    assert np.isnan(rhat(draws[:, :3], kind)).all()
