"""Pareto-k against ArviZ, against known tails, and on weights that have none."""

import warnings

import numpy as np
import pytest

from vhmc_jax.diagnostics import pareto_k
from vhmc_jax.diagnostics.pareto import fit_generalised_pareto

with warnings.catch_warnings():  # ArviZ 0.x announces 1.x when it is imported
    warnings.simplefilter("ignore", FutureWarning)
    import arviz


def arviz_k(log_weights):
    if arviz.__version__.startswith("0."):
        psislw = arviz.psislw
    else:
        from arviz_stats.base import array_stats

        def psislw(log_weights):  # 1.x takes log likelihoods, which are the negative log weights
            return array_stats.psislw(-log_weights)

    with warnings.catch_warnings():  # of a large k
        warnings.simplefilter("ignore")
        return float(psislw(log_weights.copy())[1])


@pytest.mark.parametrize("scale", [0.1, 1.0, 3.0])
@pytest.mark.parametrize("size", [100, 5000])
def test_k_agrees_with_arviz(scale, size):
    log_weights = scale * np.random.default_rng(0).normal(size=size)
    # ArviZ 1.x rounds the size of the tail down, and so may fit one weight fewer.
    tolerance = 1e-9 if arviz.__version__.startswith("0.") else 0.01
    np.testing.assert_allclose(pareto_k(log_weights), arviz_k(log_weights), atol=tolerance)


@pytest.mark.statistical
@pytest.mark.parametrize("shape", [-0.3, 0.2, 0.7, 1.2])
def test_fit_recovers_a_known_distribution(shape):
    uniform = np.random.default_rng(1).random(20_000)
    exceedances = np.sort(2.5 / shape * (uniform**-shape - 1))
    k, sigma = fit_generalised_pareto(exceedances)
    assert abs(k - shape) < 0.05
    assert abs(sigma - 2.5) < 0.15
    assert abs(fit_generalised_pareto(np.sort(uniform))[0] - shape) > 0.2


def test_k_tells_light_tails_from_heavy_ones():
    normal = np.random.default_rng(2).normal(size=10_000)
    assert pareto_k(-0.2 * normal**2) < 0.1
    assert 0.6 < pareto_k(0.4 * normal**2) < 1.0


def test_weights_without_a_tail_give_nan():
    assert np.isnan(pareto_k(np.zeros(100)))
    assert np.isnan(pareto_k([0.0]))
    assert np.isnan(pareto_k([0.0, np.nan, 1.0]))
    assert np.isfinite(pareto_k(np.append(np.random.default_rng(3).normal(size=100), -np.inf)))
