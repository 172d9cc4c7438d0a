"""Values are compared with supports where they may lie outside, and nowhere else."""

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import pytest

import vhmc_jax as vj

Y = np.array([0.5, 1.5, 2.5])
SPLIT = [dist.HalfNormal(1.0), dist.Normal(0.0, 1.0)]
WEIGHTS = dist.Categorical(jnp.ones(2) / 2)


def moved_uniform(top):
    return dist.TransformedDistribution(dist.Uniform(0.0, top), dist.transforms.AffineTransform(0.0, 2.0))


# From a latent positive number to the distribution of the data, and whether values must be compared with its support.
CASES = {
    "normal": (lambda top: dist.Normal(top, 1.0), False),
    "rate": (lambda top: dist.Exponential(top), False),
    "mixture": (lambda top: dist.MixtureSameFamily(WEIGHTS, dist.Normal(jnp.stack([top, -top]), 1.0)), False),
    "moving edge": (lambda top: dist.Uniform(0.0, top), True),
    "moving edge of a base": (moved_uniform, True),
    "components of several supports": (
        lambda top: dist.MixtureGeneral(WEIGHTS, SPLIT, support=dist.constraints.real),
        True,
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_comparisons_stay_where_they_matter(name):
    make, expected = CASES[name]

    def model(y):
        top = numpyro.sample("top", dist.LogNormal(0.0, 1.0))
        with numpyro.plate("data", 3):
            numpyro.sample("y", make(top), obs=y)

    problem = vj.from_numpyro(model, Y)
    assert (problem.logdensity_fn.func.__name__ == "logdensity") == expected
    if name.startswith("moving edge"):
        density = jax.jit(problem.logdensity_fn)
        assert density({"top": np.log(1.2)}) == -np.inf
        assert np.isfinite(density({"top": np.log(2.6)}))


def test_data_outside_their_support_are_refused():
    def model(y):
        rate = numpyro.sample("rate", dist.LogNormal(0.0, 1.0))
        numpyro.sample("y", dist.Exponential(rate).expand([3]).to_event(1), obs=y)

    vj.from_numpyro(model, Y)
    with pytest.raises(ValueError, match="'y' has log probability -inf"):
        vj.from_numpyro(model, -Y)
