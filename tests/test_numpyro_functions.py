"""Functions of a NumPyro model at a position: density, values and back, predictions, and the prior."""

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest
from jax.flatten_util import ravel_pytree
from numpyro import handlers
from numpyro.infer.util import log_density
from test_from_numpyro import DATA, KEY, mixture

import vhmc_jax as vj
from vhmc_jax.models.numpyro_functions import unconstrained


@pytest.fixture(scope="module")
def problem():
    return vj.from_numpyro(mixture, DATA, 2)


def test_density_is_that_of_the_model_with_the_jacobian(problem):
    @jax.jit
    def figures(key):
        position = problem.region(key)
        values = problem.constrain(position)
        x, unravel = ravel_pytree(position)

        def free(x):
            values = problem.constrain(unravel(x))
            return ravel_pytree(
                {name: values[name] for name in ("mu", "scale", "shift")} | {"w": values["weights"][:-1]}
            )[0]

        latent = {name: values[name] for name in position}
        joint = log_density(handlers.seed(mixture, 0), (DATA, 2), {}, latent)[0]
        parts = problem.region.log_prob(position), problem.log_likelihood(position)["y"]
        return problem.logdensity_fn(position), joint, jax.jacfwd(free)(x), parts, values

    density, joint, jacobian, (prior, likelihood), values = figures(KEY)
    np.testing.assert_allclose(density, joint + np.linalg.slogdet(jacobian)[1], rtol=1e-10)
    np.testing.assert_allclose(density, prior + likelihood.sum(), rtol=1e-10)
    assert likelihood.shape == DATA.shape
    assert values.keys() == {"weights", "mu", "scale", "shift", "gap"}
    np.testing.assert_allclose(values["gap"], np.ptp(values["mu"]))


def test_region_draws_from_the_prior(problem):
    draws = jax.jit(jax.vmap(lambda key: problem.constrain(problem.region(key))))(jax.random.split(KEY, 2000))
    np.testing.assert_allclose(draws["mu"].std(), 5.0, rtol=0.1)
    np.testing.assert_allclose(jnp.log(draws["scale"]).std(), 1.0, rtol=0.1)
    np.testing.assert_allclose(draws["weights"].mean(axis=0), 0.5, atol=0.05)
    assert jnp.all(draws["shift"] < draws["scale"])


def test_the_way_back(problem):
    keys = jax.random.split(KEY, 100)

    @jax.jit
    @jax.vmap
    def there_and_back(key):
        position = problem.region(key)
        values = problem.constrain(position)
        return position, problem.unconstrain({name: values[name] for name in problem.parameters})

    position, back = there_and_back(keys)
    assert position.keys() == back.keys()
    for name in position:
        np.testing.assert_allclose(back[name], position[name], rtol=1e-6, atol=1e-6)


def test_small_weights_at_the_end_of_the_stick_keep_their_digits():
    def model():
        numpyro.sample("weights", dist.Dirichlet(jnp.ones(3)))

    with pytest.warns(UserWarning, match="no observed site"):
        problem = vj.from_numpyro(model)
    held = problem.constrain.args
    weights = jnp.array([1.0 - 3e-20, 1e-20, 2e-20])
    x = unconstrained(*held, {"weights": weights})["weights"]
    np.testing.assert_allclose(x[1] - jnp.log(1.0), jnp.log(0.5), rtol=1e-12)
    np.testing.assert_allclose(x[0], -jnp.log(3e-20) + jnp.log(2.0), rtol=1e-12)


def test_predictions_are_draws_of_the_observed_sites(problem):
    position = {"weights": jnp.zeros(1), "mu": jnp.array([-4.0, 4.0]), "scale": jnp.log(0.5), "shift": jnp.array(0.0)}
    draws = jax.jit(jax.vmap(problem.predict, in_axes=(0, None)))(jax.random.split(KEY, 500), position)
    assert set(draws) == {"y"}
    assert draws["y"].shape == (500, *DATA.shape)
    np.testing.assert_allclose(np.abs(draws["y"]).mean(), 4.0, atol=0.02)
    np.testing.assert_allclose(np.abs(draws["y"]).std(), 0.5, atol=0.02)
    np.testing.assert_allclose(np.mean(draws["y"] > 0), 0.5, atol=0.02)


def test_factors_are_not_predicted_and_missing_values_are_those_of_the_position():
    def model(y, is_there):
        mu = numpyro.sample("mu", dist.Normal(0.0, 1.0))
        numpyro.factor("wall", -(mu**2))
        with numpyro.plate("observation", len(y)):
            numpyro.sample("y", dist.Normal(mu, 1e-3), obs=y, obs_mask=is_there)

    problem = vj.from_numpyro(model, jnp.array([1.0, 0.0]), jnp.array([True, False]))
    found = problem.predict(KEY, {"mu": jnp.array(3.0), "y_unobserved": jnp.zeros(2)})
    assert set(found) == {"y_observed"}
    np.testing.assert_allclose(found["y_observed"], 3.0, atol=0.01)
