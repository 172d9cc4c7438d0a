"""Finding the modes of a density from many starting points."""

import warnings
from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree
from tqdm import tqdm

from vhmc_jax.arguments import as_array, as_count
from vhmc_jax.base import Array, PyTree
from vhmc_jax.density import FlatDensity, require_scalar, unravel_rows
from vhmc_jax.search.ascent import ascend
from vhmc_jax.search.merge import FoundMode, FoundModes
from vhmc_jax.search.region import Starts

STARTS_PER_MODE = 32
"""Where the number of starts is open, the search goes on until there are this many for each mode found."""

LEAST_COUNT = 3
"""Where the number of starts is open, the search goes on until every mode was reached this many times."""

WIDE_STARTS = 3
"""Given starts that spread less than this many standard deviations of their one mode may have missed others."""


class Failures(NamedTuple):
    """Starts that led to no mode, by reason.

    Attributes
    ----------
    outside
        Started where the density is zero, infinite or not a number, or its gradient is.
    escaped
        Ran off towards infinity, or the density rose without bound.
    unconverged
        Did not reach a small gradient: too few steps, a kink, an edge of the support.
    saddle
        Stopped at a point that is no maximum.
    flat
        Stopped where the density does not fall in some direction, however far one goes: it is improper.
    """

    outside: int = 0
    escaped: int = 0
    unconverged: int = 0
    saddle: int = 0
    flat: int = 0


class Modes(NamedTuple):
    """The modes of a density, highest first.

    Attributes
    ----------
    positions
        Pytree like one position, with the k modes on the leading axis.
    logdensities
        Log densities there, shape (k,).
    covariances
        Inverses of the negative Hessians there, shape (k, d, d), in the order of ``ravel_pytree``.
    basin_counts
        How many starts ended at each, shape (k,).
    num_starts
        How many starts there were.
    num_failed
        How many of them led to no mode.
    failures
        The same by reason.
    undiscovered_share
        Good–Turing estimate of the probability that one more start would lead to a mode not seen yet: the
        share of the successful starts whose mode was seen exactly once.
    num_gradients
        Evaluations of value and gradient; a Hessian counts as d of them.
    num_densities
        Evaluations of the value alone.
    notes
        Sentences about what may be wrong with these modes, and what to do about it.
    """

    positions: PyTree
    logdensities: Array
    covariances: Array
    basin_counts: Array
    num_starts: int
    num_failed: int
    failures: Failures
    undiscovered_share: float
    num_gradients: int
    num_densities: int
    notes: tuple[str, ...] = ()

    @property
    def template(self) -> PyTree:
        """One position, for its structure."""
        return jax.tree.map(lambda leaf: np.asarray(leaf)[0], self.positions)


def find_modes(
    rng_key: Array,
    logdensity_fn: Callable,
    region: PyTree | Callable,
    *,
    num_starts: int | None = None,
    learning_rate: float = 0.15,
    max_steps: int = 100,
    gradient_tolerance: float = 1e-3,
    progress: bool = False,
) -> Modes:
    """Find the modes of a density by climbing from many starts.

    Every start climbs by Adam and then L-BFGS, all in one compiled loop; the ends are merged by curvature and
    barriers, and each mode is polished by Newton's method. A mode in whose basin no start lies is not found:
    ``undiscovered_share`` estimates how likely the next start is to find one more.

    Parameters
    ----------
    rng_key
        Draws the starts, where they are drawn.
    logdensity_fn
        Log density of a pytree position, up to a constant.
    region
        Where to look. A function rng_key → position that draws one start: ``box(low, high)``, a sampler of the
        prior, or any other that covers the region. Or the starts themselves, with a leading axis.
    num_starts
        How many to draw. By default as many as it takes: blocks of 512, until there were 32 starts for each
        mode found and no mode was seen fewer than 3 times (at most 16,384 starts).
    learning_rate
        First step of Adam, in units of the standard deviation of the starts in each coordinate.
    max_steps
        Most steps of Adam for a start, and again of L-BFGS.
    gradient_tolerance
        How small the gradient of a mode has to be: its norm in the metric of the curvature, which is the
        distance to the top in standard deviations.
    progress
        Whether to show a bar with the starts done and the modes found.

    Returns
    -------
    The modes, what became of every start, and the evaluations spent.

    Warns
    -----
    UserWarning
        For each of the notes of the modes.

    Raises
    ------
    ValueError
        If no start led to a mode; the message counts the reasons.

    Examples
    --------
    >>> import jax, vhmc_jax as vj
    >>> target = vj.targets.far_pair()
    >>> region = vj.box(jax.numpy.full(2, -10.0), jax.numpy.full(2, 10.0))
    >>> modes = vj.find_modes(jax.random.key(0), target.logdensity, region)
    >>> modes.positions.shape, modes.num_failed
    ((2, 2), 0)
    """
    modes = search_modes(
        rng_key,
        logdensity_fn,
        region,
        num_starts=num_starts,
        learning_rate=learning_rate,
        max_steps=max_steps,
        gradient_tolerance=gradient_tolerance,
        progress=progress,
    )
    for note in modes.notes:
        warnings.warn(note, stacklevel=2)
    return modes


def search_modes(
    rng_key: Array,
    logdensity_fn: Callable,
    region: PyTree | Callable,
    *,
    num_starts: int | None = None,
    learning_rate: float = 0.15,
    max_steps: int = 100,
    gradient_tolerance: float = 1e-3,
    progress: bool = False,
) -> Modes:
    """Find the modes as :func:`find_modes` does, without a warning: what there is to say is in their notes."""
    max_steps = as_count("max_steps", max_steps, 1)
    for name, value in (("learning_rate", learning_rate), ("gradient_tolerance", gradient_tolerance)):
        if not 0 < value < np.inf:
            raise ValueError(f"{name} must be positive and finite, got {value}")
    starts = Starts(rng_key, region, num_starts)
    require_scalar(logdensity_fn, starts.template)
    density = FlatDensity.at(logdensity_fn, starts.template)

    found: FoundModes | None = None
    with tqdm(total=starts.total, unit="start", desc="modes", disable=not progress) as bar:
        for block, count in starts.blocks():
            if found is None:
                centre, scale = _spread(np.asarray(block)[:count])
                found = FoundModes(density, scale, gradient_tolerance)
            rate, steps = np.asarray(learning_rate, block.dtype), np.int32(max_steps)
            ascent = ascend(density, block, centre, scale, rate, steps)
            found.add(jax.tree.map(lambda leaf: np.asarray(leaf)[:count], ascent))  # noqa: B023 - used at once
            bar.update(count)
            bar.set_postfix(modes=len(found.modes), failed=found.failures.total())
            if starts.is_open and _is_enough(found):
                break
    assert found is not None  # there is at least one block
    return _summary(found, starts.template)


def narrow_starts_note(region: PyTree | Callable, modes: Modes) -> str | None:
    """A sentence where given starts cover little more than the one mode that they led to, or else None.

    Parameters
    ----------
    region
        What was searched. Nothing is said about a function that draws starts.
    modes
        What was found.

    Returns
    -------
    The sentence, or None.
    """
    if callable(region) or len(modes.logdensities) > 1:
        return None
    starts = jax.vmap(lambda position: ravel_pytree(position)[0])(region)
    scales = np.sqrt(np.diagonal(modes.covariances[0]))
    if not np.all(np.std(starts, axis=0) < WIDE_STARTS * scales):
        return None
    return (
        f"All starts lie within {WIDE_STARTS} standard deviations of the one mode that they led to: others may be out "
        "of their reach. Give a region that covers more, vj.box(low, high) for instance."
    )


def _spread(starts: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Mean and standard deviation of the starts; one where they do not differ."""
    values = starts[np.all(np.isfinite(starts), axis=1)]
    if not len(values):
        raise ValueError("region must hold finite starts, got none that is finite")
    deviation = np.std(values, axis=0)
    return np.mean(values, axis=0), np.where(deviation > 0, deviation, 1.0).astype(starts.dtype)


def _is_enough(found: FoundModes) -> bool:
    counts = [mode.count for mode in found.modes]
    num_starts = sum(counts) + found.failures.total()
    return not counts or (num_starts >= STARTS_PER_MODE * len(counts) and min(counts) >= LEAST_COUNT)


def _summary(found: FoundModes, template: PyTree) -> Modes:
    failures = Failures(**found.failures)
    counts = [mode.count for mode in found.modes]
    num_starts = sum(counts) + sum(failures)
    if not counts:
        raise ValueError(
            f"no mode found: of {num_starts} starts {failures.outside} began where the density is zero or "
            f"not a number, {failures.escaped} ran off to infinity, {failures.unconverged} did not reach a "
            f"small gradient, {failures.saddle} stopped at a saddle and {failures.flat} where the density is "
            "flat. Check that logdensity_fn is a proper density, and that region covers its modes; "
            "or raise max_steps."
        )
    modes = sorted(found.modes, key=lambda mode: -mode.logdensity)
    dtype = jnp.result_type(*jax.tree.leaves(template))
    return Modes(
        positions=unravel_rows(np.stack([mode.position for mode in modes]), template),
        logdensities=as_array([mode.logdensity for mode in modes], dtype),
        covariances=as_array([mode.covariance for mode in modes], dtype),
        basin_counts=as_array([mode.count for mode in modes], np.int32),
        num_starts=num_starts,
        num_failed=sum(failures),
        failures=failures,
        undiscovered_share=sum(count == 1 for count in counts) / sum(counts),
        num_gradients=found.num_gradients,
        num_densities=found.num_densities,
        notes=_notes(modes),
    )


def _notes(modes: list[FoundMode]) -> tuple[str, ...]:
    num_shallow = sum(not mode.is_gaussian for mode in modes)
    if not num_shallow:
        return ()
    return (
        f"{num_shallow} of {len(modes)} modes have a Hessian that is singular or unlike the density around: their "
        "covariances are from the widths at which the density falls by exp(-1/2). Fit the guide to draws, or change "
        "variables.",
    )
