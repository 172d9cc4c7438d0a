"""Random numbers: Threefry's published answers, agreement with ``jax.random``, and the laws of the numbers."""

import itertools
from typing import Any

import chex
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

from vhmc_jax import random
from vhmc_jax.random.batches import BLOCK_SIZE
from vhmc_jax.random.keys import with_words
from vhmc_jax.random.numbers import normals
from vhmc_jax.random.threefry import threefry

KEY = jax.random.key(20)
NUM_DRAWS = 100_001  # odd, and far beyond the size of a block
every_dtype = pytest.mark.parametrize("dtype", [jnp.float32, jnp.float64])
# The functions are made for compiled programs; one by one, their operations are slow to dispatch.
normal, uniform = (jax.jit(f, static_argnames=("shape", "dtype")) for f in (random.normal, random.uniform))
hashed = jax.jit(threefry, static_argnames="path")


def words_of(rng_key, num_hashes):
    """The first hashes of the stream of a JAX key."""
    key = with_words(rng_key)
    return hashed(key.high, key.low, 0, jnp.arange(num_hashes, dtype=jnp.uint32))


def first_word(key):
    """In NumPy, since the path of splits is static: JAX would compile the hash anew for each."""
    high, low, counter = (np.asarray(word).reshape(1) for word in (key.high, key.low, np.uint32(0)))
    return int(threefry(high, low, key.path, counter)[0][0])


@pytest.mark.parametrize(
    ("key", "counter", "answer"),
    [
        ((0, 0), (0, 0), (0x6B200159, 0x99BA4EFE)),
        ((0xFFFFFFFF, 0xFFFFFFFF), (0xFFFFFFFF, 0xFFFFFFFF), (0x1CB996FC, 0xBB002BE7)),
        ((0x13198A2E, 0x03707344), (0x243F6A88, 0x85A308D3), (0xC4923A9C, 0x483DF7A0)),
    ],
)
def test_published_answers_of_threefry(key, counter, answer):
    """The first word of the counter is the path of splits, the second counts numbers."""
    for module in (np, jnp):  # on the host, and traced
        found = threefry(module.uint32(key[0]), module.uint32(key[1]), counter[0], module.uint32(counter[1]))
        assert tuple(map(int, found)) == answer


def test_hash_is_that_of_jax():
    """``jax.random.bits`` keeps one word of a block, the exclusive or of both; here both are used."""
    with jax.threefry_partitionable(True):
        expected = jax.random.bits(KEY, (1000,), jnp.uint32)
    first, second = words_of(KEY, 1000)
    np.testing.assert_array_equal(first ^ second, expected)


@pytest.mark.parametrize("number", [0, 1, 12345, 2**31 - 1])
def test_fold_in_is_that_of_jax(number):
    ours = random.as_jax_key(random.fold_in(KEY, number))
    np.testing.assert_array_equal(jax.random.key_data(ours), jax.random.key_data(jax.random.fold_in(KEY, number)))


def test_keys_at_hand_are_hashed_as_traced_ones_are():
    def derived(rng_key):
        left, right = random.split(rng_key)
        keys = random.as_jax_key(left), random.as_jax_key(random.fold_in(right, 7))
        return tuple(map(jax.random.key_data, keys))

    key = jax.random.key(3)
    chex.assert_trees_all_equal(derived(key), jax.jit(derived)(key))
    each = jax.random.key_data(random.as_jax_key(random.fold_in_each(key, np.arange(5))))
    np.testing.assert_array_equal(each, [jax.random.key_data(jax.random.fold_in(key, i)) for i in range(5)])


def test_what_is_not_one_key_or_one_word_is_refused():
    with pytest.raises(ValueError, match=r"expected one key, got keys of shape \(3,\): use vmap"):
        random.split(jax.random.split(jax.random.key(0), 3))
    with pytest.raises(OverflowError):
        random.fold_in(jax.random.key(0), 2**32 + 1)


def test_old_style_keys_are_the_same_keys():
    np.testing.assert_array_equal(random.normal(jax.random.PRNGKey(20), (3,)), random.normal(KEY, (3,)))


def test_distinct_paths_of_splits_give_distinct_streams():
    """All keys of three levels of splits, parents left out since a parent is used up by its split."""
    level: list[Any] = [KEY]
    leaves: list[Any] = []
    for _ in range(3):
        children = list(itertools.chain(*(random.split(key, 5) for key in level)))
        leaves, level = leaves + children[::5], [key for i, key in enumerate(children) if i % 5]
    keys = leaves + level
    assert len({first_word(key) for key in keys}) == len(keys)
    assert len({key.path for key in keys}) == len(keys)


def test_splits_may_go_deeper_than_the_path_is_long():
    key, seen = KEY, set()
    for _ in range(20):
        key, other = random.split(key)
        seen.add(first_word(other))
    assert len(seen) == 20


def test_number_of_keys_is_checked():
    assert len(random.split(KEY, 15)) == 15
    with pytest.raises(ValueError, match="num must be from 1 to 15, got 16"):
        random.split(KEY, 16)


@every_dtype
def test_law_of_uniform(dtype):
    u = np.asarray(uniform(KEY, (NUM_DRAWS,), dtype))
    assert u.dtype == dtype
    assert u.min() >= 0.0
    assert u.max() < 1.0
    assert stats.kstest(u, "uniform").pvalue > 1e-4
    neighbours = np.corrcoef(u[:-1], u[1:])[0, 1], np.corrcoef(u[: NUM_DRAWS // 2], u[-(NUM_DRAWS // 2) :])[0, 1]
    assert np.all(np.abs(neighbours) * np.sqrt(NUM_DRAWS / 2) < 5.0), "words of one block are independent"


@every_dtype
def test_law_of_normal(dtype):
    z = np.asarray(normal(KEY, (NUM_DRAWS,), dtype), dtype=np.float64)
    assert stats.kstest(z, "norm").pvalue > 1e-4
    moments = [np.mean(z**k) for k in (1, 2, 3, 4)]
    errors = np.sqrt(np.array([1.0, 2.0, 15.0, 96.0]) / NUM_DRAWS)
    assert np.all(np.abs((np.array(moments) - [0.0, 1.0, 0.0, 3.0]) / errors) < 5.0)
    assert stats.kstest(1.04 * z, "norm").pvalue < 1e-4, "the test would see four per cent of scale"


@every_dtype
def test_normal_is_finite_for_every_word(dtype):
    extremes = jnp.array([0, 1, 2**31 - 1, 2**31, 2**32 - 1], dtype=jnp.uint32)
    z = normals(*jnp.meshgrid(extremes, extremes), jnp.dtype(dtype))
    assert np.all(np.isfinite(z))
    assert z.real.min() < -5.5
    assert z.real.max() > 5.5


def test_pairs_are_those_of_box_and_muller():
    x0, x1 = words_of(KEY, 10_000)
    pairs = normals(x0, x1, jnp.dtype("float32"))
    u = (np.asarray(x0 >> 1, dtype=np.float64) + 0.5) / 2**31
    turns = np.asarray(x1).astype(np.int32).astype(np.float64) / 2**32
    np.testing.assert_allclose(pairs, np.sqrt(-2 * np.log(u)) * np.exp(2j * np.pi * turns), atol=2e-6)


def test_integers_are_uniform_with_both_ends():
    draws = jax.vmap(lambda key: random.integer(key, -2, 4))(jax.random.split(KEY, 14_000))
    values, counts = np.unique(draws, return_counts=True)
    np.testing.assert_array_equal(values, np.arange(-2, 5))
    assert stats.chisquare(counts).pvalue > 1e-4


@every_dtype
@pytest.mark.parametrize("size", [BLOCK_SIZE // 3, 2 * BLOCK_SIZE, 5 * BLOCK_SIZE])
def test_blocks_change_no_number(dtype, size):
    """Beyond one block the counters are hashed block by block, the last one padded."""
    is_double = dtype == jnp.float64
    drawn = normals(*words_of(KEY, size if is_double else (size + 1) // 2), jnp.dtype(dtype))
    expected = drawn if is_double else jnp.concatenate([drawn.real, drawn.imag])[:size]
    np.testing.assert_allclose(normal(KEY, (size,), dtype), expected, atol=2e-6 if dtype == jnp.float32 else 1e-14)


@pytest.mark.parametrize("num_lanes", [3, 2 * BLOCK_SIZE // 5 + 1])
def test_vmap_equals_a_loop(num_lanes):
    """On both sides of the size at which a batch is cut into blocks."""
    keys = jax.random.split(KEY, num_lanes)
    batched = jax.jit(jax.vmap(lambda key: random.normal(key, (5,))))(keys)
    for lane in (0, num_lanes // 2, num_lanes - 1):
        np.testing.assert_allclose(batched[lane], normal(keys[lane], (5,)), rtol=1e-13)
    nested = jax.vmap(jax.vmap(lambda key: random.normal(key, (5,))))(keys.reshape(1, -1))
    np.testing.assert_allclose(nested[0], batched, rtol=1e-13)


def test_draws_in_a_branch_of_a_conditional_that_vmap_turns_into_a_select():
    keys = jax.random.split(KEY, 40)

    def draw_or_zero(key, predicate):
        return jax.lax.cond(predicate, lambda: random.normal(key, (6,)), lambda: jnp.zeros(6))

    drawn = jax.vmap(draw_or_zero)(keys, jnp.arange(40) % 2 == 0)
    np.testing.assert_allclose(drawn[2], normal(keys[2], (6,)), rtol=1e-13)
    np.testing.assert_array_equal(drawn[1], 0.0)


def test_other_keys_and_dtypes_are_left_to_jax():
    key = jax.random.key(3, impl="rbg")
    np.testing.assert_array_equal(random.normal(key, (4,)), jax.random.normal(key, (4,)))
    np.testing.assert_array_equal(random.uniform(key, (4,)), jax.random.uniform(key, (4,)))
    assert random.integer(key, 3, 3) == 3
    data = [jax.random.key_data(k) for k in (*random.split(key), random.fold_in(key, 7))]
    expected = [*jax.random.key_data(jax.random.split(key)), jax.random.key_data(jax.random.fold_in(key, 7))]
    np.testing.assert_array_equal(data, expected)
    half, _ = random.split(KEY)
    assert random.normal(half, (4,), jnp.float16).dtype == jnp.float16


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("count", [1, 4, 5])
def test_uniform_numbers_of_many_keys_on_the_host_are_the_same(dtype, count):
    numbers, rng_key = np.arange(7, dtype=np.uint32), jax.random.key(3)
    on_host = random.uniform_of_each(random.fold_in_each(rng_key, numbers), count, dtype)
    drawn = [uniform(jax.random.fold_in(rng_key, number), (count,), dtype) for number in numbers]
    np.testing.assert_array_equal(on_host, np.stack(drawn))
    assert on_host.dtype == dtype
