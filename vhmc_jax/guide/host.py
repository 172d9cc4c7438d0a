"""A mixture in NumPy and in double precision, at many points at once.

A guide is fitted and judged by a few large evaluations, and JAX would compile each of them for longer than it takes.
"""

from typing import Any, NamedTuple

import numpy as np

from vhmc_jax.guide.distances import squared_distances


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
    mixture
        A ``GaussianMixture`` or a ``StudentTMixture``.
    """

    def __init__(self, mixture: Any):
        self._mixture = mixture
        self._means, self._scale_trils, self._whitenings, log_weights = (
            np.asarray(array, np.float64)
            for array in (mixture.means, mixture.scale_trils, mixture.whitenings, mixture.log_weights)
        )
        self.log_weights = log_weights - np.logaddexp.reduce(log_weights)

    def sample(self, generator: np.random.Generator, num_draws: int) -> np.ndarray:
        """Draws, shape (n, d)."""
        components = generator.choice(len(self._means), num_draws, p=np.exp(self.log_weights))
        return self.sample_components(generator, components)

    def sample_components(self, generator: np.random.Generator, components: np.ndarray) -> np.ndarray:
        """A draw of each of these components, shape (n, d)."""
        noise = generator.standard_normal((len(components), self._means.shape[1]))
        if (df := getattr(self._mixture, "df", None)) is not None:
            df = np.asarray(df, np.float64)[components]
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
        log_dets = np.log(np.diagonal(self._whitenings, axis1=1, axis2=2)).sum(axis=1)
        return self.log_weights + log_dets + self._mixture.radial_log_probs(squared)

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
