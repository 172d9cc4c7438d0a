"""Gaussian components of a guide, and the mode that each describes."""

from typing import NamedTuple, Self

import numpy as np

from vhmc_jax.base import Array
from vhmc_jax.guide.distances import squared_distances
from vhmc_jax.search import Modes


class Components(NamedTuple):
    """Gaussian components, and the mode that each describes.

    Attributes
    ----------
    means, scale_trils
        Shapes (n, d) and (n, d, d).
    modes
        Numbers of the modes, shape (n,); −1 for a component that belongs to none.
    """

    means: np.ndarray
    scale_trils: np.ndarray
    modes: np.ndarray

    def select(self, chosen: np.ndarray) -> Self:
        """Those of these numbers, or where a mask holds."""
        return type(self)(*(part[chosen] for part in self))

    def joined(self, others: Self) -> Self:
        """These, then the others."""
        return type(self)(*(np.concatenate(pair) for pair in zip(self, others, strict=True)))

    def scaled(self, factor: float) -> Self:
        """The same, each so many times as wide."""
        return self._replace(scale_trils=factor * self.scale_trils)

    def together(self) -> Self:
        """One Gaussian with the mean and the covariance of all, which belongs to no mode."""
        centre = self.means.mean(axis=0)
        offsets = self.means - centre
        covariance = np.einsum("kij,klj->il", self.scale_trils, self.scale_trils) + offsets.T @ offsets
        scale_tril = np.linalg.cholesky(covariance / len(self.means))
        return type(self)(centre[None], scale_tril[None], np.array([-1]))


def laplace(flat_modes: Array, modes: Modes, df: float | None = None) -> Components:
    """One component a mode: the Gaussian with the inverse Hessian as its covariance.

    With ``df`` degrees of freedom it is the Student-t distribution with the same Hessian at the mode, told by its
    covariance. Its scale matrix is (df + d) / df times the inverse Hessian.
    """
    covariances = np.asarray(modes.covariances, np.float64)
    found = Components(np.asarray(flat_modes, np.float64), np.linalg.cholesky(covariances), np.arange(len(covariances)))
    if df is None:
        return found
    spread = df / (df - 2) if df > 2 else 1.0
    return found.scaled(np.sqrt(spread * (df + covariances.shape[-1]) / df))


def modes_at(x: np.ndarray, flat_modes: Array, modes: Modes) -> np.ndarray:
    """The mode whose Laplace approximation, with its height, is greatest at points (n, d): shape (n,)."""
    whitenings = np.linalg.inv(np.linalg.cholesky(np.asarray(modes.covariances, np.float64)))
    squared = squared_distances(x, np.asarray(flat_modes, np.float64), whitenings)
    return np.argmax(np.asarray(modes.logdensities, np.float64) - 0.5 * squared, axis=1)
