"""Discover: which modes there are."""

from collections.abc import Callable
from typing import NamedTuple

from vhmc_jax.base import Array, PyTree
from vhmc_jax.pipeline.phase import Cost
from vhmc_jax.search import Modes
from vhmc_jax.search.modes import narrow_starts_note, search_modes


class Discovered(NamedTuple):
    """What the search found.

    Attributes
    ----------
    modes
        The modes.
    notes
        Sentences: what may be wrong, and what to do about it.
    cost
        Evaluations.
    """

    modes: Modes
    notes: tuple[str, ...]
    cost: Cost


def discover(
    rng_key: Array, logdensity_fn: Callable, region: PyTree | Callable, num_starts: int | None, progress: bool
) -> Discovered:
    """Climb from starts all over the region.

    Parameters
    ----------
    rng_key
        Draws the starts, where they are drawn.
    logdensity_fn
        Log density of a pytree position.
    region
        Where to look: positions with a leading axis, or a function rng_key → position.
    num_starts
        How many starts to draw; None for as many as it takes.
    progress
        Whether to show a bar.

    Returns
    -------
    The modes.
    """
    modes = search_modes(rng_key, logdensity_fn, region, num_starts=num_starts, progress=progress)
    narrow = narrow_starts_note(region, modes)
    notes = modes.notes if narrow is None else (*modes.notes, narrow)
    return Discovered(modes, notes, Cost(modes.num_gradients, modes.num_densities))
