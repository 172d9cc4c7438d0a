"""Magnetic Hamiltonian Monte Carlo.

Notation: as in ``kernels.hmc``. G is the field, an antisymmetric matrix, and σ = ±1 its sign.
"""

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax.tree_util import Partial

from vhmc_jax import random
from vhmc_jax.arguments import as_parameter, cast
from vhmc_jax.base import Array, Info, Kernel, PRNGKey, PyTree
from vhmc_jax.density import flatten
from vhmc_jax.dynamics.kinetic import covariance_factor
from vhmc_jax.dynamics.magnetic import MagneticFlow, as_field, magnetic_flow, magnetic_leapfrog
from vhmc_jax.metropolis import Proposal, accept, log_acceptance, metropolis_info
from vhmc_jax.moves.trajectory import Trajectory, trajectory
from vhmc_jax.moves.trajectory import init as init_trajectory


class MagneticState(NamedTuple):
    """Where a chain is, with the sign of its field.

    Attributes
    ----------
    position
        A pytree of floating arrays.
    logdensity
        The log density there, up to a constant.
    logdensity_grad
        Its gradient, with the structure of ``position``.
    field_sign
        σ: +1 or −1. It is 0 before the first step, which draws it.
    """

    position: PyTree
    logdensity: Array
    logdensity_grad: PyTree
    field_sign: Array


@functools.partial(jax.tree_util.register_dataclass, data_fields=["trajectory", "flow"], meta_fields=["is_plane"])
@dataclass(frozen=True)
class Magnetic:
    """A trajectory's settings and the field; the numbers are arguments of the compiled program.

    Attributes
    ----------
    trajectory
        What HMC is made of.
    flow
        The drift's matrices.
    is_plane
        Whether the field was given as a strength in the plane of the first two coordinates.
    """

    trajectory: Trajectory
    flow: MagneticFlow
    is_plane: bool

    def check_dimension(self, dimension: int) -> None:
        """Raise unless the field fits positions of this many numbers."""
        size = len(self.flow.field)
        if self.is_plane and dimension < 2:
            raise ValueError(
                f"a scalar field acts in the plane of the first two coordinates, got a position of {dimension} number"
            )
        if not self.is_plane and size != dimension:
            raise ValueError(
                f"field must be a scalar or a {dimension} × {dimension} matrix for a position of {dimension} "
                f"numbers, got shape {(size, size)}"
            )


def magnetic_hmc(
    logdensity_fn: Callable,
    *,
    step_size: Any,
    num_integration_steps: Any,
    field: Any,
    inverse_mass_matrix: Any = 1.0,
) -> Kernel:
    """Magnetic Hamiltonian Monte Carlo: trajectories that a field bends.

    Draw p ~ N(0, M). Follow θ' = M⁻¹p, p' = −∇U(θ) + σ G M⁻¹p for L steps from (θ, p) to (θ̂, p̂). Accept with
    probability min(1, exp(H(θ, p) − H(θ̂, p̂))). An accepted step keeps the sign σ of the field. A rejected one
    changes it.

    Parameters
    ----------
    logdensity_fn
        Log density of a position, up to a constant.
    step_size
        ε > 0.
    num_integration_steps
        L: an integer, or ``(low, high)``, both included, drawn uniformly at each step by each chain.
    field
        G: an antisymmetric matrix, in the order of ``ravel_pytree``, or a scalar s for [[0, s], [−s, 0]] in the plane
        of the first two coordinates. It may be singular; with G = 0 this is HMC.
    inverse_mass_matrix
        M⁻¹: a scalar, a vector (diagonal) or a matrix, in the order of ``ravel_pytree``.

    Returns
    -------
    The kernel, with ``MagneticState`` and ``Info``; L gradients a step.

    Notes
    -----
    Why it is exact: call the map of a trajectory Φ, and R the map (p, σ) → (−p, −σ). Φ preserves volume, and RΦ is its
    own inverse. So a Metropolis step that proposes RΦ leaves π(θ) N(p; 0, M) × ½ invariant. R alone does so too.
    Taking R after the Metropolis step, the sign is flipped twice on acceptance and once on rejection: it stays or
    changes. If the sign never changed, the way back would not be among the proposals.

    References
    ----------
    Tripuraneni, Rowland, Ghahramani & Turner (2017), Magnetic Hamiltonian Monte Carlo.

    Examples
    --------
    >>> import jax, jax.numpy as jnp, vhmc_jax as vj
    >>> field = jnp.array([[0.0, 1.0], [-1.0, 0.0]])
    >>> kernel = vj.magnetic_hmc(lambda x: -0.5 * x @ x, step_size=0.3, num_integration_steps=5, field=field)
    >>> state, info = jax.jit(kernel.step)(jax.random.key(0), kernel.init(jnp.zeros(2)))
    >>> bool(info.acceptance_rate > 0.5)
    True
    """
    # One step size, and no interval: the flow in the field is computed for it, once.
    step_size = as_parameter("step_size", step_size, positive=True)
    settings = trajectory(logdensity_fn, step_size, num_integration_steps, inverse_mass_matrix)
    field = as_field(field)
    factor = covariance_factor("inverse_mass_matrix", inverse_mass_matrix)
    magnetic = Magnetic(settings, magnetic_flow(field, factor, step_size), field.ndim == 0)
    return Kernel(Partial(init, magnetic), Partial(step, magnetic))


def init(settings: Magnetic, position: PyTree, rng_key: PRNGKey | None = None) -> MagneticState:
    """The state at ``position``; raises where the mass or the field does not fit it."""
    state = init_trajectory(settings.trajectory, position, rng_key)
    settings.check_dimension(sum(leaf.size for leaf in jax.tree.leaves(state.position)))
    return MagneticState(*state, jnp.zeros_like(state.logdensity))


def step(settings: Magnetic, rng_key: PRNGKey, state: MagneticState) -> tuple[MagneticState, Info]:
    """Propose, then accept, or stay and change the sign."""
    key_sign, key_proposal, key_accept = random.split(rng_key, 3)
    # The law of σ is ±1 with probability ½ each, independent of θ. Starting all chains with one sign would be a bias.
    fresh_sign = jnp.where(random.uniform(key_sign, dtype=state.field_sign.dtype) < 0.5, -1.0, 1.0)
    sign = jnp.where(state.field_sign == 0, fresh_sign.astype(state.field_sign.dtype), state.field_sign)
    proposal = propose(settings, key_proposal, state._replace(field_sign=sign))
    return accept(key_accept, state._replace(field_sign=-sign), proposal)


def propose(settings: Magnetic, rng_key: PRNGKey, state: MagneticState) -> Proposal:
    """One trajectory with a fresh momentum, in the field of the state's sign."""
    key_momentum, key_length = random.split(rng_key)
    density, start = flatten(settings.trajectory.logdensity_fn, state)
    step_size, num_steps = settings.trajectory.draw(key_length)
    numbers = (step_size, settings.trajectory.kinetic, settings.flow)
    step_size, kinetic, flow = cast(numbers, start.position.dtype)

    (momentum,) = kinetic.draw(key_momentum, like=start.position)
    end, end_momentum = magnetic_leapfrog(
        density, kinetic, flow, step_size, num_steps, start, momentum, state.field_sign
    )

    energy = kinetic.energy(momentum) - start.logdensity
    end_energy = kinetic.energy(end_momentum) - end.logdensity
    log_alpha, is_divergent = log_acceptance(energy, end_energy)
    proposed = density.unflatten(MagneticState(*end, state.field_sign))
    return Proposal(proposed, log_alpha, metropolis_info(log_alpha, is_divergent, num_steps))
