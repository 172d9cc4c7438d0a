"""Labels that may be exchanged, found in the density where nobody said so.

K components that may be exchanged have K! images of every mode, far more than a search can list. Whether they may is
asked of the density itself: at modes and at starts it has to be the same after an exchange, to the last digits.
"""

import dataclasses
from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree

from vhmc_jax.base import Array, PyTree
from vhmc_jax.models.named_symmetries import values_of
from vhmc_jax.models.problem import Problem
from vhmc_jax.moves.domain import LabelDomain, domain_of
from vhmc_jax.moves.labels import Labels
from vhmc_jax.moves.symmetries import Symmetries, permutations
from vhmc_jax.moves.values import ValueDomain, ValueLabels, Values
from vhmc_jax.search import Modes

MOST_LABELS = 7
"""Their permutations are as many as an orbit may have."""
EXACT = (2e-6, 1e-12)
"""How far log densities of images may differ in single and in double precision, relative to 1 + their size: some units
of rounding. A symmetry that a user vouches for may differ by more. Of one that nobody claimed, no difference that is
real must be missed."""
EXACT_OF_VALUES = (2e-6, 1e-9)
"""The same for labels of named values: the way to these and back rounds too."""
APART, MOST_MASS = 3.0, 0.8
"""Standard deviations by which the labels of a mode lie apart, and share of the mass of such modes. Where labels are
alike within a mode, an order of theirs would cut it in two."""
NUM_CHECKED = 64
"""Modes and starts at which the density is asked."""


def exchangeable_labels(
    problem: Problem, modes: Modes, starts: PyTree | None = None, folded: PyTree | None = None
) -> Symmetries | None:
    """All permutations of the labels that the density does not tell apart; None where there are none of use.

    Parameters
    ----------
    problem
        What is sampled. Labels are those of its named parameters where it knows the way back from these.
    modes
        From the search.
    starts
        Further positions at which the density has to be the same, on a leading axis.
    folded
        Draws of an earlier call that folded the density by labels that it found, on a leading axis: the same labels are
        wanted, in the same order.

    Returns
    -------
    The permutations, with the leaf first that tells the labels apart best.
    """
    positions = jax.tree.map(lambda leaf: jnp.asarray(leaf)[:NUM_CHECKED], modes.positions)
    values = values_of(problem, modes.template)
    like = modes.template if values is None else values.like(modes.template)
    tolerances = EXACT if values is None else EXACT_OF_VALUES
    for num_labels in range(MOST_LABELS, 1, -1):
        axes = [leaf.shape.index(num_labels) if num_labels in leaf.shape else None for leaf in jax.tree.leaves(like)]
        if not any(axis is not None for axis in axes):
            continue
        (labels,) = permutations(jax.tree.unflatten(jax.tree.structure(like), axes)).sets
        found = _symmetries(labels, values)
        checked = (positions,) if starts is None else (positions, starts)
        if any(changed_by(found, problem.logdensity_fn, each, tolerances) is not None for each in checked):
            continue
        if (best := _with_best_leaf_first(labels, values, modes, folded)) is not None:
            return best
    return None


def starts_of(rng_key: Array, region: PyTree | Callable) -> PyTree:
    """Positions of the region at which a symmetry is checked, on a leading axis."""
    if callable(region):
        return jax.vmap(region)(jax.random.split(rng_key, NUM_CHECKED))
    return jax.tree.map(lambda leaf: jnp.asarray(leaf)[:NUM_CHECKED], region)


def changed_by(
    symmetries: Symmetries, logdensity_fn: Callable, positions: PyTree, tolerances: tuple[float, float]
) -> tuple[str, float, float] | None:
    """Name of the map that changes the density most, with the values there; None where none does beyond rounding.

    Parameters
    ----------
    symmetries
        The maps.
    logdensity_fn
        Log density of a pytree position.
    positions
        Where to look, on a leading axis.
    tolerances
        What counts as rounding in single and in double precision, relative to 1 + the size of the values.

    Returns
    -------
    The name and two values, or None.
    """
    names, maps = zip(*symmetries.generators(jax.tree.map(lambda leaf: leaf[0], positions)), strict=True)

    @jax.jit
    def values(positions: PyTree) -> Array:
        def at(position: PyTree) -> Array:
            images = [act(position) for act in maps]
            there = [jnp.asarray(logdensity_fn(image.position)) + image.log_det for image in images]
            return jnp.stack([jnp.asarray(logdensity_fn(position)), *there])

        return jax.vmap(at)(positions)

    found = np.asarray(values(positions))
    is_single = found.dtype == np.float32 or any(leaf.dtype == np.float32 for leaf in jax.tree.leaves(positions))
    tolerance = tolerances[0 if is_single else 1]
    found = np.nan_to_num(found.astype(np.float64), nan=-np.inf, neginf=-np.inf, posinf=np.inf)
    here, there = found[:, :1], found[:, 1:]
    with np.errstate(invalid="ignore"):
        sizes = np.minimum(np.abs(here), np.abs(there))
        excess = np.where(here == there, 0.0, np.abs(there - here) / (1 + sizes))
    point, number = np.unravel_index(np.argmax(excess), excess.shape)
    if not excess[point, number] > tolerance:
        return None
    return names[number], float(here[point, 0]), float(there[point, number])


def _symmetries(labels: Labels, values: Values | None) -> Symmetries:
    return Symmetries((labels if values is None else ValueLabels(labels, values),))


def _with_best_leaf_first(
    labels: Labels, values: Values | None, modes: Modes, folded: PyTree | None
) -> Symmetries | None:
    """The same, with labels in the order of the leaf in which they lie apart in most of the mass; None without one.

    Of draws that are folded already, all lie in the domain of the leaf that came first then.
    """
    like = modes.template if values is None else values.like(modes.template)
    best, best_share = None, MOST_MASS
    for leaf, axis in enumerate(labels.axes_of_leaves(like)):
        if axis:
            order = (leaf, *(other for other in labels.written if other != leaf))
            each = _symmetries(dataclasses.replace(labels, written=order), values)
            domain = domain_of(each, modes.template).parts[0]
            share = _share_apart(domain, modes) if folded is None else _share_within(domain, folded)
            if share > best_share:
                best, best_share = each, share
    return best


def _share_apart(domain: LabelDomain | ValueDomain, modes: Modes) -> float:
    """Share of the mass in modes whose labels have scores that lie apart."""

    @jax.jit
    @jax.vmap
    def scores_and_slopes(position: PyTree) -> tuple[Array, Array]:
        flat, unravel = ravel_pytree(position)

        def scores(x: Array) -> Array:
            return domain.scores(unravel(x))

        return scores(flat), jax.jacfwd(scores)(flat)

    scores, slopes = (np.asarray(each, np.float64) for each in scores_and_slopes(modes.positions))
    covariances = np.einsum("kid,kde,kje->kij", slopes, np.asarray(modes.covariances, np.float64), slopes)
    order = np.argsort(scores, axis=1)
    lower, upper = order[:, :-1], order[:, 1:]
    mode = np.arange(len(scores))[:, None]
    gaps = scores[mode, upper] - scores[mode, lower]
    variances = covariances[mode, upper, upper] + covariances[mode, lower, lower] - 2 * covariances[mode, upper, lower]
    is_apart = np.all(gaps > APART * np.sqrt(np.maximum(variances, 0.0)), axis=1)
    return float(modes.masses[is_apart].sum())


def _share_within(domain: LabelDomain | ValueDomain, positions: PyTree) -> float:
    """Share of positions that are the representatives of their images."""
    return float(np.mean(jax.jit(jax.vmap(domain.contains))(positions)))
