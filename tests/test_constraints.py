"""Constraints: Jacobians against automatic differentiation, ways back, values within the constraint at extremes."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import vhmc_jax as vj

KEY = jax.random.key(3)
CASES = {
    "real": (vj.real, (4,)),
    "positive": (vj.positive, (4,)),
    "above": (vj.interval(-2.0, np.inf), (2, 2)),
    "below": (vj.interval(-np.inf, 5), ()),
    "between": (vj.interval(-1, 3.0), (3,)),
    "between arrays": (vj.interval(np.array([0.0, -4.0]), np.array([1.0, 7.0])), (2,)),
    "simplex": (vj.simplex, (4,)),
    "simplices": (vj.simplex, (2, 3)),
    "ordered": (vj.ordered, (4,)),
    "ordered rows": (vj.ordered, (2, 3)),
}


def free(constraint, y):
    """The entries of a parameter that its measure is of: all, but the last weight of a simplex."""
    return (y[..., :-1] if constraint is vj.simplex else y).ravel()


def within(constraint, y):
    """Whether each value is strictly within its constraint."""
    if constraint is vj.simplex:
        return (y > 0) & (y <= 1)
    if constraint is vj.ordered:
        return np.diff(y, prepend=-np.inf) >= 0
    low = {"positive": 0.0, "above": -2.0, "between": -1.0}
    high = {"below": 5.0, "between": 3.0}
    name = next(name for name, case in CASES.items() if case[0] is constraint)
    return (y > low.get(name, -np.inf)) & (y < high.get(name, np.inf))


@pytest.mark.parametrize("name", CASES)
def test_jacobian_and_the_way_back(name):
    constraint, shape = CASES[name]
    x = np.random.default_rng(0).normal(size=constraint.free_shape(shape))

    @jax.jit
    def figures(x):
        y, log_det = constraint.forward(x)
        jacobian = jax.jacfwd(lambda flat: free(constraint, constraint.forward(flat.reshape(x.shape))[0]))(x.ravel())
        return y, log_det, jacobian, constraint.inverse(y)

    y, log_det, jacobian, back = figures(x)
    assert y.shape == shape
    np.testing.assert_allclose(log_det, np.linalg.slogdet(jacobian)[1], atol=1e-12)
    np.testing.assert_allclose(back, x, atol=1e-12)


def test_a_jacobian_of_another_map_is_seen():
    x = jax.random.normal(KEY, (3,))
    jacobian = jax.jacfwd(lambda flat: vj.simplex.forward(flat)[0][:-1])(x)
    assert abs(jnp.sum(jnp.log(vj.simplex.forward(x)[0])) - np.linalg.slogdet(jacobian)[1]) > 0.5, "½ log 4 is left out"


@pytest.mark.parametrize("dtype", [jnp.float32, jnp.float64])
@pytest.mark.parametrize("name", CASES)
def test_extremes_stay_within_and_have_finite_gradients(name, dtype):
    constraint, shape = CASES[name]
    values = np.array([-1e4, -200.0, -20.0, 20.0, 200.0, 1e4])
    rows = np.zeros((len(values), *constraint.free_shape(shape)), dtype)
    rows[(slice(None), *(0,) * (rows.ndim - 1))] = values

    @jax.jit
    @jax.vmap
    def figures(x):
        (y, log_det), vjp = jax.vjp(constraint.forward, x)
        return y, log_det, vjp((jnp.ones_like(y), jnp.ones_like(log_det)))[0], jnp.log(y)

    y, log_det, gradient, logarithm = figures(rows)
    assert y.dtype == log_det.dtype == dtype
    for figure in (y, log_det, gradient, *((logarithm,) if constraint in (vj.positive, vj.simplex) else ())):
        assert np.isfinite(figure).all()
    if name != "between arrays":
        assert np.all(within(constraint, np.asarray(y)))


def test_log_jacobian_is_exact_far_out_in_single_precision():
    x = jnp.array([-60.0, 60.0], jnp.float32)
    np.testing.assert_allclose(vj.interval(0, 1).forward(x)[1], -120.0, rtol=1e-6)
    np.testing.assert_allclose(vj.positive.forward(x)[1], 0.0, atol=1e-5)
    far = jnp.array([300.0, 0.0], jnp.float32)
    np.testing.assert_allclose(vj.simplex.forward(far)[1], vj.simplex.forward(far.astype(jnp.float64))[1], rtol=1e-6)


def test_a_permutation_of_a_simplex_is_a_rotation():
    x = jax.random.normal(KEY, (3,))
    y = vj.simplex.forward(x)[0]
    np.testing.assert_allclose(y.sum(), 1.0)
    np.testing.assert_allclose(jnp.linalg.norm(vj.simplex.inverse(y[::-1])), jnp.linalg.norm(x))


@pytest.mark.parametrize("name", CASES)
def test_default_draws_are_within(name):
    constraint, shape = CASES[name]

    @jax.jit
    @jax.vmap
    def draw(key):
        y = constraint.draw(key, shape, jnp.float32)
        return y, constraint.inverse(y)

    draws, back = draw(jax.random.split(KEY, 200))
    assert draws.dtype == jnp.float32
    assert np.isfinite(back).all()
    if name == "between":  # uniform on (−1, 3): mean 1, variance 16/12
        np.testing.assert_allclose([draws.mean(), draws.var()], [1.0, 16 / 12], rtol=0.2)
    if name == "simplex":  # uniform: a weight has mean 1/4 and variance 3/80
        np.testing.assert_allclose([draws.mean(), draws.var()], [0.25, 3 / 80], rtol=0.2)


def test_bad_ends_are_named():
    with pytest.raises(ValueError, match="low must be below high, got 2 and 1"):
        vj.interval(2, 1)
    with pytest.raises(ValueError, match="low must be below high"):
        vj.interval("a", 1)
    with pytest.raises(ValueError, match="infinite end must be a number"):
        vj.interval(np.array([0.0, -np.inf]), 1.0)
    assert vj.interval(-np.inf, np.inf) is vj.real
