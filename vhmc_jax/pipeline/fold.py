"""Folding: with symmetries, one of all images of each position is sampled, and the draws are spread over all of them.

Notation: G the group of n symmetries, F its fundamental domain, π the density, π(g x) |det g'(x)| = π(x). If X has the
density n π on F, and g is drawn from G uniformly, then g X has the density π.
"""

import functools
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from vhmc_jax import random
from vhmc_jax.base import Array, PyTree, as_pytree_function
from vhmc_jax.density import unravel_rows
from vhmc_jax.diagnostics.evidence import Evidence
from vhmc_jax.models.named_symmetries import symmetries_of
from vhmc_jax.models.problem import Problem
from vhmc_jax.moves.domain import Domain, domain_of
from vhmc_jax.moves.folded import FoldedDensity
from vhmc_jax.moves.maps import flat_of
from vhmc_jax.moves.symmetries import Symmetries, as_symmetries
from vhmc_jax.pipeline.exchange import changed_by, exchangeable_labels, starts_of
from vhmc_jax.pipeline.frozen import Frozen
from vhmc_jax.search.region import Box, Starts
from vhmc_jax.store.stitched import is_stitched, mapped

TOLERANCES = (1e-3, 1e-6)
"""How far log densities of images may differ in single and in double precision, relative to 1 + their size: sums of
thousands of terms in another order stay far below."""
KEY_NUMBER = 2**31 - 1
"""Number that is folded into the call's key; no phase uses it."""


class Fold(NamedTuple):
    """What a call of ``sample`` samples, and the way back to what its user asked for.

    Attributes
    ----------
    logdensity_fn
        The log density on the domain, −∞ elsewhere; that of the user where there are no symmetries.
    region
        The region, each start in the domain.
    problem
        What the user asked for.
    symmetries
        What leaves it as it is; None for nothing.
    domain
        One of all images of each position; None without symmetries.
    rng_key
        Key of the images that are drawn.
    has_found_labels
        Whether the symmetries are labels that nobody named.
    """

    logdensity_fn: Callable
    region: PyTree | Callable
    problem: Problem
    symmetries: Symmetries | None
    domain: Domain | None
    rng_key: Array
    has_found_labels: bool = False

    @property
    def num_images(self) -> int:
        """Images of a position, itself among them."""
        return 1 if self.domain is None else self.domain.num_images

    @property
    def settings(self) -> dict[str, Any]:
        """What tells this call from another one."""
        return {} if self.domain is None else {"symmetries": f"{self.num_images} images"}

    def check(self, positions: PyTree) -> None:
        """Raise where a map changes the log density at positions on a leading axis."""
        if self.symmetries is None or self.domain is None or not len(jax.tree.leaves(positions)[0]):
            return
        if (found := changed_by(self.symmetries, self.problem.logdensity_fn, positions, TOLERANCES)) is not None:
            name, before, after = found
            raise ValueError(
                f"symmetries must leave the density as it is, and {name} does not: the log density is {before:.8g} at "
                f"one point and {after:.8g} at its image. Often a prior, or a change of variables, tells labels apart"
            )

    def unfold(self, draws: PyTree) -> PyTree:
        """Draws (chain, draw, ...), each replaced by one of its images at random; always the same of the same draw."""
        if self.domain is None:
            return draws
        unfold = functools.partial(_unfolded, self.domain, self.rng_key)
        return mapped(unfold, draws) if is_stitched(draws) else unfold(draws)

    def remembered_by(self, frozen: Frozen) -> Frozen:
        """The same, with what has to be known of its symmetries."""
        known = self.num_images, self.has_found_labels
        if known == (frozen.num_images, frozen.has_found_labels):
            return frozen
        return frozen._replace(num_images=self.num_images, has_found_labels=self.has_found_labels)

    def whole_evidence(self, evidence: Evidence) -> Evidence:
        """The evidence of the user's density, which has as much mass in each image of the domain."""
        more = math.log(self.num_images)
        return evidence._replace(log_evidence=evidence.log_evidence + more, importance=evidence.importance + more)


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class FoldedSampler:
    """A sampler of positions in a domain.

    Attributes
    ----------
    sampler
        From a key to a position.
    domain
        The domain.
    """

    sampler: Callable
    domain: Domain

    def __call__(self, rng_key: Array) -> PyTree:
        """The representative of a position that is drawn."""
        return self.domain.representative(self.sampler(rng_key))


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class FoldedDistribution(FoldedSampler):
    """A sampler that draws from a density which has the symmetries.

    Attributes
    ----------
    sampler
        From a key to a position.
    domain
        The domain.
    whole_log_prob
        Log density of the sampler.
    """

    whole_log_prob: Callable

    def log_prob(self, position: PyTree) -> Array:
        """Log density of a position in the domain. Outside, where nothing is sampled, it goes on smoothly."""
        return self.whole_log_prob(position) + math.log(self.domain.num_images)


def fold(
    rng_key: Array, problem: Problem, region: PyTree | Callable | None, frozen: Frozen | None, symmetries: Any
) -> Fold:
    """Fold a density and a region, and check the symmetries at starts.

    Parameters
    ----------
    rng_key
        Key of the call.
    problem
        What is sampled.
    region, frozen, symmetries
        As for ``sample``.

    Returns
    -------
    The fold. Without symmetries it leaves everything as it is.
    """
    logdensity_fn = problem.logdensity_fn
    has_found_labels = False
    if symmetries is None and isinstance(frozen, Frozen) and frozen.has_found_labels:
        has_found_labels = True
        draws = unravel_rows(frozen.guide_report.starts, frozen.modes.template)
        symmetries = exchangeable_labels(problem, frozen.modes, folded=draws)
    if symmetries is None or symmetries is False:
        _require_same_images(frozen, 1)
        return Fold(logdensity_fn, region, problem, None, None, rng_key)
    key_points, key_images = (random.as_jax_key(key) for key in random.split(random.fold_in(rng_key, KEY_NUMBER)))
    template = Starts(key_points, region, None).template if frozen is None else frozen.modes.template
    positions = starts_of(key_points, region) if frozen is None else frozen.modes.positions
    readings, positions = symmetries_of(problem, as_symmetries(symmetries), positions)
    symmetries = readings[0]
    if len(readings) > 1 and changed_by(symmetries, logdensity_fn, positions, TOLERANCES) is not None:
        symmetries = readings[1]
    domain = domain_of(symmetries, template)
    _require_same_images(frozen, domain.num_images)
    folded = region
    if callable(region):
        folded = _folded_sampler(region, domain, symmetries, positions)
    elif frozen is None:
        folded = jax.vmap(domain.representative)(jax.tree.map(jnp.asarray, region))
    density = FoldedDensity(logdensity_fn, domain)
    found = Fold(density, folded, problem, symmetries, domain, key_images, has_found_labels)
    found.check(positions)
    return found


def _folded_sampler(region: Callable, domain: Domain, symmetries: Symmetries, positions: PyTree) -> FoldedSampler:
    """The sampler, with its density where that has the symmetries and is smooth: that of a box has walls."""
    sampler, log_prob = as_pytree_function(region), getattr(region, "log_prob", None)
    if log_prob is None or isinstance(region, Box):
        return FoldedSampler(sampler, domain)
    log_prob = as_pytree_function(log_prob)
    if changed_by(symmetries, log_prob, positions, TOLERANCES) is not None:
        return FoldedSampler(sampler, domain)
    return FoldedDistribution(sampler, domain, log_prob)


def _require_same_images(frozen: Frozen | None, number: int) -> None:
    """Raise where frozen was made with other symmetries."""
    if isinstance(frozen, Frozen) and frozen.num_images != number:
        raise ValueError(
            f"symmetries must be those with which frozen was made, of {frozen.num_images} images, got {number}: give "
            "the same to each call"
        )


@jax.jit
def _unfolded(domain: Domain, rng_key: Array, draws: PyTree) -> PyTree:
    """An image of each draw. The bits of the draw are part of the key: files of draws are read in any order."""

    def one(key: Array, position: PyTree) -> PyTree:
        words = jax.lax.bitcast_convert_type(flat_of(position), jnp.uint32).ravel()
        key, _ = jax.lax.scan(lambda key, word: (jax.random.fold_in(key, word), None), key, words)
        return domain.scatter(key, position)

    number = len(jax.tree.leaves(draws)[0])
    keys = jax.vmap(functools.partial(jax.random.fold_in, rng_key))(jnp.arange(number))
    return jax.vmap(lambda key, chain: jax.vmap(functools.partial(one, key))(chain))(keys, draws)
