"""Blocks, names and the order of components."""

import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree

from vhmc_jax.diagnostics.draws import (
    coordinate_names,
    flatten_draws,
    map_blocks,
    map_draws,
    named_leaves,
    split_chains,
)

DRAWS = {"b": np.arange(24.0).reshape(2, 4, 3), "a": (np.arange(8.0).reshape(2, 4), np.ones((2, 4, 2, 2)))}


def test_flat_draws_follow_ravel_pytree():
    flat = flatten_draws(DRAWS)
    one = jax.tree.map(lambda x: jnp.asarray(x[1, 2]), DRAWS)
    np.testing.assert_array_equal(flat[1, 2], ravel_pytree(one)[0])


def test_blocks_cover_all_chains_whatever_their_number():
    x = jnp.asarray(np.random.default_rng(0).normal(size=(7, 5, 2)))
    for block_size, num_blocks in ((10**6, 1), (30, 7), (1, 7)):
        blocks = map_blocks(lambda b: b.sum((1, 2)), x, block_size)
        assert blocks.shape[0] == num_blocks
        np.testing.assert_allclose(blocks.ravel(), x.sum((1, 2)))
    assert map_blocks(lambda b: b.sum(), x[:6], 30).shape == (2,)


def test_functions_of_draws_are_evaluated_at_each():
    x = jnp.asarray(np.random.default_rng(1).normal(size=(3, 4, 2)))
    function = jax.tree_util.Partial(lambda shift, v: v[:1] + shift, jnp.ones(1))
    np.testing.assert_allclose(map_draws(function, x, 1), x[..., :1] + 1)


def test_names_and_halves():
    assert list(named_leaves(DRAWS, "x")) == ["a.0", "a.1", "b"]
    assert list(named_leaves(np.zeros(3), "x")) == ["x"]
    assert coordinate_names({"mu": np.zeros((1, 1, 2)), "tau": np.zeros((1, 1))}) == ["mu[0]", "mu[1]", "tau"]
    assert coordinate_names(np.zeros((1, 1, 2))) == ["coordinate 0", "coordinate 1"]
    assert coordinate_names((np.zeros((1, 1)), np.zeros((1, 1, 1)))) == ["component 0", "component 1[0]"]
    odd = np.arange(10).reshape(2, 5)
    np.testing.assert_array_equal(split_chains(odd), [[0, 1], [5, 6], [3, 4], [8, 9]])
