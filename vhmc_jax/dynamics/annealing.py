"""Paths between a guide and a target: Langevin steps under a density that changes from one to the other.

Notation: π_λ ∝ q^{1−λ} π^λ; λ₀ = 0 < ... < λ_T = 1 the schedule. Step t is BAOAB under π_m with m halfway between
λ_{t−1} and λ_t: half of the change of λ is before the step and half after it. So the path backwards takes the same
steps in reverse order.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from vhmc_jax.arguments import cast
from vhmc_jax.base import Array, PRNGKey, State
from vhmc_jax.density import FlatDensity
from vhmc_jax.dynamics.kinetic import GaussianKinetic
from vhmc_jax.dynamics.langevin import stochastic_drift
from vhmc_jax.dynamics.leapfrog import kick


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Annealing:
    """How a path is run; the numbers are arguments of the compiled program.

    Attributes
    ----------
    schedule
        λ₀ = 0 to λ_T = 1, shape (T + 1,).
    step_size
        ε of every step.
    friction
        γ of the thermostats.
    kinetic
        The kinetic energy.
    """

    schedule: Array
    step_size: Array
    friction: Array
    kinetic: GaussianKinetic

    @property
    def num_steps(self) -> int:
        """T."""
        return len(self.schedule) - 1


class Path(NamedTuple):
    """The end of a path.

    Attributes
    ----------
    state
        The flat state at the end, with log density and gradient of the target.
    excess
        K(p_T) − K(p₀) less the heat that the thermostats gave. NaN where the target's log density is not a number at
        some point of the path, ends included: the same for the path and its reverse.
    log_ratios
        log π − log q before each step, shape (T,): what the schedule is fitted to.
    """

    state: State
    excess: Array
    log_ratios: Array


def run_path(
    annealing: Annealing,
    density: FlatDensity,
    log_prob: Callable,
    rng_key: PRNGKey,
    start: State,
    *,
    backwards: bool = False,
) -> Path:
    """A path of T steps from ``start``, with T gradients of the target.

    Parameters
    ----------
    annealing
        Schedule and steps.
    density
        The target's log density on flat vectors.
    log_prob
        The guide's log density on flat vectors.
    rng_key
        Key of the momentum and of the thermostats.
    start
        Flat state to start from, its gradient included.
    backwards
        Whether the path leads from the target to the guide.

    Returns
    -------
    The end of the path. The weight of a path from x₀ ~ q to y is log W = log π(y) − log q(x₀) − excess; that of a path
    backwards, from x to x₀, is log π(x) − log q(x₀) + excess. The changes of log density with λ, and those within the
    steps, add up to the difference of the two ends whatever the schedule is.
    """
    annealing = cast(annealing, start.position.dtype)
    kinetic, step_size = annealing.kinetic, annealing.step_size
    halfway = 0.5 * (annealing.schedule[1:] + annealing.schedule[:-1])
    momentum, *_ = momenta = kinetic.draw(rng_key, like=start.position, num=annealing.num_steps + 1)
    guide_value_and_grad = jax.value_and_grad(log_prob)

    def step(carry: tuple[Any, ...], inputs: tuple[Array, Array]) -> tuple[tuple[Any, ...], Array]:
        state, log_q, guide_grad, p, heat = carry
        share, noise = inputs
        log_ratio = state.logdensity - log_q
        p = kick(p, (1 - share) * guide_grad + share * state.logdensity_grad, 0.5 * step_size)
        x, p, heat_now = stochastic_drift(noise, state.position, p, kinetic, annealing.friction, step_size)
        state, (log_q, guide_grad) = density.state_at(x), guide_value_and_grad(x)
        p = kick(p, (1 - share) * guide_grad + share * state.logdensity_grad, 0.5 * step_size)
        return (state, log_q, guide_grad, p, heat + heat_now), log_ratio

    carry = (start, *guide_value_and_grad(start.position), momentum, jnp.zeros_like(step_size))
    (end, _, _, end_momentum, heat), log_ratios = jax.lax.scan(step, carry, (halfway, momenta[1:]), reverse=backwards)
    excess = kinetic.energy(end_momentum) - kinetic.energy(momentum) - heat
    is_number = ~jnp.any(jnp.isnan(log_ratios)) & ~jnp.isnan(end.logdensity)
    return Path(end, jnp.where(is_number, excess, jnp.nan), log_ratios)
