"""How much each component of a guide weighs: importance sampling, then maximum likelihood for the weights.

Notation: qᵢ components, x draws from all of them, nᵢ from each, with density q̄ = Σ nᵢ qᵢ / Σ nᵢ, W = π / q̄ their
importance weights. The weights of the mixture solve wᵢ = Σ W rᵢ(x; w) / Σ W with rᵢ = wᵢ qᵢ / Σⱼ wⱼ qⱼ, which makes
KL(π ‖ Σ wᵢ qᵢ) smallest.
"""

from typing import NamedTuple

import numpy as np

from vhmc_jax.guide.host import log_sum_and_shares

MAX_ITERATIONS, TOLERANCE = 200, 1e-7
NO_IMPORTANCE = 1e-14
"""A draw with less of the target's mass says nothing about the weights."""
NO_WEIGHT = 1e-6
"""A component of less weight has none."""


class ComponentWeights(NamedTuple):
    """Weights of the components.

    Attributes
    ----------
    weights
        They sum to one.
    responsibilities
        rᵢ at each draw, shape (draw, component).
    log_pool
        log q̄ at each draw.
    log_importance
        log W at each draw.
    counts
        nᵢ, the draws of each component, which lie together.
    """

    weights: np.ndarray
    responsibilities: np.ndarray
    log_pool: np.ndarray
    log_importance: np.ndarray
    counts: np.ndarray

    @property
    def log_evidence(self) -> float:
        """Log of the mean importance weight: an estimate of log ∫ π."""
        greatest = self.log_importance.max()
        return float(greatest + np.log(np.mean(np.exp(self.log_importance - greatest))))


def weigh_components(
    logdensities: np.ndarray, component_log_probs: np.ndarray, counts: np.ndarray | None = None
) -> ComponentWeights:
    """Weights that fit the target best, from draws of all components, one component after another.

    Parameters
    ----------
    logdensities
        log π at the draws, shape (n,); −inf or NaN where the density is zero.
    component_log_probs
        log qᵢ at the draws, normalised, without weights, shape (n, k).
    counts
        Draws of each component, shape (k,); by default equal numbers.

    Returns
    -------
    The weights and what they were computed from.
    """
    logdensities = np.where(np.isfinite(logdensities), logdensities, -np.inf).astype(np.float64)
    log_probs = component_log_probs.astype(np.float64)
    num_draws, num_components = log_probs.shape
    counts = np.full(num_components, num_draws // num_components) if counts is None else counts
    log_pool, shares = log_sum_and_shares(log_probs + np.log(counts / counts.sum()))
    relative = shares / counts
    log_importance = logdensities - log_pool
    if not np.isfinite(log_importance.max()):
        raise ValueError("the density is zero at every draw of the fitted components: the fit failed")
    importance = np.exp(log_importance - log_importance.max())
    importance /= importance.sum()
    weights = _most_likely(relative, importance)
    joint = relative * weights
    responsibilities = joint / np.maximum(joint.sum(axis=1, keepdims=True), 1e-300)
    return ComponentWeights(weights, responsibilities, log_pool, log_importance, counts)


def _most_likely(densities: np.ndarray, importance: np.ndarray) -> np.ndarray:
    """Mixture weights of the greatest likelihood, by EM.

    Where components overlap EM creeps along a line: from three of its points a longer step is taken [1]_, unless it
    lowers the likelihood.

    References
    ----------
    .. [1] R. Varadhan and C. Roland, Simple and globally convergent methods for accelerating the convergence of any
       EM algorithm, Scandinavian Journal of Statistics 35, 2008 (SQUAREM).
    """

    def update(weights: np.ndarray) -> tuple[np.ndarray, float]:
        """Weights after one iteration, and the log likelihood before it."""
        mixture = np.maximum(densities @ weights, 1e-300)
        return weights * (densities.T @ (importance / mixture)), importance @ np.log(mixture)

    matters = importance > NO_IMPORTANCE  # of a ladder's draws, most lie where the target has no mass
    densities, importance = densities[matters], importance[matters]
    weights = np.full(densities.shape[1], 1.0 / densities.shape[1])
    for _ in range(MAX_ITERATIONS):
        first, _ = update(weights)
        second, likelihood = update(first)
        step, bend = first - weights, second - 2 * first + weights
        if np.abs(second - first).max() < TOLERANCE:
            return second
        length = max(float(np.linalg.norm(step)) / max(float(np.linalg.norm(bend)), 1e-300), 1.0)
        leap = np.maximum(weights + 2 * length * step + length**2 * bend, 0.1 * second)
        leap, leap_likelihood = update(leap / leap.sum())
        weights = leap if leap_likelihood >= likelihood else second
    return weights


def weight_errors(found: ComponentWeights, groups: np.ndarray) -> np.ndarray:
    """Standard errors of sums of weights over groups of components.

    The weights are an M-estimate: with aᵢ = qᵢ / Σⱼ wⱼ qⱼ, their covariance on the simplex is H⁻¹ V H⁻¹, where
    H = Σ W a aᵀ and V is the covariance of Σ W a. The numbers of draws of the components are fixed, so only what
    varies within a component counts in V.

    Parameters
    ----------
    found
        The weights, from draws of the components in turn.
    groups
        Indicators, shape (component, group).

    Returns
    -------
    One for each group.
    """
    # A component without weight stays without it when the draws change a little.
    is_active = found.weights > NO_WEIGHT
    groups, num_components = groups[is_active], int(is_active.sum())
    importance = np.exp(found.log_importance - found.log_importance.max())
    importance /= importance.sum()
    ratios = found.responsibilities[:, is_active] / found.weights[is_active]
    scores = importance[:, None] * (ratios - 1)
    firsts = np.concatenate([[0], np.cumsum(found.counts)[:-1]])
    means = np.add.reduceat(scores, firsts, axis=0) / found.counts[:, None]
    centred = scores - np.repeat(means, found.counts, axis=0)
    spread = centred.T @ centred
    hessian = (importance[:, None] * ratios).T @ ratios
    # A basis of the directions in which weights can change: their sum stays one.
    basis = np.linalg.svd(np.ones((1, num_components)))[2][1:].T
    inverse = basis @ np.linalg.pinv(basis.T @ hessian @ basis) @ basis.T
    covariance = groups.T @ inverse @ spread @ inverse @ groups
    return np.sqrt(np.maximum(np.diag(covariance), 0.0))
