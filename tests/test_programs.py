"""``jax.jit`` with options, wherever options may be."""

import functools
import threading

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from vhmc_jax import programs
from vhmc_jax.programs import SEQUENTIAL, SOON_COMPILED, program


@functools.partial(program, options=SOON_COMPILED, static_argnames="power")
def total(x, power):
    """Sum of powers."""
    return jnp.sum(x**power)


X = np.arange(3.0)


def test_it_is_jit():
    assert float(total(X, power=2)) == 5.0
    assert total.__doc__ == "Sum of powers."


@pytest.mark.parametrize("options", [SEQUENTIAL, SOON_COMPILED])
def test_the_options_are_known_here_and_used(options):
    assert float(program(jnp.sum, options=options)(X)) == 3.0
    assert options not in programs._UNKNOWN


def test_within_transformations_it_is_plain_jit():
    assert float(jax.jit(lambda x: total(x, power=2))(X)) == 5.0
    assert float(jax.jit(lambda: total(X, power=2))()) == 5.0, "also where no argument is traced"
    np.testing.assert_array_equal(jax.vmap(functools.partial(total, power=2))(X[:, None]), X**2)
    np.testing.assert_array_equal(jax.grad(functools.partial(total, power=2))(X), 2 * X)
    assert jax.eval_shape(functools.partial(total, power=2), X).shape == ()


def test_options_that_xla_does_not_know_are_left_out():
    unknown = program(jnp.sum, options=(("xla_no_such_option", True),))
    assert float(unknown(X)) == 3.0
    assert float(unknown(X)) == 3.0, "without asking again"
    programs._UNKNOWN.remove((("xla_no_such_option", True),))


def test_other_errors_are_not_hidden():
    wrong = program(jnp.sum, options=(("xla_cpu_use_fusion_emitters", "neither"),))
    with pytest.raises(jax.errors.JaxRuntimeError):
        wrong(X)


def test_a_prepared_program_is_compiled_once_and_elsewhere():
    compiled_by = []

    def hear(event, duration_secs, **_):
        if event.endswith("backend_compile_duration"):
            compiled_by.append(threading.current_thread().name)

    total(X, power=2)  # compiles what all programs share
    doubled = program(lambda x: 2 * x, options=SOON_COMPILED)
    jax.monitoring.register_event_duration_secs_listener(hear)
    assert doubled.prepare(jax.ShapeDtypeStruct(X.shape, X.dtype))
    np.testing.assert_array_equal(doubled(X), 2 * X)
    assert len(compiled_by) == 1
    assert compiled_by[0] != threading.current_thread().name
    assert not doubled.prepare(X), "for these shapes it is ready"
    assert doubled.prepare(X[:2]), "for others it is not"
    assert doubled.shapes(X).shape == X.shape


def test_while_tracing_nothing_is_prepared():
    assert not jax.eval_shape(lambda x: jnp.asarray(total.prepare(x, power=3)), X).shape
    assert not total._prepared


def test_an_error_of_the_other_thread_comes_when_the_program_is_called():
    wrong = program(jnp.sum, options=(("xla_cpu_use_fusion_emitters", "neither"),))
    wrong.prepare(X)
    with pytest.raises(jax.errors.JaxRuntimeError):
        wrong(X)
