"""Monomial-Gamma kinetic energy, smoothed at p = 0, with exact draws of the momentum.

Notation: a the exponent, b = 1/(2a), q = p/√M for each coordinate. The monomial energy is K = Σ ½|q|^{1/a}, that is
Σ ½(q²)ᵇ; ½|q|^{1/a} ~ Gamma(a, 1). For a = ½ it is the Gaussian one. For a > ½ its second derivative is infinite at
q = 0, for a ≥ 1 the first one jumps or is infinite too. There it is smoothed to

    K = Σ ½ [(q² + δ²)ᵇ − δ²ᵇ],    δ = (2a)^{−a/(2a−1)},

which has every derivative and the same tails, and is most curved at 0, where its curvature is 1/M: the leapfrog is no
stiffer than HMC's. For a ≤ ½ nothing is singular, and δ = 0.
"""

from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp

from vhmc_jax import random
from vhmc_jax.arguments import as_parameter
from vhmc_jax.base import Array, PRNGKey
from vhmc_jax.dynamics.kinetic import covariance_factor

MAX_ROUNDS = 200
"""Bound on the rounds of rejection, of which each fails with a probability of at most 0.43: a guard against NaN."""


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class MonomialKinetic:
    """Kinetic energy K(p) = Σ ½ [(pᵢ²/Mᵢ + δ²)^{1/(2a)} − δ^{1/a}] of a scalar or diagonal mass.

    Attributes
    ----------
    exponent
        a > 0.
    smoothing
        δ² ≥ 0.
    inverse_mass_factor
        M^{−½}: a scalar or a vector.
    """

    exponent: Array
    smoothing: Array
    inverse_mass_factor: Array

    def draw(self, rng_key: PRNGKey, like: Array, num: int = 1) -> Array:
        """``num`` momenta with a density in proportion to exp(−K), with the shape and dtype of ``like``, one to a row.

        By rejection. With G ~ Gamma(a + 1, 1) and V uniform on (−1, 1), q = (2G)ᵃ V has the density of the monomial
        energy, in proportion to exp(−½(q²)ᵇ). That is above the smoothed one by the factor exp(½[(q² + δ²)ᵇ − (q²)ᵇ]),
        which is largest at 0, where it is exp(½ δ^{1/a}) < e^½. G comes by rejection from a normal number, in the same
        round and with the same coin.
        """
        shape = (num, *like.shape)

        def one_round(carry: tuple[Array, Array, Array]) -> tuple[Array, Array, Array]:
            number, q, is_done = carry
            candidate, is_accepted = self._candidates(random.fold_in(rng_key, number), shape, like.dtype)
            return number + 1, jnp.where(is_done, q, candidate), is_done | is_accepted

        def goes_on(carry: tuple[Array, Array, Array]) -> Array:
            number, _, is_done = carry
            return ~jnp.all(is_done) & (number < MAX_ROUNDS)

        start = (jnp.int32(0), jnp.zeros(shape, like.dtype), jnp.zeros(shape, bool))
        return jax.lax.while_loop(goes_on, one_round, start)[1] / self.inverse_mass_factor

    def _candidates(self, rng_key: PRNGKey, shape: tuple[int, ...], dtype: Any) -> tuple[Array, Array]:
        """Candidates for q, and whether they are accepted."""
        b = 0.5 / self.exponent
        key_normal, key_uniform = random.split(rng_key)
        z = random.normal(key_normal, shape, dtype)
        coin, v = random.uniform(key_uniform, (2, *shape), dtype)
        gamma, log_alpha = _gamma(z, self.exponent + 1)
        q = _power(2 * gamma, self.exponent) * (2 * v - 1)
        log_alpha = log_alpha - 0.5 * (_power(q**2 + self.smoothing, b) - _power(q**2, b))
        return q, jnp.log(coin) < log_alpha

    def velocity(self, momentum: Array) -> Array:
        """∇K(p) = b q (q² + δ²)^{b−1} / √M."""
        q = self.inverse_mass_factor * momentum
        b = 0.5 / self.exponent
        # The default exponent needs no logarithm; where the exponent is one for all chains, this is no select.
        slope = jax.lax.cond(
            self.exponent == 1, jax.lax.rsqrt, lambda square: _power(square, b - 1), q**2 + self.smoothing
        )
        return (b * self.inverse_mass_factor) * q * slope

    def energy(self, momentum: Array) -> Array:
        """K(p)."""
        q = self.inverse_mass_factor * momentum
        b = 0.5 / self.exponent
        return 0.5 * jnp.sum(_power(q**2 + self.smoothing, b) - _power(self.smoothing, b))

    def check_dimension(self, dimension: int) -> None:
        """Raise unless the mass fits positions of this many numbers."""
        shape = self.inverse_mass_factor.shape
        if shape not in ((), (dimension,)):
            raise ValueError(
                f"inverse_mass_matrix must be a scalar or a vector of length {dimension} for a position of "
                f"{dimension} numbers, got shape {shape}"
            )


def _power(square: Array, exponent: Array) -> Array:
    """The power of a number that is not negative; XLA vectorises logarithms on a CPU, and does not vectorise powers."""
    return jnp.exp(exponent * jnp.log(jnp.maximum(square, jnp.finfo(square.dtype).tiny)))


def _gamma(z: Array, shape: Array) -> tuple[Array, Array]:
    """A candidate for Gamma(shape, 1), shape ≥ 1, from a normal number, and the log of its acceptance probability.

    Accepted at least 95 % of the time (Marsaglia & Tsang 2000, A simple method for generating gamma variables).
    """
    d = shape - 1 / 3
    root = 1 + z / jnp.sqrt(9 * d)
    v = jnp.where(root > 0, root**3, 1.0)
    return d * v, jnp.where(root > 0, 0.5 * z**2 + d * (1 - v + jnp.log(v)), -jnp.inf)


def monomial_kinetic(exponent: Any, inverse_mass_matrix: Any) -> MonomialKinetic:
    """Build the kinetic energy and check its numbers where their values can be seen.

    Parameters
    ----------
    exponent
        a > 0.
    inverse_mass_matrix
        M⁻¹: a positive scalar or a vector of positive numbers.

    Returns
    -------
    The kinetic energy.
    """
    exponent = as_parameter("exponent", exponent, positive=True)
    factor = covariance_factor("inverse_mass_matrix", inverse_mass_matrix)
    if factor.ndim == 2:
        raise ValueError(
            "inverse_mass_matrix must be a scalar or a vector: the monomial kinetic energy is a sum over coordinates "
            f"and takes no dense mass, got shape {factor.shape}"
        )
    is_smoothed = exponent > 0.5
    log_ratio = jnp.where(is_smoothed, jnp.log(2 * exponent) / jnp.where(is_smoothed, 2 * exponent - 1, 1.0), 0.0)
    return MonomialKinetic(exponent, jnp.where(is_smoothed, jnp.exp(-2 * exponent * log_ratio), 0.0), factor)
