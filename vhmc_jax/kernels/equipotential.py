"""The equipotential transformation as a kernel of its own.

Notation: as in ``dynamics.equipotential``.
"""

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
from jax.tree_util import Partial

from vhmc_jax import random
from vhmc_jax.arguments import as_count, cast
from vhmc_jax.base import Array, Kernel, PRNGKey, PyTree, State, as_pytree_function
from vhmc_jax.density import FlatDensity, flatten, init_state
from vhmc_jax.dynamics.equipotential import SOLVERS, Solver, Transformed, transform_sequence
from vhmc_jax.dynamics.kinetic import covariance_factor, multiply
from vhmc_jax.metropolis import MetropolisStep, Proposal, log_acceptance, metropolis_info


class EquipotentialInfo(NamedTuple):
    """What happened in a step with equipotential transformations.

    Attributes
    ----------
    acceptance_rate
        Probability with which the proposal was accepted.
    is_accepted
        Whether it was.
    is_divergent
        Whether the proposal's energy was not finite, or above the current one by more than
        ``metropolis.DIVERGENCE_THRESHOLD``.
    num_gradients
        Evaluations of the gradient, or of the value with its directional derivative. Those of the solver count too.
    num_densities
        Evaluations of the value alone.
    num_transformed
        Transformations of this step that reached the other end of their chord. The others left the position as it was.
    num_solver_iterations
        Updates of the solver, on the ways there and back.
    """

    acceptance_rate: Array
    is_accepted: Array
    is_divergent: Array
    num_gradients: Array
    num_densities: Array
    num_transformed: Array
    num_solver_iterations: Array


@functools.partial(
    jax.tree_util.register_dataclass, data_fields=["direction_factor"], meta_fields=["num_transformations", "solver"]
)
@dataclass(frozen=True)
class Transformations:
    """A number of transformations along random directions.

    Attributes
    ----------
    direction_factor
        C, where C Cᵀ is the covariance of the directions. It is an argument of the compiled program.
    num_transformations
        How many, one after another.
    solver
        How the other end of a chord is found.
    """

    direction_factor: Array
    num_transformations: int
    solver: Solver

    def apply(self, rng_key: PRNGKey, density: FlatDensity, start: State) -> tuple[State, Transformed]:
        """Transform, then evaluate value and gradient at the end. That gradient is counted too."""
        x = start.position
        noise = random.normal(rng_key, (self.num_transformations, x.size), x.dtype)
        directions = jax.vmap(multiply, (None, 0))(cast(self.direction_factor, x.dtype), noise)
        end = transform_sequence(density, self.solver, x, start.logdensity, directions)
        return density.state_at(end.position), end._replace(num_evaluations=end.num_evaluations + 1)

    def check_dimension(self, dimension: int) -> None:
        """Raise unless the metric fits positions of this many numbers."""
        shape = self.direction_factor.shape
        if shape not in ((), (dimension,), (dimension, dimension)):
            raise ValueError(
                f"direction_metric must be a scalar, a vector of length {dimension} or a {dimension} × {dimension} "
                f"matrix for a position of {dimension} numbers, got shape {shape}"
            )


def transformations(
    num_transformations: Any, direction_metric: Any, max_iterations: Any, tolerance: Any, solver: str
) -> Transformations:
    """Check the arguments that kernels with equipotential transformations share."""
    if solver not in SOLVERS:
        raise ValueError(f"solver must be one of {SOLVERS}, got {solver!r}")
    if tolerance is not None and not (isinstance(tolerance, int | float) and 0 < tolerance < 1):
        raise ValueError(f"tolerance must be a number between 0 and 1, or None for the dtype's own, got {tolerance!r}")
    return Transformations(
        covariance_factor("direction_metric", 1.0 if direction_metric is None else direction_metric),
        as_count("num_transformations", num_transformations, 1),
        Solver(as_count("max_iterations", max_iterations, 1), tolerance, solver),
    )


def equipotential(
    logdensity_fn: Callable,
    *,
    num_transformations: int = 1,
    direction_metric: Any = None,
    max_iterations: int = 10,
    tolerance: float | None = None,
    solver: str = "deflated_newton",
) -> Kernel:
    """Equipotential transformations: reflections to the other end of a chord of equal energy.

    Draw v ~ N(0, Σ̂). Find s* ≠ 0 with U(θ + s* v) = U(θ). Accept θ* = θ + s* v with probability
    min(1, exp(U(θ) − U(θ*)) |f'(0)| / |f'(s*)|). Several transformations are accepted or rejected together.

    Energy never changes but for rounding, so this kernel alone is not ergodic: combine it with one that changes
    the energy, as ``lhmc_et`` does.

    Parameters
    ----------
    logdensity_fn
        Log density of a position, up to a constant.
    num_transformations
        Transformations in one step.
    direction_metric
        Covariance Σ̂ of the directions: a scalar, a vector or a matrix, fixed beforehand; None for isotropic ones.
        With the target's own covariance one transformation is a random reflection, lag-1 correlation 1 − 2/d.
    max_iterations
        Bound on the solver's updates, there and back alike.
    tolerance
        Bound on |f(s*)| relative to max(1, |U|); None for what the dtype can resolve.
    solver
        ``"deflated_newton"``, or ``"paper"`` for the iteration of the paper, on the line.

    Returns
    -------
    The kernel, with ``State`` and ``EquipotentialInfo``.

    References
    ----------
    Gu & Sun (2019), eq. 8 and Algorithm 2. These are exact for symmetric densities. The Jacobian and the check of the
    way back, which are not in the paper, make the move exact for any density.

    Examples
    --------
    >>> import jax, vhmc_jax as vj
    >>> kernel = vj.equipotential(lambda x: -0.5 * x @ x)
    >>> state, info = jax.jit(kernel.step)(jax.random.key(0), kernel.init(jax.numpy.array([3.0, 4.0])))
    >>> round(float(jax.numpy.linalg.norm(state.position)), 3)  # another point of the same circle
    5.0
    """
    moves = transformations(num_transformations, direction_metric, max_iterations, tolerance, solver)
    logdensity_fn = as_pytree_function(logdensity_fn, "logdensity_fn")
    return Kernel(Partial(init, logdensity_fn, moves), MetropolisStep(Partial(propose, logdensity_fn, moves)))


def init(logdensity_fn: Callable, moves: Transformations, position: PyTree, rng_key: PRNGKey | None = None) -> State:
    """The state at ``position``; raises where the metric does not fit it."""
    state = init_state(logdensity_fn, position, rng_key)
    moves.check_dimension(sum(leaf.size for leaf in jax.tree.leaves(state.position)))
    return state


def propose(logdensity_fn: Callable, moves: Transformations, rng_key: PRNGKey, state: State) -> Proposal:
    """The transformations, with their Jacobian."""
    density, start = flatten(logdensity_fn, state)
    end, report = moves.apply(rng_key, density, start)
    log_alpha, is_divergent = log_acceptance(-start.logdensity, -end.logdensity, report.log_jacobian)
    info = equipotential_info(log_alpha, is_divergent, report.num_evaluations, report)
    return Proposal(density.unflatten(end), log_alpha, info)


def equipotential_info(
    log_alpha: Array, is_divergent: Array, num_gradients: Any, report: Transformed
) -> EquipotentialInfo:
    """The info of a proposal whose coin is not thrown yet."""
    return EquipotentialInfo(
        *metropolis_info(log_alpha, is_divergent, num_gradients), report.num_transformed, report.num_iterations
    )
