"""Targets: densities against SciPy and quadrature, draws against exact moments, truths against figures."""

import chex
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

from vhmc_jax import diagnostics, targets

FACTORIES = {
    "correlated_gaussian": targets.correlated_gaussian,
    "near_pair": targets.near_pair,
    "far_pair": targets.far_pair,
    "three_modes": targets.three_modes,
    "narrow_pair": targets.narrow_pair,
    "unequal_pair": targets.unequal_pair,
    "gmm40": targets.gmm40,
    "twenty_modes": targets.twenty_modes,
    "pair_8": lambda: targets.high_dimensional_pair(8),
    "skewed": targets.skewed,
}
MIXTURES = [name for name in FACTORIES if name != "skewed"]
every_target = pytest.mark.parametrize("name", FACTORIES)
every_mixture = pytest.mark.parametrize("name", MIXTURES)


def moment_z_scores(draws, mean, covariance):
    """Z-scores of every first and second moment about the true mean, with standard errors from the draws."""
    centred = np.asarray(draws) - mean
    products = centred[:, :, None] * centred[:, None, :]
    upper = np.triu_indices(centred.shape[1])
    values = np.concatenate([centred, (products - covariance)[:, upper[0], upper[1]]], axis=1)
    return values.mean(axis=0) * np.sqrt(len(values)) / values.std(axis=0)


def scipy_logdensity(target, points):
    def covariance(scale):
        factor = scale if scale.ndim == 2 else np.diag(np.broadcast_to(scale, (target.dim,)))
        return factor @ factor.T

    parts = [
        np.log(weight) + stats.multivariate_normal(mean, covariance(scale)).logpdf(points)
        for weight, mean, scale in zip(target.weights, target.means, target.scale_trils, strict=True)
    ]
    return np.logaddexp.reduce(parts)


@every_mixture
def test_density_is_that_of_scipy(name):
    target = FACTORIES[name]()
    points = target.sample(jax.random.key(1), 20)
    expected = scipy_logdensity(target, np.asarray(points))
    np.testing.assert_allclose(jax.jit(jax.vmap(target.logdensity))(points), expected, rtol=1e-9, atol=1e-9)


@pytest.mark.statistical
@every_target
def test_draws_have_the_exact_moments(name):
    target = FACTORIES[name]()
    draws = target.sample(jax.random.key(2), 100_000)
    limit = stats.norm.isf(1e-5 / (2 * target.dim**2))
    assert np.max(np.abs(moment_z_scores(draws, target.mean, target.covariance))) < limit
    # Power: draws that are 5 % too wide about the mean fail the same assertion.
    wide = target.mean + 1.05 * (np.asarray(draws) - target.mean)
    assert np.max(np.abs(moment_z_scores(wide, target.mean, target.covariance))) > limit


@pytest.mark.parametrize("name", [name for name in FACTORIES if name != "pair_8"])
def test_density_integrates_to_its_normalizer(name):
    target = FACTORIES[name]()
    # A midpoint rule over 12 standard deviations, in the frame of the covariance's own axes.
    values, vectors = np.linalg.eigh(target.covariance)
    num = 4001 if target.dim == 1 else 1601
    unit = (np.arange(num) + 0.5) / num * 24 - 12
    grid = np.stack(np.meshgrid(*[unit] * target.dim, indexing="ij"), axis=-1).reshape(-1, target.dim)
    points = target.mean + (grid * np.sqrt(values)) @ vectors.T
    cell = np.prod(np.sqrt(values)) * (24 / num) ** target.dim
    log_density = jax.jit(jax.vmap(target.logdensity))(points)
    total = np.sum(np.exp(log_density)) * cell
    assert np.log(total) == pytest.approx(target.log_normalizer, abs=1e-4)


def test_normalizer_is_added_to_the_density():
    plain = targets.far_pair()
    raised = targets.GaussianMixtureTarget(plain.weights, plain.means, plain.scale_trils, log_normalizer=3.5)
    x = jnp.array([1.0, -2.0])
    assert raised.logdensity(x) - plain.logdensity(x) == pytest.approx(3.5)
    assert raised.log_normalizer == 3.5


def test_moments_of_the_literature():
    forty, twenty = targets.gmm40(), targets.twenty_modes()
    np.testing.assert_allclose(forty.means[0], [-0.29947, 21.45774], atol=5e-6)
    np.testing.assert_allclose(forty.scale_trils, 1.3132616875, rtol=1e-10)
    np.testing.assert_allclose(forty.mean, [-2.14051, 1.24004], atol=5e-6)
    np.testing.assert_allclose(forty.covariance, [[441.8165, 171.2169], [171.2169, 623.4339]], atol=5e-5)
    np.testing.assert_allclose(twenty.mean, [4.478, 4.905], atol=1e-12)
    second = np.diag(twenty.covariance) + twenty.mean**2
    np.testing.assert_allclose(second, [25.6047, 33.9196], atol=5e-5)
    np.testing.assert_allclose(targets.far_pair().mean, [2.6, -2.6])
    np.testing.assert_allclose(targets.high_dimensional_pair(5).mean, np.full(5, -0.4))
    np.testing.assert_allclose(targets.correlated_gaussian().covariance, [[50.005, 49.995], [49.995, 50.005]])


def modes_by_ascent(target, step, num_steps):
    """Distinct ends of a plain gradient ascent from every mean: an independent count of the modes."""
    ascend = jax.jit(
        lambda x: jax.lax.fori_loop(0, num_steps, lambda _, y: y + step * jax.grad(target.logdensity)(y), x)
    )
    return np.unique(np.round(jax.vmap(ascend)(jnp.asarray(target.means)), 2), axis=0)


@pytest.mark.parametrize(("name", "count", "step"), [("gmm40", 36, 0.5), ("twenty_modes", 20, 5e-3)])
def test_components_that_merge_are_one_mode(name, count, step):
    target = FACTORIES[name]()
    assert len(target.mode_weights) == count
    assert len(modes_by_ascent(target, step, 2000)) == count
    assert target.mode_weights.sum() == pytest.approx(1.0)


@pytest.mark.parametrize(("dim", "count"), [(1, 1), (2, 2), (16, 2)])
def test_pair_is_bimodal_where_ascent_says_so(dim, count):
    target = targets.high_dimensional_pair(dim)
    assert len(target.mode_weights) == len(modes_by_ascent(target, 0.2, 2000)) == count


@pytest.mark.statistical
@every_mixture
def test_weight_error(name):
    target = FACTORIES[name]()
    draws = target.sample(jax.random.key(3), 50_000)
    assert target.weight_error(draws.reshape(50, 1000, -1)) < 0.02
    if len(target.mode_weights) > 1:  # draws of one component alone are in error by all the others
        alone = draws[jax.jit(jax.vmap(target.responsibilities))(draws).argmax(axis=1) == 0]
        others = 1.0 - target.mode_weights[target.mode_of[0]]
        assert target.weight_error(alone) == pytest.approx(others, abs=0.15 * others + 0.02)


def test_responsibilities_are_unbiased_where_modes_overlap():
    target = targets.high_dimensional_pair(2)
    draws = target.sample(jax.random.key(4), 200_000)
    nearest = np.mean(np.linalg.norm(draws + 1, axis=1) < np.linalg.norm(draws - 1, axis=1))
    assert target.weight_error(draws) < 0.004
    assert nearest == pytest.approx(0.669, abs=0.004)  # the count by nearest mean misses 0.7


@every_target
@pytest.mark.parametrize("dtype", [jnp.float32, jnp.float64])
def test_dtype_is_kept_and_gradient_is_finite_far_out(name, dtype):
    target = FACTORIES[name]()
    draws = target.sample(jax.random.key(5), 3, dtype)
    assert draws.shape == (3, target.dim)
    far = jnp.full(target.dim, -1e6, dtype)
    value_and_grad = jax.jit(jax.value_and_grad(target.logdensity))
    for x in (draws[0], far):
        value, gradient = value_and_grad(x)
        assert value.dtype == gradient.dtype == dtype
        chex.assert_tree_all_finite((value, gradient))
    assert jnp.isnan(value_and_grad(far.at[0].set(jnp.nan))[0])


@every_target
def test_target_is_a_pytree_argument(name):
    @jax.jit
    @chex.assert_max_traces(n=1)
    def evaluate(logdensity_fn, x):
        return logdensity_fn(x)

    for _ in range(2):
        target = FACTORIES[name]()
        x = jnp.asarray(target.mean)
        value = evaluate(jax.tree_util.Partial(type(target).logdensity, target), x)
        assert value == pytest.approx(float(target.logdensity(x)), rel=1e-12)


def test_isotropic_pair_costs_in_proportion_to_the_dimension():
    def flops(dim):
        target = targets.high_dimensional_pair(dim)
        compiled = jax.jit(jax.vmap(jax.grad(target.logdensity))).lower(jnp.zeros((64, dim))).compile()
        return compiled.cost_analysis()["flops"]

    assert flops(256) < 2.5 * flops(128)  # a product with a matrix would cost four times as much


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (([1.0], np.zeros(2), [1.0]), "means"),
        (([0.5, 0.6], np.zeros((2, 2)), [1.0, 1.0]), "weights"),
        (([0.5, 0.5], np.zeros((2, 2)), np.ones((2, 3))), "scale_trils"),
        (([0.5, 0.5], np.zeros((2, 2)), np.ones(2), 0.0, (0, 2)), "mode_of"),
    ],
)
def test_bad_mixture_is_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        targets.GaussianMixtureTarget(*arguments)


def test_bad_factory_argument_is_refused():
    with pytest.raises(ValueError, match="weight"):
        targets.far_pair(weight=1.0)
    with pytest.raises(ValueError, match="dim"):
        targets.high_dimensional_pair(0)


def test_a_target_tells_modes_apart_in_a_mode_report():
    target = targets.gmm40()
    draws = target.sample(jax.random.key(0), 400).reshape(4, 100, 2)
    report = diagnostics.mode_report(draws, target, mode_of=target.mode_of)
    assert len(report.weights) == 36
    np.testing.assert_allclose(report.weights, target.mode_weights, atol=0.06)
