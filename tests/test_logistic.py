"""Logistic regression: the posterior, its maximum, VBLR against quadrature and HMC, and data that are no good."""

import importlib
import sys
from pathlib import Path

import chex
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import integrate
from scipy.special import expit
from sklearn.linear_model import LogisticRegression

import vhmc_jax as vj
from vhmc_jax.targets.logistic import logistic_regression

sys.path.insert(0, str(Path(__file__).parents[1] / "benchmarks" / "paper"))
VBLR = importlib.import_module("vblr")
expected_sigmoid, maximum_a_posteriori = VBLR.expected_sigmoid, VBLR.maximum_a_posteriori
variational_logistic = VBLR.variational_logistic
RNG = np.random.default_rng(4)
X = RNG.normal(size=(25, 1))
Y = (RNG.uniform(size=25) < expit(1.5 * X[:, 0] - 0.5)).astype(int)
SMALL = logistic_regression(X, Y, prior_variance=1.0)
WIDE_X = RNG.normal(size=(200, 6)) @ (np.eye(6) + 0.3)
WIDE_Y = RNG.uniform(size=200) < expit(WIDE_X @ RNG.normal(size=6))
WIDE = logistic_regression(WIDE_X, WIDE_Y)
every_data_set = pytest.mark.parametrize("target", [SMALL, WIDE], ids=["small", "wide"])


def test_density_against_the_textbook():
    theta = np.array([0.3, -0.8])
    probabilities = expit(theta[0] + theta[1] * X[:, 0])
    expected = np.sum(np.log(np.where(Y == 1, probabilities, 1 - probabilities))) - 0.5 * np.sum(theta**2)
    np.testing.assert_allclose(SMALL.logdensity(jnp.asarray(theta)), expected, rtol=1e-13)
    assert SMALL.dim == 2


@pytest.mark.parametrize("dtype", [jnp.float32, jnp.float64])
def test_density_is_stable_far_out(dtype):
    """A logit of ±10⁴ costs 10⁴ where the label contradicts it and nothing else, with a finite gradient."""
    theta = jnp.array([0.0, 1e4], dtype)
    value, gradient = jax.value_and_grad(SMALL.logdensity)(theta)
    wrong = np.sum(np.maximum(-(2 * Y - 1) * X[:, 0] * 1e4, 0.0))
    assert value.dtype == gradient.dtype == dtype
    np.testing.assert_allclose(value, -wrong - 0.5e8, rtol=1e-5)
    assert np.all(np.isfinite(gradient))


def test_data_are_arguments_of_the_program():
    """Another data set of the same shape is no other program."""

    @jax.jit
    @chex.assert_max_traces(n=1)
    def step(kernel, rng_key, state):
        return kernel.step(rng_key, state)[0].position

    positions = []
    for labels in (Y, 1 - Y):
        target = logistic_regression(X, labels, prior_variance=1.0)
        kernel = vj.hmc(target.logdensity, step_size=0.1, num_integration_steps=3)
        positions.append(step(kernel, jax.random.key(0), kernel.init(jnp.zeros(2))))
    assert not np.allclose(*positions)


@pytest.mark.slow
@every_data_set
def test_maximum(target):
    fit = maximum_a_posteriori(target)
    assert fit.is_converged
    assert fit.num_iterations < 15
    np.testing.assert_allclose(jax.grad(target.logdensity)(fit.mean), 0.0, atol=1e-10)
    np.testing.assert_allclose(jnp.linalg.inv(-jax.hessian(target.logdensity)(fit.mean)), fit.covariance, rtol=1e-8)
    assert np.all(np.diff(fit.bounds) >= -1e-12 * abs(fit.bounds[-1]))


def test_maximum_is_that_of_scikit_learn():
    target = logistic_regression(WIDE_X, WIDE_Y, intercept=False)
    other = LogisticRegression(C=100.0, fit_intercept=False, tol=1e-10, max_iter=1000).fit(WIDE_X, WIDE_Y)
    np.testing.assert_allclose(maximum_a_posteriori(target).mean, other.coef_[0], rtol=1e-4)


def test_maximum_where_labels_are_separable():
    """The likelihood has no maximum, the posterior has one, far out."""
    fit = maximum_a_posteriori(logistic_regression(X, X[:, 0] > 0, prior_variance=1e6))
    assert fit.is_converged
    assert fit.mean[1] > 50


@every_data_set
def test_bound_increases_at_every_iteration(target):
    fit = variational_logistic(target)
    assert fit.is_converged
    bounds = np.asarray(fit.bounds)[: int(fit.num_iterations)]
    increases = np.diff(bounds)
    assert np.all(increases >= -1e-13 * abs(bounds[-1])), "beyond rounding"
    assert np.all(increases[:5] > 0)
    np.testing.assert_array_equal(fit.bounds[int(fit.num_iterations) :], bounds[-1])


def test_a_mistake_in_the_update_lowers_the_bound(monkeypatch):
    """Half of λ is no bound any more, and not one that increases."""
    sound = VBLR._lambda
    monkeypatch.setattr(VBLR, "_lambda", lambda xi: 0.5 * sound(xi))
    fit = variational_logistic(SMALL, max_iterations=61)  # another number, to be traced anew
    assert np.min(np.diff(fit.bounds)) < -1.0


def quadrature(target):
    """Log evidence, mean and covariance of a posterior of two coefficients with unit prior variance."""
    axis = np.linspace(-7, 7, 701)
    grid = np.stack(np.meshgrid(axis, axis, indexing="ij"), axis=-1).reshape(-1, 2)
    values = np.asarray(jax.jit(jax.vmap(target.logdensity))(grid))
    weights = np.exp(values)
    log_evidence = np.log(weights.sum() * (axis[1] - axis[0]) ** 2) - np.log(2 * np.pi)
    weights /= weights.sum()
    mean = weights @ grid
    return log_evidence, mean, (weights[:, None] * (grid - mean)).T @ (grid - mean)


@pytest.mark.statistical
def test_variational_mean_agrees_with_a_long_run_within_the_bias_of_the_bound():
    """|m − Eθ| ≤ √(2 v (log Z − L)): no tuned tolerance. The long run itself is checked by quadrature."""
    fit = variational_logistic(SMALL)
    log_evidence, mean, covariance = quadrature(SMALL)
    kernel = vj.hmc(SMALL.logdensity, step_size=0.4, num_integration_steps=(2, 5))
    chains = vj.run_chains(jax.random.key(5), kernel, jnp.tile(fit.mean, (200, 1)), 500, num_burnin=50)
    chain_means = np.asarray(chains.draws).mean(axis=1)
    errors = chain_means.std(axis=0, ddof=1) / np.sqrt(len(chain_means))
    assert np.all(np.abs(chain_means.mean(axis=0) - mean) < 5 * errors)

    gap = log_evidence - fit.bounds[-1]
    assert 0 < gap < 1
    allowed = np.sqrt(2 * gap) + 5 * np.linalg.norm(errors)
    assert np.linalg.norm(fit.mean - chain_means.mean(axis=0)) < allowed
    assert np.all(np.diag(fit.covariance) < np.diag(covariance)), "variances are too small, as is known"
    mirrored = variational_logistic(logistic_regression(X, 1 - Y, prior_variance=1.0))
    assert np.linalg.norm(mirrored.mean - chain_means.mean(axis=0)) > allowed, "the check can fail"


def test_fits_without_double_precision():
    exact = variational_logistic(WIDE)
    with jax.enable_x64(False):
        fit = variational_logistic(WIDE)
        maximum = maximum_a_posteriori(WIDE)
    assert fit.is_converged
    assert maximum.is_converged
    assert fit.mean.dtype == jnp.float32
    scales = np.sqrt(np.diag(exact.covariance))
    assert np.all(np.abs(np.asarray(fit.mean) - np.asarray(exact.mean)) < 0.02 * scales)


@pytest.mark.parametrize("variance", [0.0, 0.3, 4.0, 400.0])
def test_expected_sigmoid(variance):
    for mean in (-3.0, 0.2, 8.0):
        scale = np.sqrt(variance)
        expected, _ = integrate.quad(
            lambda z, mean=mean, scale=scale: expit(mean + scale * z) * np.exp(-0.5 * z**2) / np.sqrt(2 * np.pi),
            -12,
            12,
            points=[-mean / scale] if scale and abs(mean / scale) < 12 else None,
            limit=200,
        )
        np.testing.assert_allclose(expected_sigmoid(jnp.asarray(mean), jnp.asarray(variance)), expected, atol=5e-9)


def test_predictive_probabilities_are_the_gaussians():
    fit = variational_logistic(WIDE)
    draws = np.random.default_rng(0).multivariate_normal(fit.mean, fit.covariance, 40_000)
    sampled = expit(draws @ WIDE.design[:8].T)
    z = (fit.probabilities(WIDE.design[:8]) - sampled.mean(axis=0)) / (sampled.std(axis=0) / 200)
    assert np.all(np.abs(z) < 5)


@pytest.mark.parametrize(
    ("features", "labels", "message"),
    [
        (X, 2 * Y, r"labels must be 0 or 1, got \['2'\]"),
        (X, Y - 0.5, r"labels must be 0 or 1, got \['-0.5', '0.5'\]"),
        (X, np.where(Y, np.nan, 0.0), r"labels must be 0 or 1, got \['nan'\]"),
        (X, Y[:-1], r"labels must have shape \(25,\), one for each row of features, got \(24,\)"),
        (X[:, 0], Y, r"features must have shape \(n, k\) with n, k >= 1, got \(25,\)"),
        (np.column_stack([X, np.full(25, 3.0)]), Y, "got a constant in column 1; the intercept"),
        (np.column_stack([X, np.where(Y, np.nan, X[:, 0])]), Y, "got NaN or infinity in column 1"),
        (np.column_stack([np.where(Y, np.inf, 1.0), X]), Y, "got NaN or infinity in column 0"),
    ],
)
def test_bad_data(features, labels, message):
    with pytest.raises(ValueError, match=message):
        logistic_regression(features, labels)


def test_bad_columns_are_named():
    features = np.column_stack([X, np.full(25, 3.0)])
    with pytest.raises(ValueError, match=r"constant in column 1 \('age'\)"):
        logistic_regression(features, Y, names=["dose", "age"])
    with pytest.raises(ValueError, match="names must be one for each of the 2 columns, got 1"):
        logistic_regression(features, Y, names=["dose"])


@pytest.mark.parametrize("prior_variance", [0.0, -1.0, np.nan, [1.0, 1.0, 1.0]])
def test_bad_prior(prior_variance):
    with pytest.raises(ValueError, match="prior_variance must be a positive scalar or 2 positive numbers"):
        logistic_regression(X, Y, prior_variance=prior_variance)


def test_collinear_columns_work_with_a_warning():
    features = np.column_stack([X, RNG.normal(size=25), 2 * X[:, 0] - 1.0])
    with pytest.warns(UserWarning, match="column 2 can be had from those before"):
        target = logistic_regression(features, Y)
    assert variational_logistic(target).is_converged
    fit = maximum_a_posteriori(target)
    assert fit.is_converged
    assert np.all(np.isfinite(fit.covariance))
    # Without the intercept the third column is no combination of the others.
    logistic_regression(features, Y, intercept=False)


def test_more_columns_than_rows_are_collinear():
    with pytest.warns(UserWarning, match="columns 4, 5 can be had"):
        logistic_regression(RNG.normal(size=(5, 6)), [0, 1, 0, 1, 1])


@pytest.mark.parametrize("fit", [maximum_a_posteriori, variational_logistic])
def test_bad_settings(fit):
    with pytest.raises(ValueError, match="max_iterations must be at least 1, got 0"):
        fit(SMALL, max_iterations=0)
    with pytest.raises(ValueError, match="tolerance must be positive, got -1"):
        fit(SMALL, tolerance=-1.0)
    assert not fit(SMALL, max_iterations=1).is_converged
