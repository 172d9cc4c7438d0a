"""Counting traces of a function, evaluations when a program runs, and programs that a call compiles.

Where a bound on the traces is all that is asked, ``chex.assert_max_traces`` does it.
"""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp


class Counter:
    """A function that counts how often it is traced.

    Parameters
    ----------
    function
        The function; by default the log density of a standard Gaussian.
    """

    def __init__(self, function: Callable = lambda x: -0.5 * jnp.sum(x**2)):
        self.traces = 0
        self._function = function

    def __call__(self, x: Any) -> Any:
        self.traces += 1
        return self._function(x)

    def method(self, x: Any) -> Any:
        """The same, bound to an object that is no pytree."""
        return self(x)


def counted(function: Callable) -> tuple[Callable, Callable]:
    """A count of evaluations so far, and the function that is counted.

    One evaluation with any number of derivatives by ``jvp`` or ``grad`` counts once; under ``vmap`` each lane does.
    """
    count = 0

    def add_one(_: Any) -> None:
        nonlocal count
        count += 1

    def calls() -> int:
        jax.effects_barrier()
        return count

    def with_count(*arguments: Any) -> Any:
        jax.debug.callback(add_one, jax.tree.leaves(arguments)[0])
        return function(*arguments)

    return calls, with_count


_compiled: list[str] = []


def _hear(event: str, _: float, **__: Any) -> None:
    if event == "/jax/core/compile/backend_compile_duration":
        _compiled.append(event)


jax.monitoring.register_event_duration_secs_listener(_hear)


def compiled_during(function: Callable, *arguments: Any, **named: Any) -> tuple[Any, int]:
    """The value of a function, and how many programs JAX compiled for it, on whichever thread.

    The arguments are made before counting starts, so that programs which make a key or an array do not count. Those
    may be compiled already or not, depending on the tests that ran before.
    """
    before = len(_compiled)
    value = function(*arguments, **named)
    return value, len(_compiled) - before
