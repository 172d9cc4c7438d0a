"""PyMC's models as problems: density, prior, named draws, coordinates, and what is refused."""

import os
import sys
import warnings
from pathlib import Path

import jax
import numpy as np
import pytest
from counting import compiled_during

import vhmc_jax as vj
from vhmc_jax.pipeline.fold import fold

sys.path.insert(0, str(Path(__file__).parents[1] / "benchmarks"))
from galaxies import VELOCITIES

with warnings.catch_warnings():  # ArviZ 0.x announces 1.x, and PyTensor that it found no BLAS
    warnings.simplefilter("ignore")
    import arviz
    import pymc as pm
    import pytensor

    pytensor.function([], pytensor.tensor.constant(1.0))()

KEY = jax.random.key(13)
RNG = np.random.default_rng(5)
DATA = np.concatenate([RNG.normal(-3.0, 0.5, 15), RNG.normal(3.0, 0.5, 25)])


@pytest.fixture(autouse=True)
def _promotion():
    """PyTensor's functions mix types."""
    with jax.numpy_dtype_promotion("standard"):
        yield


def mixture():
    with pm.Model(coords={"component": ["a", "b"]}) as model:
        y = pm.Data("measured", DATA)
        weights = pm.Dirichlet("weights", np.ones(2), dims="component")
        mu = pm.Normal("mu", 0.0, 5.0, dims="component")
        scale = pm.LogNormal("scale", 0.0, 1.0)
        pm.Deterministic("gap", mu.max() - mu.min())
        pm.NormalMixture("y", weights, mu, scale, observed=y)
    return model


@pytest.fixture(scope="module")
def model():
    return mixture()


@pytest.fixture(scope="module")
def problem(model):
    with jax.numpy_dtype_promotion("standard"):
        return vj.from_pymc(model)


def test_density_is_pymcs_with_its_sign(model, problem):
    point = model.initial_point()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        expected = model.compile_logp(mode="FAST_COMPILE")(point)
    np.testing.assert_allclose(jax.jit(problem.logdensity_fn)(point), expected, rtol=1e-10)


def test_values_names_and_data(problem):
    position = {"weights_simplex__": np.zeros(1), "mu": np.array([-1.0, 2.0]), "scale_log__": np.array(0.5)}
    values, likelihood = jax.jit(lambda x: (problem.constrain(x), problem.log_likelihood(x)))(position)
    np.testing.assert_allclose(values["weights"], 0.5)
    np.testing.assert_allclose(values["scale"], np.exp(0.5))
    np.testing.assert_allclose(values["gap"], 3.0)
    assert set(values) == {"weights", "mu", "scale", "gap"}
    z = (DATA[:, None] - position["mu"]) / np.exp(0.5)
    expected = np.log(np.mean(np.exp(-0.5 * z**2), axis=1)) - 0.5 - 0.5 * np.log(2 * np.pi)
    np.testing.assert_allclose(likelihood["y"], expected)
    np.testing.assert_array_equal(problem.observed_data["y"], DATA)
    assert problem.dims["mu"] == ["component"]
    assert list(problem.coords["component"]) == ["a", "b"]


def test_the_way_back_and_the_prior(problem):
    assert problem.parameters == ("weights", "mu", "scale")
    position = jax.tree.map(lambda rows: rows[:50], problem.prior)
    values = jax.jit(jax.vmap(problem.constrain))(position)
    back = jax.jit(jax.vmap(problem.unconstrain))({name: values[name] for name in problem.parameters})
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-8, atol=1e-8), back, position)
    draws = problem.prior_draws()
    assert draws["mu"].shape == (1, 2048, 2)
    np.testing.assert_allclose(draws["weights"].mean(axis=(0, 1)), 0.5, atol=0.03)


def test_labels_by_the_name_of_their_dimension(problem):
    """The density is the same at the images: the check is that of ``sample``."""
    folded = fold(KEY, problem, problem.region, None, vj.permutations("component"))
    assert folded.num_images == 2
    inside = problem.constrain(folded.domain.representative(jax.tree.map(lambda rows: rows[0], problem.prior)))
    assert inside["mu"][0] < inside["mu"][1]
    with pytest.raises(ValueError, match="the exchange of labels 0 and 1 does not: the log density is"):
        fold(KEY, problem, problem.region, None, vj.permutations({"mu": 0}))


def test_region_is_about_the_prior(problem):
    draws = jax.jit(jax.vmap(problem.region))(jax.random.split(KEY, 2000))
    np.testing.assert_allclose(draws["mu"].std(), 5.0, rtol=0.15)
    np.testing.assert_allclose(draws["scale_log__"].std(), 1.0, rtol=0.15)


def test_jax_keeps_its_devices_and_the_environment_its_flags(problem):
    assert "device_count=100" not in os.environ.get("XLA_FLAGS", "")
    assert len(jax.devices()) < 100


def run(problem):
    """Some steps of a kernel from one point, as named draws."""
    starts = {"weights_simplex__": np.zeros((4, 1)), "mu": np.tile([-2.0, 2.0], (4, 1)), "scale_log__": np.zeros(4)}
    kernel = vj.hmc(problem.logdensity_fn, step_size=0.05, num_integration_steps=8)
    return problem.constrained(vj.run_chains(KEY, kernel, starts, num_samples=200).draws)


def test_kernels_run_and_other_data_of_the_same_shape_compile_nothing(model, problem):
    draws = run(problem)
    data = vj.diagnostics.to_arviz(draws, dims=problem.dims, coords=problem.coords)
    assert data["posterior"]["mu"].dims == ("chain", "draw", "component")
    assert list(data["posterior"].coords["component"].values) == ["a", "b"]
    np.testing.assert_allclose(np.mean(draws["mu"][:, 100:], axis=(0, 1)), [-3.0, 3.0], atol=0.5)

    def again(values):
        with model:
            pm.set_data({"measured": values})
        other = vj.from_pymc(model)
        return other, run(other)

    (other, moved), compiled = compiled_during(again, DATA + 0.5)
    assert compiled == 0
    assert 0.2 < np.mean(moved["mu"][:, 100:]) - np.mean(draws["mu"][:, 100:]) < 0.8
    np.testing.assert_array_equal(other.observed_data["y"], DATA + 0.5)


@pytest.mark.slow
def test_galaxies_from_the_model_to_a_summary():
    """Three normal distributions: six modes of the same weight. Three lines of code, and a fourth for ArviZ."""
    with pm.Model(coords={"component": ["a", "b", "c"]}) as model:
        weights = pm.Dirichlet("weights", np.ones(3), dims="component")
        mean = pm.Normal("mean", 20.0, 10.0, dims="component")
        scale = pm.LogNormal("scale", 0.5, 0.5)
        pm.NormalMixture("velocity", weights, mean, scale, observed=pm.Data("measured", VELOCITIES))

    problem = vj.from_pymc(model)
    result = vj.sample(KEY, problem, num_chains=32, num_samples=250, progress=False)
    data = result.to_arviz(num_chains=4)

    assert result.is_trusted, result.warnings
    assert len(result.modes.weights) == 6
    assert np.all(np.abs(result.modes.weights - 1 / 6) < 4 * result.modes.errors)
    assert set(result.draws) == {"weights", "mean", "scale"}
    np.testing.assert_allclose(np.sum(result.draws["weights"], axis=-1), 1.0)
    assert np.all(np.asarray(result.draws["scale"]) > 0)
    summary = arviz.summary(data)
    assert set(summary.index) >= {"mean[a]", "mean[b]", "mean[c]", "scale", "weights[a]"}
    assert summary["r_hat"].max() <= 1.02
    assert set(data.groups()) >= {"posterior", "sample_stats", "log_likelihood", "observed_data", "prior"}

    def again(values):
        with model:
            pm.set_data({"measured": values})
        return vj.sample(KEY, vj.from_pymc(model), num_chains=32, num_samples=250, progress=False)

    other, compiled = compiled_during(again, VELOCITIES + RNG.normal(0.0, 0.3, 82))
    assert compiled == 0
    assert len(other.modes.weights) == 6

    few = data.sel(draw=slice(None, None, 100), groups="posterior")
    with warnings.catch_warnings():  # PyTensor found no BLAS
        warnings.simplefilter("ignore")
        predicted = pm.sample_posterior_predictive(few, model=model, progressbar=False, random_seed=1)
    assert predicted.posterior_predictive["velocity"].shape == (4, 20, 82)


def test_a_flat_prior_is_sought_around_the_initial_point():
    with pm.Model() as model:
        pm.Flat("x")
        pm.Potential("density", -(model["x"] ** 2))
    region = vj.from_pymc(model).region
    assert isinstance(region, vj.Box)
    assert region.low["x"] == -10.0


def test_what_cannot_be_sampled_is_named():
    with pm.Model() as discrete:
        z = pm.Categorical("z", np.ones(2) / 2)
        pm.Normal("y", z, 1.0, observed=DATA)
    with pytest.raises(ValueError, match="variable 'z' must not be discrete and free: marginalise it"):
        vj.from_pymc(discrete)
    with pm.Model() as subsampled:
        mu = pm.Normal("mu", 0.0, 1.0)
        pm.Normal("y", mu, 1.0, observed=pm.Minibatch(DATA, batch_size=4), total_size=len(DATA))
    with pytest.raises(ValueError, match="variable 'y' takes a random subsample"):
        vj.from_pymc(subsampled)
    with pm.Model() as outside:
        scale = pm.HalfNormal("scale", 1.0)
        pm.Exponential("y", scale, observed=np.array([-1.0, 2.0]))
    with pytest.raises(ValueError, match=r"finite somewhere in the prior, got -inf .*'y' has log probability -inf"):
        vj.from_pymc(outside)
    with pm.Model() as empty:
        pm.Normal("mu", 0.0, 1.0)
    with pytest.warns(UserWarning, match="no observed variable: the draws will be those of the prior of mu"):
        vj.from_pymc(empty)
    with pytest.raises(TypeError, match=r"model must be a pymc.Model, got int: 3"):
        vj.from_pymc(3)


def test_missing_pymc_says_how_to_get_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "pymc", None)
    with pytest.raises(ImportError, match=r"vhmc-jax\[pymc\]"):
        vj.from_pymc(None)
