"""The equipotential transformation: to the other end of a chord of equal energy.

Notation: on the line θ + s v, f(s) = U(θ + s v) − U(θ) and f'(s) = v·∇U(θ + s v).

A chord joins θ to another point of the line with the same energy: f(s*) = 0 with s* ≠ 0. Dividing by s removes the root
s = 0, and Newton's method on f(s)/s finds s*. The map θ → θ + s* v swaps the two ends of the chord, so it is its own
inverse. Its Jacobian along the line is |f'(0)| / |f'(s*)|.
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
    """How the other end of a chord is found.

    Attributes
    ----------
    max_iterations
        Most updates of s on the way there, and as many on the way back.
    tolerance
        Largest |f(s*)| / max(1, |U(θ)|, |U(θ*)|). None means ε^0.6, where ε is the precision of the dtype.
    name
        ``"deflated_newton"``: s ← s − f s / (f' s − f), exact after one update on any Gaussian. ``"paper"``: the
        iteration of Gu & Sun (2019, eq. 8) on the line, s ← s − f / (f'(s) − f'(0)), which halves the error each time.
    """

    max_iterations: int
    tolerance: float | None
    name: str

    def tolerance_for(self, dtype: Any) -> float:
        """The tolerance in this dtype."""
        return float(jnp.finfo(dtype).eps) ** 0.6 if self.tolerance is None else self.tolerance

    def update(self, s: Array, f: Array, slope: Array, slope_at_zero: Array) -> Array:
        """The next iterate. Where the density is zero, it is half way back to s = 0."""
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
        1 where the other end was found and the way back leads here again, else 0.
    num_iterations
        Updates of s, there and back.
    num_evaluations
        Evaluations of the density with its directional derivative. One with the second derivative counts as two.
    """

    position: Array
    logdensity: Array
    log_jacobian: Array
    num_transformed: Array
    num_iterations: Array
    num_evaluations: Array


def initial_step(slope: Array, curvature: Array) -> Array:
    """Where the iteration starts: s₀ = −2 f'(0) / |f''(0)|, downhill, and exact where U is quadratic along the line.

    Where that is zero or not finite, it is +1 or −1, whichever is downhill.
    """
    downhill = jnp.where(slope > 0, -1.0, 1.0).astype(slope.dtype)
    step = -2 * slope / jnp.abs(curvature)
    return jnp.where(jnp.isfinite(step) & (step != 0), step, downhill)


def transform(density: FlatDensity, solver: Solver, x: Array, logdensity: Array, direction: Array) -> Transformed:
    """Move to the other end of the chord through ``x`` along ``direction``, if the way back leads here again.

    Otherwise stay, with log-Jacobian 0. That happens where no root is found within ``max_iterations``, where the way
    back leads to another root, where the chord is so shallow that its slopes are lost in rounding, and at a wall. Every
    check is symmetric in the two ends: it gives the same answer on the way back.

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
        v. Its distribution must not depend on θ. Its length does not matter.

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
    """One transformation after another, along the rows of ``directions``. Log-Jacobians and counts are sums."""

    def one_more(done: Transformed, direction: Array) -> tuple[Transformed, None]:
        new = transform(density, solver, done.position, done.logdensity, direction)
        sums = jax.tree.map(jnp.add, done[2:], new[2:])
        return Transformed(new.position, new.logdensity, *sums), None

    zero = jnp.int32(0)
    start = Transformed(x, logdensity, jnp.zeros_like(logdensity), zero, zero, zero)
    return jax.lax.scan(one_more, start, directions)[0]


class Root(NamedTuple):
    """An iterate: s, U and its slope there, whether it is the root that is looked for, and the updates so far."""

    s: Array
    energy: Array
    slope: Array
    is_found: Array
    num_iterations: Array


def _solve(
    solver: Solver, along_line: Any, is_root: Any, origin: Array, energy: Array, slope: Array, s0: Array
) -> Root:
    """Iterate from s₀ until f(s) is zero within the tolerance: one evaluation for each update, and one at s₀."""

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
    """The root that the way back has to find: s, and U with its slope there."""

    s: Array
    energy: Array
    slope: Array


def _solve_back(
    solver: Solver, along_line: Any, is_root: Any, origin: Array, energy: Array, slope: Array, s0: Array, known: Known
) -> Root:
    """Iterate from the other end, and see whether that leads to the known root before it meets another one.

    This is the iteration that a transformation from θ* would make, with the same tolerance and the same bound on
    updates. One evaluation is saved: an iterate near the known root is not evaluated, since U and its slope are known
    there. f(s) is U(θ) − U(θ*) + f'(0) (s − known), up to second order.
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
