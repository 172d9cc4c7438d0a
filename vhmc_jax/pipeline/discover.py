"""Discover: where the modes are, and where the mass is."""

from collections.abc import Callable
from typing import NamedTuple

import jax
import numpy as np

from vhmc_jax import random
from vhmc_jax.base import Array, PyTree
from vhmc_jax.pipeline.phase import Cost
from vhmc_jax.pipeline.produce import Produced
from vhmc_jax.search import Modes
from vhmc_jax.search.mass import mode_of_mass
from vhmc_jax.search.modes import narrow_starts_note, require_modes, search_modes
from vhmc_jax.search.population import Path, Population, population
from vhmc_jax.search.region import dimension_of

NUM_AUDITORS, FEW_AUDITORS, FEW_DIMENSIONS = 256, 128, 16
"""Particles of the population that audits the guide: in few dimensions, and in more."""
NUM_SEEN, NUM_CLIMBERS = 4096, 256
"""Draws of a first round that the guide is fitted to, and those of them that climb."""
NUM_PARTICLES, NUM_MOVES = 1024, 4
"""Particles and moves a stage of the population that the guide is fitted to, where it needs one."""
MISSED_PEAKS = 10.0
"""A population whose log evidence is by so much below that of the peaks, by Laplace's approximation, did not find them.
On 32 densities the peaks' log evidence exceeded the population's by at most 4."""


class Larger(NamedTuple):
    """What it takes to make a larger population.

    Attributes
    ----------
    rng_key
        Its key.
    max_gradients
        The most gradients.
    progress
        Whether to show a bar.
    """

    rng_key: Array
    max_gradients: int
    progress: bool


class Discovered(NamedTuple):
    """What the search found.

    Attributes
    ----------
    modes
        The modes. Where climbing found none, one for the whole population.
    has_peaks
        Whether climbing found any.
    audit
        A small population, for a second opinion; None where there is none.
    more
        A larger population for the fit, or what it takes to make one; None where there is none.
    max_gradients
        The most gradients of a further population.
    notes
        Sentences: what may be wrong, and what to do about it.
    cost
        Evaluations.
    """

    modes: Modes
    has_peaks: bool
    audit: Population | None
    more: Population | Larger | None
    max_gradients: int
    notes: tuple[str, ...]
    cost: Cost


def discover(
    rng_key: Array,
    logdensity_fn: Callable,
    region: PyTree | Callable,
    num_starts: int | None,
    max_evaluations: int,
    progress: bool,
) -> Discovered:
    """Temper a population from the region to the target; climb from starts all over the region, and from particles.

    Parameters
    ----------
    rng_key
        Key of starts and particles.
    logdensity_fn
        Log density of a pytree position.
    region
        Where to look: positions with a leading axis, or a function rng_key → position.
    num_starts
        How many starts to draw; None for as many as it takes.
    max_evaluations
        About the most evaluations of this phase.
    progress
        Whether to show a bar.

    Returns
    -------
    The modes and the population.
    """
    key_starts, key_audit, key_more = (random.as_jax_key(key) for key in random.split(rng_key, 3))
    larger, audit, notes = Larger(key_more, max_evaluations // 4, progress), None, []
    try:
        audit = audit_population(key_audit, logdensity_fn, region, max_evaluations // 4)
    except ValueError as error:
        notes.append(f"No second opinion on where the mass is: {error}.")
    modes = search_modes(
        key_starts,
        logdensity_fn,
        region,
        num_starts=num_starts,
        particles=None if audit is None else audit.flat,
        max_gradients=max_evaluations // 2,
        progress=progress,
    )
    has_peaks = len(modes.logdensities) > 0
    more: Population | Larger | None = None if audit is None else larger
    num_gradients = modes.num_gradients + (0 if audit is None else audit.num_gradients)
    if audit is None:
        require_modes(modes)
    elif not has_peaks:
        modes = mode_of_mass(audit, modes)
    elif modes.log_mass - audit.log_evidence > MISSED_PEAKS:
        audit = larger_population(larger, logdensity_fn, region)
        num_gradients += audit.num_gradients
        more = audit._replace(num_gradients=0)  # they are counted here
    narrow = narrow_starts_note(region, modes)
    notes = [*notes, *(() if narrow is None else (narrow,))]
    cost = Cost(num_gradients, modes.num_densities)
    return Discovered(modes, has_peaks, audit, more, larger.max_gradients, tuple(notes), cost)


def rediscover(
    rng_key: Array,
    logdensity_fn: Callable,
    region: PyTree | Callable,
    num_starts: int | None,
    max_evaluations: int,
    progress: bool,
    found: Discovered,
    produced: Produced,
) -> Discovered:
    """Climb from the draws of a first round too, and hand them on to the fit as a population.

    The chains of an exact kernel may have seen what the search and the population did not.

    Parameters
    ----------
    rng_key, logdensity_fn, region, num_starts, max_evaluations, progress
        As for ``discover``.
    found
        What was discovered before.
    produced
        The draws.

    Returns
    -------
    The modes, and a population made of draws, to which the guide is fitted. The first one audits it.
    """
    key_search, key_draws = (random.as_jax_key(key) for key in random.split(rng_key))
    draws = as_population(key_draws, produced)
    seen = draws.flat[:NUM_CLIMBERS]
    modes = search_modes(
        key_search,
        logdensity_fn,
        region,
        num_starts=num_starts,
        particles=seen if found.audit is None else np.concatenate([found.audit.flat, seen]),
        max_gradients=max_evaluations // 2,
        progress=progress,
    )
    modes = modes if len(modes.logdensities) else mode_of_mass(draws, modes)
    return found._replace(modes=modes, more=draws, cost=Cost(modes.num_gradients, modes.num_densities))


def larger_population(more: Population | Larger, logdensity_fn: Callable, region: PyTree | Callable) -> Population:
    """The larger population, made now where it has not been made."""
    if isinstance(more, Population):
        return more
    return population(
        more.rng_key,
        logdensity_fn,
        region,
        num_particles=NUM_PARTICLES,
        num_moves=NUM_MOVES,
        max_gradients=more.max_gradients,
        progress=more.progress,
    )


def as_population(rng_key: Array, produced: Produced) -> Population:
    """Draws of chains as a population, without an evidence of their own."""
    produced = produced.seen
    logdensities = np.asarray(produced.logdensities, np.float64)
    numbers = random.generator(rng_key).choice(logdensities.size, min(NUM_SEEN, logdensities.size), replace=False)
    positions = jax.tree.map(lambda leaf: np.asarray(leaf).reshape(-1, *leaf.shape[2:])[numbers], produced.draws)
    no_path = Path(*np.zeros((len(Path._fields), 0)))
    return Population(positions, logdensities.ravel()[numbers], np.nan, np.nan, no_path, 0, 0, 0, 0)


def audit_population(
    rng_key: Array, logdensity_fn: Callable, region: PyTree | Callable, max_gradients: int
) -> Population:
    """A small population, of fewer particles where there are many stages."""
    dim = dimension_of(region)
    number = NUM_AUDITORS if dim <= FEW_DIMENSIONS else FEW_AUDITORS
    num_moves = 2 if dim <= FEW_DIMENSIONS**2 // 2 else 1
    return population(
        rng_key, logdensity_fn, region, num_particles=number, num_moves=num_moves, max_gradients=max_gradients
    )
