"""Finding the modes of a density from many starting points."""

import warnings
from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree
from tqdm import tqdm

from vhmc_jax.arguments import as_array, as_count
from vhmc_jax.base import Array, PyTree
from vhmc_jax.density import FlatDensity, require_gradient, require_scalar, unravel_rows
from vhmc_jax.search.ascent import Ascent, ascend
from vhmc_jax.search.merge import FoundMode, FoundModes
from vhmc_jax.search.population import Population
from vhmc_jax.search.records import Failures, Modes
from vhmc_jax.search.region import Starts, padded_blocks
from vhmc_jax.threads import one_blas_thread

STARTS_PER_MODE = 32
"""Where the number of starts is open, the search goes on until there are this many for each mode that matters."""

LEAST_COUNT = 3
"""Where the number of starts is open, the search goes on until every mode that matters was reached so many times."""

LEAST_MASS = 1e-3
"""A mode matters to the search where Laplace's approximation gives it this share of the mass."""

NO_MASS = 1e-7
"""Modes with less of the mass, by Laplace's approximation, are dropped."""

HOPELESS, FEW_MODES = 0.5, 64
"""Where modes with so much of the mass were seen once or twice, there are more than can be listed: some are kept."""

WIDE_STARTS = 3
"""Given starts that spread less than this many standard deviations of their one mode may have missed others."""


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
    require_modes(modes)
    for note in modes.notes:
        warnings.warn(note, stacklevel=2)
    return modes


@one_blas_thread
def search_modes(
    rng_key: Array,
    logdensity_fn: Callable,
    region: PyTree | Callable,
    *,
    num_starts: int | None = None,
    learning_rate: float = 0.15,
    max_steps: int = 100,
    gradient_tolerance: float = 1e-3,
    particles: np.ndarray | None = None,
    max_gradients: int = 10_000_000,
    progress: bool = False,
) -> Modes:
    """Find the modes as :func:`find_modes` does, without a warning: what there is to say is in their notes.

    There may be none. Flat ``particles`` climb too, and count as starts. No further block of starts
    climbs after ``max_gradients``.
    """
    max_steps = as_count("max_steps", max_steps, 1)
    for name, value in (("learning_rate", learning_rate), ("gradient_tolerance", gradient_tolerance)):
        if not 0 < value < np.inf:
            raise ValueError(f"{name} must be positive and finite, got {value}")
    starts = Starts(rng_key, region, num_starts)
    require_scalar(logdensity_fn, starts.template)
    require_gradient(logdensity_fn, starts.template)
    density = FlatDensity.at(logdensity_fn, starts.template)

    rate, steps = np.asarray(learning_rate, starts.dtype), np.int32(max_steps)
    found: FoundModes | None = None
    with tqdm(total=starts.total, unit="start", desc="modes", disable=not progress) as bar:
        for block, count in starts.blocks():
            if found is None:
                centre, scale = _spread(np.asarray(block)[:count])
                found = FoundModes(density, scale, gradient_tolerance)
                # The search goes on where a mode that matters was found by particles alone.
                others = () if particles is None else padded_blocks(particles.astype(block.dtype), len(block))
                for rows, number in others:
                    found.add(_first_rows(ascend(density, rows, centre, scale, rate, steps), number))
            found.add(_first_rows(ascend(density, block, centre, scale, rate, steps), count))
            bar.update(count)
            bar.set_postfix(modes=len(found.modes), failed=found.failures.total())
            if (starts.is_open and _is_enough(found)) or found.num_gradients >= max_gradients:
                break
    assert found is not None  # there is at least one block
    num_particles = 0 if particles is None else len(particles)
    return _summary(found, starts.template)._replace(num_particles=num_particles)


def _first_rows(ascent: Ascent, count: int) -> Ascent:
    return jax.tree.map(lambda leaf: np.asarray(leaf)[:count], ascent)


def mode_of_mass(population: Population, modes: Modes) -> Modes:
    """One mode for a density without a peak: the highest particle, with the covariance of all."""
    best = int(np.argmax(population.logdensities))
    x = population.flat.astype(np.float64)
    covariance = np.cov(x.T, bias=True).reshape(x.shape[1], -1) + 1e-9 * np.diag(x.var(axis=0) + 1e-300)
    dtype = population.flat.dtype
    with np.errstate(over="ignore"):
        scales = np.diagonal(covariance).astype(dtype)
    # Particles that ran off may all descend from one of them, and lie in one place.
    if not (np.isfinite(scales) & (scales > 0)).all():
        raise ValueError(
            f"the density seems to be improper: particles ran off to {np.abs(x).max():.1g}, and it does not fall "
            "there. Check that logdensity_fn has a finite integral"
        )
    return modes._replace(
        positions=jax.tree.map(lambda leaf: leaf[best : best + 1], population.positions),
        logdensities=as_array(population.logdensities[best : best + 1], dtype),
        covariances=as_array(covariance[None], dtype),
        basin_counts=as_array([0], np.int32),
        notes=(),
    )


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


def _masses(modes: list[FoundMode]) -> np.ndarray:
    """Shares of the modes in their mass, by Laplace's approximation."""
    log_masses = np.array([mode.log_mass for mode in modes])
    masses = np.exp(log_masses - log_masses.max(initial=-np.inf))
    return masses / masses.sum()


def _is_enough(found: FoundModes) -> bool:
    if not found.modes or len(found.modes) >= found.most_modes:
        return True
    counts = np.array([mode.count for mode in found.modes])
    num_starts = counts.sum() + found.failures.total()
    matters = _masses(found.modes) >= LEAST_MASS
    if found.has_ridge:  # its tops are parts of one mode
        matters &= np.array([mode.is_gaussian for mode in found.modes])
    if not matters.any():
        return True
    return num_starts >= STARTS_PER_MODE * matters.sum() and counts[matters].min() >= LEAST_COUNT


def require_modes(modes: Modes) -> None:
    """Raise where no start led to a mode, with the reasons."""
    if len(modes.logdensities):
        return
    failures = modes.failures
    raise ValueError(
        f"no mode found: of {modes.num_starts} starts {failures.outside} began where the density is zero or "
        f"not a number, {failures.escaped} ran off to infinity, {failures.unconverged} did not reach a "
        f"small gradient, {failures.saddle} stopped at a saddle and {failures.flat} where the density is "
        "flat. Check that logdensity_fn is a proper density, and that region covers its modes; "
        "or raise max_steps."
    )


def _summary(found: FoundModes, template: PyTree) -> Modes:
    found.merge_ridges()
    failures, masses = Failures(**found.failures), _masses(found.modes)
    counts = np.array([mode.count for mode in found.modes], int)
    undiscovered_mass = float(masses[counts <= 2].sum())
    most = found.most_modes if undiscovered_mass < HOPELESS else FEW_MODES
    modes = [found.modes[i] for i in np.argsort(-masses)[:most] if masses[i] > NO_MASS]
    modes = sorted(modes, key=lambda mode: -mode.logdensity)
    dtype = jnp.result_type(*jax.tree.leaves(template))
    dim = sum(np.size(leaf) for leaf in jax.tree.leaves(template))
    return Modes(
        positions=unravel_rows(np.array([mode.position for mode in modes]).reshape(-1, dim), template),
        logdensities=as_array([mode.logdensity for mode in modes], dtype),
        covariances=as_array(np.array([mode.covariance for mode in modes]).reshape(-1, dim, dim), dtype),
        basin_counts=as_array([mode.count for mode in modes], np.int32),
        num_starts=int(counts.sum()) + sum(failures),
        num_failed=sum(failures),
        failures=failures,
        undiscovered_share=float(np.sum(counts == 1) / max(1, counts.sum())),
        undiscovered_mass=undiscovered_mass,
        num_dropped=len(found.modes) - len(modes),
        failed_ends=(
            np.array([end for end, _ in found.failed_ends]).reshape(-1, dim),
            np.array([height for _, height in found.failed_ends]),
        ),
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
