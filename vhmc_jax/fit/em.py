"""Several Gaussians for a mode that one cannot describe: EM, with their number chosen by held-out likelihood.

The draws are whitened by the one Gaussian first, so that every constant below is in its standard deviations.
The covariance of each component is shrunk as that of a whole mode is, and floored: a component that has lost
its draws falls back to the one Gaussian's shape, and nothing becomes singular.

References
----------
.. [1] A. P. Dempster, N. M. Laird and D. B. Rubin, Maximum likelihood from incomplete data via the EM
   algorithm, Journal of the Royal Statistical Society B 39, 1977.
.. [2] D. Arthur and S. Vassilvitskii, k-means++: the advantages of careful seeding, SODA 2007.
.. [3] J.-F. Cardoso, Source separation using higher order moments, ICASSP 1989.
"""

import functools
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.linalg import solve_triangular

from vhmc_jax.arguments import as_count
from vhmc_jax.base import Array
from vhmc_jax.fit.shrinkage import GaussianFit, shrink
from vhmc_jax.guide.mixture import GaussianMixture

MAX_ITERATIONS = 100
TOLERANCE = 1e-4
"""EM stops when the mean log likelihood of a draw rises by less."""

FLOOR = 1e-4
"""Least variance of a component in any direction, where the one Gaussian has unit variance."""

PRIOR_SIZE = 0.1
"""Draws that the one Gaussian's shape is worth in the covariance of a component."""

LEAST_GAIN = 0.02
"""Rise of the mean held-out log density that another component has to bring."""

HELD_OUT = 4
"""One block of draws in so many is held out."""

NUM_BLOCKS = 20


class MixtureFit(NamedTuple):
    """A mixture for one mode.

    Attributes
    ----------
    mixture
        The components; their weights sum to one.
    num_components
        How many held-out likelihood chose.
    held_out
        Mean log density of a held-out draw with 1, 2, ... components, in the coordinates whitened by the one
        Gaussian.
    """

    mixture: GaussianMixture
    num_components: int
    held_out: np.ndarray


def fit_mixture(
    rng_key: Array,
    draws: Array,
    gaussian: GaussianFit,
    *,
    effective_size: float | None = None,
    weights: Array | None = None,
    max_components: int = 4,
) -> MixtureFit:
    """Fit a mixture of as many Gaussians as the draws support.

    Another component is taken only if it raises the held-out log density by two standard errors, and by 0.02.

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
    num_draws, dtype = draws.shape[0], draws.dtype
    weights = jnp.ones(num_draws, dtype) if weights is None else jnp.asarray(weights, dtype)
    total = float(jnp.sum(weights))
    thinning = jnp.asarray(1.0 if effective_size is None else min(1.0, effective_size / max(total, 1.0)), dtype)
    white = jnp.where(weights[:, None] > 0, draws - gaussian.mean, 0.0)
    white = solve_triangular(gaussian.scale_tril, white.T, lower=True).T

    blocks = np.arange(num_draws) * NUM_BLOCKS // num_draws
    is_held_out = jnp.asarray(blocks % HELD_OUT == HELD_OUT - 1)
    em = functools.partial(_em, rng_key, white, max_components=max_components, thinning=thinning)
    trained = [em(jnp.where(is_held_out, 0.0, weights), jnp.int32(k + 1)) for k in range(max_components)]
    scores = np.stack([_log_probs(mixture, white) for mixture in trained]).astype(np.float64)
    chosen, held_out = _choose(scores, np.where(is_held_out, weights, 0.0), float(thinning))
    if chosen == 1:
        one = GaussianMixture(jnp.zeros(1, dtype), gaussian.mean[None], gaussian.scale_tril[None])
        return MixtureFit(one, 1, held_out)
    found = em(weights, jnp.int32(chosen))
    mixture = GaussianMixture(
        found.log_weights[:chosen],
        gaussian.mean + found.means[:chosen] @ gaussian.scale_tril.T,
        gaussian.scale_tril @ found.scale_trils[:chosen],
    )
    return MixtureFit(mixture, chosen, held_out)


def _choose(log_probs: np.ndarray, weights: np.ndarray, thinning: float) -> tuple[int, np.ndarray]:
    """The number of components, and the mean log density of the held-out draws with each number."""
    weights = weights / max(weights.sum(), 1e-12)
    size = max(thinning * np.count_nonzero(weights), 1.0)
    best = 0
    for candidate in range(1, len(log_probs)):
        gains = log_probs[candidate] - log_probs[best]
        gain = weights @ gains
        error = np.sqrt(weights @ (gains - gain) ** 2 / size)
        if gain > max(2.0 * error, LEAST_GAIN):
            best = candidate
    return best + 1, log_probs @ weights


@functools.partial(jax.jit, static_argnames="max_components")
def _em(
    rng_key: Array,
    white: Array,
    weights: Array,
    num_components: Array,
    *,
    max_components: int,
    thinning: Array,
) -> GaussianMixture:
    """EM from a random start; the number of components is an argument of the program, not of its shapes."""
    is_on = jnp.arange(max_components, dtype=jnp.int32) < num_components
    total = jnp.maximum(jnp.sum(weights), jnp.finfo(white.dtype).tiny)

    def maximise(responsibilities: Array) -> GaussianMixture:
        shares = weights[:, None] * responsibilities
        sizes = jnp.sum(shares, axis=0)
        means = (shares.T @ white) / jnp.maximum(sizes, 1e-6)[:, None]
        scale_trils = jax.vmap(covariance_factor)(shares.T, means, sizes)
        log_weights = jnp.where(is_on, jnp.log(jnp.maximum(sizes, 1e-6) / total), -jnp.inf)
        return GaussianMixture(log_weights, means, scale_trils)

    def covariance_factor(shares: Array, mean: Array, size: Array) -> Array:
        centred = white - mean
        sample = (shares[:, None] * centred).T @ centred / jnp.maximum(size, 1e-6)
        shrunk, _ = shrink(sample, thinning * size)
        unit = jnp.eye(white.shape[1], dtype=white.dtype)
        pooled = (size * shrunk + PRIOR_SIZE * unit) / (size + PRIOR_SIZE) + FLOOR * unit
        return jnp.linalg.cholesky(pooled)

    def body(
        carry: tuple[GaussianMixture, Array, Array, Array],
    ) -> tuple[GaussianMixture, Array, Array, Array]:
        mixture, previous, _, iteration = carry
        joint = jax.vmap(mixture.component_log_probs)(white)
        likelihood = weights @ jax.nn.logsumexp(joint, axis=1) / total
        return maximise(jax.nn.softmax(joint, axis=1)), likelihood, likelihood - previous, iteration + 1

    def goes_on(carry: tuple[GaussianMixture, Array, Array, Array]) -> Array:
        return (carry[2] > TOLERANCE) & (carry[3] < MAX_ITERATIONS)

    telling = white @ _telling_directions(white, weights / total)
    seeds = _seeds(rng_key, telling, weights, max_components)
    nearest = jnp.sum((telling[:, None] - seeds) ** 2, axis=2) + jnp.where(is_on, 0.0, jnp.inf)
    first = maximise(jax.nn.one_hot(jnp.argmin(nearest, axis=1), max_components, dtype=white.dtype))
    infinity = jnp.asarray(jnp.inf, white.dtype)
    start = (first, -infinity, infinity, jnp.zeros((), jnp.int32))
    return jax.lax.while_loop(goes_on, body, start)[0]


def _telling_directions(white: Array, weights: Array) -> Array:
    """The two directions in which the draws are least Gaussian, shape (d, 2), by their fourth moments [3]_.

    In many dimensions a partition of the whole space would miss a bend that lives in two of them.
    """
    squared = jnp.minimum(jnp.sum(white**2, axis=1), 4.0 * white.shape[1])
    values, vectors = jnp.linalg.eigh((weights * squared * white.T) @ white)
    order = jnp.argsort(-jnp.abs(values - jnp.median(values)))
    return vectors[:, order[:2]]


def _seeds(rng_key: Array, white: Array, weights: Array, max_components: int) -> Array:
    """First means: draws, each taken with the probability of its squared distance from those before [2]_."""
    distances = jnp.ones(white.shape[0], white.dtype)
    seeds = []
    for key in jax.random.split(rng_key, max_components):
        chosen = jax.random.categorical(key, jnp.log(weights * distances + 1e-30))
        seeds.append(white[chosen])
        nearer = jnp.sum((white - white[chosen]) ** 2, axis=1)
        distances = nearer if len(seeds) == 1 else jnp.minimum(distances, nearer)
    return jnp.stack(seeds)


@jax.jit
def _log_probs(mixture: GaussianMixture, white: Array) -> Array:
    return jax.vmap(mixture.log_prob)(white)
