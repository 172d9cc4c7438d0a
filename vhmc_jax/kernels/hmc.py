"""Hamiltonian Monte Carlo.

Notation: H(θ, p) = U(θ) + K(p) with U = −log density and p ~ N(0, M).
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
from jax.tree_util import Partial

from vhmc_jax import random
from vhmc_jax.base import Array, Kernel, PyTree, State, as_parameter, as_pytree_function, cast, flatten, init_state
from vhmc_jax.dynamics.kinetic import GaussianKinetic, gaussian_kinetic
from vhmc_jax.dynamics.leapfrog import StepCount, leapfrog, step_count
from vhmc_jax.metropolis import MetropolisStep, Proposal, log_acceptance, metropolis_info


class Trajectory(NamedTuple):
    """What a kernel with trajectories is made of; the numbers are arguments of the compiled program."""

    logdensity_fn: Callable
    step_size: Array
    step_count: StepCount
    kinetic: GaussianKinetic


def hmc(
    logdensity_fn: Callable, *, step_size: Any, num_integration_steps: Any, inverse_mass_matrix: Any = 1.0
) -> Kernel:
    """Hamiltonian Monte Carlo with a fixed or random number of leapfrog steps.

    Draw p ~ N(0, M), run L leapfrog steps from (θ, p) to (θ̂, p̂), accept with min(1, exp(H(θ, p) − H(θ̂, p̂))).

    Parameters
    ----------
    logdensity_fn
        Log density of a position, up to a constant.
    step_size
        ε > 0 of the leapfrog.
    num_integration_steps
        L: an integer, or ``(low, high)``, both included, drawn uniformly at each step by each chain.
    inverse_mass_matrix
        M⁻¹: a scalar, a vector (diagonal) or a matrix, in the order of ``ravel_pytree``.

    Returns
    -------
    The kernel, with ``State`` and ``Info``.

    References
    ----------
    Neal (2011), MCMC using Hamiltonian dynamics; Gu & Sun (2019), Algorithm 1. The latter's loop takes L + 1 steps
    and draws p ~ N(0, 1): here it is L steps and p ~ N(0, M).

    Examples
    --------
    >>> import jax, vhmc_jax as vj
    >>> kernel = vj.hmc(lambda x: -0.5 * x @ x, step_size=0.5, num_integration_steps=5)
    >>> state = kernel.init(jax.numpy.zeros(2))
    >>> state, info = jax.jit(kernel.step)(jax.random.key(0), state)
    >>> int(info.num_gradients)
    5
    """
    settings = trajectory(logdensity_fn, step_size, num_integration_steps, inverse_mass_matrix)
    return Kernel(Partial(init, settings), MetropolisStep(Partial(propose, settings)))


def trajectory(
    logdensity_fn: Callable, step_size: Any, num_integration_steps: Any, inverse_mass_matrix: Any
) -> Trajectory:
    """Check the arguments that kernels with trajectories share."""
    return Trajectory(
        as_pytree_function(logdensity_fn),
        as_parameter("step_size", step_size, positive=True),
        step_count(num_integration_steps),
        gaussian_kinetic(inverse_mass_matrix),
    )


def init(settings: Trajectory, position: PyTree, rng_key: Array | None = None) -> State:
    """The state at ``position``; raises where the mass does not fit it."""
    state = init_state(settings.logdensity_fn, position, rng_key)
    settings.kinetic.check_dimension(sum(leaf.size for leaf in jax.tree.leaves(state.position)))
    return state


def propose(settings: Trajectory, rng_key: Any, state: State) -> Proposal:
    """One trajectory with a fresh momentum."""
    key_momentum, key_length = random.split(rng_key)
    density, start = flatten(settings.logdensity_fn, state)
    step_size, kinetic = cast((settings.step_size, settings.kinetic), start.position.dtype)

    (momentum,) = kinetic.draw(key_momentum, like=start.position)
    num_steps = settings.step_count.draw(key_length)
    end, end_momentum = leapfrog(density, kinetic, step_size, num_steps, start, momentum)

    energy = kinetic.energy(momentum) - start.logdensity
    end_energy = kinetic.energy(end_momentum) - end.logdensity
    log_alpha, is_divergent = log_acceptance(energy, end_energy)
    return Proposal(density.unflatten(end), log_alpha, metropolis_info(log_alpha, is_divergent, num_steps))
