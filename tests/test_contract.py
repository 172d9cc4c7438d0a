"""What every kernel promises, whatever it does: one row a kernel, and all of the tests for each row."""

from collections.abc import Callable
from typing import NamedTuple

import chex
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from counting import compiled_during

import vhmc_jax as vj

DIM = 3
KEY = jax.random.key(12)
X = jnp.array([0.3, -0.5, 0.2])


class Row(NamedTuple):
    """A kernel under contract.

    Attributes
    ----------
    build
        ``build(logdensity_fn, scale)``: the kernel on a log density of three numbers; ``scale`` is 1 for settings
        with high acceptance, and multiplies what decides how far a proposal goes. Every number of the kernel
        should depend on it, since another scale must not mean another program.
    has_guide
        Whether ``build`` takes the dtype of a guide as well.
    can_diverge
        Whether proposals beyond a wall are reported: a jump finds no candidate there, and a transformation that
        would lead there is the identity.
    can_stay
        Whether an accepted proposal may be where the chain was.
    """

    build: Callable
    has_guide: bool = False
    can_diverge: bool = True
    can_stay: bool = False


def guide(scale, dtype):
    """Two components of different shape, neither of which is the target's."""
    means = np.outer([-0.8, 0.2], np.ones(DIM))
    scale_trils = scale * np.stack([1.3 * np.eye(DIM), 0.9 * np.eye(DIM)])
    log_weights = scale * np.log([0.6, 0.4])
    return vj.GaussianMixture(*(jnp.asarray(value, dtype) for value in (log_weights, means, scale_trils)))


def product(scale, dtype):
    """A product over two blocks, each of two components, neither of which is the target's."""
    whole = guide(scale, dtype)
    blocks = [[2, 0], [1]]
    return vj.ProductMixture(
        blocks,
        [
            vj.GaussianMixture(whole.log_weights, whole.means[:, :size], whole.scale_trils[:, :size, :size])
            for size in map(len, blocks)
        ],
    )


ROWS = {
    "hmc": Row(
        lambda f, scale: vj.hmc(
            f, step_size=0.4 * scale, num_integration_steps=3, inverse_mass_matrix=scale * np.eye(DIM)
        ),
    ),
    "lhmc": Row(
        lambda f, scale: vj.lhmc(
            f,
            step_size=0.35 * scale,
            num_integration_steps=2,
            friction=0.5 * scale,
            inverse_mass_matrix=scale * np.eye(DIM),
        ),
    ),
    "lhmc_et": Row(
        lambda f, scale: vj.lhmc_et(
            f,
            step_size=0.35 * scale,
            num_integration_steps=2,
            friction=0.5 * scale,
            inverse_mass_matrix=scale * np.eye(DIM),
            direction_metric=scale * np.eye(DIM),
        ),
    ),
    "equipotential": Row(
        lambda f, scale: vj.equipotential(f, num_transformations=2, direction_metric=np.array([scale, 1.0, 1.0])),
        can_diverge=False,
        can_stay=True,
    ),
    "jump": Row(
        lambda f, scale, dtype=float: vj.jump(f, guide(scale, dtype), log_envelope=scale),
        has_guide=True,
        can_diverge=False,
    ),
    "block_jump": Row(
        lambda f, scale, dtype=float: vj.block_jump(f, product(scale, dtype)),
        has_guide=True,
        can_diverge=False,
    ),
    "vhmc": Row(
        lambda f, scale, dtype=float: vj.vhmc(
            f,
            guide(scale, dtype),
            step_size=0.35 * scale,
            num_integration_steps=2,
            friction=0.5 * scale,
            inverse_mass_matrix=scale * np.eye(DIM),
            jump_probability=0.3 * scale,
            log_envelope=scale,
        ),
        has_guide=True,
    ),
    "magnetic_hmc": Row(
        lambda f, scale: vj.magnetic_hmc(
            f,
            step_size=0.4 * scale,
            num_integration_steps=3,
            field=scale * np.array([[0.0, 1.0, -0.5], [-1.0, 0.0, 0.3], [0.5, -0.3, 0.0]]),
            inverse_mass_matrix=scale * np.eye(DIM),
        ),
    ),
    "magnetic_hmc, plane": Row(
        lambda f, scale: vj.magnetic_hmc(
            f,
            step_size=0.4 * scale,
            num_integration_steps=(2, 4),
            field=scale,
            inverse_mass_matrix=np.full(DIM, scale),
        ),
    ),
    "monomial_gamma_hmc": Row(
        lambda f, scale: vj.monomial_gamma_hmc(
            f,
            step_size=0.6 * scale,
            num_integration_steps=3,
            exponent=scale,
            inverse_mass_matrix=np.full(DIM, scale),
        ),
    ),
    "cycle": Row(
        lambda f, scale: vj.cycle(
            vj.lhmc(f, step_size=0.35 * scale, num_integration_steps=2, friction=0.5 * scale),
            vj.magnetic_hmc(f, step_size=0.4 * scale, num_integration_steps=3, field=scale),
        ),
    ),
    "mixture": Row(
        lambda f, scale, dtype=float: vj.mixture(
            [
                vj.hmc(f, step_size=0.4 * scale, num_integration_steps=3, inverse_mass_matrix=scale * np.eye(DIM)),
                vj.jump(f, guide(scale, dtype), log_envelope=scale),
            ],
            [3.0, scale],
        ),
        has_guide=True,
        can_diverge=False,
    ),
    "hmc, random length": Row(
        lambda f, scale: vj.hmc(
            f, step_size=0.4 * scale, num_integration_steps=(2, 4), inverse_mass_matrix=np.full(DIM, scale)
        ),
    ),
}
every_kernel = pytest.mark.parametrize("row", ROWS.values(), ids=ROWS.keys())


@jax.jit
def step(kernel, rng_key, state):
    """Kernels are pytrees, so that one compiled function serves all of the same structure."""
    return kernel.step(rng_key, state)


def logdensity(x):
    """Skewed in the first coordinate."""
    return x[0] - jnp.exp(x[0]) - 0.5 * jnp.sum((x[1:] - 0.5 * x[0]) ** 2)


def pytree_logdensity(position):
    return logdensity(jnp.concatenate([position["a"], position["b"][None]]))


def assert_close(left, right, rtol=1e-12):
    """Equal up to rounding: compiled and batched programs may order sums differently."""
    chex.assert_trees_all_close(left, right, rtol=rtol, atol=rtol)


@every_kernel
def test_types(row):
    kernel = row.build(logdensity, 1.0)
    state = kernel.init(X)
    new_state, info = step(kernel, KEY, state)
    assert isinstance(kernel, vj.Kernel)
    assert set(vj.State._fields) <= set(state._fields)
    assert set(vj.Info._fields) <= set(info._fields)
    assert_close(state.logdensity, logdensity(X))
    assert_close(state.logdensity_grad, jax.grad(logdensity)(X))
    assert_close(new_state.logdensity, logdensity(new_state.position))
    assert_close(new_state.logdensity_grad, jax.grad(logdensity)(new_state.position))
    assert jax.tree.map(jnp.shape, info) == jax.tree.map(lambda _: (), info)
    assert info.is_accepted.dtype == info.is_divergent.dtype == bool
    assert info.num_gradients.dtype == info.num_densities.dtype == jnp.int32
    assert 0.0 <= info.acceptance_rate <= 1.0
    assert info.num_gradients + info.num_densities > 0
    assert_close(kernel.init(X, rng_key=KEY), state)


@pytest.mark.slow
@every_kernel
def test_jit_equals_eager(row):
    kernel = row.build(logdensity, 1.0)
    state = kernel.init(X)
    assert_close(step(kernel, KEY, state), kernel.step(KEY, state))


@every_kernel
def test_vmap_equals_a_loop(row):
    kernel = row.build(logdensity, 1.0)
    positions = X + jnp.linspace(-1.0, 1.0, 5)[:, None]
    keys = jax.random.split(KEY, 5)
    states = jax.vmap(kernel.init)(positions)
    batched = jax.jit(jax.vmap(kernel.step))(keys, states)
    for lane in range(5):
        alone = step(kernel, keys[lane], kernel.init(positions[lane]))
        assert_close(jax.tree.map(lambda leaf, i=lane: leaf[i], batched), alone)


@every_kernel
def test_chains_move_and_reject(row):
    """Some proposals are accepted and, at a large scale, some are not; the state follows ``is_accepted``."""
    kernel = row.build(logdensity, 2.5)
    states = jax.vmap(kernel.init)(jnp.tile(X, (200, 1)))
    new_states, infos = jax.jit(jax.vmap(kernel.step))(jax.random.split(KEY, 200), states)
    moved = np.any(new_states.position != states.position, axis=1)
    if row.can_stay:
        assert not np.any(moved & ~infos.is_accepted)
    else:
        np.testing.assert_array_equal(moved, infos.is_accepted)
    assert 0 < moved.sum() < 200
    assert not np.all(infos.is_accepted)


@every_kernel
def test_pytree_positions(row):
    """The same numbers in another container, in the order of ``ravel_pytree``."""
    flat_kernel, kernel = row.build(logdensity, 1.0), row.build(pytree_logdensity, 1.0)
    state, info = step(kernel, KEY, kernel.init({"a": X[:2], "b": X[2]}))
    flat_state, flat_info = step(flat_kernel, KEY, flat_kernel.init(X))
    for field in ("position", "logdensity_grad"):
        tree, flat = getattr(state, field), getattr(flat_state, field)
        assert_close(tree, {"a": flat[:2], "b": flat[2]})
    assert_close(info, flat_info)


@every_kernel
@pytest.mark.parametrize("dtype", [jnp.float32, jnp.float64])
def test_dtype_is_kept(row, dtype):
    kernel = row.build(logdensity, 1.0, *([dtype] if row.has_guide else []))
    state = kernel.init(X.astype(dtype))
    new_state, info = step(kernel, KEY, state)
    chex.assert_trees_all_equal_shapes_and_dtypes(state, new_state)
    weak_types = [[leaf.weak_type for leaf in jax.tree.leaves(each)] for each in (state, new_state)]
    assert weak_types[0] == weak_types[1]
    assert {leaf.dtype for leaf in (*state[:3], *new_state[:3])} == {jnp.dtype(dtype)}
    assert info.acceptance_rate.dtype == dtype


@every_kernel
def test_works_without_double_precision(row):
    """As most users run it: no double precision, JAX's own promotion of dtypes."""
    with jax.enable_x64(False), jax.numpy_dtype_promotion("standard"):
        kernel = row.build(logdensity, 1.0)
        state, info = jax.jit(kernel.step)(KEY, kernel.init(X.astype(jnp.float32)))
        assert state.position.dtype == jnp.float32
        chex.assert_tree_all_finite(state.position)
        assert info.acceptance_rate.dtype == jnp.float32


WALLS = {
    "NaN": lambda s: jnp.where(s > 1.0, jnp.nan, 0.0),
    "-inf": lambda s: jnp.where(s > 1.0, -jnp.inf, 0.0),
    "NaN gradient": lambda s: jnp.sqrt(1.0 - s),
    "+inf": lambda s: jnp.where(s > 1.0, jnp.inf, 0.0),
}


@pytest.mark.slow
@every_kernel
@pytest.mark.parametrize("wall", WALLS.values(), ids=WALLS.keys())
def test_density_that_is_not_finite_is_never_entered(row, wall):
    """Beyond a wall there is no density: the chain stays where it was, holds no NaN, and says so."""

    def walled(x):
        return -0.5 * jnp.sum(x**2) + wall(jnp.sum(x))

    kernel = row.build(walled, 2.0)

    def body(states, keys):
        new_states, infos = jax.vmap(kernel.step)(keys, states)
        return new_states, (new_states, infos)

    start = jax.vmap(kernel.init)(jnp.full((50, DIM), 0.3))
    _, (states, infos) = jax.jit(lambda: jax.lax.scan(body, start, jax.random.split(KEY, (20, 50))))()
    chex.assert_tree_all_finite((states, infos))
    assert np.all(np.sum(states.position, axis=-1) <= 1.0)
    if row.can_diverge:
        assert np.any(infos.is_divergent), "no proposal went beyond the wall: the test shows nothing"
    assert np.any(infos.is_accepted), "no proposal was accepted: the test shows nothing"
    before = jnp.concatenate([start.position[None], states.position[:-1]])
    rejected = ~infos.is_accepted
    np.testing.assert_array_equal(states.position[rejected], before[rejected])
    for part in getattr(infos, "parts", (infos,)):  # a composed kernel tells the mean acceptance of its parts
        np.testing.assert_array_equal(part.acceptance_rate[part.is_divergent], 0.0)


@every_kernel
def test_number_of_traces(row):
    """Once to see that it is a scalar, and once for all the places that evaluate it."""
    traced_twice = chex.assert_max_traces(logdensity, n=2)
    first, other = row.build(traced_twice, 1.0), row.build(traced_twice, 0.5)
    key, state = jax.random.key(1), first.init(X)
    same_state, _ = step(first, key, state)
    (other_state, _), num_compiled = compiled_during(step, other, key, state)
    assert num_compiled == 0, "other numbers must not mean another program"
    assert not np.allclose(other_state.position, same_state.position), "the numbers must be heard all the same"


@every_kernel
def test_docstrings_name_every_field(row):
    kernel = row.build(logdensity, 1.0)
    state = kernel.init(X)
    for value in (state, step(kernel, KEY, state)[1]):
        documented = type(value).__doc__ or ""
        assert [name for name in type(value)._fields if f"    {name}" not in documented] == []
