"""Leapfrog: kicks and drifts on flat phase space, and how many of them.

Notation: θ position, p momentum, ε step size, L number of steps, U = −log density. A kick is
p ← p − ε ∇U(θ), a drift θ ← θ + ε M⁻¹ p.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Self

import jax
import jax.numpy as jnp
import numpy as np

from vhmc_jax import random
from vhmc_jax.arguments import as_count, is_concrete
from vhmc_jax.base import Array, PRNGKey, State
from vhmc_jax.density import FlatDensity
from vhmc_jax.dynamics.kinetic import GaussianKinetic


@jax.tree_util.register_pytree_node_class
@dataclass(frozen=True)
class StepCount:
    """How many leapfrog steps a trajectory takes: ``low`` to ``high``, both included, drawn uniformly.

    A fixed number is a part of the program. The two ends of an interval are arguments of it.
    """

    low: Any
    high: Any

    @property
    def is_fixed(self) -> bool:
        """Whether every trajectory has the same number of steps, known when the program is compiled."""
        return isinstance(self.low, int) and isinstance(self.high, int) and self.low == self.high

    def draw(self, rng_key: PRNGKey) -> int | Array:
        """The number for one trajectory; a Python integer where it is fixed, so that no lane is masked."""
        return self.low if self.is_fixed else random.integer(rng_key, self.low, self.high)

    def tree_flatten(self) -> tuple[tuple, tuple]:
        """What is an argument of programs, and what is a part of them."""
        both = self.low, self.high
        return ((), both) if self.is_fixed else (both, ())

    @classmethod
    def tree_unflatten(cls, fixed: tuple, interval: tuple) -> Self:
        """The same again."""
        return cls(*fixed, *interval)


def step_count(num_integration_steps: Any) -> StepCount:
    """Check ``num_integration_steps``: a positive integer, or an interval of them.

    Parameters
    ----------
    num_integration_steps
        An integer, or ``(low, high)`` with both ends included; the ends may be traced.

    Returns
    -------
    The validated interval.
    """
    name = "num_integration_steps"
    if isinstance(num_integration_steps, tuple | list):
        if len(num_integration_steps) != 2:
            raise ValueError(f"{name} must be an integer or (low, high), got {num_integration_steps}")
        if not is_concrete(num_integration_steps):
            return StepCount(*num_integration_steps)
        low, high = (as_count(f"{name}[{i}]", value, 1) for i, value in enumerate(num_integration_steps))
        if low > high:
            raise ValueError(f"{name} must be (low, high) with low <= high, got ({low}, {high})")
        return StepCount(low, high) if low == high else StepCount(np.int32(low), np.int32(high))
    count = as_count(name, num_integration_steps, 1)
    return StepCount(count, count)


def kick(momentum: Array, logdensity_grad: Array, step_size: Array) -> Array:
    """B: p ← p − ε ∇U(θ), with ∇U = −∇ log density."""
    return momentum + step_size * logdensity_grad


def drift(x: Array, momentum: Array, kinetic: GaussianKinetic, step_size: Array) -> Array:
    """A: θ ← θ + ε M⁻¹ p."""
    return x + step_size * kinetic.velocity(momentum)


@jax.custom_batching.custom_vmap
def longest_lane(num_steps: Array) -> Array:
    """The largest number of steps among the lanes of every enclosing ``vmap``; without one, the number itself.

    A loop to this bound has one trip count for the whole batch, where a bound that differs between lanes would
    make ``vmap`` select between old and new state at every turn.
    """
    return num_steps


@longest_lane.def_vmap
def _(axis_size: int, in_batched: list[bool], num_steps: Array) -> tuple[Array, bool]:
    return longest_lane(jnp.max(num_steps)), False


Drift = Callable[[Array, Array, Any], tuple[Array, Array]]
"""``drift(x, p, share)``: position and momentum after a share, 1 or 0, of the drift of a whole step."""


def straight(kinetic: GaussianKinetic, step_size: Array) -> Drift:
    """Drifts of one step size that leave the momentum as it is."""
    return lambda x, p, share: (drift(x, p, kinetic, share * step_size), p)


def whole_steps(
    density: FlatDensity,
    drift_whole: Drift,
    step_size: Array,
    num_steps: int | Array,
    x: Array,
    momentum: Array,
    *,
    kick_first: bool = False,
) -> tuple[Array, Array]:
    """(A B)ᴸ, or B (A B)ᴸ: drifts and whole kicks in turn, one gradient each.

    Under ``vmap`` a ``num_steps`` that differs between lanes runs the loop to the longest of them; lanes that are
    done take steps of size zero. A fixed ``num_steps`` masks nothing. A kick before the first drift is a turn of the
    loop whose drift has size zero: a second place with a gradient would be compiled again.
    """
    is_fixed = isinstance(num_steps, int)
    num_turns = num_steps + int(kick_first)
    one = jnp.ones_like(step_size)

    def whole_step(i: Any, carry: tuple[Array, Array]) -> tuple[Array, Array]:
        # A share of zero masks a lane that is done for the price of one scalar, where a select would copy its state.
        share = one if is_fixed else jnp.where(i < num_turns, one, 0.0)
        x, p = drift_whole(*carry, jnp.where(i == 0, 0.0, share) if kick_first else share)
        return x, kick(p, density.gradient(x), share * step_size)

    return jax.lax.fori_loop(0, num_turns if is_fixed else longest_lane(num_turns), whole_step, (x, momentum))


def kick_drift_kick(
    density: FlatDensity,
    drift_whole: Drift,
    step_size: Array,
    num_steps: int | Array,
    start: State,
    momentum: Array,
) -> tuple[State, Array]:
    """B½ (A B)ᴸ⁻¹ A B½, for any drift A.

    The half kicks between two drifts are merged into whole ones, so that the loop carries position and momentum
    alone and takes one gradient a step; the value of the density is computed at the end only. L gradients in all.
    """
    p = kick(momentum, start.logdensity_grad, 0.5 * step_size)
    x, p = whole_steps(density, drift_whole, step_size, num_steps - 1, start.position, p)
    x, p = drift_whole(x, p, 1.0)
    end = density.state_at(x)
    return end, kick(p, end.logdensity_grad, 0.5 * step_size)


def leapfrog(
    density: FlatDensity,
    kinetic: GaussianKinetic,
    step_size: Array,
    num_steps: int | Array,
    start: State,
    momentum: Array,
) -> tuple[State, Array]:
    """Take L = ``num_steps`` leapfrog steps, with L gradients.

    Parameters
    ----------
    density
        The log density on flat vectors.
    kinetic
        The kinetic energy.
    step_size
        ε.
    num_steps
        L, at least 1.
    start
        Flat state to start from, its gradient included.
    momentum
        Momentum to start with.

    Returns
    -------
    The flat state at the end, with value and gradient, and the momentum there.
    """
    return kick_drift_kick(density, straight(kinetic, step_size), step_size, num_steps, start, momentum)
