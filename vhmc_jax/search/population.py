"""Discovery by mass: a population of particles that is tempered from the region to the target.

Climbing finds peaks, in proportion to the volume of their basins. A population finds mass. It sees what has no peak of
its own: a broad component, a bent valley, a shell.

Notation: r the region's density, π the target, π_t ∝ r^{1−t} π^t the path from one to the other.

References
----------
.. [1] P. Del Moral, A. Doucet and A. Jasra, Sequential Monte Carlo samplers, Journal of the Royal Statistical Society B
   68, 2006.
.. [2] A. Jasra, D. A. Stephens, A. Doucet and T. Tsagaris, Inference for Lévy-driven stochastic volatility models via
   adaptive sequential Monte Carlo, Scandinavian Journal of Statistics 38, 2011, on the choice of the temperatures.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import numpy as np
from tqdm import tqdm

from vhmc_jax import random
from vhmc_jax.arguments import as_array, as_count
from vhmc_jax.base import Array, PyTree
from vhmc_jax.density import FlatDensity, require_gradient, require_scalar, unravel_rows
from vhmc_jax.runner.devices import mesh_of
from vhmc_jax.runner.hosts import Hosts
from vhmc_jax.search.reference import Reference, reference_of
from vhmc_jax.search.tempering import Particles, Tempered, first_particles, moved

EFFECTIVE_SHARE = 0.5
"""The next temperature is the one at which the weights have this effective size, as a share of the particles."""

DRAWS_PER_PARTICLE, ENOUGH_ALIVE = (1, 4, 16, 64), 0.5
"""First draws for each particle: more of them until so many, as a share of the particles, have a positive density."""

LEAST_ALIVE = 8
"""Particles of positive density without which there is no population."""


class Path(NamedTuple):
    """How the population came from the region to the target, one entry a stage.

    Attributes
    ----------
    temperatures
        t, ascending; the last is one where the population arrived.
    effective_shares
        Effective size of the weights before resampling, as a share of the particles.
    acceptance_rates
        Mean acceptance of the moves.
    """

    temperatures: np.ndarray
    effective_shares: np.ndarray
    acceptance_rates: np.ndarray


class Population(NamedTuple):
    """Particles that are about distributed as the target.

    Attributes
    ----------
    positions
        Pytree like one position, with the particles on the leading axis.
    logdensities
        Log densities there, shape (n,).
    log_evidence
        Estimate of the log of the normalising constant.
    log_evidence_error
        Its standard error, as if the moves made the particles independent at every stage: a lower bound.
    path
        The stages.
    num_drawn, num_alive
        The first draws, and how many of them had a positive density.
    num_gradients, num_densities
        Evaluations.
    """

    positions: PyTree
    logdensities: np.ndarray
    log_evidence: float
    log_evidence_error: float
    path: Path
    num_drawn: int
    num_alive: int
    num_gradients: int
    num_densities: int

    @property
    def has_arrived(self) -> bool:
        """Whether the last stage is the target itself."""
        return len(self.path.temperatures) > 0 and bool(self.path.temperatures[-1] == 1.0)

    @property
    def flat(self) -> np.ndarray:
        """Positions as flat rows, shape (n, d)."""
        leaves = [np.asarray(leaf) for leaf in jax.tree.leaves(self.positions)]
        return np.concatenate([leaf.reshape(len(leaf), -1) for leaf in leaves], axis=1)


def population(
    rng_key: Array,
    logdensity_fn: Callable,
    region: PyTree | Callable,
    *,
    num_particles: int = 1024,
    num_moves: int = 2,
    max_gradients: int = 1_000_000,
    progress: bool = False,
    devices: Any = None,
) -> Population:
    """Temper particles from a region to a density.

    Each stage raises the temperature as far as the weights stay even, resamples the particles by their weights, and
    moves them by Hamiltonian Monte Carlo.

    Parameters
    ----------
    rng_key
        Key of everything.
    logdensity_fn
        Log density of a pytree position, up to a constant.
    region
        Where to begin: ``box(low, high)``, a sampler rng_key → position (its ``log_prob`` is used where it has one), or
        positions on a leading axis. Without a density of its own, and for a box, a Gaussian with its moments stands in.
    num_particles
        Particles.
    num_moves
        Moves of each particle in a stage, three gradients each. The last stage has twice as many.
    max_gradients
        The population stops short of the target where it would take more gradients.
    progress
        Whether to show a bar with the temperature.
    devices
        A number of devices, or a list of JAX's, of this process, among which the particles are divided evenly while
        they move; by default the one that JAX takes.

    Returns
    -------
    The particles, the evidence and the path.

    Raises
    ------
    ValueError
        Where the density is zero at nearly all first draws.

    Examples
    --------
    >>> import jax, vhmc_jax as vj
    >>> target = vj.targets.far_pair(0.7)
    >>> region = vj.box(jax.numpy.full(2, -10.0), jax.numpy.full(2, 10.0))
    >>> found = vj.population(jax.random.key(0), target.logdensity, region, num_particles=512)
    >>> found.positions.shape, found.has_arrived
    ((512, 2), True)
    """
    num_particles = as_count("num_particles", num_particles, 2 * LEAST_ALIVE)
    num_moves = as_count("num_moves", num_moves, 1)
    max_gradients = as_count("max_gradients", max_gradients, 1)
    mesh = mesh_of(devices, num_particles, "particles")
    if Hosts.of(mesh).are_several:
        raise ValueError("devices must be those of this process: give jax.local_devices()")
    key_reference, key_resample, key_moves = (random.as_jax_key(key) for key in random.split(rng_key, 3))
    reference = reference_of(key_reference, region)
    require_scalar(logdensity_fn, reference.template)
    require_gradient(logdensity_fn, reference.template)
    density, generator = FlatDensity.at(logdensity_fn, reference.template), random.generator(key_resample)

    particles, num_drawn, num_alive, num_gradients = _alive(generator, density, reference, num_particles)
    stages: list[tuple[float, float, float]] = []
    log_evidence, variance, temperature = float(np.log(num_alive / num_drawn)), 1 / num_alive - 1 / num_drawn, 0.0
    with tqdm(total=1.0, desc="population", disable=not progress, bar_format="{desc}: {n:.2f} {elapsed}") as bar:
        while temperature < 1.0 and num_gradients < max_gradients:
            log_ratios = np.asarray(particles.target, np.float64) - np.asarray(particles.reference, np.float64)
            increase = _next_increase(log_ratios, 1.0 - temperature)
            temperature = min(1.0, temperature + increase)
            weights, log_mean, share = _weights(increase * log_ratios)
            log_evidence, variance = log_evidence + log_mean, variance + (1 / share - 1) / num_particles
            particles, acceptance, cost = moved(
                random.as_jax_key(random.fold_in(key_moves, len(stages))),
                Tempered(density, reference.log_prob, as_array(temperature, particles.x.dtype)),
                _chosen(particles, _resample(generator, weights)),
                num_moves if temperature < 1.0 else 2 * num_moves,
                mesh,
            )
            num_gradients += cost
            stages.append((temperature, share, acceptance))
            bar.update(temperature - bar.n)
    return Population(
        positions=unravel_rows(np.asarray(particles.x), reference.template),
        logdensities=np.asarray(particles.target, np.float64),
        log_evidence=log_evidence,
        log_evidence_error=float(np.sqrt(variance)),
        path=Path(*np.array(stages).reshape(-1, len(Path._fields)).T),
        num_drawn=num_drawn,
        num_alive=num_alive,
        num_gradients=num_gradients,
        num_densities=0,
    )


def _alive(
    generator: np.random.Generator, density: FlatDensity, reference: Reference, num_particles: int
) -> tuple[Particles, int, int, int]:
    """First particles of positive density, how many were drawn, how many of those had one, and the gradients taken.

    Where the density is zero in most of the region, more are drawn.
    """
    num_gradients = 0
    for factor in DRAWS_PER_PARTICLE:
        x = reference.draws(factor * num_particles)
        num_gradients += len(x)
        blocks = [first_particles(density, reference.log_prob, block) for block in np.split(x, factor)]
        drawn = jax.tree.map(lambda *parts: np.concatenate(parts), *blocks)
        alive = np.flatnonzero(np.isfinite(drawn.target) & np.isfinite(drawn.reference))
        if len(alive) >= ENOUGH_ALIVE * num_particles:
            break
    if len(alive) < LEAST_ALIVE:
        raise ValueError(
            f"the density is zero or not a number at {len(x) - len(alive):,} of {len(x):,} draws from the region: give "
            "a region that covers the density"
        )
    numbers = generator.choice(alive, num_particles, replace=len(alive) < num_particles)
    return _chosen(drawn, numbers), len(x), len(alive), num_gradients


def _next_increase(log_ratios: np.ndarray, most: float) -> float:
    """The increase of t at which the weights have the wanted effective size, by bisection of its logarithm."""
    alive = np.mean(np.isfinite(log_ratios))
    if _weights(most * log_ratios)[2] >= EFFECTIVE_SHARE * alive:
        return most
    low, high = np.log(1e-12), np.log(most)
    for _ in range(40):
        middle = 0.5 * (low + high)
        is_even = _weights(np.exp(middle) * log_ratios)[2] >= EFFECTIVE_SHARE * alive
        low, high = (middle, high) if is_even else (low, middle)
    return float(np.exp(low))


def _weights(log_weights: np.ndarray) -> tuple[np.ndarray, float, float]:
    """Normalised weights, the log of their mean, and their effective size as a share. Not a number counts as zero."""
    log_weights = np.where(np.isnan(log_weights), -np.inf, log_weights)
    greatest = log_weights.max()
    weights = np.exp(log_weights - greatest)
    mean = weights.mean()
    return weights / weights.sum(), float(greatest + np.log(mean)), float(mean**2 / np.mean(weights**2))


def _resample(generator: np.random.Generator, weights: np.ndarray) -> np.ndarray:
    """Numbers of the particles that go on: systematic resampling."""
    places = (np.arange(len(weights)) + generator.uniform()) / len(weights)
    return np.minimum(np.searchsorted(np.cumsum(weights), places), len(weights) - 1)


def _chosen(particles: Particles, numbers: np.ndarray) -> Particles:
    """The particles of these numbers."""
    return jax.tree.map(lambda leaf: np.asarray(leaf)[numbers], particles)
