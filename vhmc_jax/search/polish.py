"""The top itself: Newton's method from where a start ended, and the shape of the density there.

Newton's method sees the negative Hessian by its eigenvectors, after each coordinate has been scaled to unit
curvature: H = D V diag(e) Vᵀ D, so that badly scaled coordinates are not taken for flat directions. The shape
is told by axes A, with AAᵀ the covariance. Along each of them the log density of a Gaussian falls by a half
at distance one. Where it does not (a flat top, a kink, a quartic), the density itself is asked where it has
fallen by a half, and that is the width.
"""

import functools
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from vhmc_jax.base import Array
from vhmc_jax.density import FlatDensity
from vhmc_jax.programs import SOON_COMPILED, program
from vhmc_jax.search.ascent import ARRIVAL

BARRIER = 1e-3
"""Change of the log density that counts, beside rounding."""

MAX_ITERATIONS = 100
LINE_SEARCH = 0.25 ** np.arange(10)
PROFILE = 2.0 ** np.arange(-15.0, 15.5, 0.5)
"""Distances, in units of an axis, at which a profile is looked at."""

SEGMENT = np.concatenate([[0.01, 0.03], np.linspace(0.0, 1.0, 18)[1:-1], [0.97, 0.99]])
SEGMENT_PARTS = SEGMENT[np.argsort(-np.minimum(SEGMENT, 1 - SEGMENT), kind="stable")].reshape(4, 5)
"""Where a segment is looked at: closer near its ends, where a narrow mode would have its barrier. Most barriers stand
in the middle, so that is looked at first. On a shell in five dimensions this saves two densities in three."""


class Top(NamedTuple):
    """A point from which Newton's method does not move any more.

    Attributes
    ----------
    position, logdensity
        Where, and how high.
    eigenvalues
        Curvatures e of the scaled negative Hessian, ascending, shape (d,).
    axes
        Columns that span one standard deviation, shape (d, d): the covariance is AAᵀ.
    falls
        By how much the log density falls at one standard deviation, on both sides, shape (2, d).
    is_converged
        Whether the gradient is small.
    is_stuck
        Whether it is not, and yet no step climbs: a kink, or an edge of the support.
    push
        Where it is stuck, the displacement against the gradient that costs half of ``BARRIER``; else zero.
    num_gradients, num_densities
        Evaluations; a Hessian is counted as d gradients.
    """

    position: Array
    logdensity: Array
    eigenvalues: Array
    axes: Array
    falls: Array
    is_converged: Array
    is_stuck: Array
    push: Array
    num_gradients: Array
    num_densities: Array


class _Newton(NamedTuple):
    """Newton's method on its way; the curvature is that of the last point where it was looked at."""

    position: Array
    value: Array
    eigenvalues: Array
    directions: Array
    decrement: Array
    is_done: Array
    iteration: Array


@functools.partial(program, options=SOON_COMPILED)
def polish(density: FlatDensity, x: Array, scale: Array, tolerance: Array) -> Top:
    """Newton's method with a line search from x to the nearest stationary point.

    Parameters
    ----------
    density
        Log density of flat positions.
    x
        Flat position, shape (d,).
    scale
        Spread of the starts, shape (d,): the unit of a coordinate without curvature.
    tolerance
        Distance to the top, in standard deviations, that is small enough.

    Returns
    -------
    The point and the curvature there. Nothing is said yet about whether it is a maximum.
    """
    eps = jnp.finfo(x.dtype).eps
    lengths = jnp.asarray(LINE_SEARCH, x.dtype)

    def body(state: _Newton) -> _Newton:
        gradient = density.gradient(state.position)
        eigenvalues, directions = _curvature(-jax.hessian(density.value)(state.position), scale)
        slopes = directions.T @ gradient
        sizes = jnp.maximum(jnp.abs(eigenvalues), 32 * eps)
        decrement = slopes @ (slopes / sizes)
        trials = state.position + lengths[:, None] * (directions @ (slopes / sizes))
        values = jax.vmap(density.value)(trials)
        values = jnp.where(jnp.isnan(values), -jnp.inf, values)
        best = jnp.argmax(values)
        is_done = (decrement <= tolerance**2) | ~(values[best] > state.value)
        position = jnp.where(is_done, state.position, trials[best])
        value = jnp.where(is_done, state.value, values[best])
        return _Newton(position, value, eigenvalues, directions, decrement, is_done, state.iteration + 1)

    def goes_on(state: _Newton) -> Array:
        return ~state.is_done & (state.iteration < MAX_ITERATIONS)

    dim = x.shape[0]
    unknown = jnp.full((dim, dim), jnp.nan, x.dtype)
    start = _Newton(
        x, density.value(x), unknown[0], unknown, unknown[0, 0], jnp.zeros((), bool), jnp.zeros((), jnp.int32)
    )
    end = jax.lax.while_loop(goes_on, body, start)
    # Rounding can keep the decrement above a small tolerance: then that no step climbs is enough.
    is_small = end.decrement <= jnp.maximum(tolerance, ARRIVAL) ** 2
    is_stuck = end.is_done & ~is_small
    axes = _axes(end.eigenvalues, end.directions)
    gradient = density.gradient(end.position)
    steepness = jnp.sum((gradient * scale) ** 2)
    push = -0.5 * BARRIER * scale**2 * gradient / jnp.where(is_stuck, steepness, 1.0)
    points = jnp.concatenate([end.position + axes.T, end.position - axes.T])
    return Top(
        position=end.position,
        logdensity=end.value,
        eigenvalues=end.eigenvalues,
        axes=axes,
        falls=(end.value - jax.vmap(density.value)(points)).reshape(2, dim),
        is_converged=end.is_done & is_small,
        is_stuck=is_stuck,
        push=jnp.where(is_stuck & jnp.all(jnp.isfinite(push)), push, 0.0),
        num_gradients=end.iteration * (1 + dim) + 1,
        num_densities=end.iteration * len(LINE_SEARCH) + 2 * dim,
    )


def _curvature(hessian: Array, scale: Array) -> tuple[Array, Array]:
    """Eigenvalues e and directions B of the scaled Hessian."""
    diagonal = jnp.abs(jnp.diagonal(hessian))
    root = jnp.where(diagonal > 0, jnp.sqrt(diagonal), 1.0 / scale)
    eigenvalues, vectors = jnp.linalg.eigh(hessian / (root[:, None] * root))
    return eigenvalues, vectors / root[:, None]


def _axes(eigenvalues: Array, directions: Array) -> Array:
    """The Cholesky factor of the covariance; where the Hessian is singular, its eigenvectors.

    Of all square roots the Cholesky factor stays closest to the coordinates. A direction without curvature
    gets one unit.
    """
    has_curvature = eigenvalues > 32 * jnp.finfo(eigenvalues.dtype).eps
    spans = directions * jnp.where(has_curvature, jnp.abs(eigenvalues), 1.0) ** -0.5
    return jnp.where(jnp.all(has_curvature), jnp.linalg.qr(spans.T, mode="r").T, spans)


@functools.partial(program, options=SOON_COMPILED)
def profile_widths(density: FlatDensity, top: Top) -> tuple[Array, Array]:
    """Distance along each axis at which the log density has fallen by a half, on the mean of both sides.

    Returns
    -------
    The widths in units of the axes, shape (d,): infinite where the density never falls by so much. And
    whether the density rises on the way, shape (d,): then the point is no maximum.
    """
    dtype = top.position.dtype
    distances = jnp.asarray(np.concatenate([PROFILE, -PROFILE]), dtype)
    slack = BARRIER + 100 * jnp.finfo(dtype).eps * jnp.abs(top.logdensity)

    def along(axis: Array) -> tuple[Array, Array]:
        values = jax.vmap(lambda s: density.value(top.position + s * axis))(distances)
        falls = (top.logdensity - jnp.where(jnp.isnan(values), -jnp.inf, values)).reshape(2, -1)
        # At an edge, where the density falls at once, the width is that of the other side.
        is_edge = falls[:, :1] > 1.0
        sides = jnp.where(is_edge & ~jnp.all(is_edge), falls[::-1], falls)
        has_fallen = jnp.mean(jnp.minimum(sides, 1.0), axis=0) >= 0.5
        is_before = jnp.cumsum(has_fallen) == 0
        width = jnp.where(jnp.any(has_fallen), distances[jnp.argmax(has_fallen)], jnp.inf)
        return width, jnp.any(is_before & (jnp.min(falls, axis=0) < -slack))

    return jax.lax.map(along, top.axes.T)


@functools.partial(program, options=SOON_COMPILED)
def lowest_between(density: FlatDensity, x: Array, ends: Array, push: Array, fractions: Array) -> Array:
    """The least log density at some places of the segments from x.

    A segment between two points at an edge of the support runs along the edge, and rounding puts parts of it outside.
    So it is bent a little: its middle is pushed inwards.

    Parameters
    ----------
    density
        Log density of flat positions.
    x
        Flat position, shape (d,).
    ends
        Flat positions, shape (n, d).
    push
        How far the middle of a segment is moved, shape (d,): zero, but for a top at an edge.
    fractions
        Where to look: 0 is x, 1 the end. Shape (m,).

    Returns
    -------
    The least values, shape (n,).
    """

    def lowest(end: Array) -> Array:
        values = jax.vmap(lambda t: density.value((1 - t) * x + t * end + 4 * t * (1 - t) * push))(fractions)
        return jnp.min(jnp.where(jnp.isnan(values), -jnp.inf, values))

    return jax.vmap(lowest)(ends)
