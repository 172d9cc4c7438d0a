"""How much each component of a guide weighs: importance sampling, then maximum likelihood for the weights.

Notation: qᵢ components, x draws from all of them in equal numbers with density q̄ = (1/k) Σ qᵢ, W = π / q̄ their
importance weights. The weights of the mixture solve wᵢ = Σ W rᵢ(x; w) / Σ W with rᵢ = wᵢ qᵢ / Σⱼ wⱼ qⱼ, which makes
KL(π ‖ Σ wᵢ qᵢ) smallest.
"""

from typing import NamedTuple

import numpy as np

MAX_ITERATIONS = 500


class ComponentWeights(NamedTuple):
    """Weights of the components.

    Attributes
    ----------
    weights
        They sum to one.
    responsibilities
        rᵢ at each draw, shape (draw, component).
    log_importance
        log W at each draw.
    """

    weights: np.ndarray
    responsibilities: np.ndarray
    log_importance: np.ndarray


def weigh_components(logdensities: np.ndarray, component_log_probs: np.ndarray) -> ComponentWeights:
    """Weights that fit the target best, from draws of all components in equal numbers.

    Parameters
    ----------
    logdensities
        log π at the draws, shape (n,); −inf or NaN where the density is zero.
    component_log_probs
        log qᵢ at the draws, normalised, without weights, shape (n, k).

    Returns
    -------
    The weights and what they were computed from.
    """
    logdensities = np.where(np.isfinite(logdensities), logdensities, -np.inf).astype(np.float64)
    log_probs = component_log_probs.astype(np.float64)
    num_components = log_probs.shape[1]
    log_importance = logdensities - (np.logaddexp.reduce(log_probs, axis=1) - np.log(num_components))
    if not np.isfinite(log_importance.max()):
        raise ValueError("the density is zero at every draw of the fitted components: the fit failed")
    importance = np.exp(log_importance - log_importance.max())
    importance /= importance.sum()
    relative = np.exp(log_probs - log_probs.max(axis=1, keepdims=True))
    weights = np.full(num_components, 1.0 / num_components)
    for _ in range(MAX_ITERATIONS):
        updated = weights * (relative.T @ (importance / np.maximum(relative @ weights, 1e-300)))
        has_converged = np.abs(updated - weights).max() < 1e-7
        weights = updated
        if has_converged:
            break
    joint = relative * weights
    responsibilities = joint / np.maximum(joint.sum(axis=1, keepdims=True), 1e-300)
    return ComponentWeights(weights, responsibilities, log_importance)


def weight_errors(found: ComponentWeights, groups: np.ndarray) -> np.ndarray:
    """Standard errors of sums of weights over groups of components.

    The weights are an M-estimate: with aᵢ = qᵢ / Σⱼ wⱼ qⱼ, their covariance on the simplex is H⁻¹ V H⁻¹, where
    H = Σ W a aᵀ and V is the covariance of Σ W a. The numbers of draws of the components are fixed, so only what
    varies within a component counts in V.

    Parameters
    ----------
    found
        The weights, from draws of the components in turn, in equal numbers.
    groups
        Indicators, shape (component, group).

    Returns
    -------
    One for each group.
    """
    num_components = len(found.weights)
    importance = np.exp(found.log_importance - found.log_importance.max())
    importance /= importance.sum()
    ratios = found.responsibilities / np.maximum(found.weights, 1e-300)
    scores = (importance[:, None] * (ratios - 1)).reshape(num_components, -1, num_components)
    centred = scores - scores.mean(axis=1, keepdims=True)
    spread = np.einsum("sni,snj->ij", centred, centred)
    hessian = (importance[:, None] * ratios).T @ ratios
    # A basis of the directions in which weights can change: their sum stays one.
    basis = np.linalg.svd(np.ones((1, num_components)))[2][1:].T
    inverse = basis @ np.linalg.pinv(basis.T @ hessian @ basis) @ basis.T
    covariance = groups.T @ inverse @ spread @ inverse @ groups
    return np.sqrt(np.maximum(np.diag(covariance), 0.0))
