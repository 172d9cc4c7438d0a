"""The lazy conditional: the values of ``lax.cond`` and ``where`` in every context, and only the lanes that need it."""

import functools
import os
import pathlib
import subprocess
import sys

import chex
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from counting import counted

import vhmc_jax as vj
from vhmc_jax import targets
from vhmc_jax.lazy import lazy_cond

KEY = jax.random.key(4)
both = pytest.mark.parametrize("block_share", [0.1, 1], ids=["rare", "common"])


def function(x, scale):
    """Some work with a loop, a pytree out, and another dtype among its leaves."""
    y = jax.lax.fori_loop(0, 3, lambda _, y: jnp.sin(y) * scale, x)
    return {"y": y, "sum": jnp.sum(y), "count": jnp.sum(y > 0, dtype=jnp.int32)}


def otherwise(x):
    return {"y": x, "sum": -1.0, "count": 7}


def lazily(predicate, x, scale, block_share=0.1):
    return lazy_cond(predicate, function, otherwise(x), x, scale, block_share=block_share)


@jax.jit
def select(predicates, xs, scales):
    """By ``where``, every lane evaluated: for any number of leading axes."""
    flat = [value.reshape(-1, *value.shape[predicates.ndim :]) for value in (predicates, xs, scales)]

    @jax.vmap
    def lane(predicate, x, scale):
        chosen, other = function(x, scale), jax.tree.map(jnp.asarray, otherwise(x))
        return jax.tree.map(lambda a, b: jnp.where(predicate, a, b.astype(a.dtype)), chosen, other)

    return jax.tree.map(lambda leaf: leaf.reshape(predicates.shape + leaf.shape[1:]), lane(*flat))


assert_close = functools.partial(chex.assert_trees_all_close, rtol=1e-12)


def lanes(*shape, share=0.3):
    keys = jax.random.split(KEY, 3)
    predicates = jax.random.uniform(keys[0], shape) < share
    return predicates, jax.random.normal(keys[1], (*shape, 3)), jax.random.normal(keys[2], shape)


@both
@pytest.mark.parametrize("predicate", [True, False])
def test_one_lane_is_cond(predicate, block_share):
    arguments = jnp.asarray(predicate), *lanes()[1:]
    for run in (lazily, jax.jit(lazily, static_argnames="block_share")):
        value = run(*arguments, block_share=block_share)
        assert_close(value, select(*arguments))
        assert value["count"].dtype == jnp.int32


@both
@pytest.mark.parametrize("num", [1, 7, 100])
@pytest.mark.parametrize("share", [0.0, 0.3, 1.0])
def test_lanes(num, share, block_share):
    """One lane, fewer than a block, more than a block; none active, some, and all."""
    arguments = lanes(num, share=share)
    assert_close(jax.jit(jax.vmap(functools.partial(lazily, block_share=block_share)))(*arguments), select(*arguments))


@both
def test_nested_lanes(block_share):
    arguments = lanes(3, 20)
    nested = jax.vmap(jax.vmap(functools.partial(lazily, block_share=block_share)))
    assert_close(jax.jit(nested)(*arguments), select(*arguments))


# What a value that is batched by both of two vmaps becomes where one of them, or neither, batches it.
SHARING = {
    "by the inner vmap": (None, 0, lambda value: value[:, 0]),
    "by the outer vmap": (0, None, lambda value: value[0]),
    "by both": (None, None, lambda value: value[0, 0]),
}


@both
@pytest.mark.parametrize("shared", [(0,), (1,), (1, 2), (0, 2)])
@pytest.mark.parametrize(("inner", "outer", "pick"), SHARING.values(), ids=SHARING.keys())
def test_lanes_that_share_arguments(shared, inner, outer, pick, block_share):
    """Predicate, operand or both are the same in lanes of one vmap or of two."""
    arguments = lanes(4, 12)
    passed = [pick(value) if i in shared else value for i, value in enumerate(arguments)]
    axes = [[axis if i in shared else 0 for i in range(3)] for axis in (inner, outer)]
    mapped = jax.vmap(jax.vmap(functools.partial(lazily, block_share=block_share), axes[0]), axes[1])
    everywhere = jax.vmap(jax.vmap(lambda *lane: lane, axes[0], axis_size=12), axes[1], axis_size=4)(*passed)
    assert_close(jax.jit(mapped)(*passed), select(*everywhere))


@both
def test_inside_scan(block_share):
    """Under vmap inside scan and under scan inside vmap."""
    predicates, xs, scales = lanes(5, 40)

    def body(x, inputs):
        new = lazily(inputs[0], x, inputs[1], block_share=block_share)
        return new["y"], new["sum"]

    def chain(x, predicates, scales):
        return jax.lax.scan(body, x, (predicates, scales))

    scan_inside = jax.jit(jax.vmap(chain, (0, 1, 1)))(xs[0], predicates, scales)
    vmap_inside = jax.jit(lambda *a: jax.lax.scan(jax.vmap(body), a[0], a[1:]))(xs[0], predicates, scales)
    assert_close(scan_inside, (vmap_inside[0], vmap_inside[1].T))
    x = xs[0, 0]
    for t in range(5):
        x = select(predicates[t, 0], x, scales[t, 0])["y"]
    np.testing.assert_allclose(scan_inside[0][0], x, rtol=1e-12)


@both
@pytest.mark.parametrize("is_batched", [False, True])
def test_closed_over_values(is_batched, block_share):
    """What the function closes over is seen, also where the same vmap batches it."""
    predicates, xs, scales = lanes(50)
    data = jax.random.normal(KEY, (50, 3) if is_batched else (3,))

    def lane(predicate, x, scale, data):
        return lazy_cond(predicate, lambda y: data @ y * scale, 0.0, x, block_share=block_share)

    values = jax.jit(jax.vmap(lane, (0, 0, 0, 0 if is_batched else None)))(predicates, xs, scales, data)
    direct = jnp.where(predicates, jnp.sum(data * xs, axis=1) * scales, 0.0)
    np.testing.assert_allclose(values, direct, rtol=1e-12)


@pytest.mark.parametrize("num_active", [0, 1, 40, 41, 100, 320])
def test_only_whole_blocks_of_active_lanes_are_evaluated(num_active):
    num_lanes, block = 320, 40
    calls, counting = counted(lambda x: 2 * x)
    predicates = jax.random.permutation(KEY, jnp.arange(num_lanes) < num_active)
    values = jax.jit(jax.vmap(lambda p, x: lazy_cond(p, counting, x, x, block_share=1 / 8)))(
        predicates, jnp.arange(320.0)
    )
    np.testing.assert_array_equal(values, jnp.arange(320.0) * jnp.where(predicates, 2, 1))
    assert calls() == -(-num_active // block) * block


def test_where_it_is_common_every_lane_is_evaluated_once():
    calls, counting = counted(lambda x: 2 * x)
    jax.jit(jax.vmap(lambda p, x: lazy_cond(p, counting, x, x, block_share=1)))(jnp.arange(100) < 90, jnp.arange(100.0))
    assert calls() == 100


def test_nested_lanes_are_gathered_together():
    """Ten lanes of a 64 × 8 batch, all in different rows, fill one block."""
    calls, counting = counted(lambda x: 2 * x)
    predicates = (jnp.arange(8) == 3)[None, :] & (jnp.arange(64) < 10)[:, None]
    values = jax.jit(jax.vmap(jax.vmap(lambda p, x: lazy_cond(p, counting, x, x))))(predicates, jnp.ones((64, 8)))
    np.testing.assert_array_equal(values, jnp.where(predicates, 2.0, 1.0))
    assert calls() == 32


@pytest.mark.parametrize("wrong", [(0.0, 0.0), {"y": 0.0}], ids=["tuple", "other names"])
def test_otherwise_of_another_structure_is_refused(wrong):
    with pytest.raises(TypeError, match="otherwise must have the structure"):
        lazy_cond(jnp.asarray(True), function, wrong, jnp.ones(3), jnp.asarray(1.0))


def test_otherwise_of_another_shape_is_refused():
    with pytest.raises((TypeError, ValueError), match="shape"):
        jax.vmap(lambda p, x: lazy_cond(p, jnp.sin, jnp.zeros(2), x))(jnp.ones(4, bool), jnp.ones((4, 3)))


# VHMC, whose jumps and second trajectories go through it.

TARGET = targets.near_pair(0.7)


def build(target, mean, step_size):
    guide = vj.GaussianMixture(
        jnp.log(jnp.array([0.6, 0.4])), jnp.stack([mean, -mean]), 1.1 * jnp.tile(jnp.eye(2), (2, 1, 1))
    )
    return vj.vhmc(target, guide, step_size=step_size, num_integration_steps=2, jump_probability=0.3, log_envelope=0.2)


@pytest.mark.slow
def test_runs_with_their_own_data_guide_and_step_size():
    """A vmap over runs that build their own kernel, and one over chains in it, against a loop."""
    num_runs, num_chains = 3, 4
    data = jax.random.normal(KEY, (num_runs, 2))
    means = jnp.array([[2.5, -2.5], [2.0, -2.2], [3.0, -2.0]])
    step_sizes = jnp.array([1.2, 0.9, 1.5])
    keys = jax.random.split(KEY, (num_runs, num_chains))
    positions = TARGET.sample(KEY, num_runs * num_chains).reshape(num_runs, num_chains, 2)

    def run(map_chains, keys, positions, data, mean, step_size):
        kernel = build(lambda x: TARGET.logdensity(x - 0.1 * data), mean, step_size)

        def chain(key, position):
            state = kernel.init(position)
            return jax.lax.scan(lambda s, k: kernel.step(k, s), state, jax.random.split(key, 6))

        return map_chains(chain)(keys, positions)

    arguments = (keys, positions, data, means, step_sizes)
    batched = jax.jit(jax.vmap(functools.partial(run, jax.vmap)))(*arguments)
    alone = jax.jit(functools.partial(run, lambda chain: chain))
    for i, j in np.ndindex(num_runs, num_chains):
        one = alone(keys[i, j], positions[i, j], data[i], means[i], step_sizes[i])
        jax.tree.map(lambda a, b, at=(i, j): np.testing.assert_allclose(a[at], b, rtol=1e-9, atol=1e-12), batched, one)
    infos = batched[1]
    for happened in (infos.jump_accepted, infos.is_second_stage, infos.second_stage_accepted):
        assert np.any(happened)
        assert not np.all(happened)


SHARDED = """
import jax, jax.numpy as jnp, numpy as np
from jax.sharding import AxisType, PartitionSpec as P
jax.config.update("jax_enable_x64", True)
from test_lazy import TARGET, build

assert len(jax.devices()) == 4
kernel = build(TARGET.logdensity, jnp.array([2.5, -2.5]), 1.2)
mesh, shard = jax.make_mesh((4,), ("chains",), axis_types=(AxisType.Auto,)), P("chains")
positions, keys = TARGET.sample(jax.random.key(0), 200), jax.random.split(jax.random.key(1), 200)

def chains(keys, positions):
    states = jax.vmap(kernel.init)(positions)
    def body(states, t):
        return jax.vmap(kernel.step)(jax.vmap(jax.random.fold_in, (0, None))(keys, t), states)
    return jax.lax.scan(body, states, jnp.arange(3))

def collectives(function):
    text = jax.jit(function).lower(keys, positions).compile().as_text()
    return [name for name in ("all-reduce", "all-gather", "collective-permute", "all-to-all") if name in text]

# Without the check of varying types: a conditional's branches are never typed alike, since one is constants.
sharded = jax.shard_map(
    chains, mesh=mesh, in_specs=(shard, shard), out_specs=(shard, P(None, "chains")), check_vma=False
)
print("collectives", collectives(sharded))
here, there = jax.jit(chains)(keys, positions), jax.jit(sharded)(keys, positions)
jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-12), here, there)
print("second stages", bool(np.any(here[1].is_second_stage)), "jumps", bool(np.any(here[1].is_jump)))
# Power: a mean over all chains cannot do without.
mean = jax.shard_map(lambda k, x: jax.lax.pmean(x.mean(), "chains"), mesh=mesh, in_specs=(shard, shard), out_specs=P())
print("control", collectives(mean))
"""


@pytest.mark.slow
def test_shard_map_over_devices_needs_no_collective():
    environment = os.environ | {"XLA_FLAGS": "--xla_force_host_platform_device_count=4", "JAX_PLATFORMS": "cpu"}
    tests = pathlib.Path(__file__).parent
    environment["PYTHONPATH"] = os.pathsep.join([str(tests), str(tests.parent)])
    done = subprocess.run([sys.executable, "-c", SHARDED], env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == ["collectives []", "second stages True jumps True", "control ['all-reduce']"]
