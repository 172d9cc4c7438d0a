"""Priors as regions: a density around their draws, and whether the log density is finite anywhere there."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np

from vhmc_jax.base import Array, PyTree, as_pytree_function
from vhmc_jax.models.problem import Problem

NUM_DRAWS = 64
"""Draws of a prior of which at least one must have a finite log density."""


def require_finite_draws(problem: Problem, log_probs: Callable[[PyTree], Mapping[str, Array]]) -> None:
    """Raise unless the log density is finite at one of 64 draws of the region.

    Parameters
    ----------
    problem
        The problem; its region is a function rng_key → position.
    log_probs
        From a position to the log probability of each variable of the model, which tells where it goes wrong.
    """
    draws, values = _at_prior(problem.logdensity_fn, as_pytree_function(problem.region))
    if np.isfinite(values).any():
        return
    found = {name: float(np.sum(value)) for name, value in log_probs(jax.tree.map(lambda x: x[0], draws)).items()}
    wrong = {name: value for name, value in found.items() if not np.isfinite(value)}
    where = ", ".join(f"{name!r} has log probability {value}" for name, value in (wrong or found).items())
    raise ValueError(
        f"the log density must be finite somewhere in the prior, got {np.asarray(values)[0]} and the like at all of "
        f"{NUM_DRAWS} draws of it: in the first, {where}. Check the data and the support of that variable."
    )


@jax.jit
def _at_prior(logdensity_fn: Callable, region: Callable) -> tuple[PyTree, Array]:
    draws = jax.vmap(region)(jax.random.split(jax.random.key(0), NUM_DRAWS))
    return draws, jax.vmap(logdensity_fn)(draws)


@jax.tree_util.register_dataclass
@dataclass(frozen=True, eq=False)
class Scatter:
    """A smooth density around given positions. Called with a key, it moves one of them by Gaussian noise.

    Attributes
    ----------
    positions
        Positions with a leading axis.
    noise
        Standard deviations of the noise: a pytree like one position.
    """

    positions: PyTree
    noise: PyTree

    def __call__(self, rng_key: Array) -> PyTree:
        """Draw one position."""
        key_number, *keys = jax.random.split(rng_key, 1 + len(jax.tree.leaves(self.noise)))
        leaves, structure = jax.tree.flatten(self.positions)
        number = jax.random.randint(key_number, (), 0, len(leaves[0]))
        moved = [
            rows[number] + noise * jax.random.normal(key, noise.shape, noise.dtype)
            for key, rows, noise in zip(keys, leaves, jax.tree.leaves(self.noise), strict=True)
        ]
        return jax.tree.unflatten(structure, moved)


def scatter_around(positions: dict[str, np.ndarray]) -> Scatter:
    """Gaussian noise of Scott's bandwidth around positions with a leading axis; those that are not finite are left out.

    Parameters
    ----------
    positions
        Draws by name, each (draw, ...).

    Returns
    -------
    The density as a region.
    """
    is_finite = np.all([np.isfinite(rows.reshape(len(rows), -1)).all(axis=1) for rows in positions.values()], axis=0)
    if not is_finite.any():
        raise ValueError("draws of the prior must be finite in unconstrained space, got none that is")
    kept = {name: jnp.asarray(rows[is_finite]) for name, rows in positions.items()}
    size = sum(rows[0].size for rows in kept.values())
    bandwidth = is_finite.sum() ** (-1 / (size + 4))
    return Scatter(kept, {name: bandwidth * jnp.std(rows, axis=0) for name, rows in kept.items()})
