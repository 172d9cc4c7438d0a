"""Compiled programs that run for a shorter time than they compile.

XLA has an older and a newer way to generate the kernels of a CPU program. The older one compiles faster, and its
programs run slower. The search for modes and the fit of a guide compile several large programs and run each of them
for milliseconds, so they use the older one. Production uses ``jax.jit`` as it is.
"""

import functools
from collections.abc import Callable
from typing import Any

import jax

from vhmc_jax.arguments import is_concrete

Options = tuple[tuple[str, Any], ...]

SOON_COMPILED: Options = (
    ("xla_cpu_use_fusion_emitters", False),
    ("xla_cpu_parallel_codegen_split_count", 4),  # by default 32 parts of a few kernels each
)
"""Options of XLA for programs that run shorter than they compile. Steps of a chain take 1.2 to 1.6 times as long."""


class Program:
    """``jax.jit`` with options of XLA for a CPU.

    It is ``jax.jit`` without the options in three cases: within another program or transformation, on other devices,
    and where this version of XLA does not know them. The values are the same up to rounding.

    Parameters
    ----------
    function
        A function of arrays.
    options
        Names and values of XLA's options.
    jit_options
        Arguments of ``jax.jit``.
    """

    def __init__(self, function: Callable, options: Options, **jit_options: Any):
        functools.update_wrapper(self, function)
        self.plain = function
        self._plain = jax.jit(function, **jit_options)
        self._tuned: Any = jax.jit(function, compiler_options=dict(options), **jit_options)
        self._options = options

    def __call__(self, *arguments: Any, **named: Any) -> Any:
        """The function's value."""
        is_outermost = is_concrete(arguments, named, _anything())  # an array made while tracing is traced
        takes_options = is_outermost and jax.default_backend() == "cpu" and are_known(self._options)
        return (self._tuned if takes_options else self._plain)(*arguments, **named)


def program(function: Callable, *, options: Options, **jit_options: Any) -> Program:
    """A :class:`Program` of a function."""
    return Program(function, options, **jit_options)


@functools.cache
def are_known(options: Options) -> bool:
    """Whether XLA takes these options. Found out once, by compiling a program that does nothing."""
    try:
        jax.jit(lambda: 0, compiler_options=dict(options)).lower().compile()
    except jax.errors.JaxRuntimeError:
        return False
    return True


@jax.jit
def _anything() -> Any:
    return 0
