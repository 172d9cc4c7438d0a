"""Counting how often a function is evaluated when a program runs, and how many programs a call compiles."""

from collections.abc import Callable
from typing import Any

import jax


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
