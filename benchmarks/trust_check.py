"""The truths of the benchmark against a second way to know them.

Exact draws, which do not use the truths, give every quantity with its standard error. The log density is held against
the draws: Stein's identity E (xᵢ − m) ∂ᵢ log π = −1 fails where draws and density differ. Up to thirty-two dimensions
a bridge to a mixture of Gaussians that is fitted to the draws gives log Z from the density itself.
"""

import warnings

import jax
import jax.numpy as jnp
import numpy as np
from scipy.special import logsumexp
from sklearn.mixture import GaussianMixture
from trust_densities import Case, Density

NUM_DRAWS, NUM_BRIDGE, LARGEST_Z = 200_000, 5_000, 4.5


def check(case: Case) -> tuple[float, float, float, float, list[str]]:
    """Largest |z| of the quantities and of Stein's identity, deviation and error of log Z, and what disagrees."""
    density = case.build()
    rng = np.random.default_rng(12345)
    draws = density.draw(rng, NUM_DRAWS)
    complaints = []
    z_scores = [0.0]
    for quantity in density.quantities:
        values = quantity.function(draws)
        z_scores.append((np.mean(values) - quantity.truth) / (np.std(values) / np.sqrt(len(values)) + 1e-12))
        if abs(z_scores[-1]) > LARGEST_Z:
            complaints.append(f"{quantity.name}: {np.mean(values):.5g} by draws, {quantity.truth:.5g}")
    stein = np.zeros(1) if density.has_edges else stein_scores(density, draws[: 4 * NUM_BRIDGE])
    if not np.max(np.abs(stein)) < LARGEST_Z:
        complaints.append(f"Stein's identity: z = {stein[np.argmax(np.abs(stein))]:.1f}")
    deviation = error = np.nan
    if density.log_z is not None and density.dim <= 32:
        log_z, error = bridge(density, draws, rng)
        deviation = log_z - density.log_z
        if not abs(deviation) < LARGEST_Z * error + 1e-3:
            complaints.append(f"log Z: {log_z:.4f} ± {error:.4f} by bridge, {density.log_z:.4f}")
    return float(np.max(np.abs(z_scores))), float(np.max(np.abs(stein))), deviation, error, complaints


def log_densities(density: Density, x: np.ndarray) -> np.ndarray:
    """Log density at points (n, d), in double precision."""
    return np.asarray(jax.jit(jax.vmap(density.logdensity))(jnp.asarray(x)), np.float64)


def stein_scores(density: Density, draws: np.ndarray) -> np.ndarray:
    """(mean of (xᵢ − mᵢ) ∂ᵢ log π + 1) in standard errors, for every coordinate."""
    gradients = np.asarray(jax.jit(jax.vmap(jax.grad(density.logdensity)))(jnp.asarray(draws)))
    terms = (draws - np.median(draws, axis=0)) * gradients + 1
    return np.mean(terms, axis=0) / (np.std(terms, axis=0) / np.sqrt(len(draws)))


def bridge(density: Density, draws: np.ndarray, rng: np.random.Generator) -> tuple[float, float]:
    """Log Z and its error by Meng and Wong's iteration, between the draws and a mixture fitted to other draws."""
    fitted, ours = draws[:NUM_BRIDGE], draws[NUM_BRIDGE : 5 * NUM_BRIDGE]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        guide = GaussianMixture(10, n_init=1, max_iter=50, reg_covar=1e-9, random_state=0).fit(fitted)
    theirs = rng.permutation(guide.sample(len(ours))[0])
    ratios = [log_densities(density, x) - guide.score_samples(x) for x in (ours, theirs)]
    log_z = np.median(ratios[0])
    for _ in range(200):
        # log of the means of r / (r + Z) over the guide's draws and of 1 / (r + Z) over the density's
        upper = ratios[1] - np.logaddexp(ratios[1], log_z)
        lower = -np.logaddexp(ratios[0], log_z)
        log_z = logsumexp(upper) - logsumexp(lower)
    relative = [np.exp(terms - logsumexp(terms) + np.log(len(terms))) for terms in (upper, lower)]
    return float(log_z), float(np.sqrt(sum(np.var(terms) / len(terms) for terms in relative)))
