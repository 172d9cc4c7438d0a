"""How a guide will do: its best envelope, the jumps that will succeed, and the tails of its importance weights.

Notation: q̄ the density of the pool; q a guide; π the target.
"""

from typing import NamedTuple

import numpy as np

from vhmc_jax.diagnostics.pareto import pareto_k
from vhmc_jax.fit.envelope import best_envelope, jump_acceptance
from vhmc_jax.fit.options import GOOD_ACCEPTANCE

MANY_TRIES = 4
MOST_LOG_RATIO = 20.0
"""log π − log q − log Z is cut here: from such a point one jump in exp(20) leads away."""
NEGLECTED = 0.01
"""Share of a mode's mass, in the tails where the guide is poorest, that does not decide how far it is trusted."""


class Judged(NamedTuple):
    """How a guide will do.

    Attributes
    ----------
    log_envelope
        log c that makes the most jumps succeed.
    num_tries
        The most candidates of a jump, for which that holds.
    expected_acceptance
        Probability that a jump from a draw of the target succeeds.
    expected_acceptance_by_mode
        The same from a draw in each mode.
    pareto_k
        Tail of the importance weights in each mode.
    """

    log_envelope: float
    num_tries: int
    expected_acceptance: float
    expected_acceptance_by_mode: np.ndarray
    pareto_k: np.ndarray


def judge(
    logdensities: np.ndarray,
    log_pool: np.ndarray,
    log_prob: np.ndarray,
    shares: np.ndarray,
    num_tries: int | None,
    generator: np.random.Generator,
) -> Judged:
    """How a guide will do: its best envelope, the jumps that will succeed, and Pareto-k.

    Parameters
    ----------
    logdensities
        log π at draws of a pool, shape (n,).
    log_pool
        log q̄ there.
    log_prob
        log q there.
    shares
        Shares of the modes in q there, shape (n, mode).
    num_tries
        Candidates of a jump; None for one where that is good enough in every mode, else ``MANY_TRIES``.
    generator
        NumPy's, for the draws that Pareto-k looks at.

    Returns
    -------
    The figures.
    """
    log_importance = logdensities - log_pool
    # Far out the guide may be too small for a number. A chain that is there will not leave in any case.
    greatest = np.logaddexp.reduce(log_importance) - np.log(len(log_importance)) + MOST_LOG_RATIO
    log_ratios = np.minimum(logdensities - log_prob, greatest)
    # A mean over the guide is one over the pool with these weights; what the pool does not reach, π does not either.
    with np.errstate(invalid="ignore"):
        log_weights = np.where(log_ratios < greatest, log_prob - log_pool, log_importance - log_ratios)
    log_weights -= np.log(len(log_prob))
    weights = np.exp(log_weights)
    # Where few draws carry the weight, the envelope is fitted to them, and what it promises is not to be trusted.
    trusted = _effective_shares(log_ratios, weights, shares)
    for tries in (1, MANY_TRIES) if num_tries is None else (num_tries,):
        envelope, acceptance = best_envelope(log_ratios, tries, weights)
        by_mode = np.minimum(jump_acceptance(log_ratios, envelope, tries, weights, shares), trusted)
        if np.all(by_mode >= GOOD_ACCEPTANCE):
            break

    # Draws that could be the guide's own, in each mode as many as there are.
    label = np.argmax(shares, axis=1)
    greatest = np.asarray([log_weights[label == mode].max(initial=-np.inf) for mode in range(shares.shape[1])])
    is_guide = np.log(generator.uniform(size=len(label))) < log_weights - greatest[label]
    tails = [pareto_k(log_ratios[is_guide & (label == mode)]) for mode in range(shares.shape[1])]
    return Judged(envelope, tries, acceptance, by_mode, np.asarray(tails))


def _effective_shares(log_ratios: np.ndarray, weights: np.ndarray, shares: np.ndarray) -> np.ndarray:
    """Kish's effective size of each mode's importance weights under the guide, as a share of its draws.

    The greatest weights are left out as long as they carry no more than a neglected share of the mass.
    """
    order = np.argsort(-log_ratios)
    log_ratios, weights, shares = log_ratios[order], weights[order], shares[order]
    importance = np.exp(log_ratios - log_ratios[0])[:, None]
    masses = weights[:, None] * importance * shares
    masses = np.where(np.cumsum(masses, axis=0) > NEGLECTED * masses.sum(axis=0), masses, 0.0)
    norm = np.sum(masses * importance, axis=0) * (weights @ shares)
    return np.sum(masses, axis=0) ** 2 / np.maximum(norm, 1e-300)
