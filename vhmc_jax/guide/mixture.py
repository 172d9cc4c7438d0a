"""Mixtures of Gaussians or of Student-t distributions as guides.

Both are location-scale families: component i maps noise z to m_i + L_i z. A mixture holds its parameters and nothing
else, so it can be differentiated and optimised like any pytree. It is evaluated in two ways: one point at a time by JAX
(``prepared``), and many points at once by NumPy (``on_host``).
"""

from dataclasses import dataclass, fields
from typing import Any, Self

import jax
import jax.numpy as jnp
import numpy as np

from vhmc_jax import random
from vhmc_jax.arguments import as_array, is_concrete
from vhmc_jax.base import Array
from vhmc_jax.guide.host import HostMixture
from vhmc_jax.guide.prepared import Derived, PreparedMixture, derive


@dataclass(frozen=True, eq=False)
class Mixture:
    """What the two families share; a subclass says how its noise is distributed."""

    log_weights: Any
    means: Any
    scale_trils: Any

    def __post_init__(self) -> None:
        given = np.asarray(self.means) if is_concrete(self.means) else jnp.asarray(self.means)
        means = as_array(given, jax.dtypes.canonicalize_dtype(given.dtype))
        if means.ndim != 2 or not jnp.issubdtype(means.dtype, jnp.floating):
            raise ValueError(f"means must be floating, of shape (k, d), got {means.dtype}{list(means.shape)}")
        log_weights, scale_trils = (as_array(a, means.dtype) for a in (self.log_weights, self.scale_trils))
        k, d = means.shape
        if log_weights.shape != (k,):
            raise ValueError(f"log_weights must have shape {(k,)}, one for each mean, got {log_weights.shape}")
        if scale_trils.shape != (k, d, d):
            raise ValueError(f"scale_trils must have shape {(k, d, d)}, got {scale_trils.shape}")
        if is_concrete(log_weights, means, scale_trils):
            _require_finite(log_weights=log_weights, means=means, scale_trils=scale_trils)
            _require_cholesky_factors(scale_trils)
        self._set(log_weights=log_weights, means=means, scale_trils=scale_trils)

    def _set(self, **values: Any) -> None:
        for name, value in values.items():
            object.__setattr__(self, name, value)

    def tree_flatten(self) -> tuple[tuple[Any, ...], None]:
        """The parameters are the leaves."""
        return tuple(getattr(self, item.name) for item in fields(self)), None

    @classmethod
    def tree_unflatten(cls, _: None, leaves: tuple[Any, ...]) -> Self:
        """Rebuild without validation: the leaves may be anything that a transformation puts there."""
        mixture = object.__new__(cls)
        mixture._set(**{item.name: leaf for item, leaf in zip(fields(cls), leaves, strict=True)})
        return mixture

    @property
    def num_components(self) -> int:
        """Number of components k."""
        return self.means.shape[0]

    @property
    def dim(self) -> int:
        """Dimension d."""
        return self.means.shape[1]

    def _degrees_of_freedom(self) -> Any:
        """Those of each component, shape (k,); None for Gaussian noise."""
        return None

    def _derived(self) -> Derived:
        """What does not depend on x; computed once where the parameters are known."""
        if not is_concrete(self.log_weights, self.scale_trils):
            return derive(self.log_weights, self.scale_trils)
        if "_known" not in self.__dict__:
            self._set(_known=derive(self.log_weights, self.scale_trils))
        return self.__dict__["_known"]

    def prepared(self) -> PreparedMixture:
        """The mixture with what does not depend on x computed ahead, for programs that evaluate it many times."""
        weights, *others = self._derived()
        cumulative, whitenings, log_norms = (
            as_array(array, self.means.dtype) for array in (weights.cumsum()[:-1], *others)
        )
        return PreparedMixture(
            self.means, self.scale_trils, cumulative, whitenings, log_norms, self._degrees_of_freedom()
        )

    def on_host(self) -> HostMixture:
        """The same in NumPy, for many points at once; not for traced arrays."""
        return HostMixture(self.means, self.scale_trils, self._derived(), self._degrees_of_freedom())

    @random.takes_any_key
    def sample(self, rng_key: Array) -> Array:
        """One draw, a vector of length d in the dtype of the means."""
        return self.prepared().sample(rng_key)

    def component_log_probs(self, x: Array) -> Array:
        """Log of each weighted component density at x; shape (k,)."""
        return self.prepared().component_log_probs(x)

    def log_prob(self, x: Array) -> Array:
        """Normalised log density at x, a scalar in the dtype of the means."""
        return self.prepared().log_prob(x)

    def responsibilities(self, x: Array) -> Array:
        """Probabilities that x came from each of the components; shape (k,)."""
        return jax.nn.softmax(self.component_log_probs(x))


@jax.tree_util.register_pytree_node_class
@dataclass(frozen=True, eq=False)
class GaussianMixture(Mixture):
    r"""A mixture of Gaussians.

    .. math:: q(x) = \sum_i w_i N(x \mid m_i, L_i L_i^\top), \qquad w = \mathrm{softmax}(\text{log weights})

    Parameters
    ----------
    log_weights
        Shape (k,), up to a common constant.
    means
        Shape (k, d); their dtype is the dtype of the guide.
    scale_trils
        Cholesky factors of the covariances, shape (k, d, d): lower triangular with positive diagonals.
    """


@jax.tree_util.register_pytree_node_class
@dataclass(frozen=True, eq=False)
class StudentTMixture(Mixture):
    r"""A mixture of multivariate Student-t distributions.

    .. math:: q(x) = \sum_i w_i\, c_i\, |L_i|^{-1}
       \left(1 + |L_i^{-1}(x - m_i)|^2 / \nu_i\right)^{-(\nu_i + d)/2}

    Parameters
    ----------
    log_weights
        Shape (k,), up to a common constant.
    means
        Shape (k, d); their dtype is the dtype of the guide.
    scale_trils
        Cholesky factors of the scale matrices, shape (k, d, d): lower triangular with positive diagonals. The
        covariance of a component is its scale matrix times :math:`\nu/(\nu - 2)`.
    df
        Degrees of freedom ν, positive: a number, or one for each component.
    """

    df: Any

    def __post_init__(self) -> None:
        super().__post_init__()
        df = jnp.asarray(self.df, self.means.dtype)
        if df.shape not in ((), (self.num_components,)):
            raise ValueError(f"df must be a number or have shape {(self.num_components,)}, got {df.shape}")
        if is_concrete(df) and not bool(jnp.all((df > 0) & jnp.isfinite(df))):
            raise ValueError(f"df must be positive and finite, got {df}")
        self._set(df=jnp.broadcast_to(df, (self.num_components,)))

    def _degrees_of_freedom(self) -> Any:
        return self.df


def _require_finite(**arrays: Array) -> None:
    for name, array in arrays.items():
        if not np.all(np.isfinite(array)):
            raise ValueError(f"{name} must be finite, got {np.asarray(array)}")


def _require_cholesky_factors(scale_trils: Array) -> None:
    factors = np.asarray(scale_trils)
    if np.any(np.triu(factors, 1) != 0):
        raise ValueError("scale_trils must be lower triangular, got values above the diagonal")
    if not np.all(np.diagonal(factors, axis1=1, axis2=2) > 0):
        raise ValueError("scale_trils must have positive diagonals, as Cholesky factors do")
