"""What the search for modes returns."""

from typing import NamedTuple

import jax
import numpy as np

from vhmc_jax.base import Array, PyTree

CONFIDENCE = 0.95
"""Of the statement how small a basin was reached."""


class Failures(NamedTuple):
    """Starts that led to no mode, by reason.

    Attributes
    ----------
    outside
        Started where the density is zero, infinite or not a number, or its gradient is.
    escaped
        Ran off towards infinity, or the density rose without bound.
    unconverged
        Did not reach a small gradient: too few steps, a kink, an edge of the support.
    saddle
        Stopped at a point that is no maximum.
    flat
        Stopped where the density does not fall in some direction, however far one goes: it is improper.
    uncounted
        Reached a top, but there were more of them already than are told apart.
    """

    outside: int = 0
    escaped: int = 0
    unconverged: int = 0
    saddle: int = 0
    flat: int = 0
    uncounted: int = 0


class Modes(NamedTuple):
    """The modes of a density, highest first.

    Attributes
    ----------
    positions
        Pytree like one position, with the k modes on the leading axis.
    logdensities
        Log densities there, shape (k,).
    covariances
        Inverses of the negative Hessians there, shape (k, d, d), in the order of ``ravel_pytree``.
    basin_counts
        How many starts ended at each, shape (k,).
    num_starts
        How many starts there were.
    num_failed
        How many of them led to no mode.
    failures
        The same by reason.
    undiscovered_share
        Good–Turing estimate of the probability that one more start would lead to a mode not seen yet: the
        share of the successful starts whose mode was seen exactly once.
    num_gradients
        Evaluations of value and gradient; a Hessian counts as d of them.
    num_densities
        Evaluations of the value alone.
    undiscovered_mass
        The same by mass: the share, by Laplace's approximation, of the modes that were seen once or twice.
    num_dropped
        Modes that were found and dropped, since their mass does not matter.
    num_particles
        How many of the starts were particles of a population, and not drawn from the region.
    failed_ends
        Where some of the starts ended that did not converge: flat positions, shape (n, d), and log densities there.
    notes
        Sentences about what may be wrong with these modes, and what to do about it.
    """

    positions: PyTree
    logdensities: Array
    covariances: Array
    basin_counts: Array
    num_starts: int
    num_failed: int
    failures: Failures
    undiscovered_share: float
    num_gradients: int
    num_densities: int
    undiscovered_mass: float = 0.0
    num_dropped: int = 0
    num_particles: int = 0
    failed_ends: tuple[np.ndarray, np.ndarray] | None = None
    notes: tuple[str, ...] = ()

    @property
    def smallest_basin(self) -> float:
        """The least share of the starts' region whose basin was reached with a probability of 95 %.

        Climbs that did not end found nothing, wherever they began.
        """
        share = 1 - self.failures.unconverged / max(1, self.num_starts)
        return 1 - (1 - CONFIDENCE) ** (1 / max(1, share * (self.num_starts - self.num_particles)))

    @property
    def log_masses(self) -> np.ndarray:
        """Log of the mass of each, by Laplace's approximation."""
        covariances = np.asarray(self.covariances, np.float64)
        log_volumes = 0.5 * np.linalg.slogdet(2 * np.pi * covariances)[1]
        return np.asarray(self.logdensities, np.float64) + log_volumes

    @property
    def log_mass(self) -> float:
        """That of all of them together."""
        return float(np.logaddexp.reduce(self.log_masses))

    @property
    def masses(self) -> np.ndarray:
        """Their shares of it."""
        return np.exp(self.log_masses - self.log_mass)

    @property
    def template(self) -> PyTree:
        """One position, for its structure."""
        return jax.tree.map(lambda leaf: np.zeros(leaf.shape[1:], leaf.dtype), self.positions)
