"""Gaussian components of a guide, and the mode that each describes."""

from typing import NamedTuple, Self

import numpy as np

from vhmc_jax.base import Array
from vhmc_jax.search import Modes


class Components(NamedTuple):
    """Gaussian components, and the mode that each describes.

    Attributes
    ----------
    means, scale_trils
        Shapes (n, d) and (n, d, d).
    modes
        Numbers of the modes, shape (n,), ascending.
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


def laplace(flat_modes: Array, modes: Modes) -> Components:
    """One Gaussian a mode, with the inverse Hessian as its covariance."""
    covariances = np.asarray(modes.covariances, np.float64)
    return Components(np.asarray(flat_modes, np.float64), np.linalg.cholesky(covariances), np.arange(len(covariances)))
