"""What the kernels with trajectories share: their settings, and the state that they start from."""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax

from vhmc_jax.arguments import as_parameter
from vhmc_jax.base import Array, PRNGKey, PyTree, State, as_pytree_function
from vhmc_jax.density import init_state
from vhmc_jax.dynamics.kinetic import GaussianKinetic, gaussian_kinetic
from vhmc_jax.dynamics.leapfrog import StepCount, step_count


class Trajectory(NamedTuple):
    """What a kernel with trajectories is made of; the numbers are arguments of the compiled program."""

    logdensity_fn: Callable
    step_size: Array
    step_count: StepCount
    kinetic: GaussianKinetic


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


def init(settings: Trajectory, position: PyTree, rng_key: PRNGKey | None = None) -> State:
    """The state at ``position``; raises where the mass does not fit it."""
    state = init_state(settings.logdensity_fn, position, rng_key)
    settings.kinetic.check_dimension(sum(leaf.size for leaf in jax.tree.leaves(state.position)))
    return state
