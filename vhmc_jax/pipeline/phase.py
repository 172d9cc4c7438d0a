"""Phases: what each costs."""

from collections.abc import Callable
from typing import Any, NamedTuple

from tqdm import tqdm

from vhmc_jax.pipeline.clock import Clock


class Cost(NamedTuple):
    """Evaluations of one phase.

    Attributes
    ----------
    num_gradients
        Gradients taken.
    num_densities
        Density values taken.
    """

    num_gradients: int
    num_densities: int


class Phase(NamedTuple):
    """Cost of one phase.

    Attributes
    ----------
    name
        What it did.
    seconds
        Time, compiling included.
    compile_seconds
        The part of it that JAX spent on tracing and compiling.
    num_gradients
        Gradients taken.
    num_densities
        Density values taken.
    """

    name: str
    seconds: float
    compile_seconds: float
    num_gradients: int
    num_densities: int


class Phases:
    """Runs one phase after another, and keeps what each took.

    Parameters
    ----------
    progress
        Whether to show the phase that is running.
    """

    def __init__(self, progress: bool):
        self._progress = progress
        self.done: tuple[Phase, ...] = ()

    def run(self, name: str, function: Callable, *arguments: Any) -> Any:
        """The record that the phase's function returns; its ``cost`` is noted."""
        with Clock() as clock, tqdm(total=1, desc=name, bar_format="{desc}: {elapsed}", disable=not self._progress):
            record = function(*arguments)
        self.done = (*self.done, Phase(name, clock.seconds, clock.compile_seconds, *record.cost))
        return record
