"""Langevin HMC with equipotential transformations.

Notation: as in ``kernels.lhmc`` and ``dynamics.equipotential``.
"""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jax.tree_util import Partial

from vhmc_jax import random
from vhmc_jax.arguments import as_parameter, cast
from vhmc_jax.base import Array, Kernel, PRNGKey, PyTree, State
from vhmc_jax.density import flatten
from vhmc_jax.dynamics.equipotential import Transformed
from vhmc_jax.dynamics.langevin import dlhmc
from vhmc_jax.kernels.equipotential import Transformations, equipotential_info, transformations
from vhmc_jax.lazy import lazy_cond
from vhmc_jax.metropolis import MetropolisStep, Proposal, log_acceptance
from vhmc_jax.moves.trajectory import Trajectory, trajectory
from vhmc_jax.moves.trajectory import init as init_trajectory


def lhmc_et(
    logdensity_fn: Callable,
    *,
    step_size: Any,
    num_integration_steps: Any,
    friction: Any = 0.5,
    inverse_mass_matrix: Any = 1.0,
    num_transformations: int = 1,
    direction_metric: Any = None,
    max_iterations: int = 10,
    tolerance: float | None = None,
    solver: str = "deflated_newton",
) -> Kernel:
    """Langevin HMC with equipotential transformations before or after the trajectory.

    With probability ½ apply the transformations and then DLHMC, else DLHMC and then the transformations; accept the
    whole with log α = [U(θ) + K(p)] − [U(θ̂) + K(p̂) − ΔE] + Σⱼ log(|f'ⱼ(0)| / |f'ⱼ(s*ⱼ)|).

    Parameters
    ----------
    logdensity_fn
        Log density of a position, up to a constant.
    step_size
        ε > 0, or ``(low, high)``: drawn anew at each step, uniform in its logarithm, for densities of several scales.
    num_integration_steps
        L, the leapfrog steps between the two Langevin steps: an integer, or ``(low, high)``, both included.
    friction
        γ ≥ 0 of the thermostats.
    inverse_mass_matrix
        M⁻¹: a scalar, a vector (diagonal) or a matrix, in the order of ``ravel_pytree``.
    num_transformations
        Transformations in one step.
    direction_metric
        Covariance of the directions, fixed beforehand; None for isotropic ones.
    max_iterations
        Bound on the solver's updates, there and back alike.
    tolerance
        Bound on |f(s*)| relative to max(1, |U|); None for what the dtype can resolve.
    solver
        ``"deflated_newton"``, or ``"paper"`` for the iteration of the paper, on the line.

    Returns
    -------
    The kernel, with ``State`` and ``EquipotentialInfo``.

    Notes
    -----
    The two orders are each other's reverse, hence the coin must be fair; the directions are independent and alike,
    so that their reversed order needs no correction.

    References
    ----------
    Gu & Sun (2019), Algorithm 2.

    Examples
    --------
    >>> import jax, vhmc_jax as vj
    >>> kernel = vj.lhmc_et(lambda x: -0.5 * x @ x, step_size=0.5, num_integration_steps=5, num_transformations=2)
    >>> state, info = jax.jit(kernel.step)(jax.random.key(0), kernel.init(jax.numpy.ones(2)))
    >>> bool(info.is_divergent)
    False
    """
    settings = trajectory(logdensity_fn, step_size, num_integration_steps, inverse_mass_matrix)
    friction = as_parameter("friction", friction, nonnegative=True)
    moves = transformations(num_transformations, direction_metric, max_iterations, tolerance, solver)
    return Kernel(Partial(init, settings, moves), MetropolisStep(Partial(propose, settings, friction, moves)))


def init(settings: Trajectory, moves: Transformations, position: PyTree, rng_key: PRNGKey | None = None) -> State:
    """The state at ``position``; raises where the mass or the metric does not fit it."""
    state = init_trajectory(settings, position, rng_key)
    moves.check_dimension(sum(leaf.size for leaf in jax.tree.leaves(state.position)))
    return state


def propose(settings: Trajectory, friction: Array, moves: Transformations, rng_key: PRNGKey, state: State) -> Proposal:
    """Transformations and DLHMC, in an order that a fair coin decides."""
    key_coin, key_directions, key_momenta, key_length = random.split(rng_key, 4)
    density, start = flatten(settings.logdensity_fn, state)
    step_size, num_steps = settings.draw(key_length)
    step_size, kinetic, friction = cast((step_size, settings.kinetic, friction), start.position.dtype)

    def transform(state: State) -> tuple[State, Transformed]:
        return moves.apply(key_directions, density, state)

    def transform_if(predicate: Array, state: State) -> tuple[State, Transformed]:
        zero = jnp.int32(0)
        untouched = Transformed(state.position, state.logdensity, jnp.zeros_like(state.logdensity), zero, zero, zero)
        return lazy_cond(predicate, transform, (state, untouched), state)

    momentum, *noises = kinetic.draw(key_momenta, like=start.position, num=3)
    is_before = random.uniform(key_coin) < 0.5
    moved, before = transform_if(is_before, start)
    middle, end_momentum, heat = dlhmc(noises, density, kinetic, step_size, num_steps, friction, moved, momentum)
    end, after = transform_if(~is_before, middle)

    report = jax.tree.map(jnp.add, before, after)
    energy = kinetic.energy(momentum) - start.logdensity
    end_energy = kinetic.energy(end_momentum) - end.logdensity - heat
    log_alpha, is_divergent = log_acceptance(energy, end_energy, report.log_jacobian)
    info = equipotential_info(log_alpha, is_divergent, num_steps + 2 + report.num_evaluations, report)
    return Proposal(density.unflatten(end), log_alpha, info)
