"""Priors as regions: a density around draws, and one that the log density must be finite in."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import vhmc_jax as vj
from vhmc_jax.models.prior import require_finite_draws, scatter_around

RNG = np.random.default_rng(8)


def test_scatter_has_the_moments_of_the_draws_and_none_twice():
    rows = {"a": RNG.normal(3.0, 2.0, (500, 2)), "b": RNG.normal(size=500)}
    rows["a"][0, 0] = np.inf
    region = scatter_around(rows)
    assert len(region.positions["a"]) == 499
    draws = jax.jit(jax.vmap(region))(jax.random.split(jax.random.key(0), 4000))
    assert draws["a"].shape == (4000, 2)
    assert len(np.unique(draws["b"])) == 4000
    np.testing.assert_allclose(draws["a"].mean(), 3.0, atol=0.3)
    bandwidth = 499 ** (-1 / 7)
    np.testing.assert_allclose(draws["a"].std(), 2.0 * np.sqrt(1 + bandwidth**2), rtol=0.1)
    with pytest.raises(ValueError, match="draws of the prior must be finite"):
        scatter_around({"a": np.full((3, 1), np.nan)})


def test_a_density_that_is_nowhere_finite_is_refused_with_its_reason():
    region = vj.box(jnp.zeros(2), jnp.ones(2))
    fine = vj.Problem(logdensity_fn=lambda x: jnp.where(x[0] > 0.9, jnp.sum(x), -jnp.inf), region=region)
    require_finite_draws(fine, lambda x: {})
    wrong = vj.Problem(logdensity_fn=lambda x: jnp.log(-x[0]), region=region)
    with pytest.raises(ValueError, match=r"finite somewhere in the prior, got nan .* 'y' has log probability nan"):
        require_finite_draws(wrong, lambda x: {"x": x.sum(), "y": jnp.log(-x[0])})
