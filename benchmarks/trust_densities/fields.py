"""The φ⁴ field on a periodic lattice in two dimensions, near where its sign breaks: two modes, φ and −φ.

Half and half by symmetry. The other truths are means over long chains of local moves and sign clusters (Brower and
Tamayo, 1989), which cross between the modes at once; NUTS and parallel tempering agree with them in shapes.py.
"""

from typing import Any

import jax.numpy as jnp
import numpy as np
from numpy.random import Generator
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from trust_densities.record import Density, cube, mean_of, moments, probability

SIDE, MASS, COUPLING = 14, -4.75, 5.1
MAGNETISATION, SQUARE, VARIANCE = 0.43993, 0.32597, 0.007398
"""E |mean of φ|, E φ² and the variance of |mean of φ|."""
MOST_REPLICAS, NUM_CYCLES, STEP = 4_000, 40, 0.5


def lattice_logdensity(x: Any) -> Any:
    """−Σ [φ(−Δ)φ + m² φ² + λ φ⁴]."""
    field = x.reshape(SIDE, SIDE)
    links = sum(jnp.sum((field - jnp.roll(field, 1, axis)) ** 2) for axis in (0, 1))
    return -links - jnp.sum(MASS * field**2 + COUPLING * field**4)


def draw_lattice(rng: Generator, n: int) -> np.ndarray:
    """Replicas that start from both modes, each after cycles of sweeps and clusters; at most 4,000 of them."""
    field = start_lattice(rng, min(n, MOST_REPLICAS))
    for _ in range(NUM_CYCLES):
        cycle(rng, field)
    return field.reshape(SIDE**2, -1).T


def start_lattice(rng: Generator, num: int) -> np.ndarray:
    """Constant fields of either sign, shape (side, side, num)."""
    return np.full((SIDE, SIDE, num), 0.5) * rng.choice([-1.0, 1.0], num)


def cycle(rng: Generator, field: np.ndarray) -> None:
    """Two sweeps of Metropolis's moves, and new signs for the clusters of equal sign; in place."""
    colour = np.add.outer(np.arange(SIDE), np.arange(SIDE)) % 2
    for parity in (0, 1, 0, 1):
        sites = np.nonzero(colour == parity)
        shifts = ((0, 1), (0, -1), (1, 0), (-1, 0))
        around = sum(field[(sites[0] + i) % SIDE, (sites[1] + j) % SIDE] for i, j in shifts)
        old = field[sites]
        new = old + STEP * rng.standard_normal(old.shape, dtype=np.float32)
        change = (4 + MASS) * (new**2 - old**2) + COUPLING * (new**4 - old**4) - 2 * (new - old) * around
        is_accepted = rng.random(old.shape, dtype=np.float32) < np.exp(np.minimum(-change, 0.0))
        field[sites] = np.where(is_accepted, new, old)
    _flip_clusters(rng, field)


def _flip_clusters(rng: Generator, field: np.ndarray) -> None:
    """Swendsen and Wang's move for the signs: neighbours of one sign are linked with probability 1 − exp(−4 φ φ′)."""
    number = np.arange(field.size).reshape(field.shape)
    links = []
    for axis in (0, 1):
        product = field * np.roll(field, 1, axis)
        is_linked = rng.random(field.shape, dtype=np.float32) < -np.expm1(-4 * np.maximum(product, 0.0))
        links.append(np.stack([number[is_linked], np.roll(number, 1, axis)[is_linked]]))
    first, second = np.concatenate(links, axis=1)
    graph = coo_array((np.ones(len(first), np.int8), (first, second)), shape=(field.size, field.size))
    num_clusters, cluster = connected_components(graph, directed=False)
    field *= rng.choice([-1.0, 1.0], num_clusters)[cluster].reshape(field.shape)


def lattice() -> Density:
    dim = SIDE**2
    quantities = moments(np.zeros(dim), np.full(dim, SQUARE))
    quantities += [
        mean_of("|mean|", lambda x: np.abs(x.mean(axis=1)), MAGNETISATION),
        mean_of("mean of squares", lambda x: np.mean(x**2, axis=1), SQUARE),
        mean_of("var. |mean|", lambda x: (np.abs(x.mean(axis=1)) - MAGNETISATION) ** 2, VARIANCE),
        probability("mean > 0", lambda x: x.mean(axis=1) > 0, 0.5),
    ]
    return Density(dim, lattice_logdensity, cube(dim, 1.5), quantities, None, draw_lattice)
