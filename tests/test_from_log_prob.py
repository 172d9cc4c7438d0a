"""Log densities with bijectors: of one's own, of distrax, of TensorFlow Probability."""

import warnings

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import vhmc_jax as vj

with warnings.catch_warnings():  # those of other libraries, when they are imported
    warnings.simplefilter("ignore")
    import distrax
    from tensorflow_probability.substrates import jax as tfp

X = np.array([0.3, -0.2])


class Exponential:
    """As a user may write it."""

    def forward(self, x):
        return jnp.exp(x)

    def forward_log_det_jacobian(self, x):
        return jnp.sum(x)


class Elementwise(Exponential):
    def forward_log_det_jacobian(self, x):
        return x


@pytest.fixture(autouse=True)
def _promotion():
    """Other libraries mix types."""
    with jax.numpy_dtype_promotion("standard"), warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        yield


def gamma(y):
    return jnp.sum(jnp.log(y) - y)


BIJECTORS = {
    "own": Exponential(),
    "distrax": distrax.Block(distrax.Lambda(jnp.exp), 1),
    "tfp": tfp.bijectors.Exp(),
}


@pytest.mark.parametrize("name", BIJECTORS)
def test_density_has_the_jacobian(name):
    problem = vj.from_log_prob(gamma, BIJECTORS[name])
    density, values = jax.jit(lambda x: (problem.logdensity_fn(x), problem.constrain(x)))(X)
    np.testing.assert_allclose(density, np.sum(2 * X - np.exp(X)))
    np.testing.assert_allclose(values["x"], np.exp(X))
    if problem.unconstrain is not None:
        np.testing.assert_allclose(problem.unconstrain(values), X, rtol=1e-6)
    assert (problem.unconstrain is None) == (not hasattr(BIJECTORS[name], "inverse"))


def test_a_joint_distribution_as_it_is():
    joint = tfp.distributions.JointDistributionNamed(
        {
            "scale": tfp.distributions.LogNormal(np.float64(0), np.float64(1)),
            "w": tfp.distributions.Dirichlet(np.ones(3)),
        }
    )
    problem = vj.from_log_prob(joint.log_prob, joint.experimental_default_event_space_bijector())
    x = {"scale": np.array(0.4), "w": np.array([0.2, -0.1])}
    density, values = jax.jit(lambda x: (problem.logdensity_fn(x), problem.constrain(x)))(x)
    assert values["w"].shape == (3,)
    np.testing.assert_allclose(problem.unconstrain(values)["w"], x["w"], rtol=1e-6)
    expected = -0.5 * 0.4**2 - 0.5 * np.log(2 * np.pi) + np.log(2) + np.sum(np.log(values["w"]))
    # The volume of softmax of (x, 0) is the product of the weights. TFP measures it on the simplex, √3 times as large.
    np.testing.assert_allclose(density, expected + 0.5 * np.log(3), rtol=1e-6)


def test_a_dict_of_bijectors():
    problem = vj.from_log_prob(lambda y: gamma(y["a"]) + gamma(y["b"]), {"a": Exponential(), "b": BIJECTORS["distrax"]})
    found = jax.jit(problem.logdensity_fn)({"a": X, "b": X})
    np.testing.assert_allclose(found, 2 * np.sum(2 * X - np.exp(X)))
    assert problem.unconstrain is None  # one of them has no inverse
    with pytest.raises(ValueError, match=r"region must be of the names of bijector, \['a', 'b'\]"):
        problem.logdensity_fn({"a": X})


def test_bad_bijectors_are_named():
    for bijector in (Elementwise(), distrax.Lambda(jnp.exp)):
        with pytest.raises(ValueError, match=r"log-determinant of \w+ must be one number .* got shape \(2,\): sum it"):
            vj.from_log_prob(gamma, bijector).logdensity_fn(X)
    with pytest.raises(ValueError, match=r"log_prob must return one number .* got shape \(2,\)"):
        vj.from_log_prob(jnp.log, Exponential()).logdensity_fn(X)
    with pytest.raises(TypeError, match=r"bijector must have forward_and_log_det, or forward and .*got function"):
        vj.from_log_prob(gamma, gamma)
    with pytest.raises(TypeError, match=r"bijector\['a'\] must have forward_and_log_det"):
        vj.from_log_prob(gamma, {"a": 3})
