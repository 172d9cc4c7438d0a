"""Compiled programs of many small kernels, with what suits them on a CPU.

By default XLA runs the kernels of a step as a graph over its threads, and where each takes a microsecond the hand-overs
take longer than the kernels: one after another, a step of VHMC on 64 chains takes two thirds of the time. And where a
program runs for milliseconds, XLA's older way to generate its kernels, which compiles in two thirds of the time, is
the better one.
"""

import functools
from collections.abc import Callable
from typing import Any

import jax

from vhmc_jax.base import is_concrete

SEQUENTIAL = (("xla_cpu_scheduler_type", "CPU_SCHEDULER_TYPE_MEMORY_OPTIMIZED"),)
"""One kernel after another; each may still use several threads."""
SOON_COMPILED = (*SEQUENTIAL, ("xla_cpu_use_fusion_emitters", False))
"""For what runs shorter than it compiles."""


def program(function: Callable, *, options: tuple[tuple[str, Any], ...] = SEQUENTIAL, **jit_options: Any) -> Callable:
    """``jax.jit`` with options of XLA for a CPU.

    Within another program or transformation, on other devices, and where this version of XLA does not know the
    options, it is ``jax.jit`` without them. The values are the same.

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
        return (tuned if is_outermost and _are_known(options) else plain)(*arguments, **named)

    return run


@functools.cache
def _are_known(options: tuple[tuple[str, Any], ...]) -> bool:
    """Whether the default device is a CPU whose compiler takes these options."""
    if jax.default_backend() != "cpu":
        return False
    try:
        jax.jit(lambda x: x, compiler_options=dict(options)).lower(0).compile()
    except jax.errors.JaxRuntimeError:
        return False
    return True
