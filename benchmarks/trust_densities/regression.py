"""Logistic regression: 569 tumours, benign or malignant, by thirty standardised measurements; prior N(0, 1) for each.

The truths are means by importance sampling from a Student-t with about the moments of the posterior, two
million draws of which half count.
"""

import functools

import jax
import jax.numpy as jnp
import numpy as np
from jax.tree_util import Partial
from numpy.random import Generator
from scipy.special import gammaln

import vhmc_jax as vj
from trust_densities.record import Density, cube, moments

CHOSEN = (0, 7, 13, 20, 29)
"""Coefficients whose moments are compared."""
MEANS: tuple[float, ...] = (-0.41583, -1.09532, -1.27465, -1.13172, -0.55577)
VARIANCES: tuple[float, ...] = (0.78685, 0.68525, 0.80732, 0.84583, 0.50346)
LOG_Z = -26.8867
DF, CANDIDATES = 20.0, 20


@functools.cache
def target() -> vj.targets.LogisticRegressionTarget:
    """The data come with scikit-learn."""
    from sklearn.datasets import load_breast_cancer

    features, labels = load_breast_cancer(return_X_y=True)
    features = (features - features.mean(axis=0)) / features.std(axis=0)
    return vj.targets.logistic_regression(features, labels, prior_variance=1.0, intercept=False)


@functools.cache
def fitted() -> tuple[np.ndarray, np.ndarray]:
    """Mean and Cholesky factor of the covariance: Laplace's at the peak, then those of weighted draws around it."""
    model = target()
    x = np.zeros(model.dim)
    for _ in range(50):
        p = 1 / (1 + np.exp(-model.design @ x))
        precision = model.design.T @ (model.design * (p * (1 - p))[:, None]) + np.diag(1 / model.prior_variance)
        x = x + np.linalg.solve(precision, model.design.T @ (model.labels - p) - x / model.prior_variance)
    found, rng = (x, np.linalg.cholesky(np.linalg.inv(precision))), np.random.default_rng(0)
    for _ in range(2):
        draws, log_weights = propose(rng, 100_000, found)
        weights = np.exp(log_weights - log_weights.max())
        found = np.average(draws, axis=0, weights=weights), np.linalg.cholesky(np.cov(draws.T, aweights=weights))
    return found


def propose(rng: Generator, n: int, around: tuple[np.ndarray, np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    """Draws of the Student-t with this centre and Cholesky factor, and their log weights."""
    model = target()
    centre, scale = around
    noise = rng.standard_normal((n, model.dim))
    noise /= np.sqrt(rng.chisquare(DF, (n, 1)) / DF)
    x = centre + noise @ scale.T
    logits = (x @ model.design.T) * (2 * model.labels - 1)
    log_density = -np.sum(np.logaddexp(0.0, -logits), axis=1) - 0.5 * np.sum(x**2 / model.prior_variance, axis=1)
    log_t = -0.5 * (DF + model.dim) * np.log1p(np.sum(noise**2, axis=1) / DF)
    log_t += gammaln((DF + model.dim) / 2) - gammaln(DF / 2) - 0.5 * model.dim * np.log(DF * np.pi)
    return x, log_density - log_t + np.sum(np.log(np.diag(scale)))


def draw_regression(rng: Generator, n: int) -> np.ndarray:
    """The best of twenty candidates for each draw, at most 20,000 draws: as good as exact where weights vary little."""
    n = min(n, 20_000)
    batches = [propose(rng, 20_000, fitted()) for _ in range(-(-CANDIDATES * n // 20_000))]
    x, log_weights = (np.concatenate(parts) for parts in zip(*batches, strict=True))
    # Gumbel's maximum: draws without replacement, with probabilities in proportion to the weights
    return x[np.argsort(-(log_weights + rng.gumbel(size=len(x))))[:n]][rng.permutation(n)]


def regression() -> Density:
    means, variances = np.zeros(30), np.ones(30)
    means[list(CHOSEN)], variances[list(CHOSEN)] = MEANS, VARIANCES
    quantities = moments(means, variances, CHOSEN)
    logdensity = Partial(vj.targets.LogisticRegressionTarget.logdensity, jax.tree.map(jnp.asarray, target()))
    return Density(30, logdensity, cube(30, 4.0), quantities, LOG_Z, draw_regression)
