"""Langevin Hamiltonian Monte Carlo.

Notation: as in ``kernels.hmc``; γ friction, ΔE the heat that the thermostats give to the momentum.
"""

from collections.abc import Callable
from typing import Any

from jax.tree_util import Partial

from vhmc_jax import random
from vhmc_jax.arguments import as_parameter, cast
from vhmc_jax.base import Array, Kernel, PRNGKey, State
from vhmc_jax.density import flatten
from vhmc_jax.dynamics.langevin import dlhmc
from vhmc_jax.metropolis import MetropolisStep, Proposal, log_acceptance, metropolis_info
from vhmc_jax.moves.trajectory import Trajectory, init, trajectory


def lhmc(
    logdensity_fn: Callable,
    *,
    step_size: Any,
    num_integration_steps: Any,
    friction: Any = 0.5,
    inverse_mass_matrix: Any = 1.0,
) -> Kernel:
    """Langevin Hamiltonian Monte Carlo.

    Draw p ~ N(0, M), propose (θ̂, p̂, ΔE) = DLHMC(θ, p), accept with
    min(1, exp([U(θ) + K(p)] − [U(θ̂) + K(p̂) − ΔE])).

    Parameters
    ----------
    logdensity_fn
        Log density of a position, up to a constant.
    step_size
        ε > 0, or ``(low, high)``: drawn anew at each step, uniform in its logarithm, for densities of several scales.
    num_integration_steps
        L, the leapfrog steps between the two Langevin steps: an integer, or ``(low, high)``, both included.
    friction
        γ ≥ 0 of the thermostats. With γ = 0 this is HMC with L + 2 steps.
    inverse_mass_matrix
        M⁻¹: a scalar, a vector (diagonal) or a matrix, in the order of ``ravel_pytree``.

    Returns
    -------
    The kernel, with ``State`` and ``Info``; L + 2 gradients a step.

    Notes
    -----
    The thermostat is reversible for N(0, M), so the ratio of backward to forward path densities is exp(ΔE), and the
    scheme is palindromic. The momentum is refreshed whole, hence no flip on rejection.

    References
    ----------
    Gu & Sun (2019), Algorithm 3, where "U(θ + K(p))" is a misplaced bracket.

    Examples
    --------
    >>> import jax, vhmc_jax as vj
    >>> kernel = vj.lhmc(lambda x: -0.5 * x @ x, step_size=0.5, num_integration_steps=(3, 7))
    >>> chains = vj.run_chains(jax.random.key(0), kernel, jax.numpy.zeros((4, 2)), num_samples=50)
    >>> chains.draws.shape
    (4, 50, 2)
    """
    settings = trajectory(logdensity_fn, step_size, num_integration_steps, inverse_mass_matrix)
    friction = as_parameter("friction", friction, nonnegative=True)
    return Kernel(Partial(init, settings), MetropolisStep(Partial(propose, settings, friction)))


def propose(settings: Trajectory, friction: Array, rng_key: PRNGKey, state: State) -> Proposal:
    """One DLHMC trajectory with a fresh momentum."""
    key_momenta, key_length = random.split(rng_key)
    density, start = flatten(settings.logdensity_fn, state)
    step_size, num_steps = settings.draw(key_length)
    step_size, kinetic, friction = cast((step_size, settings.kinetic, friction), start.position.dtype)

    momentum, *noises = kinetic.draw(key_momenta, like=start.position, num=3)
    end, end_momentum, heat = dlhmc(noises, density, kinetic, step_size, num_steps, friction, start, momentum)

    energy = kinetic.energy(momentum) - start.logdensity
    end_energy = kinetic.energy(end_momentum) - end.logdensity - heat
    log_alpha, is_divergent = log_acceptance(energy, end_energy)
    return Proposal(density.unflatten(end), log_alpha, metropolis_info(log_alpha, is_divergent, num_steps + 2))
