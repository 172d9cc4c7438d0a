"""The equipotential transformation: to the other end of a chord of equal energy.

Notation: on the line θ + s v, f(s) = U(θ + s v) − U(θ) and f'(s) = v·∇U(θ + s v). The trivial root s = 0 is divided
out, and Newton's method on f(s)/s finds the other one, s*. The map θ → θ + s* v swaps the ends of the chord, so it
is its own inverse, with Jacobian |f'(0)| / |f'(s*)| along the line.
"""

from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from vhmc_jax.base import Array
from vhmc_jax.density import FlatDensity

SOLVERS = ("deflated_newton", "paper")


@dataclass(frozen=True)
class Solver:
    """How a chord is solved.

    Attributes
    ----------
    max_iterations
        Bound on the updates of s, forward and back alike.
    tolerance
        Bound on |f(s*)| / max(1, |U(θ)|, |U(θ*)|); None for ε^0.6 with ε the precision of the dtype.
    name
        ``"deflated_newton"``: s ← s − f s / (f' s − f), exact after one update on any Gaussian. ``"paper"``: the
        iteration of Gu & Sun (2019, eq. 8) on the line, s ← s − f / (f'(s) − f'(0)), which halves the error.
    """

    max_iterations: int
    tolerance: float | None
    name: str

    def tolerance_for(self, dtype: Any) -> float:
        """The tolerance in this dtype."""
        return float(jnp.finfo(dtype).eps) ** 0.6 if self.tolerance is None else self.tolerance

    def update(self, s: Array, f: Array, slope: Array, slope_at_zero: Array) -> Array:
        """The next iterate; half way back where the density is zero."""
        correction = f / (slope - slope_at_zero) if self.name == "paper" else f * s / (slope * s - f)
        return jnp.where(jnp.isfinite(f) & jnp.isfinite(slope), s - correction, 0.5 * s)


class Transformed(NamedTuple):
    """The point that a transformation leads to, with its Jacobian.

    Attributes
    ----------
    position
        θ*, or θ where the transformation failed.
    logdensity
        The log density there.
    log_jacobian
        log |f'(0)| − log |f'(s*)|; 0 where it failed.
    num_transformed
        1 where the other end was reached and leads back, else 0.
    num_iterations
        Updates of s, there and back.
    num_evaluations
        Evaluations of the density with its directional derivative; with the second one, counted as two.
    """

    position: Array
    logdensity: Array
    log_jacobian: Array
    num_transformed: Array
    num_iterations: Array
    num_evaluations: Array


def initial_step(slope: Array, curvature: Array) -> Array:
    """s₀ = −2 f'(0) / |f''(0)|: downhill, and exact where U is quadratic along the line; ±1 where that says nothing."""
    downhill = jnp.where(slope > 0, -1.0, 1.0).astype(slope.dtype)
    step = -2 * slope / jnp.abs(curvature)
    return jnp.where(jnp.isfinite(step) & (step != 0), step, downhill)


def transform(density: FlatDensity, solver: Solver, x: Array, logdensity: Array, direction: Array) -> Transformed:
    """Move to the other end of the chord through ``x`` along ``direction``, if the way back leads here again.

    Any failure (no root within the bound, a root that leads elsewhere, a chord so shallow that its slopes are
    lost in rounding, a wall) is the identity with log-Jacobian 0. All tests are symmetric in the two ends.

    Parameters
    ----------
    density
        The log density on flat vectors.
    solver
        The iteration and its bounds.
    x
        θ.
    logdensity
        The log density at θ.
    direction
        v, whose law must not depend on θ. Its length does not matter.

    Returns
    -------
    The other end, with the log-Jacobian and what the solver reports.
    """
    tolerance = solver.tolerance_for(x.dtype)
    one = jnp.ones((), x.dtype)

    def along_line(origin: Array, s: Array) -> tuple[Array, Array]:
        """U and its slope at origin + s v: one evaluation."""
        return jax.jvp(lambda s: -density.value(origin + s * direction), (s,), (one,))

    def slope_and_curvature(origin: Array) -> tuple[Array, Array]:
        """Slope and curvature of U at the origin: two evaluations."""
        return jax.jvp(lambda s: along_line(origin, s)[1], (0 * one,), (one,))

    def is_root(f: Array, *energies: Array) -> Array:
        scale = jnp.maximum(1.0, jnp.max(jnp.abs(jnp.stack(energies))))
        return jnp.isfinite(f) & (jnp.abs(f) <= tolerance * scale)  # beyond a wall the scale is infinite too

    energy = -logdensity
    slope, curvature = slope_and_curvature(x)
    end = _solve(solver, along_line, is_root, x, energy, slope, initial_step(slope, curvature))
    there = x + end.s * direction

    end_slope, end_curvature = slope_and_curvature(there)
    start_back = initial_step(end_slope, end_curvature)
    back = _solve_back(
        solver, along_line, is_root, there, end.energy, end_slope, start_back, Known(-end.s, energy, slope)
    )

    steepness = jnp.minimum(jnp.abs(slope), jnp.abs(end_slope)) * jnp.abs(end.s)
    is_valid = end.is_found & back.is_found & jnp.isfinite(steepness) & ~is_root(steepness, energy, end.energy)
    safe_slope, safe_end_slope = (jnp.where(is_valid, value, 1.0) for value in (slope, end_slope))
    return Transformed(
        position=jnp.where(is_valid, there, x),
        logdensity=jnp.where(is_valid, -end.energy, logdensity),
        log_jacobian=jnp.log(jnp.abs(safe_slope)) - jnp.log(jnp.abs(safe_end_slope)),
        num_transformed=is_valid.astype(jnp.int32),
        num_iterations=end.num_iterations + back.num_iterations,
        num_evaluations=2 + (end.num_iterations + 1) + 2 + back.num_iterations,
    )


def transform_sequence(
    density: FlatDensity, solver: Solver, x: Array, logdensity: Array, directions: Array
) -> Transformed:
    """One transformation after another, along the rows of ``directions``; Jacobians and counts added up."""

    def one_more(done: Transformed, direction: Array) -> tuple[Transformed, None]:
        new = transform(density, solver, done.position, done.logdensity, direction)
        sums = jax.tree.map(jnp.add, done[2:], new[2:])
        return Transformed(new.position, new.logdensity, *sums), None

    zero = jnp.int32(0)
    start = Transformed(x, logdensity, jnp.zeros_like(logdensity), zero, zero, zero)
    return jax.lax.scan(one_more, start, directions)[0]


class Root(NamedTuple):
    """Where an iteration stands: s, U and its slope there, whether it is the root sought, and the updates so far."""

    s: Array
    energy: Array
    slope: Array
    is_found: Array
    num_iterations: Array


def _solve(
    solver: Solver, along_line: Any, is_root: Any, origin: Array, energy: Array, slope: Array, s0: Array
) -> Root:
    """Iterate from s₀ until f(s) is zero to tolerance; one evaluation an update, and one at s₀."""

    def at(s: Array, num_iterations: Array) -> Root:
        energy_at_s, slope_at_s = along_line(origin, s)
        is_found = is_root(energy_at_s - energy, energy, energy_at_s)
        return Root(s, energy_at_s, slope_at_s, is_found, num_iterations)

    def update(root: Root) -> Root:
        return at(solver.update(root.s, root.energy - energy, root.slope, slope), root.num_iterations + 1)

    def goes_on(root: Root) -> Array:
        return ~root.is_found & (root.num_iterations < solver.max_iterations)

    return jax.lax.while_loop(goes_on, update, at(s0, jnp.int32(0)))


class Known(NamedTuple):
    """The root that the way back should find: s, and U with its slope there."""

    s: Array
    energy: Array
    slope: Array


def _solve_back(
    solver: Solver, along_line: Any, is_root: Any, origin: Array, energy: Array, slope: Array, s0: Array, known: Known
) -> Root:
    """Iterate from the other end, to see whether that leads to the root that is known, and to no other before.

    Value and slope at the known root are known, so the last iterate is not evaluated: f there is
    U(θ) − U(θ*) + f'(0) (s − known), by the same tolerance and after the same number of updates as on a way there.
    """

    def is_close(s: Array) -> Array:
        return jnp.abs(s - known.s) <= 0.01 * jnp.abs(known.s)

    def at(s: Array, num_iterations: Array) -> Root:
        f = known.energy - energy + known.slope * (s - known.s)
        is_found = is_close(s) & is_root(f, energy, energy + f)
        return Root(s, energy + f, known.slope, is_found, num_iterations)

    def update(root: Root) -> Root:
        energy_at_s, slope_at_s = along_line(origin, root.s)
        is_other_root = is_root(energy_at_s - energy, energy, energy_at_s) & ~is_close(root.s)
        s = solver.update(root.s, energy_at_s - energy, slope_at_s, slope)
        return at(jnp.where(is_other_root, jnp.nan, s), root.num_iterations + 1)

    def goes_on(root: Root) -> Array:
        return ~root.is_found & jnp.isfinite(root.s) & (root.num_iterations < solver.max_iterations)

    return jax.lax.while_loop(goes_on, update, at(s0, jnp.int32(0)))
