"""Time of each phase, with what JAX spent on compiling apart."""

import functools
import threading
import time
from typing import Any, Self

import jax

COMPILE_EVENTS = (
    "/jax/core/compile/jaxpr_trace_duration",
    "/jax/core/compile/jaxpr_to_mlir_module_duration",
    "/jax/core/compile/backend_compile_duration",
)


class _CompileClock:
    """Seconds that JAX has reported for compiling, in this thread: what another compiles meanwhile costs no time."""

    def __init__(self) -> None:
        self._of_thread = threading.local()
        jax.monitoring.register_event_duration_secs_listener(self._hear)

    @property
    def seconds(self) -> float:
        return getattr(self._of_thread, "seconds", 0.0)

    def _hear(self, event: str, duration_secs: float, **_: Any) -> None:
        if event in COMPILE_EVENTS:
            self._of_thread.seconds = self.seconds + duration_secs


@functools.cache
def _compile_clock() -> _CompileClock:
    """The one listener, registered on first use: JAX has no way to take one back."""
    return _CompileClock()


class Clock:
    """A context that measures one phase.

    Attributes
    ----------
    seconds
        Time between entry and exit.
    compile_seconds
        The part of it that JAX spent on tracing and compiling, as it reports it; nested traces may count twice, so at
        most ``seconds``.
    """

    def __init__(self) -> None:
        self.seconds = self.compile_seconds = 0.0

    def __enter__(self) -> Self:
        self._compiled_before, self._started = _compile_clock().seconds, time.perf_counter()
        return self

    def __exit__(self, *_: object) -> None:
        self.seconds = time.perf_counter() - self._started
        self.compile_seconds = min(_compile_clock().seconds - self._compiled_before, self.seconds)
