"""The step size of the local move where the modes are Gaussian: from their covariances, without a gradient.

On a Gaussian every part of DLHMC is linear, so the covariance of position and momentum follows from part to part, and
with it the mean μ of the energy error that is accepted or not. Since E exp(−error) = 1, that error has about the
variance 2μ, and where it is a sum over many coordinates it is normal: then the acceptance is erfc(√μ / 2). In one
dimension the acceptance is 0.04 higher than that.

Notation: ω² the eigenvalues of M⁻¹Σ⁻¹, h = εω; position and momentum in units of their standard deviations, so that
kick and drift are shears by h; L leapfrog steps, γ friction, a = exp(−γε).

References
----------
Beskos et al. (2013), Optimal tuning of the hybrid Monte Carlo algorithm, on the acceptance in many dimensions.
"""

from typing import NamedTuple

import numpy as np
import scipy

STABLE, LEAST, PER_DECADE = 2.0, 1e-3, 40
"""h from which a motion is unstable; the least step size that is looked at, as a share of that; how many are."""


class _Moments(NamedTuple):
    """Second moments of position x and momentum p."""

    xx: np.ndarray
    xp: np.ndarray
    pp: np.ndarray


def step_size_for(
    target_acceptance: float,
    covariances: np.ndarray,
    weights: np.ndarray,
    inverse_mass_matrix: np.ndarray,
    num_steps: tuple[int, int],
    friction: float,
) -> float:
    """The step size at which LHMC on a mixture of distant Gaussians accepts as often as wanted.

    Parameters
    ----------
    target_acceptance
        Mean acceptance over the modes.
    covariances
        Σ of each mode, shape (k, d, d).
    weights
        Weight of each mode, shape (k,).
    inverse_mass_matrix
        M⁻¹, a vector (diagonal) or a matrix.
    num_steps
        Least and greatest L, all in between equally likely.
    friction
        γ.

    Returns
    -------
    ε, the smallest where the acceptance falls to the target.
    """
    frequencies = _frequencies(covariances, inverse_mass_matrix)
    fastest = frequencies.max(axis=1)
    least, greatest = LEAST * STABLE / fastest.max(), STABLE / fastest.min()
    steps = np.geomspace(least, greatest, round(PER_DECADE * np.log10(greatest / least)))
    acceptances = _acceptance(steps[:, None, None], frequencies, num_steps, friction) @ (weights / np.sum(weights))
    below = np.flatnonzero(acceptances < target_acceptance)
    first = max(1, below[0] if len(below) else len(steps) - 1)
    pair = [first, first - 1]  # in the order of rising acceptance
    return float(np.exp(np.interp(target_acceptance, acceptances[pair], np.log(steps[pair]))))


def _frequencies(covariances: np.ndarray, inverse_mass_matrix: np.ndarray) -> np.ndarray:
    """ω of each mode, shape (k, d)."""
    dense = np.diag(inverse_mass_matrix) if inverse_mass_matrix.ndim == 1 else inverse_mass_matrix
    factor = np.linalg.cholesky(dense)
    return np.sqrt(np.maximum(np.linalg.eigvalsh(factor.T @ np.linalg.inv(covariances) @ factor), 0.0))


def _acceptance(steps: np.ndarray, frequencies: np.ndarray, num_steps: tuple[int, int], friction: float) -> np.ndarray:
    """Mean acceptance in each mode with each step size (n, 1, 1): shape (n, k)."""
    h, a = np.minimum(steps * frequencies, STABLE), np.exp(-friction * steps)
    one = np.ones_like(h)
    state, first_heat = _langevin_step(_Moments(one, 0 * one, one), h, a)
    by_length = []
    for length in range(1, num_steps[1] + 1):
        state = _kick(_drift(_kick(state, h / 2), h), h / 2)
        if length >= num_steps[0]:
            end, last_heat = _langevin_step(state, h, a)
            errors = 0.5 * (end.xx + end.pp) - 1 - first_heat - last_heat
            by_length.append(scipy.special.erfc(0.5 * np.sqrt(np.maximum(errors.sum(axis=-1), 0))))
    return np.where(h.max(axis=-1) < STABLE, np.mean(by_length, axis=0), 0.0)


def _langevin_step(moments: _Moments, h: np.ndarray, a: np.ndarray) -> tuple[_Moments, np.ndarray]:
    """B½ A½ O A½ B½, and the mean heat of O."""
    before = _drift(_kick(moments, h / 2), h / 2)
    after = _Moments(before.xx, a * before.xp, a**2 * before.pp + 1 - a**2)
    return _kick(_drift(after, h / 2), h / 2), 0.5 * (after.pp - before.pp)


def _kick(moments: _Moments, h: np.ndarray) -> _Moments:
    """B: p ← p − h x."""
    xx, xp, pp = moments
    return _Moments(xx, xp - h * xx, pp - 2 * h * xp + h**2 * xx)


def _drift(moments: _Moments, h: np.ndarray) -> _Moments:
    """A: x ← x + h p."""
    xx, xp, pp = moments
    return _Moments(xx + 2 * h * xp + h**2 * pp, xp + h * pp, pp)
