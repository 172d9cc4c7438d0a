"""Weights of modes by bridge sampling within each of them.

The share of the draws in a mode knows its weight as well as so many coin tosses would. But a guide that fits has almost
the shape of the target there, and its own mass in the mode is known: the ratio of the two masses is then known far
better, from how log p − log q varies within the mode, and not from how often chains came there.

Notation: as in ``evidence``; r_k(x) the share of mode k in a point x, by the guide, Z_k = ∫ p r_k and Q_k = ∫ q r_k.
"""

from typing import NamedTuple

import numpy as np

from vhmc_jax.diagnostics.bridge import Bridge

NUM_BATCHES = 64
"""Chains, or parts of chains, whose means tell the variance of a mean over all draws."""
LEAST_SIZE = 10.0
"""Draws in a mode, of the chains and of the guide, without which it keeps its share of the draws."""
NEGLIGIBLE = 1e-9
"""A share of a mode that does not count."""


class ModeShares(NamedTuple):
    """Points, and how far each belongs to each mode.

    Attributes
    ----------
    ratios
        log p − log q, (...).
    shares
        r_k, (..., mode); they sum to one.
    """

    ratios: np.ndarray
    shares: np.ndarray


def bridge_modes(
    at_draws: ModeShares, at_guide: ModeShares, masses: np.ndarray, efficiency: float
) -> tuple[np.ndarray, np.ndarray]:
    r"""Mode weights w_k = Z_k / Σ Z, each Z_k / Q_k by a bridge between the draws in that mode.

    Parameters
    ----------
    at_draws
        At the draws of the target, (chain, draw).
    at_guide
        At independent draws of the guide, (n,).
    masses
        Q_k, (mode,).
    efficiency
        Independent draws that one of the chains' is worth.

    Returns
    -------
    Weights and their standard errors, (mode,). A mode with hardly any draws keeps its share of them.
    """
    counted = at_draws.shares.mean((0, 1))
    is_bridged = (np.sum(at_draws.shares, (0, 1)) >= LEAST_SIZE) & (np.sum(at_guide.shares, 0) >= LEAST_SIZE)
    log_masses, variances = np.zeros(len(masses)), np.zeros(len(masses))
    for mode in np.flatnonzero(is_bridged).tolist():
        log_ratio, variances[mode] = _bridge_mode(at_draws, at_guide, mode, efficiency)
        log_masses[mode] = np.log(masses[mode]) + log_ratio
    relative = np.where(is_bridged, np.exp(log_masses - log_masses[is_bridged].max(initial=-np.inf)), 0.0)
    relative = relative / max(relative.sum(), 1e-300)
    rest = counted[~is_bridged].sum()
    weights = np.where(is_bridged, (1 - rest) * relative, counted)
    # Of Z_k / Σ Z by the delta method; of what was counted, the variance of a mean.
    shared = np.sum(relative**2 * variances)
    squared = relative**2 * (variances * (1 - 2 * relative) + shared)
    squared = np.where(is_bridged, squared, _variance_of_mean(at_draws.shares - counted))
    return weights, np.sqrt(squared)


def _bridge_mode(at_draws: ModeShares, at_guide: ModeShares, mode: int, efficiency: float) -> tuple[float, float]:
    """Log Z_k / Q_k, and its variance."""
    here, there = at_draws.shares[..., mode], at_guide.shares[:, mode]
    is_here, is_there = here > NEGLIGIBLE, there > NEGLIGIBLE
    bridge = Bridge(
        at_draws=at_draws.ratios[is_here],
        at_guide=at_guide.ratios[is_there],
        draw_weights=here[is_here] / here.sum(),
        guide_weights=there[is_there] / there.sum(),
        size=efficiency * here.sum(),
        guide_size=there.sum(),
    )
    estimate = bridge.solve(guess=float(bridge.draw_weights @ bridge.at_draws))
    if not np.isfinite(estimate):
        return estimate, np.nan
    guides, targets = bridge.terms(estimate)
    # Both means are ratios: their relative errors are those of sums of share times relative deviation.
    errors_here, errors_there = np.zeros_like(at_draws.ratios), np.zeros_like(at_guide.ratios)
    errors_here[is_here] = here[is_here] * (guides / (bridge.draw_weights @ guides) - 1)
    errors_there[is_there] = there[is_there] * (targets / (bridge.guide_weights @ targets) - 1)
    variance_here = _variance_of_mean(errors_here[..., None])[0] / here.mean() ** 2
    variance_there = errors_there.var(ddof=1) / len(errors_there) / there.mean() ** 2
    return estimate, float(variance_here + variance_there)


def _variance_of_mean(values: np.ndarray) -> np.ndarray:
    """Variance of the mean of (chain, draw, ...) over chains and draws, from the means of batches: (...)."""
    num_chains, num_draws = values.shape[:2]
    num_parts = min(num_draws, -(-NUM_BATCHES // num_chains))
    length = num_draws // num_parts
    batches = values[:, : num_parts * length].reshape(num_chains * num_parts, length, *values.shape[2:]).mean(axis=1)
    return batches.var(axis=0, ddof=1) / len(batches) if len(batches) > 1 else np.full(values.shape[2:], np.nan)
