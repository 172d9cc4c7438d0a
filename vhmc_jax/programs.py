"""Compiled programs of many small kernels, with what suits them on a CPU.

By default XLA runs the kernels of a step as a graph over its threads, and where each takes a microsecond the hand-overs
take longer than the kernels. Ordered such that they share memory, most wait for the one before, and a step of VHMC on
64 chains took two thirds to nine tenths of the time. And where a program runs for milliseconds, XLA's older way to
generate its kernels, which compiles in two thirds of the time, is the better one.
"""

import functools
from collections.abc import Callable
from typing import Any

import jax

from vhmc_jax.base import is_concrete

SEQUENTIAL = (("xla_cpu_scheduler_type", "CPU_SCHEDULER_TYPE_MEMORY_OPTIMIZED"),)
"""Mostly one kernel after another; each may still use several threads."""
SOON_COMPILED = (*SEQUENTIAL, ("xla_cpu_use_fusion_emitters", False))
"""For what runs shorter than it compiles."""


def program(function: Callable, *, options: tuple[tuple[str, Any], ...] = SEQUENTIAL, **jit_options: Any) -> Callable:
    """``jax.jit`` with options of XLA for a CPU.

    Within another program or transformation, on other devices, and where this version of XLA does not know the
    options, it is ``jax.jit`` without them. The values are the same up to rounding.

    Parameters
    ----------
    function
        A function of arrays.
    options
        Names and values of XLA's options.
    jit_options
        Arguments of ``jax.jit``.

    Returns
    -------
    The compiled function.
    """
    plain = jax.jit(function, **jit_options)
    tuned = jax.jit(function, compiler_options=dict(options), **jit_options)

    @functools.wraps(function)
    def run(*arguments: Any, **named: Any) -> Any:
        is_outermost = is_concrete(arguments, named, jax.lax.full((), 0))  # what is made while tracing is traced
        if is_outermost and options not in _UNKNOWN and jax.default_backend() == "cpu":
            try:
                return tuned(*arguments, **named)
            except jax.errors.JaxRuntimeError as error:
                if "No such compile option" not in str(error):
                    raise
                _UNKNOWN.add(options)
        return plain(*arguments, **named)

    return run


_UNKNOWN: set[tuple[tuple[str, Any], ...]] = set()
"""Options that this version of XLA turned out not to know."""
