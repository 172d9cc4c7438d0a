"""Compiled programs: released with the functions that they are made of, and compiled fast where they run shortly.

JAX keeps the programs of a function as long as that function lives. A function of ours lives forever. So each function
of a user's, a log density for instance, gets a copy of ours, which goes when the user's function does.

XLA has an older and a newer way to generate the kernels of a CPU program. The older one compiles faster, and its
programs run slower. The search for modes and the fit of a guide compile several large programs and run each of them
for milliseconds, so they use the older one. Production uses ``jax.jit`` as it is.
"""

import functools
import weakref
from collections.abc import Callable
from typing import Any

import jax

from vhmc_jax.arguments import is_concrete
from vhmc_jax.functions import Token, tokens_in, when_gone

Options = tuple[tuple[str, Any], ...]

SOON_COMPILED: Options = (
    ("xla_cpu_use_fusion_emitters", False),
    ("xla_cpu_parallel_codegen_split_count", 4),  # by default 32 parts of a few kernels each
)
"""Options of XLA for programs that run shorter than they compile. Steps of a chain take 1.2 to 1.6 times as long."""


class Program:
    """``jax.jit`` with options of XLA for a CPU. Programs are released with the functions among their arguments.

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
        self._options, self._jit_options = options, jit_options
        self._compiled: dict[frozenset[Token], tuple[Any, Any]] = {}
        _programs.add(self)

    def __call__(self, *arguments: Any, **named: Any) -> Any:
        """The function's value."""
        plain, tuned = self._of(arguments, named)
        if not self._options:
            return plain(*arguments, **named)
        is_outermost = is_concrete(arguments, named, _anything())  # an array made while tracing is traced
        takes_options = is_outermost and jax.default_backend() == "cpu" and are_known(self._options)
        return (tuned if takes_options else plain)(*arguments, **named)

    def eval_shape(self, *arguments: Any, **named: Any) -> Any:
        """Shapes and dtypes of the function's value."""
        return self._of(arguments, named)[0].eval_shape(*arguments, **named)

    def lower(self, *arguments: Any, **named: Any) -> Any:
        """The program before it is compiled, without options."""
        return self._of(arguments, named)[0].lower(*arguments, **named)

    def _of(self, *arguments: Any) -> tuple[Any, Any]:
        """The two programs, without and with options, for the functions that are among the arguments."""
        tokens = tokens_in(arguments)
        if tokens not in self._compiled:

            @functools.wraps(self.plain)
            def copy(*arguments: Any, **named: Any) -> Any:
                return self.plain(*arguments, **named)

            tuned = jax.jit(copy, compiler_options=dict(self._options), **self._jit_options) if self._options else None
            self._compiled[tokens] = jax.jit(copy, **self._jit_options), tuned
        return self._compiled[tokens]

    def release(self, token: Token) -> None:
        """Let go of all that was compiled for a function."""
        for tokens in [tokens for tokens in list(self._compiled) if token in tokens]:
            del self._compiled[tokens]


_programs: weakref.WeakSet[Program] = weakref.WeakSet()


def _release(token: Token) -> None:
    for each in list(_programs):
        each.release(token)


when_gone(_release)


def program(function: Callable, *, options: Options = (), **jit_options: Any) -> Program:
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
