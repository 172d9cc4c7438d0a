"""Compiled programs of many small kernels, with what suits them on a CPU.

By default XLA runs the kernels of a step as a graph over its threads, and where each takes a microsecond the hand-overs
take longer than the kernels. Ordered such that they share memory, most wait for the one before, and a step of VHMC on
64 chains took two thirds to nine tenths of the time. And where a program runs for milliseconds, XLA's older way to
generate its kernels, which compiles in two thirds of the time, is the better one.

A program that will be needed soon can be prepared: another thread compiles it while the caller goes on.
"""

import concurrent.futures
import functools
import time
from collections.abc import Callable
from typing import Any

import jax
import numpy as np

from vhmc_jax.arguments import is_concrete

SEQUENTIAL = (("xla_cpu_scheduler_type", "CPU_SCHEDULER_TYPE_MEMORY_OPTIMIZED"),)
"""Mostly one kernel after another; each may still use several threads."""
SOON_COMPILED = (
    *SEQUENTIAL,
    ("xla_cpu_use_fusion_emitters", False),
    ("xla_cpu_parallel_codegen_split_count", 4),  # by default 32 parts of a few kernels each
)
"""For what runs shorter than it compiles."""
WAITED = "/vhmc_jax/programs/wait_duration"
"""Event of JAX's monitoring: a program was called before the other thread had compiled it."""


class Program:
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
    """

    def __init__(self, function: Callable, options: tuple[tuple[str, Any], ...], **jit_options: Any):
        functools.update_wrapper(self, function)
        self._plain = jax.jit(function, **jit_options)
        self._tuned: Any = jax.jit(function, compiler_options=dict(options), **jit_options)
        self._options = options
        self._prepared: list[concurrent.futures.Future] = []
        self._kinds: set[int] = set()

    def __call__(self, *arguments: Any, **named: Any) -> Any:
        """The function's value."""
        if self._takes_options(arguments, named):
            self._await_compilers()
            try:
                return self._tuned(*arguments, **named)
            except jax.errors.JaxRuntimeError as error:
                if "No such compile option" not in str(error):
                    raise
                _UNKNOWN.add(self._options)
        return self._plain(*arguments, **named)

    def prepare(self, *arguments: Any, **named: Any) -> bool:
        """Compile for arguments like these, or of their shapes, on another thread; the next call waits for it.

        Tracing stays here: what JAX is set to differs between threads.

        Returns
        -------
        Whether there was anything to do. To ask again costs little.
        """
        if not self._takes_options(arguments, named):
            return False
        leaves, structure = jax.tree.flatten((arguments, named))
        # A hash alone: the structure holds the user's functions, and they their data.
        kind = hash((structure, tuple((np.shape(leaf), getattr(leaf, "dtype", leaf)) for leaf in leaves)))
        if kind in self._kinds and self._tuned._cache_size() > 0:  # unless JAX's caches have been cleared
            return False
        lowered = self._tuned.lower(*arguments, **named)
        try:
            future = _compilers().submit(lowered.compile)
        except RuntimeError:  # the interpreter is about to end
            return False
        self._kinds.add(kind)
        self._prepared = [*(other for other in self._prepared if not other.done()), future]
        return True

    def _await_compilers(self) -> None:
        if self._prepared:
            started, prepared, self._prepared = time.perf_counter(), self._prepared, []
            concurrent.futures.wait(prepared)  # an error comes again, when the program is called
            jax.monitoring.record_event_duration_secs(WAITED, time.perf_counter() - started)

    def shapes(self, *arguments: Any, **named: Any) -> Any:
        """The shapes and dtypes of the value, without computing it."""
        return self._tuned.eval_shape(*arguments, **named)

    def _takes_options(self, *arguments: Any) -> bool:
        is_outermost = is_concrete(arguments, _anything())  # what is made while tracing is traced
        return is_outermost and self._options not in _UNKNOWN and jax.default_backend() == "cpu"


def program(function: Callable, *, options: tuple[tuple[str, Any], ...] = SEQUENTIAL, **jit_options: Any) -> Program:
    """A :class:`Program` of a function."""
    return Program(function, options, **jit_options)


@jax.jit
def _anything() -> Any:
    return 0


@functools.cache
def _compilers() -> concurrent.futures.ThreadPoolExecutor:
    return concurrent.futures.ThreadPoolExecutor(max_workers=2, thread_name_prefix="vhmc_jax compiles")


_UNKNOWN: set[tuple[tuple[str, Any], ...]] = set()
"""Options that this version of XLA turned out not to know."""
