"""The density that a population starts from: normalised, easy to draw from, and positive wherever mass may be.

A box is replaced by the Gaussian with its mean and covariance. The uniform density would forbid whatever lies outside
the box, and its walls would stop every trajectory.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import numpy as np
from jax.flatten_util import ravel_pytree

from vhmc_jax import random
from vhmc_jax.base import Array, PyTree, as_pytree_function
from vhmc_jax.density import FlatDensity
from vhmc_jax.guide import GaussianMixture
from vhmc_jax.search.region import Box, Starts, draw

NUM_MOMENT_DRAWS = 1024
"""Draws of a sampler without a density, from which its moments are taken."""


class Reference(NamedTuple):
    """A normalised density on flat vectors, with draws.

    Attributes
    ----------
    log_prob
        Log density of a flat vector, a callable pytree.
    draws
        From a number of draws to that many, shape (n, d).
    template
        One position, for its structure.
    """

    log_prob: Callable
    draws: Callable[[int], np.ndarray]
    template: PyTree


def reference_of(rng_key: Array, region: PyTree | Callable) -> Reference:
    """The density of a region: its own where it has a ``log_prob``, otherwise a Gaussian with its moments.

    Parameters
    ----------
    rng_key
        Key of all draws.
    region
        A box, a sampler rng_key → position with or without a ``log_prob``, or positions on a leading axis.

    Returns
    -------
    The reference.
    """
    key_moments, key_draws = (random.as_jax_key(key) for key in random.split(rng_key))
    template = Starts(key_moments, region, None).template
    if isinstance(region, Box):
        low, high = (np.asarray(ravel_pytree(corner)[0]) for corner in (region.low, region.high))
        return _gaussian(key_draws, (low + high) / 2, np.diag((high - low) / np.sqrt(12)), template)
    if not callable(region):
        rows = np.asarray(jax.vmap(lambda position: ravel_pytree(position)[0])(region))
        return _gaussian(key_draws, *_moments(rows), template)
    sampler = as_pytree_function(region)
    if hasattr(region, "log_prob"):
        density = FlatDensity.at(region.log_prob, template)
        return Reference(
            density, lambda n: np.asarray(draw(sampler, key_draws, np.arange(n, dtype=np.int32))), template
        )
    rows = np.asarray(draw(sampler, key_moments, np.arange(NUM_MOMENT_DRAWS, dtype=np.int32)))
    return _gaussian(key_draws, *_moments(rows), template)


def _gaussian(rng_key: Array, mean: np.ndarray, scale_tril: np.ndarray, template: PyTree) -> Reference:
    dtype = mean.dtype
    mixture = GaussianMixture(np.zeros(1, dtype), mean[None], scale_tril[None].astype(dtype))

    def draws(number: int) -> np.ndarray:
        return mixture.on_host().sample(random.generator(rng_key), number).astype(dtype)

    return Reference(as_pytree_function(mixture.prepared().log_prob), draws, template)


def _moments(rows: np.ndarray) -> tuple[np.ndarray, Any]:
    """Mean and a Cholesky factor of the covariance; only the diagonal where there are few rows for the dimension."""
    rows = rows[np.all(np.isfinite(rows), axis=1)]
    if not len(rows):
        raise ValueError("region must hold finite starts, got none that is finite")
    mean, deviations = rows.mean(axis=0), rows.std(axis=0)
    deviations = np.where(deviations > 0, deviations, 1.0)
    correlations = np.eye(len(mean))
    if len(rows) >= 4 * len(mean):
        white = (rows - mean) / deviations
        correlations = 0.95 * (white.T @ white) / len(rows) + 0.05 * correlations
    return mean, deviations[:, None] * np.linalg.cholesky(correlations)
