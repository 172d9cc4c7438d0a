"""A skewed target of one mode: a symmetric Gaussian would hide a mistake of direction or of Jacobian."""

from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import DTypeLike

from vhmc_jax.base import Array, PRNGKey


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class SkewedTarget:
    r"""A Gumbel-like coordinate and a Gaussian one that follows it.

    .. math:: \log\pi(x) = x_0 - e^{x_0} - \tfrac12 (x_1 - \tfrac12 x_0)^2

    :math:`x_0` is the logarithm of a standard exponential variable and :math:`x_1 \mid x_0` is
    :math:`N(x_0/2, 1)`, so that draws, moments and the normalising constant :math:`\sqrt{2\pi}` are exact.
    """

    @property
    def dim(self) -> int:
        """Dimension, 2."""
        return 2

    @property
    def weights(self) -> np.ndarray:
        """One mode, of weight one."""
        return np.ones(1)

    @property
    def log_normalizer(self) -> float:
        """Log integral of ``exp(logdensity)``."""
        return 0.5 * float(np.log(2.0 * np.pi))

    @property
    def mean(self) -> np.ndarray:
        """Exact mean, by Euler's constant."""
        return np.array([-1.0, -0.5]) * np.euler_gamma

    @property
    def covariance(self) -> np.ndarray:
        """Exact covariance."""
        variance = np.pi**2 / 6.0
        return np.array([[variance, variance / 2.0], [variance / 2.0, 1.0 + variance / 4.0]])

    def logdensity(self, x: Array) -> Array:
        """Log density at one point, computed in the dtype of x."""
        return x[0] - jnp.exp(x[0]) - 0.5 * (x[1] - 0.5 * x[0]) ** 2

    def sample(self, rng_key: PRNGKey, n: int, dtype: DTypeLike | None = None) -> Array:
        """Independent exact draws, shape (n, 2), in JAX's default float unless told otherwise."""
        dtype = jnp.result_type(float) if dtype is None else dtype
        exponential_key, normal_key = jax.random.split(rng_key)
        first = jnp.log(jax.random.exponential(exponential_key, (n,), dtype))
        return jnp.stack([first, 0.5 * first + jax.random.normal(normal_key, (n,), dtype)], axis=1)


def skewed() -> SkewedTarget:
    """The skewed target of one mode."""
    return SkewedTarget()
