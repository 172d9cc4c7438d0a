"""What the kernels with trajectories share: their settings, and the state that they start from."""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax

from vhmc_jax import random
from vhmc_jax.arguments import as_parameter, is_concrete
from vhmc_jax.base import Array, PRNGKey, PyTree, State, as_pytree_function
from vhmc_jax.density import init_state
from vhmc_jax.dynamics.kinetic import GaussianKinetic, gaussian_kinetic
from vhmc_jax.dynamics.leapfrog import StepCount, step_count


class StepSizes(NamedTuple):
    """An interval of step sizes: one is drawn for each trajectory, uniform in its logarithm."""

    low: Array
    high: Array

    def draw(self, rng_key: PRNGKey) -> Array:
        """The step size of one trajectory."""
        share = random.uniform(rng_key, dtype=self.low.dtype)
        return self.low * (self.high / self.low) ** share


class Trajectory(NamedTuple):
    """What a kernel with trajectories is made of; the numbers are arguments of the compiled program."""

    logdensity_fn: Callable
    step_size: Array | StepSizes
    step_count: StepCount
    kinetic: GaussianKinetic

    def draw(self, rng_key: PRNGKey) -> tuple[Array, int | Array]:
        """Step size and number of steps of one trajectory."""
        if not isinstance(self.step_size, StepSizes):
            return self.step_size, self.step_count.draw(rng_key)
        key_size, key_count = random.split(rng_key)
        return self.step_size.draw(key_size), self.step_count.draw(key_count)


def trajectory(
    logdensity_fn: Callable, step_size: Any, num_integration_steps: Any, inverse_mass_matrix: Any
) -> Trajectory:
    """Check the arguments that kernels with trajectories share."""
    return Trajectory(
        as_pytree_function(logdensity_fn, "logdensity_fn"),
        as_step_size(step_size),
        step_count(num_integration_steps),
        gaussian_kinetic(inverse_mass_matrix),
    )


def as_step_size(step_size: Any) -> Array | StepSizes:
    """Check ``step_size``: a positive number, or an interval (low, high) of them."""
    if not isinstance(step_size, tuple | list):
        return as_parameter("step_size", step_size, positive=True)
    if len(step_size) != 2:
        raise ValueError(f"step_size must be a number or (low, high), got {step_size}")
    low, high = (as_parameter(f"step_size[{i}]", value, positive=True) for i, value in enumerate(step_size))
    if is_concrete(low, high) and low > high:
        raise ValueError(f"step_size must be (low, high) with low <= high, got ({float(low):g}, {float(high):g})")
    return StepSizes(low, high)


def init(settings: Trajectory, position: PyTree, rng_key: PRNGKey | None = None) -> State:
    """The state at ``position``; raises where the mass does not fit it."""
    state = init_state(settings.logdensity_fn, position, rng_key)
    settings.kinetic.check_dimension(sum(leaf.size for leaf in jax.tree.leaves(state.position)))
    return state
