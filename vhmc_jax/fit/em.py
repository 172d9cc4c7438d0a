"""Mixtures of Gaussians by EM: as many components as held-out draws support, and never anything singular.

The draws may be weighted: draws of a chain that left their mode count nothing, draws of a guide count by their
importance. Everything runs in NumPy. JAX would compile for longer than EM takes.

Notation: n draws x with weights v that sum to one, k components, s their shares v r in the draws.

References
----------
.. [1] A. P. Dempster, N. M. Laird and D. B. Rubin, Maximum likelihood from incomplete data via the EM
   algorithm, Journal of the Royal Statistical Society B 39, 1977.
.. [2] D. Arthur and S. Vassilvitskii, k-means++: the advantages of careful seeding, SODA 2007.
.. [3] J.-F. Cardoso, Source separation using higher order moments, ICASSP 1989.
.. [4] O. Cappé, R. Douc, A. Guillin, J.-M. Marin and C. P. Robert, Adaptive importance sampling in general mixture
   classes, Statistics and Computing 18, 2008, on weighted draws.
"""

from typing import Any, NamedTuple

import numpy as np

from vhmc_jax import random
from vhmc_jax.arguments import as_count
from vhmc_jax.base import Array
from vhmc_jax.fit.shrinkage import GaussianFit
from vhmc_jax.guide.distances import squared_distances
from vhmc_jax.guide.host import log_sum_and_shares
from vhmc_jax.guide.mixture import GaussianMixture
from vhmc_jax.guide.prepared import radial_log_probs
from vhmc_jax.linalg import shrink

MAX_ITERATIONS = 100
TOLERANCE = 1e-4
"""EM stops when the mean log likelihood of a draw rises by less."""

FLOOR = 1e-4
"""Least variance of a component in any direction, where its frame has unit variance."""

PRIOR_SIZE = 0.1
"""Draws that the shape of the frame is worth in the covariance of a component."""

LEAST_GAIN = 0.02
"""Rise of the mean held-out log density that more components have to bring."""

NUMBERS = (1, 2, 3, 4, 8, 16, 32)
"""Numbers of components that are tried, up to the most that are allowed. A shell wants many or none."""

HELD_OUT = 4
"""One block of draws in so many is held out."""

NUM_BLOCKS = 20

MANY_DIMENSIONS = 8
"""Beyond this dimension the first partition looks at the telling directions alone."""


class Parts(NamedTuple):
    """Components with their weights, in double precision.

    Attributes
    ----------
    weights
        They sum to one, shape (k,).
    means, scale_trils
        Shapes (k, d) and (k, d, d).
    """

    weights: np.ndarray
    means: np.ndarray
    scale_trils: np.ndarray

    def shares_at(self, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Log density at points (n, d), and the share of each component in it (n, k)."""
        whitenings = np.linalg.inv(self.scale_trils)
        log_dets = np.log(np.diagonal(self.scale_trils, axis1=1, axis2=2)).sum(axis=1)
        with np.errstate(divide="ignore"):
            log_norms = np.log(self.weights) - log_dets
        squared = squared_distances(x, self.means, whitenings)
        return log_sum_and_shares(log_norms + radial_log_probs(squared, x.shape[1], None))


class MixtureFit(NamedTuple):
    """A mixture for some draws.

    Attributes
    ----------
    mixture
        The components; their weights sum to one.
    num_components
        How many held-out likelihood chose.
    held_out
        Mean log density of a held-out draw with each number of components that was tried, in the coordinates whitened
        by the one Gaussian.
    """

    mixture: GaussianMixture
    num_components: int
    held_out: dict[int, float]


def fit_mixture(
    rng_key: Array,
    draws: Any,
    gaussian: GaussianFit,
    *,
    effective_size: float | None = None,
    weights: Any = None,
    max_components: int = 4,
) -> MixtureFit:
    """Fit a mixture of as many Gaussians as the draws support.

    More components are taken only if they raise the held-out log density by two standard errors, and by 0.02.

    Parameters
    ----------
    rng_key
        Draws the first means.
    draws
        Shape (n, d), chain by chain in the order in which they were drawn: blocks of neighbours are held out.
    gaussian
        The one Gaussian of ``fit_gaussian`` for the same draws.
    effective_size
        Number of independent draws that these are worth; by default their number.
    weights
        Shape (n,), not negative: zero for a draw that does not belong to this mode. By default one.
    max_components
        Most components.

    Returns
    -------
    The mixture; with one component it is ``gaussian``.
    """
    max_components = as_count("max_components", max_components, 1)
    draws, dtype = np.asarray(draws), draws.dtype
    num_draws = len(draws)
    weights = np.ones(num_draws) if weights is None else np.asarray(weights, np.float64)
    thinning = 1.0 if effective_size is None else min(1.0, effective_size / max(weights.sum(), 1.0))
    mean, scale_tril = (np.asarray(a, np.float64) for a in (gaussian.mean, gaussian.scale_tril))
    white = np.where(weights[:, None] > 0, draws - mean, 0.0) @ np.linalg.inv(scale_tril).T

    is_tested = is_held_out(num_draws)
    training, testing = np.where(is_tested, 0.0, weights), np.where(is_tested, weights, 0.0)
    generator = random.generator(rng_key)
    best, best_log_probs, held_out = 1, np.zeros(num_draws), {}
    for number in [number for number in NUMBERS if number <= max_components]:
        log_probs, _ = _fit(generator, white, training, number, thinning).shares_at(white)
        held_out[number] = float(testing @ log_probs / max(testing.sum(), 1e-12))
        if number == 1 or _is_better(log_probs - best_log_probs, testing, thinning):
            best, best_log_probs = number, log_probs
    if best == 1:
        one = GaussianMixture(np.zeros(1, dtype), gaussian.mean[None], gaussian.scale_tril[None])
        return MixtureFit(one, 1, held_out)
    found = _fit(generator, white, weights, best, thinning)
    mixture = GaussianMixture(
        np.log(np.maximum(found.weights, 1e-12)).astype(dtype),
        (mean + found.means @ scale_tril.T).astype(dtype),
        (scale_tril @ found.scale_trils).astype(dtype),
    )
    return MixtureFit(mixture, best, held_out)


def is_held_out(num_draws: int) -> np.ndarray:
    """Which draws are held out: blocks of neighbours, since these may be alike. Shape (n,)."""
    return np.arange(num_draws) * NUM_BLOCKS // num_draws % HELD_OUT == HELD_OUT - 1


def improve(start: Parts, x: np.ndarray, weights: np.ndarray, num_iterations: int) -> Parts:
    """A few iterations of EM on weighted draws, from components that are about right.

    The covariance of a component is shrunk toward the shape that it had before.

    Parameters
    ----------
    start
        The components to begin with.
    x, weights
        Draws, shape (n, d), and their weights, shape (n,).
    num_iterations
        Iterations.

    Returns
    -------
    The components, in the same order.
    """
    parts, weights = start, weights / weights.sum()
    for _ in range(num_iterations):
        parts = _maximise(x, weights, parts.shares_at(x)[1], 1.0, parts, prior_size=x.shape[1] + 1.0)
    return parts


def _is_better(gains: np.ndarray, weights: np.ndarray, thinning: float) -> bool:
    """Whether the mean gain of the held-out draws is above two standard errors, and large enough to matter."""
    weights = weights / max(weights.sum(), 1e-12)
    size = max(thinning * np.count_nonzero(weights), 1.0)
    gain = weights @ gains
    return gain > max(2.0 * np.sqrt(weights @ (gains - gain) ** 2 / size), LEAST_GAIN)


def _fit(generator: np.random.Generator, white: np.ndarray, weights: np.ndarray, number: int, thinning: float) -> Parts:
    """EM from a random start, in coordinates where all draws together have about unit covariance."""
    dim = white.shape[1]
    weights = weights / max(weights.sum(), 1e-300)
    unit = Parts(np.full(number, 1 / number), np.zeros((number, dim)), np.broadcast_to(np.eye(dim), (number, dim, dim)))
    telling = white if dim <= MANY_DIMENSIONS else white @ _telling_directions(white, weights)
    seeds = _seeds(generator, telling, weights, number)
    nearest = np.argmin(((telling[:, None] - seeds) ** 2).sum(axis=2), axis=1)
    parts = _maximise(white, weights, np.eye(number)[nearest], thinning, unit, PRIOR_SIZE)
    previous = -np.inf
    for _ in range(MAX_ITERATIONS):
        log_probs, shares = parts.shares_at(white)
        likelihood = weights @ log_probs
        if likelihood - previous <= TOLERANCE:
            break
        parts, previous = _maximise(white, weights, shares, thinning, unit, PRIOR_SIZE), likelihood
    return parts


def _maximise(
    x: np.ndarray, weights: np.ndarray, shares: np.ndarray, thinning: float, frames: Parts, prior_size: float
) -> Parts:
    """Weights, means and covariances of the greatest likelihood, each covariance shrunk toward that of its frame."""
    shares = weights[:, None] * np.nan_to_num(shares)
    masses = shares.sum(axis=0)
    # Kish's effective number of draws of each component.
    sizes = thinning * masses**2 / np.maximum((shares**2).sum(axis=0), 1e-300)
    means = (shares.T @ x + 1e-12 * frames.means) / (masses + 1e-12)[:, None]
    unit, scale_trils = np.eye(x.shape[1]), np.empty_like(frames.scale_trils)
    for k, frame in enumerate(frames.scale_trils):
        is_own = shares[:, k] > 1e-12 * masses[k]
        centred = (x[is_own] - means[k]) @ np.linalg.inv(frame).T
        sample = (shares[is_own, k, None] * centred).T @ centred / max(masses[k], 1e-300)
        shrunk, _ = shrink(sample, sizes[k])
        pooled = (sizes[k] * shrunk + prior_size * unit) / (sizes[k] + prior_size) + FLOOR * unit
        scale_trils[k] = frame @ np.linalg.cholesky(pooled)
    new_weights = masses / masses.sum() if masses.sum() > 0 else frames.weights
    return Parts(new_weights, means, scale_trils)


def _telling_directions(white: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """The two directions in which the draws are least Gaussian, shape (d, 2), by their fourth moments [3]_.

    In many dimensions a partition of the whole space would miss a bend that lives in two of them.
    """
    squared = np.minimum((white**2).sum(axis=1), 4.0 * white.shape[1])
    values, vectors = np.linalg.eigh((weights * squared * white.T) @ white)
    order = np.argsort(-np.abs(values - np.median(values)))
    return vectors[:, order[:2]]


def _seeds(generator: np.random.Generator, white: np.ndarray, weights: np.ndarray, number: int) -> np.ndarray:
    """First means: draws, each taken with the probability of its squared distance from those before [2]_."""
    distances = np.ones(len(white))
    seeds: list[np.ndarray] = []
    for _ in range(number):
        chances = weights * distances + 1e-30
        seed = white[generator.choice(len(white), p=chances / chances.sum())]
        nearer = ((white - seed) ** 2).sum(axis=1)
        distances = np.minimum(distances, nearer) if seeds else nearer
        seeds.append(seed)
    return np.stack(seeds)
