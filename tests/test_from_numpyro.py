"""NumPyro's models as problems: density, prior, named draws, likelihoods, and what is refused."""

import sys
import warnings

import jax
import jax.numpy as jnp
import matplotlib.pyplot as plt
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest
from counting import compiled_during

import vhmc_jax as vj

KEY = jax.random.key(11)
RNG = np.random.default_rng(5)
DATA = np.concatenate([RNG.normal(-3.0, 0.5, 15), RNG.normal(3.0, 0.5, 25)])


def mixture(y, num_components, low=0.0):
    """Two components whose labels may be swapped, a deterministic site, a bound that is another site."""
    weights = numpyro.sample("weights", dist.Dirichlet(jnp.ones(num_components)))
    with numpyro.plate("component", num_components):
        mu = numpyro.sample("mu", dist.Normal(0.0, 5.0))
    scale = numpyro.sample("scale", dist.LogNormal(0.0, 1.0))
    numpyro.sample("shift", dist.Uniform(low, low + scale))
    numpyro.deterministic("gap", jnp.max(mu) - jnp.min(mu))
    with numpyro.plate("observation", len(y)):
        components = dist.Normal(mu, scale)
        numpyro.sample("y", dist.MixtureSameFamily(dist.Categorical(weights), components), obs=y)


@pytest.fixture(scope="module")
def problem():
    return vj.from_numpyro(mixture, DATA, 2)


@pytest.fixture(scope="module")
def result(problem):
    return vj.sample(KEY, problem, num_chains=32, num_samples=500, progress=False)


def test_names_and_data(problem):
    assert problem.dims == {"mu": ["component"], "y": ["observation"]}
    assert set(problem.parameters) == {"weights", "mu", "scale", "shift"}
    assert problem.prior is problem.region
    np.testing.assert_array_equal(problem.observed_data["y"], DATA)


@pytest.mark.slow
def test_two_labellings_weigh_the_same(result):
    assert len(result.modes.weights) == 2
    assert np.all(np.abs(result.modes.weights - 0.5) < 4 * result.modes.errors)
    assert result.draws["mu"].shape == (32, 500, 2)
    np.testing.assert_allclose(np.sort(result.modes.locations.means[:, 1]), [-3.0, 3.0], atol=0.5)
    assert "mu[1]" in str(result.modes)


@pytest.mark.slow
def test_other_data_of_the_same_shape_compile_nothing(result):
    def again(data):
        return vj.sample(KEY, vj.from_numpyro(mixture, data, 2), num_chains=32, num_samples=500, progress=False)

    other, compiled = compiled_during(again, DATA + 0.25)
    assert compiled == 0
    shift = other.draws["mu"].mean() - result.draws["mu"].mean()
    assert 0.1 < shift < 0.4


@pytest.mark.slow
def test_arviz_has_all_groups(result):
    with warnings.catch_warnings():  # ArviZ 0.x announces 1.x when it is imported
        warnings.simplefilter("ignore", FutureWarning)
        import arviz
    data = result.to_arviz(num_chains=4, posterior_predictive=KEY)
    assert data["prior"]["mu"].shape == (1, 1000, 2)
    assert data["posterior_predictive"]["y"].dims == ("chain", "draw", "observation")
    assert abs(float(data["posterior_predictive"]["y"].mean()) - DATA.mean()) < 0.3
    assert data["posterior"]["mu"].dims == ("chain", "draw", "component")
    assert data["log_likelihood"]["y"].dims == ("chain", "draw", "observation")
    assert data["observed_data"]["y"].dims == ("observation",)
    assert len(arviz.summary(data)) == 7
    assert data["posterior"].sizes["chain"] == 4
    assert len(np.unique(data["sample_stats"]["mode"])) == 2
    with warnings.catch_warnings():  # of its own parts
        warnings.simplefilter("ignore")
        for plot in (arviz.plot_trace, arviz.plot_forest):
            plot(data, var_names=["mu"])
            plt.close("all")
    assert np.isfinite(float(getattr(arviz.loo(data), "elpd_loo", None) or arviz.loo(data).elpd))


def test_arrays_that_python_reads_become_constants():
    def groups(y, group):
        size = len(np.unique(group))
        mu = numpyro.sample("mu", dist.Normal(0.0, 1.0).expand([size]))
        numpyro.sample("y", dist.Normal(mu[group], 1.0), obs=y)

    problem = vj.from_numpyro(groups, jnp.ones(3), np.array([0, 1, 1]))
    assert jax.eval_shape(problem.region, KEY)["mu"].shape == (2,)


def test_improper_priors_and_factors():
    def model():
        x = numpyro.sample("x", dist.ImproperUniform(dist.constraints.positive, (), event_shape=(2,)))
        numpyro.factor("density", -jnp.sum(x))

    problem = vj.from_numpyro(model)
    assert not hasattr(problem.region, "log_prob")
    assert np.abs(jax.jit(problem.region)(KEY)["x"]).max() < 10
    assert problem.log_likelihood is None
    assert problem.predict is None
    assert problem.prior is None
    assert problem.observed_data == {}


def test_missing_values_by_a_mask_are_latent():
    def model(y, is_there):
        mu = numpyro.sample("mu", dist.Normal(0.0, 1.0))
        with numpyro.plate("observation", len(y)):
            numpyro.sample("y", dist.Normal(mu, 1.0), obs=y, obs_mask=is_there)

    problem = vj.from_numpyro(model, jnp.array([1.0, 0.0]), jnp.array([True, False]))
    assert set(jax.eval_shape(problem.region, KEY)) == {"mu", "y_unobserved"}


def test_single_precision():
    with jax.enable_x64(False):
        problem = vj.from_numpyro(mixture, DATA.astype(np.float32), 2)
        position = jax.eval_shape(problem.region, jax.random.key(1))
        assert {leaf.dtype for leaf in jax.tree.leaves(position)} == {np.dtype(np.float32)}
        assert jax.eval_shape(problem.logdensity_fn, position).dtype == np.float32


def test_what_cannot_be_sampled_is_named():
    def discrete(y):
        z = numpyro.sample("z", dist.Categorical(jnp.ones(2) / 2))
        numpyro.sample("y", dist.Normal(jnp.asarray(z, y.dtype), 1.0), obs=y)

    def subsampled(y):
        mu = numpyro.sample("mu", dist.Normal(0.0, 1.0))
        with numpyro.plate("data", len(y), subsample_size=2) as rows:
            numpyro.sample("y", dist.Normal(mu, 1.0), obs=y[rows])

    def outside(y):
        scale = numpyro.sample("scale", dist.HalfNormal(1.0))
        numpyro.sample("y", dist.Exponential(scale, validate_args=False).mask(y > -5), obs=y)
        numpyro.factor("wall", jnp.where(scale > 0, -jnp.inf, 0.0))

    def fixed(y):
        numpyro.sample("x", dist.Delta(1.0))
        numpyro.sample("y", dist.Normal(0.0, 1.0), obs=y)

    def plain(y=None):
        mu = numpyro.sample("mu", dist.Normal(0.0, 1.0))
        numpyro.sample("y", dist.Normal(mu, 1.0), obs=y)

    def in_a_plate(y):
        with numpyro.plate("data", len(y)):
            z = numpyro.sample("z", dist.Categorical(jnp.ones(2) / 2))
            numpyro.sample("y", dist.Normal(jnp.asarray(z, y.dtype), 1.0), obs=y)

    def without_a_prior(y):
        scale = numpyro.param("scale", 1.0)
        plain(scale * y)

    def twice(y):
        numpyro.sample("mu", dist.Normal(0.0, 1.0))
        plain(y)

    def chain(y):
        numpyro.sample("chain", dist.Normal(0.0, 1.0))
        plain(y)

    y = jnp.arange(4.0)
    with pytest.raises(ValueError, match="site 'z' is discrete and latent: CategoricalProbs"):
        vj.from_numpyro(in_a_plate, y)
    with pytest.raises(ValueError, match=r"site 'scale' is a numpyro\.param, which has no prior"):
        vj.from_numpyro(without_a_prior, y)
    with pytest.raises(ValueError, match=r"sites must have names of their own: .* `mu` duplicated"):
        vj.from_numpyro(twice, y)
    with pytest.raises(ValueError, match="must not be called chain or draw, as 'chain' is: ArviZ has these names"):
        vj.from_numpyro(chain, y)
    for data in ("abc", [1.0, 2.0]):
        with pytest.raises(TypeError, match=r"observed site 'y' must have an array as its value, got (str|list): "):
            vj.from_numpyro(plain, data)
    with pytest.raises(ValueError, match=r"site 'z' is discrete and latent: Categorical.* Marginalise it"):
        vj.from_numpyro(discrete, y)
    with pytest.raises(ValueError, match="plate 'data' takes a random subsample of 2 of 4"):
        vj.from_numpyro(subsampled, y)
    with pytest.raises(ValueError, match=r"finite somewhere in the prior, got -inf .* 'wall' has log probability -inf"):
        vj.from_numpyro(outside, y)
    with pytest.raises(ValueError, match="site 'x' has one value alone"):
        vj.from_numpyro(fixed, y)
    with pytest.raises(ValueError, match="observed site 'y' must not hold NaN, got 1 of 2"):
        vj.from_numpyro(plain, jnp.array([1.0, jnp.nan]))
    with pytest.warns(UserWarning, match="no observed site: the draws will be those of the prior of mu, y"):
        vj.from_numpyro(plain)
    with pytest.raises(ValueError, match="must have a latent site"):
        vj.from_numpyro(lambda: None)
    with pytest.raises(TypeError, match="model must be a function with NumPyro's primitives, got int: 3"):
        vj.from_numpyro(3)


def test_missing_numpyro_says_how_to_get_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "numpyro", None)
    with pytest.raises(ImportError, match=r"vhmc-jax\[numpyro\]"):
        vj.from_numpyro(mixture, DATA, 2)
