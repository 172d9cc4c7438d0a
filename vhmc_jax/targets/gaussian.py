"""Mixtures of Gaussians as targets: the density, exact draws and exact truths in one pytree."""

from dataclasses import dataclass, field
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike, DTypeLike

from vhmc_jax.base import Array, PRNGKey

LOG_2PI = float(np.log(2.0 * np.pi))


@jax.tree_util.register_pytree_node_class
@dataclass(frozen=True, eq=False)
class GaussianMixtureTarget:
    r"""A mixture of k Gaussians on :math:`R^d`, with a normalising constant of one's choice.

    .. math:: \log\pi(x) = \log Z + \log\sum_i w_i N(x \mid m_i, L_i L_i^\top)

    The numbers are kept in NumPy's double precision, so that the truths are exact in any mode of JAX;
    densities and draws are computed in the dtype that is asked for. Being a pytree, a target passes through
    ``jax.jit`` as an argument: ``jax.tree_util.Partial(type(target).logdensity, target)``.

    Parameters
    ----------
    weights
        Probabilities of the components, shape (k,), positive, summing to one.
    means
        Shape (k, d).
    scale_trils
        Cholesky factors :math:`L_i`: shape (k,) where every one is a multiple of the identity, (k, d) where
        they are diagonal, (k, d, d) in general. The first two cost O(k d) an evaluation.
    log_normalizer
        log Z, the log integral of ``exp(logdensity)``.
    mode_of
        For each component the number of the mode it belongs to (0, 1, ...); components that merge into one
        mode share a number. By default each component is a mode of its own.
    """

    weights: Any
    means: Any
    scale_trils: Any
    log_normalizer: Any = 0.0
    mode_of: tuple[int, ...] = ()
    whitenings: Any = field(init=False, repr=False)

    def __post_init__(self) -> None:
        weights, means, scales = (np.asarray(a, np.float64) for a in (self.weights, self.means, self.scale_trils))
        if means.ndim != 2:
            raise ValueError(f"means must have shape (k, d), got {means.shape}")
        k, d = means.shape
        if weights.shape != (k,) or not np.all(weights > 0) or not np.isclose(weights.sum(), 1.0):
            raise ValueError(f"weights must be {k} positive numbers that sum to one, got {weights}")
        if scales.shape not in ((k,), (k, d), (k, d, d)):
            raise ValueError(f"scale_trils must have shape {(k,)}, {(k, d)} or {(k, d, d)}, got {scales.shape}")
        mode_of = tuple(self.mode_of) or tuple(range(k))
        if len(mode_of) != k or set(mode_of) != set(range(max(mode_of) + 1)):
            raise ValueError(f"mode_of must number the modes of {k} components 0, 1, ..., got {mode_of}")
        whitenings = np.linalg.inv(scales) if scales.ndim == 3 else 1.0 / scales
        log_normalizer = np.asarray(self.log_normalizer, np.float64)
        self._set(weights, means, scales, log_normalizer, whitenings, mode_of=mode_of)

    def _set(self, *leaves: Any, mode_of: tuple[int, ...]) -> None:
        names = ("weights", "means", "scale_trils", "log_normalizer", "whitenings")
        for name, value in zip((*names, "mode_of"), (*leaves, mode_of), strict=True):
            object.__setattr__(self, name, value)

    def tree_flatten(self) -> tuple[tuple[Any, ...], tuple[int, ...]]:
        """Arrays are leaves; the map from components to modes is static."""
        leaves = (self.weights, self.means, self.scale_trils, self.log_normalizer, self.whitenings)
        return leaves, self.mode_of

    @classmethod
    def tree_unflatten(cls, mode_of: tuple[int, ...], leaves: tuple[Any, ...]) -> "GaussianMixtureTarget":
        """Rebuild without validation: the leaves may be tracers."""
        target = object.__new__(cls)
        target._set(*leaves, mode_of=mode_of)
        return target

    @property
    def dim(self) -> int:
        """Dimension d."""
        return self.means.shape[1]

    @property
    def mean(self) -> np.ndarray:
        """Exact mean, shape (d,)."""
        return self.weights @ self.means

    @property
    def covariance(self) -> np.ndarray:
        """Exact covariance, shape (d, d): the mean of the covariances and the covariance of the means."""
        scales, identity = self.scale_trils, np.eye(self.dim)
        if scales.ndim < 3:
            within = identity * (self.weights @ (scales**2).reshape(len(self.weights), -1))
        else:
            within = np.einsum("k,kij,klj->il", self.weights, scales, scales)
        centred = self.means - self.mean
        return within + (self.weights[:, None] * centred).T @ centred

    @property
    def mode_weights(self) -> np.ndarray:
        """Exact weights of the modes: those of the components, summed over the components that merge."""
        return np.bincount(self.mode_of, weights=self.weights)

    def component_log_probs(self, x: Array) -> Array:
        """Log of each weighted component density at x, without the normalising constant; shape (k,)."""
        weights, means, whitenings = (jnp.asarray(a, x.dtype) for a in (self.weights, self.means, self.whitenings))
        centred = x - means
        if whitenings.ndim == 3:
            white = jnp.einsum("kij,kj->ki", whitenings, centred)
            log_det = jnp.sum(jnp.log(jnp.diagonal(whitenings, axis1=1, axis2=2)), axis=1)
        else:
            white = whitenings.reshape(len(means), -1) * centred
            log_det = jnp.sum(jnp.broadcast_to(jnp.log(whitenings.reshape(len(means), -1)), means.shape), axis=1)
        return jnp.log(weights) + log_det - 0.5 * (self.dim * LOG_2PI + jnp.sum(white**2, axis=1))

    def logdensity(self, x: Array) -> Array:
        """Log density at one point, a flat vector of length d; computed in the dtype of x."""
        log_normalizer = jnp.asarray(self.log_normalizer, x.dtype)
        return log_normalizer + jax.nn.logsumexp(self.component_log_probs(x))

    def responsibilities(self, x: Array) -> Array:
        """Probabilities that x came from each of the components, shape (k,)."""
        return jax.nn.softmax(self.component_log_probs(x))

    def mode_responsibilities(self, x: Array) -> Array:
        """Probabilities that x came from each of the modes: responsibilities, merged components summed."""
        num_modes = max(self.mode_of) + 1
        return jnp.zeros(num_modes, x.dtype).at[jnp.array(self.mode_of)].add(self.responsibilities(x))

    @partial(jax.jit, static_argnames=("n", "dtype"))
    def sample(self, rng_key: PRNGKey, n: int, dtype: DTypeLike | None = None) -> Array:
        """Independent exact draws, shape (n, d), in JAX's default float unless told otherwise."""
        dtype = jnp.result_type(float) if dtype is None else dtype
        component_key, noise_key = jax.random.split(rng_key)
        weights, means, scales = (jnp.asarray(a, dtype) for a in (self.weights, self.means, self.scale_trils))
        component = jax.random.categorical(component_key, jnp.log(weights), shape=(n,))
        noise = jax.random.normal(noise_key, (n, self.dim), dtype)
        if scales.ndim == 3:
            coloured = jnp.take_along_axis(jnp.einsum("kij,nj->nki", scales, noise), component[:, None, None], axis=1)[
                :, 0
            ]
        else:
            coloured = scales.reshape(len(means), -1)[component] * noise
        return means[component] + coloured

    @jax.jit
    def weight_error(self, draws: ArrayLike) -> Array:
        r"""Total variation between the true weights of the modes and those of the draws.

        .. math:: \tfrac12\sum_m |w_m - \frac1n\sum_j r_m(x_j)|

        The weight of a mode in the draws is its mean responsibility, which is unbiased where modes overlap;
        counting draws by the nearest mean is not.

        Parameters
        ----------
        draws
            Shape (..., d): chains and draws in any number of leading axes.

        Returns
        -------
        A scalar between 0 and 1.
        """
        draws = jnp.asarray(draws)
        occupancy = jnp.mean(jax.vmap(self.mode_responsibilities)(draws.reshape(-1, self.dim)), axis=0)
        weights = jnp.asarray(self.weights, draws.dtype)
        truth = jnp.zeros_like(occupancy).at[jnp.array(self.mode_of)].add(weights)
        return 0.5 * jnp.sum(jnp.abs(truth - occupancy))
