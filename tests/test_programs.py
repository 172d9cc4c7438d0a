"""``jax.jit`` with options, wherever options may be."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from vhmc_jax.programs import SOON_COMPILED, are_known, program


@functools.partial(program, options=SOON_COMPILED, static_argnames="power")
def total(x, power):
    """Sum of powers."""
    return jnp.sum(x**power)


X = np.arange(3.0)


def test_it_is_jit():
    assert float(total(X, power=2)) == 5.0
    assert total.__doc__ == "Sum of powers."


def test_the_options_are_known_here():
    """Otherwise the package would silently compile for longer."""
    assert are_known(SOON_COMPILED)


def test_within_transformations_it_is_plain_jit():
    assert float(jax.jit(lambda x: total(x, power=2))(X)) == 5.0
    assert float(jax.jit(lambda: total(X, power=2))()) == 5.0, "also where no argument is traced"
    np.testing.assert_array_equal(jax.vmap(functools.partial(total, power=2))(X[:, None]), X**2)
    np.testing.assert_array_equal(jax.grad(functools.partial(total, power=2))(X), 2 * X)
    assert jax.eval_shape(functools.partial(total, power=2), X).shape == ()


def test_options_that_xla_does_not_know_are_left_out():
    options = (("xla_no_such_option", True),)
    assert not are_known(options)
    assert float(program(jnp.sum, options=options)(X)) == 3.0


def test_errors_of_the_function_are_not_hidden():
    with pytest.raises(TypeError, match="unsupported"):
        program(lambda x: x + None, options=SOON_COMPILED)(X)
