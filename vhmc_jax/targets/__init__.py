"""Densities with exact draws and exact truths.

Every target has ``logdensity(x)``, ``sample(rng_key, n)``, ``mean``, ``covariance``, ``weights``,
``log_normalizer`` and ``dim``, and is a pytree. Logistic regression alone has no exact draws.
"""

from vhmc_jax.targets.gaussian import GaussianMixtureTarget
from vhmc_jax.targets.known import (
    correlated_gaussian,
    far_pair,
    gmm40,
    high_dimensional_pair,
    narrow_pair,
    near_pair,
    three_modes,
    twenty_modes,
    unequal_pair,
)
from vhmc_jax.targets.logistic import LogisticRegressionTarget, logistic_regression
from vhmc_jax.targets.skewed import SkewedTarget, skewed

__all__ = [
    "GaussianMixtureTarget",
    "LogisticRegressionTarget",
    "SkewedTarget",
    "correlated_gaussian",
    "far_pair",
    "gmm40",
    "high_dimensional_pair",
    "logistic_regression",
    "narrow_pair",
    "near_pair",
    "skewed",
    "three_modes",
    "twenty_modes",
    "unequal_pair",
]
