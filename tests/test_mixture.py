"""The built-in guides against SciPy, and their draws against their densities."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

from vhmc_jax.guide.mixture import GaussianMixture, StudentTMixture


def parameters(k, d, dtype=np.float64):
    rng = np.random.default_rng(k + d)
    factors = np.tril(0.5 * rng.normal(size=(k, d, d)) / np.sqrt(d), -1)
    factors += np.eye(d) * np.exp(0.3 * rng.normal(size=(k, 1, d)))
    log_weights = rng.normal(size=k) + 7.0  # far from normalised
    means = 3.0 * rng.normal(size=(k, d))
    return tuple(a.astype(dtype) for a in (log_weights, means, factors))


def gaussian(k, d, dtype=np.float64):
    return GaussianMixture(*parameters(k, d, dtype))


def student(k, d, dtype=np.float64):
    return StudentTMixture(*parameters(k, d, dtype), np.linspace(3.0, 9.0, k))


def scipy_log_prob(mixture, points):
    weights = np.exp(mixture.log_weights) / np.sum(np.exp(mixture.log_weights))
    parts = []
    for i in range(mixture.num_components):
        mean, scale = (
            np.asarray(mixture.means[i]),
            np.asarray(mixture.scale_trils[i] @ mixture.scale_trils[i].T),
        )
        if isinstance(mixture, StudentTMixture):
            law = stats.multivariate_t(mean, scale, df=float(mixture.df[i]))
        else:
            law = stats.multivariate_normal(mean, scale)
        parts.append(np.log(weights[i]) + law.logpdf(points))
    return np.logaddexp.reduce(parts)


both = pytest.mark.parametrize("make", [gaussian, student])


@both
@pytest.mark.parametrize(("k", "d"), [(1, 1), (3, 2), (2, 5)])
def test_density_is_that_of_scipy(make, k, d):
    mixture = make(k, d)
    points = 4.0 * np.random.default_rng(1).normal(size=(30, d))
    values = jax.jit(jax.vmap(mixture.log_prob))(points)
    np.testing.assert_allclose(values, scipy_log_prob(mixture, points).reshape(-1), rtol=1e-10)
    # Power: the covariance is L Lᵀ and not LᵀL.
    if d > 1:
        prepared = mixture.prepared()
        wrong = dataclasses.replace(prepared, whitenings=jnp.swapaxes(prepared.whitenings, 1, 2))
        assert np.max(np.abs(jax.vmap(wrong.log_prob)(points) - values)) > 0.1


@both
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_on_the_host_it_is_the_same_mixture(make, dtype):
    mixture = make(3, 4, dtype)
    host, points = mixture.on_host(), 4.0 * np.random.default_rng(1).normal(size=(40, 4))
    rtol = 1e-12 if dtype == np.float64 else 1e-4
    values = jax.jit(jax.vmap(mixture.component_log_probs))(points)
    np.testing.assert_allclose(host.component_log_probs(host.squared_distances(points)), values, rtol=rtol)
    _, log_prob, shares = host.at(points)
    np.testing.assert_allclose(log_prob, jax.vmap(mixture.log_prob)(points), rtol=rtol)
    np.testing.assert_allclose(shares, jax.vmap(mixture.responsibilities)(points), rtol=10 * rtol, atol=1e-6)
    # Its draws are those of JAX: the same law of every coordinate and of the log density.
    draws = host.sample(np.random.default_rng(2), 4000)
    others = jax.jit(jax.vmap(mixture.sample))(jax.random.split(jax.random.key(3), 4000))
    seen = [np.column_stack([x, host.at(np.asarray(x)).log_prob]) for x in (draws, others)]
    assert min(stats.ks_2samp(a, b).pvalue for a, b in zip(*(values.T for values in seen), strict=True)) > 1e-4
    narrow = np.column_stack([0.9 * draws, host.at(0.9 * draws).log_prob])
    assert min(stats.ks_2samp(a, b).pvalue for a, b in zip(narrow.T, seen[1].T, strict=True)) < 1e-6


@both
def test_responsibilities_are_bayes_rule(make):
    mixture = make(3, 2)
    x = jnp.array([0.5, -1.0])
    joint = np.exp(mixture.component_log_probs(x))
    np.testing.assert_allclose(mixture.responsibilities(x), joint / joint.sum(), rtol=1e-12)
    assert np.log(joint.sum()) == pytest.approx(float(mixture.log_prob(x)))


@pytest.mark.statistical
@both
def test_draws_follow_the_density(make):
    mixture = make(3, 2)
    draws = jax.jit(jax.vmap(mixture.sample))(jax.random.split(jax.random.key(0), 100_000))

    # For draws of q the mean of r_i(x) is w_i, and the law of the distance within a component is known.
    def weight_z_scores(mixture):
        shares = jax.vmap(mixture.responsibilities)(draws) - jax.nn.softmax(mixture.log_weights)
        return np.abs(np.mean(shares, axis=0)) / (np.std(shares, axis=0) / np.sqrt(len(draws)))

    assert np.max(weight_z_scores(mixture)) < 4.5
    tilted = type(mixture)(*(mixture.log_weights + jnp.array([0.05, 0.0, 0.0]), *arguments(mixture)[1:]))
    assert np.max(weight_z_scores(tilted)) > 4.5


def arguments(mixture):
    common = (mixture.log_weights, mixture.means, mixture.scale_trils)
    return (*common, mixture.df) if isinstance(mixture, StudentTMixture) else common


@pytest.mark.statistical
@both
def test_radial_law_of_one_component(make):
    mixture = make(1, 3)
    draws = jax.jit(jax.vmap(mixture.sample))(jax.random.split(jax.random.key(1), 20_000))
    white = (draws - mixture.means[0]) @ mixture.prepared().whitenings[0].T
    squared = np.sum(np.asarray(white) ** 2, axis=1) / 3
    heavy = stats.f(3, 3.0).cdf  # df of the first component is 3
    light = stats.chi2(3, scale=1 / 3).cdf
    right, wrong = (heavy, light) if make is student else (light, heavy)
    assert stats.kstest(squared, right).pvalue > 1e-4
    assert stats.kstest(squared, wrong).pvalue < 1e-10
    assert np.max(np.abs(np.mean(white / np.sqrt(3 * squared)[:, None], axis=0))) < 4.5 / np.sqrt(3 * 20_000)


@both
def test_dtype_is_kept(make):
    mixture = make(2, 2, np.float32)
    assert all(leaf.dtype == jnp.float32 for leaf in jax.tree.leaves(mixture))
    draw = mixture.sample(jax.random.key(0))
    assert draw.dtype == mixture.log_prob(draw).dtype == mixture.responsibilities(draw).dtype == jnp.float32
    assert mixture.log_prob(np.zeros(2)).dtype == jnp.float32


@both
def test_single_precision_is_enough_in_256_dimensions(make):
    double, single = make(2, 256), make(2, 256, np.float32)
    keys = jax.random.split(jax.random.key(2), 20)
    points = jax.vmap(single.sample)(keys)
    values = jax.jit(jax.vmap(single.log_prob))(points)
    np.testing.assert_allclose(values, jax.vmap(double.log_prob)(points.astype(np.float64)), atol=2e-3)
    far = 1e8 * points
    gradients = jax.jit(jax.vmap(jax.grad(single.log_prob)))(far)
    assert np.all(np.isfinite(gradients))


def test_many_degrees_of_freedom_are_gaussian_in_single_precision():
    arguments = parameters(2, 64, np.float32)
    points = jax.vmap(GaussianMixture(*arguments).sample)(jax.random.split(jax.random.key(3), 10))
    gaussian_values = jax.vmap(GaussianMixture(*arguments).log_prob)(points)
    student_values = jax.vmap(StudentTMixture(*arguments, 1e6).log_prob)(points)
    np.testing.assert_allclose(student_values, gaussian_values, atol=5e-3)


@pytest.mark.slow
def test_mixture_is_built_under_transformations():
    log_weights, means, factors = parameters(2, 2)
    x = jnp.zeros(2)
    expected = GaussianMixture(log_weights, means, factors).log_prob(x)

    @jax.jit
    def log_prob(log_weights, means, factors):
        return GaussianMixture(log_weights, means, factors).log_prob(x)

    assert log_prob(log_weights, means, factors) == pytest.approx(float(expected), rel=1e-12)
    stacked = [jnp.stack([a, a]) for a in (log_weights, means, factors)]
    batch = jax.vmap(lambda *a: StudentTMixture(*a, 4.0))(*stacked)
    assert jax.vmap(lambda mixture: mixture.prepared())(batch).whitenings.shape == (2, 2, 2, 2)
    values = jax.vmap(lambda mixture: mixture.log_prob(x))(batch)
    assert values[0] == values[1]
    gradient = jax.grad(lambda mixture: mixture.log_prob(x))(GaussianMixture(log_weights, means, factors))
    assert isinstance(gradient, GaussianMixture)


@both
def test_a_mixture_can_be_optimised(make):
    """The gradient reaches every parameter, and a changed parameter changes draws and densities."""
    mixture, x = make(2, 2), jnp.array([0.3, -0.7])
    gradient = jax.grad(lambda mixture: mixture.log_prob(x))(mixture)
    for i, (value, slope) in enumerate(zip(*map(jax.tree.leaves, (mixture, gradient)), strict=True)):
        direction = jnp.linspace(0.5, 1.5, value.size).reshape(value.shape)
        direction = jnp.tril(direction) if value.ndim == 3 else direction

        def moved(step, i=i, direction=direction):
            leaves, structure = jax.tree.flatten(mixture)
            return jax.tree.unflatten(structure, [*leaves[:i], leaves[i] + step * direction, *leaves[i + 1 :]])

        difference = (moved(1e-5).log_prob(x) - moved(-1e-5).log_prob(x)) / 2e-5
        assert abs(difference) > 1e-4, "a parameter that does nothing"
        np.testing.assert_allclose(jnp.sum(slope * direction), difference, rtol=1e-5)
        np.testing.assert_allclose(moved(0.1).on_host().at(np.asarray(x)[None]).log_prob, moved(0.1).log_prob(x))


def broken(**changes):
    log_weights, means, factors = parameters(2, 2)
    return {"log_weights": log_weights, "means": means, "scale_trils": factors, "df": 5.0} | changes


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"means": np.zeros(2)}, "means must be floating, of shape"),
        ({"means": np.zeros((2, 2), int)}, "means must be floating"),
        ({"log_weights": np.zeros(3)}, "log_weights must have shape"),
        ({"scale_trils": np.ones((2, 2))}, "scale_trils must have shape"),
        ({"scale_trils": np.ones((2, 2, 2))}, "lower triangular"),
        ({"scale_trils": -np.stack([np.eye(2)] * 2)}, "positive diagonals"),
        ({"log_weights": np.array([0.0, np.nan])}, "log_weights must be finite"),
        ({"means": np.full((2, 2), np.inf)}, "means must be finite"),
        ({"df": 0.0}, "df must be positive"),
        ({"df": np.ones(3)}, "df must be a number"),
    ],
)
def test_bad_parameters_are_refused(changes, message):
    with pytest.raises(ValueError, match=message):
        StudentTMixture(**broken(**changes))


def test_bad_point_is_refused():
    with pytest.raises(ValueError, match="flat vector of length 2"):
        gaussian(2, 2).log_prob(jnp.zeros(3))
