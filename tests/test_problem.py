"""Problems: what they hold, and what they refuse."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.tree_util import Partial

import vhmc_jax as vj
from vhmc_jax.models import problem as problem_module
from vhmc_jax.models.problem import as_problem

DRAWS = {"x": jnp.arange(12.0).reshape(2, 6)}


def logdensity(position):
    return -0.5 * position["x"] ** 2


def likelihood(data, position):
    return {"y": -((data - position["x"]) ** 2)}


def test_functions_are_pytrees_and_a_plain_density_is_a_problem():
    problem = as_problem(logdensity)
    assert not jax.tree_util.all_leaves([problem.logdensity_fn])
    assert problem.constrained(DRAWS) is DRAWS
    assert problem.log_likelihoods(DRAWS) == {}
    assert as_problem(problem) is problem


def test_values_at_draws():
    data = jnp.arange(3.0)
    problem = vj.Problem(
        logdensity_fn=logdensity,
        constrain=lambda position: {"scale": jnp.exp(position["x"])},
        log_likelihood=Partial(likelihood, data),
    )
    np.testing.assert_allclose(problem.constrained(DRAWS)["scale"], np.exp(DRAWS["x"]))
    found = problem.log_likelihoods(DRAWS)["y"]
    np.testing.assert_allclose(found, -((data - DRAWS["x"][..., None]) ** 2))


def test_predictions_and_the_prior():
    problem = vj.Problem(
        logdensity_fn=logdensity,
        predict=lambda key, position: {"y": position["x"] + jax.random.normal(key, (3,))},
        prior=lambda key: {"x": jax.random.normal(key)},
        constrain=lambda position: {"scale": jnp.exp(position["x"])},
    )
    found = problem.predictions(jax.random.key(0), DRAWS)["y"]
    assert found.shape == (2, 6, 3)
    assert len(np.unique(found - DRAWS["x"][..., None])) == 36
    assert problem.predictions(None, DRAWS) == {}
    before = problem.prior_draws()["scale"]
    assert before.shape == (1, 1000)
    np.testing.assert_allclose(np.log(before).std(), 1.0, rtol=0.1)
    plain = as_problem(logdensity)
    assert plain.prior_draws() == {}
    with pytest.raises(ValueError, match="posterior_predictive must be left out: the problem has no predict"):
        plain.predictions(jax.random.key(0), DRAWS)


def test_a_large_log_likelihood_is_left_out_with_a_word(monkeypatch):
    problem = vj.Problem(logdensity_fn=logdensity, log_likelihood=Partial(likelihood, jnp.arange(3.0)))
    monkeypatch.setattr(problem_module, "MANY_NUMBERS", 35)
    with pytest.warns(UserWarning, match="left out: it is 36 numbers"):
        assert problem.log_likelihoods(DRAWS, None) == {}
    assert problem.log_likelihoods(DRAWS, True)["y"].shape == (2, 6, 3)
    assert problem.log_likelihoods(DRAWS, False) == {}


def test_bad_fields_are_named():
    with pytest.raises(TypeError, match="logdensity_fn must be a function, got int: 3"):
        vj.Problem(logdensity_fn=3)
    with pytest.raises(TypeError, match="constrain must be a function"):
        vj.Problem(logdensity_fn=logdensity, constrain={"x": 1})
    with pytest.raises(ValueError, match="unconstrain must come with constrain, which it undoes, got none"):
        vj.Problem(logdensity_fn=logdensity, unconstrain=lambda values: values)
    with pytest.raises(ValueError, match="dims of 'mu' must not be called chain, draw or mu, as 'draw' is"):
        vj.Problem(logdensity_fn=logdensity, dims={"mu": ["draw"]})


def test_a_problem_without_a_region_needs_one():
    with pytest.raises(ValueError, match="give a region to search for modes"):
        vj.sample(jax.random.key(0), vj.Problem(logdensity_fn=logdensity), progress=False)
