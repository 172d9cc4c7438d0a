"""One Gaussian for the draws of one mode, shrunk where the draws are too few to say more.

The maximum-likelihood covariance of M draws in d dimensions makes a poor independence proposal unless M is
much greater than d². But a mode comes with a shape of its own, the inverse Hessian. In coordinates whitened
by it the covariance is close to a multiple of the identity, and shrinking toward that costs nothing where it
is right.

References
----------
.. [1] Y. Chen, A. Wiesel, Y. C. Eldar and A. O. Hero, Shrinkage algorithms for MMSE covariance estimation,
   IEEE Transactions on Signal Processing 58, 2010, eq. 23.
"""

from typing import Any, NamedTuple

import jax.numpy as jnp
from jax.scipy.linalg import solve_triangular

from vhmc_jax.base import Array
from vhmc_jax.linalg import shrink

NUM_FOLDS = 10


class GaussianFit(NamedTuple):
    """A Gaussian, and how much it was shrunk.

    Attributes
    ----------
    mean, scale_tril
        Its mean, shape (d,), and the Cholesky factor of its covariance, shape (d, d).
    mean_share
        How far the mean went from the mode to the mean of the draws, from 0 to 1.
    intensity
        How far the covariance went from that of the draws to the multiple of the identity, from 0 to 1.
    """

    mean: Any
    scale_tril: Any
    mean_share: Any
    intensity: Any


def fit_gaussian(
    draws: Array,
    mode: Array,
    laplace_scale_tril: Array | None = None,
    *,
    effective_size: Array | float | None = None,
    weights: Array | None = None,
) -> GaussianFit:
    r"""Fit a Gaussian to draws around a mode.

    With :math:`y = L^{-1}(x - m)`, m the mode and LLᵀ its Laplace covariance, the mean is :math:`t \bar y`
    with the share t of the greatest held-out likelihood, and the covariance, about that mean, is
    :math:`(1 - \rho) S + \rho (\mathrm{tr} S / d) I` with the intensity ρ of [1]_; then back to x.

    Parameters
    ----------
    draws
        Shape (n, d), chain by chain in the order in which they were drawn: neighbours make up the folds.
    mode
        Shape (d,).
    laplace_scale_tril
        Cholesky factor L of the inverse negative Hessian, shape (d, d). None: no whitening.
    effective_size
        Number of independent draws that these are worth; by default their number.
    weights
        Shape (n,), not negative: zero for a draw that does not belong to this mode. By default one.

    Returns
    -------
    The fit, positive definite whatever the draws.
    """
    num_draws, dim = draws.shape
    dtype = draws.dtype
    weights = jnp.ones(num_draws, dtype) if weights is None else jnp.asarray(weights, dtype)
    total = jnp.maximum(jnp.sum(weights), jnp.finfo(dtype).tiny)
    size = total if effective_size is None else jnp.asarray(effective_size, dtype)
    scale = jnp.eye(dim, dtype=dtype) if laplace_scale_tril is None else laplace_scale_tril
    offsets = jnp.where(weights[:, None] > 0, draws - mode, 0.0)
    white = solve_triangular(scale, offsets.T, lower=True).T

    share = mean_share(white, weights)
    mean = share * (weights @ white) / total
    centred = white - mean
    covariance = (weights[:, None] * centred).T @ centred / total
    shrunk, intensity = shrink(covariance, size)
    return GaussianFit(mode + scale @ mean, scale @ jnp.linalg.cholesky(shrunk), share, intensity)


def mean_share(white: Array, weights: Array) -> Array:
    r"""How far to go from the origin to the mean of the draws, by held-out likelihood.

    Fold f is predicted by the share t of the mean of the others. The log likelihood is a quadratic in t,

    .. math:: -\tfrac12 \sum_f n_f |\bar y_f - t\, \bar y_{-f}|^2
       \quad\Rightarrow\quad t = \sum_f n_f\, \bar y_f\cdot\bar y_{-f} \Big/ \sum_f n_f |\bar y_{-f}|^2,

    cut to the interval from 0 to 1.

    Parameters
    ----------
    white
        Draws with the mode at the origin and about unit covariance, shape (n, d), neighbours correlated.
    weights
        Their weights, shape (n,).

    Returns
    -------
    The share t.
    """
    num_draws = white.shape[0]
    fold = (jnp.arange(num_draws) * NUM_FOLDS) // num_draws
    sizes = jnp.zeros(NUM_FOLDS, white.dtype).at[fold].add(weights)
    sums = jnp.zeros((NUM_FOLDS, white.shape[1]), white.dtype).at[fold].add(weights[:, None] * white)
    others = (jnp.sum(sums, axis=0) - sums) / jnp.maximum(jnp.sum(sizes) - sizes, 1e-12)[:, None]
    norm = jnp.sum(sizes * jnp.sum(others**2, axis=1))
    share = jnp.sum(sums * others) / jnp.where(norm > 0, norm, 1.0)
    return jnp.clip(share, 0.0, 1.0)
