"""Which trajectory length is best, judged by a few iterations of many chains with each.

A longer trajectory moves every function f of the position further, until E (Δf)² reaches twice the variance of f.
Beyond that it only costs more. So the length is chosen at which an independent draw costs least.

Notation: ℓ the mean number of leapfrog steps; f a coordinate, its distance from the median or the log density, each
squashed into an interval, so that a few far jumps do not decide; Δf its change in one step; s = E (Δf)² / (2 Var f). A
function that decays as in a first-order autoregression, with autocorrelation 1 − s, takes (2 − s) / s steps for an
independent draw. The mean of these over all functions is what counts: the slowest make most of it.

References
----------
Hoffman, Radul & Sountsov (2021), An adaptive-MCMC scheme for setting trajectory lengths in Hamiltonian Monte Carlo, on
jitter and on squared jumps of squares; Pasarica & Gelman (2010), on expected squared jumps.
"""

from typing import NamedTuple

import numpy as np

from vhmc_jax.base import Array, PyTree

LEAST_GAIN = 1.1
"""By how much a longer trajectory has to be better. Of 256 squared jumps the mean is known to a tenth."""


class Stage(NamedTuple):
    """What a few iterations of all chains left behind.

    Attributes
    ----------
    positions
        Where the chains ended, on a leading axis.
    path
        Flat positions after every iteration, the start included, shape (iteration + 1, chain, d).
    logdensities
        Log densities there, shape (iteration + 1, chain).
    step_size
        ε, averaged.
    acceptance_rate
        Mean over the second half.
    num_gradients
        Of all chains.
    """

    positions: PyTree
    path: Array
    logdensities: Array
    step_size: Array
    acceptance_rate: Array
    num_gradients: Array


def interval_of(length: int) -> tuple[int, int]:
    """(low, high) around a mean number of steps."""
    return max(1, length // 2), length + (length + 1) // 2


def efficiencies_of(stages: list[Stage], labels: np.ndarray) -> np.ndarray:
    """Independent draws that a gradient is worth with each length."""
    values = [np.concatenate([stage.path, stage.logdensities[..., None]], axis=-1) for stage in stages]
    settled = [value[len(value) // 4 :].astype(np.float64) for value in values]
    low, middle, high = np.quantile(np.concatenate(settled), (0.25, 0.5, 0.75), axis=(0, 1))
    scaled = [(value - middle) / np.where(high > low, high - low, 1.0) for value in settled]
    functions = [np.arctan(np.concatenate([value, np.abs(value)], axis=-1)) for value in scaled]
    variances = _variances_within(np.concatenate(functions), labels)
    jumps = np.asarray([np.mean(np.diff(function, axis=0) ** 2, axis=(0, 1)) for function in functions])
    shares = np.clip(jumps[:, variances > 0] / (2 * variances[variances > 0]), 1e-12, 1.0)
    costs = [float(stage.num_gradients) / (stage.path.shape[1] * (len(stage.path) - 1)) for stage in stages]
    return 1 / (np.mean((2 - shares) / shares, axis=1) * np.asarray(costs))


def _variances_within(values: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """Variance of each function within modes, from values (iteration, chain, function)."""
    parts = [values[:, labels == label] for label in np.unique(labels)]
    return np.average([part.var(axis=(0, 1)) for part in parts], axis=0, weights=[part.shape[1] for part in parts])


def best_of(efficiencies: np.ndarray) -> int:
    """The best length; a longer one only where it is better by enough to be sure."""
    best = 0
    for number, efficiency in enumerate(efficiencies):
        if efficiency > LEAST_GAIN * efficiencies[best]:
            best = number
    return best
