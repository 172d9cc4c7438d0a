"""Arguments of a model as a pytree: arrays are leaves, the rest decides which program it is."""

import jax
import jax.numpy as jnp
import numpy as np

from vhmc_jax.models.call_arguments import Arguments


def model(y, size, *, names, scale):
    return y.sum() * size * scale["value"] + len(names)


def arguments(y, **others):
    return Arguments.of((y, 3), {"names": {"a", "b"}, "scale": {"value": np.array(2.0)}} | others)


def test_arrays_are_leaves_and_the_call_is_whole():
    found = arguments(np.arange(4.0))
    assert [leaf.shape for leaf in jax.tree.leaves(found)] == [(4,), ()]
    np.testing.assert_allclose(found.call(model), 6.0 * 3 * 2.0 + 2)


def test_other_arrays_are_the_same_program_and_other_numbers_another():
    value = jax.jit(lambda held: held.call(model))
    names = {"a", "b"}
    for shift in (0.0, 1.0):
        value(arguments(jnp.arange(4.0) + shift, names=names))
    assert value._cache_size() == 1
    value(Arguments.of((jnp.arange(4.0), 5), {"names": names, "scale": {"value": np.array(2.0)}}))
    assert value._cache_size() == 2


def test_what_has_no_hash_is_compared_by_identity():
    names = {"a", "b"}
    first, second, other = (arguments(np.ones(2), names=names) for names in (names, names, {"a", "b"}))
    assert jax.tree.structure(first) == jax.tree.structure(second) != jax.tree.structure(other)


def test_all_constant():
    found = Arguments.of((np.arange(3.0),), {}, all_constant=True)
    assert jax.tree.leaves(found) == []
    np.testing.assert_array_equal(found.call(lambda y: y), np.arange(3.0))
