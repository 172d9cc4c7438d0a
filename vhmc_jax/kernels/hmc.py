"""Hamiltonian Monte Carlo.

Notation: H(θ, p) = U(θ) + K(p) with U = −log density and p ~ N(0, M).
"""

from collections.abc import Callable
from typing import Any

from jax.tree_util import Partial

from vhmc_jax import random
from vhmc_jax.arguments import cast
from vhmc_jax.base import Kernel, PRNGKey, State
from vhmc_jax.density import flatten
from vhmc_jax.dynamics.leapfrog import leapfrog
from vhmc_jax.metropolis import MetropolisStep, Proposal, log_acceptance, metropolis_info
from vhmc_jax.moves.trajectory import Trajectory, init, trajectory


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
        ε > 0 of the leapfrog, or ``(low, high)``: drawn anew at each step, uniform in its logarithm, for densities of
        several scales.
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


def propose(settings: Trajectory, rng_key: PRNGKey, state: State) -> Proposal:
    """One trajectory with a fresh momentum."""
    key_momentum, key_length = random.split(rng_key)
    density, start = flatten(settings.logdensity_fn, state)
    step_size, num_steps = settings.draw(key_length)
    step_size, kinetic = cast((step_size, settings.kinetic), start.position.dtype)

    (momentum,) = kinetic.draw(key_momentum, like=start.position)
    end, end_momentum = leapfrog(density, kinetic, step_size, num_steps, start, momentum)

    energy = kinetic.energy(momentum) - start.logdensity
    end_energy = kinetic.energy(end_momentum) - end.logdensity
    log_alpha, is_divergent = log_acceptance(energy, end_energy)
    return Proposal(density.unflatten(end), log_alpha, metropolis_info(log_alpha, is_divergent, num_steps))
