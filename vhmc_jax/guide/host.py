"""A mixture as the fit and the judging evaluate it: many points at once, by NumPy, in double precision.

A guide is fitted and judged by a few large evaluations. JAX would compile each of them for longer than it takes.
"""

from typing import Any, NamedTuple

import numpy as np

from vhmc_jax.guide.distances import squared_distances
from vhmc_jax.guide.prepared import Derived, radial_log_probs


class GuideValues(NamedTuple):
    """A mixture of k components at n points.

    Attributes
    ----------
    squared
        Squared distances from each component, in its own metric, shape (n, k).
    log_prob
        Log density, shape (n,).
    shares
        The components' shares in the density, shape (n, k).
    """

    squared: np.ndarray
    log_prob: np.ndarray
    shares: np.ndarray


class HostMixture:
    """Draws and densities of a mixture.

    Parameters
    ----------
    means, scale_trils
        Shapes (k, d) and (k, d, d).
    derived
        What follows from its parameters.
    df
        Degrees of freedom of each component, shape (k,); None for Gaussian noise.
    """

    def __init__(self, means: Any, scale_trils: Any, derived: Derived, df: Any):
        self._means, self._scale_trils = (np.asarray(array, np.float64) for array in (means, scale_trils))
        self.weights, self._whitenings, self._log_norms = derived
        self._df = None if df is None else np.asarray(df, np.float64)

    def sample(self, generator: np.random.Generator, num_draws: int) -> np.ndarray:
        """Draws, shape (n, d)."""
        return self.sample_components(generator, generator.choice(len(self._means), num_draws, p=self.weights))

    def sample_components(self, generator: np.random.Generator, components: np.ndarray) -> np.ndarray:
        """A draw of each of these components, shape (n, d)."""
        noise = generator.standard_normal((len(components), self._means.shape[1]))
        if self._df is not None:
            df = self._df[components]
            noise *= np.sqrt(df / generator.chisquare(df))[:, None]
        for number, scale_tril in enumerate(self._scale_trils):
            is_own = components == number
            noise[is_own] = self._means[number] + noise[is_own] @ scale_tril.T
        return noise

    def squared_distances(self, x: np.ndarray) -> np.ndarray:
        """|L_i⁻¹(x − m_i)|² of points (n, d) from each component, shape (n, k)."""
        return squared_distances(x, self._means, self._whitenings)

    def component_log_probs(self, squared: np.ndarray) -> np.ndarray:
        """Log of each weighted component density at squared distances (n, k)."""
        return self._log_norms + radial_log_probs(squared, self._means.shape[1], self._df)

    def at(self, x: np.ndarray) -> GuideValues:
        """Distances, log density and shares at points (n, d)."""
        squared = self.squared_distances(x)
        return GuideValues(squared, *log_sum_and_shares(self.component_log_probs(squared)))


def log_sum_and_shares(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The logarithm of Σ exp along the last axis, and the shares in that sum, which are NaN where it is zero."""
    greatest = values.max(axis=-1, keepdims=True)
    greatest = np.where(np.isfinite(greatest), greatest, 0.0)
    shares = values - greatest
    np.exp(shares, out=shares)
    total = shares.sum(axis=-1, keepdims=True)
    with np.errstate(divide="ignore", invalid="ignore"):
        shares /= total
        return (greatest + np.log(total))[..., 0], shares
