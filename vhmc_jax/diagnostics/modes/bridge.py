"""Weights of modes by bridge sampling within each of them.

The share of the draws in a mode knows its weight as well as so many coin tosses would. But a guide that fits has almost
the shape of the target there, and its own mass in the mode is known: the ratio of the two masses is then known far
better, from how log p − log q varies within the mode, and not from how often chains came there.

Notation: as in ``evidence``; r_k(x) the share of mode k in a point x, by the guide, Z_k = ∫ p r_k and Q_k = ∫ q r_k.
"""

from typing import NamedTuple

import numpy as np

from vhmc_jax.diagnostics.bridge import Bridge
from vhmc_jax.diagnostics.ess import split_ess
from vhmc_jax.diagnostics.modes.partition import partition_errors
from vhmc_jax.diagnostics.strata import Strata

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
        r_k, (..., mode).
    """

    ratios: np.ndarray
    shares: np.ndarray


def bridge_modes(
    at_draws: ModeShares,
    at_guide: ModeShares,
    strata: Strata,
    own_shares: np.ndarray,
    own_weights: np.ndarray,
    efficiency: float,
) -> tuple[np.ndarray, np.ndarray]:
    r"""Mode weights w_k = Z_k / Σ Z, each Z_k / Q_k by a bridge between the draws in that mode.

    Parameters
    ----------
    at_draws
        At the draws of the target, (chain, draw).
    at_guide
        At independent draws of the guide, (n,).
    strata
        How many of them each component of the guide has.
    own_shares
        Responsibilities of each mode's own components at the draws of the guide, (n, mode): r_k but for what it has of
        components that belong to no mode.
    own_weights
        Their means, which are known: the weights of those components in the guide, (mode,).
    efficiency
        Independent draws that one of the chains' is worth.

    Returns
    -------
    Weights and standard errors, (mode,), with that of the partition. A mode of hardly any draws keeps its share.
    """
    counted = at_draws.shares.mean((0, 1))
    partition = partition_errors(at_draws.shares, at_draws.ratios) ** 2
    has_density = np.isfinite(at_guide.ratios)
    sizes = np.sum(at_draws.shares, (0, 1)), np.sum(at_guide.shares[has_density], 0)
    guide_weights = strata.draw_weights
    is_bridged = np.minimum(*sizes) >= LEAST_SIZE
    masses = own_weights + guide_weights @ (at_guide.shares - own_shares)
    log_masses = np.full(len(masses), -np.inf)
    # How much each draw moves the logarithm of each Z_k, that is, by how much it differs from the mean.
    of_draws, of_guide = np.zeros_like(at_draws.shares, float), np.zeros_like(at_guide.shares, float)
    for mode in np.flatnonzero(is_bridged).tolist():
        estimate, here, there = _bridge_mode(at_draws, at_guide, guide_weights, mode, efficiency)
        log_masses[mode] = np.log(masses[mode]) + estimate
        of_draws[..., mode] = -at_draws.shares[..., mode] * (here - 1) / counted[mode]
        of_guide[:, mode] = (at_guide.shares[:, mode] * there - own_shares[:, mode]) / masses[mode]
    rest = counted[~is_bridged].sum()
    if not is_bridged.any():
        return counted, np.sqrt(_variance_of_mean(at_draws.shares - counted) + partition)
    relative = np.exp(log_masses - log_masses.max())
    relative /= relative.sum()
    weights = np.where(is_bridged, (1 - rest) * relative, counted)
    # By the delta method; what is counted takes from what is bridged.
    of_draws = (1 - rest) * relative * (of_draws - (of_draws @ relative)[..., None])
    of_draws -= relative * (at_draws.shares[..., ~is_bridged].sum(-1) - rest)[..., None]
    of_draws = np.where(is_bridged, of_draws, at_draws.shares - counted)
    of_guide = (1 - rest) * relative * (of_guide - (of_guide @ relative)[:, None])
    return weights, np.sqrt(_variance_of_mean(of_draws) + strata.variance_of_mean(of_guide) + partition)


def _bridge_mode(
    at_draws: ModeShares, at_guide: ModeShares, guide_weights: np.ndarray, mode: int, efficiency: float
) -> tuple[float, np.ndarray, np.ndarray]:
    """Log Z_k / Q_k, and the terms of its bridge at all draws of either kind over their means in the mode."""
    here, there = at_draws.shares[..., mode], at_guide.shares[:, mode]
    is_here, is_there = here > NEGLIGIBLE, there > NEGLIGIBLE
    there = guide_weights * there
    bridge = Bridge(
        at_draws=at_draws.ratios[is_here],
        at_guide=at_guide.ratios[is_there],
        draw_weights=here[is_here] / here[is_here].sum(),
        guide_weights=there[is_there] / there[is_there].sum(),
        size=efficiency * here.sum(),
        guide_size=len(there) * there.sum(),
    )
    estimate = bridge.solve(guess=float(bridge.draw_weights @ bridge.at_draws))
    guides, targets = bridge.terms(estimate)
    terms = np.zeros_like(at_draws.ratios), np.zeros_like(at_guide.ratios)
    terms[0][is_here] = guides / (bridge.draw_weights @ guides)
    terms[1][is_there] = targets / (bridge.guide_weights @ targets)
    return estimate, *terms


def _variance_of_mean(values: np.ndarray) -> np.ndarray:
    """Variance of the mean of (chain, draw, mode) over chains and draws: (mode,)."""
    variances = values.var(axis=(0, 1))
    # One by one: each is small enough for the host.
    sizes = np.array([float(split_ess(values[..., mode])) for mode in range(values.shape[-1])])
    return np.where(variances > 0, variances / sizes, 0.0)
