"""Counting how often a function is evaluated when a program runs, not how often it is traced."""

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
