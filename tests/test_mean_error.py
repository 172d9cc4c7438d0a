"""Relative error of the mean against its definition, and the refusal of a zero mean."""

import jax
import numpy as np
import pytest

from vhmc_jax.diagnostics import relative_error_of_mean

DRAWS = np.random.default_rng(0).normal(size=(2, 30, 3))
MEAN = np.array([1.0, 0.0, -2.0])


@pytest.mark.parametrize(("dtype", "tolerance"), [(np.float64, 1e-12), (np.float32, 1e-5)])
def test_equals_its_definition(dtype, tolerance):
    curve = relative_error_of_mean(DRAWS.astype(dtype), MEAN)
    assert curve.dtype == dtype
    for t in (1, 7, 30):
        expected = np.abs(DRAWS[:, :t].mean(1) - MEAN).sum(1) / 3.0
        np.testing.assert_allclose(curve[:, t - 1], expected, rtol=tolerance)


def test_pytrees_flatten_in_order():
    draws = {"a": DRAWS[..., 0], "b": DRAWS[..., 1:]}
    curve = relative_error_of_mean(draws, {"a": MEAN[0], "b": MEAN[1:]})
    np.testing.assert_allclose(curve, relative_error_of_mean(DRAWS, MEAN), rtol=1e-12)


def test_zero_mean_is_refused_with_the_reason_and_is_nan_when_traced():
    with pytest.raises(ValueError, match="relative to it is undefined"):
        relative_error_of_mean(DRAWS, np.zeros(3))
    assert np.isnan(jax.jit(relative_error_of_mean)(DRAWS, np.zeros(3))).all()
    with pytest.raises(ValueError, match="mean has 2 components"):
        relative_error_of_mean(DRAWS, np.ones(2))
