"""Delayed rejection: where a first move is rejected, a second one is tried.

Notation: z the random numbers of the first proposal, α₁(θ; z) its acceptance probability from θ with them; θ' the
second proposal, α₂ its acceptance probability by itself.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax.tree_util import Partial

from vhmc_jax import random
from vhmc_jax.base import Array, Kernel, PRNGKey, PyTree, State, as_pytree_function
from vhmc_jax.lazy import lazy_cond
from vhmc_jax.metropolis import Proposal, accept_by, log_complement


class DelayedRejectionInfo(NamedTuple):
    """What happened in one step of two stages.

    Attributes
    ----------
    acceptance_rate
        Acceptance probability of the first stage.
    is_accepted
        Whether the chain moved, in whichever stage.
    is_divergent
        Whether the first proposal diverged.
    num_gradients
        Gradients of all trajectories that the step needed.
    num_densities
        Density values that the step needed.
    is_second_stage
        Whether the first stage was rejected, and the second tried.
    second_stage_accepted
        Whether the second stage was accepted.
    second_stage_divergent
        Whether the second proposal diverged.
    """

    acceptance_rate: Array
    is_accepted: Array
    is_divergent: Array
    num_gradients: Array
    num_densities: Array
    is_second_stage: Array
    second_stage_accepted: Array
    second_stage_divergent: Array


class Settings(NamedTuple):
    """What the kernel is made of; the numbers are arguments of the compiled program."""

    init: Callable
    first: Callable
    second: Callable


class SecondStage(NamedTuple):
    """What became of a second stage, and its cost."""

    state: State
    is_accepted: Array
    is_divergent: Array
    num_gradients: Array
    num_densities: Array


def delayed_rejection(first: Kernel, second: Kernel) -> Kernel:
    """A second move where the first is rejected: the same kernel with a smaller step size, for instance.

    Propose by the first kernel with random numbers z, and accept with α₁(θ; z). If that is rejected, propose θ' by the
    second kernel with random numbers of its own, and accept it with
    α₂ min(1, [1 − α₁(θ'; z)] / [1 − α₁(θ; z)]).

    Parameters
    ----------
    first
        A kernel with plain ``State`` whose step is a ``MetropolisStep``: ``hmc``, ``lhmc``, ``lhmc_et`` or
        ``monomial_gamma_hmc``. The law of what it draws must not depend on the state.
    second
        Such a kernel on the same log density, which is more often accepted.

    Returns
    -------
    The kernel, with ``State`` and ``DelayedRejectionInfo``.

    Notes
    -----
    Why exact: for any z, the flow from θ to θ' by the second stage is π(θ) q(θ, θ') α₂ times the smaller of the two
    rejection probabilities at θ and θ'. The first factors are symmetric, since the second kernel is reversible, and the
    last is symmetric too. So nothing is asked of the two kernels but that they are reversible. α₁(θ'; z) takes a
    trajectory from θ', the ghost, with the momentum, thermostats and length of the rejected one. It is needed, and run,
    only where the second kernel by itself accepts θ'. Under ``vmap`` chains that are accepted in the first stage do not
    pay for the second.

    It forgives a step size that is too large somewhere. On a banana with a step of 0.45 it took 1,250 gradients for an
    independent draw, where HMC alone with 0.4 stuck (above 28,000); but HMC with its best step of 0.2 took 460. In
    Neal's funnel all runs were too short to tell more than lower bounds (``benchmarks/scales.py``).

    References
    ----------
    Tierney & Mira (1999), Some adaptive Monte Carlo methods for Bayesian inference; Modi, Barnett & Carpenter (2023),
    Delayed rejection Hamiltonian Monte Carlo for sampling multiscale distributions. There the second trajectory has the
    momentum of the first. Here it has its own, which is exact for any two kernels and was accepted as often.

    Examples
    --------
    >>> import jax, vhmc_jax as vj
    >>> logdensity = lambda x: -0.5 * x @ x
    >>> wide, narrow = (vj.hmc(logdensity, step_size=e, num_integration_steps=5) for e in (1.8, 0.4))
    >>> kernel = vj.delayed_rejection(wide, narrow)
    >>> state, info = jax.jit(kernel.step)(jax.random.key(0), kernel.init(jax.numpy.ones(2)))
    """
    proposals = _propose_of("first", first), _propose_of("second", second)
    settings = Settings(as_pytree_function(first.init), *proposals)
    return Kernel(Partial(init, settings, as_pytree_function(second.init)), Partial(step, settings))


def _propose_of(name: str, kernel: Kernel) -> Callable:
    propose = getattr(getattr(kernel, "step", None), "propose", None)
    if propose is None:
        raise TypeError(
            f"{name} must be a kernel whose step exposes propose(rng_key, state) -> Proposal, as hmc and lhmc do, "
            f"got a step of type {type(getattr(kernel, 'step', None)).__name__}"
        )
    return as_pytree_function(propose)


def init(settings: Settings, second_init: Callable, position: PyTree, rng_key: PRNGKey | None = None) -> State:
    """The state at ``position``; raises where the settings of either kernel do not fit it."""
    jax.eval_shape(second_init, position)
    return settings.init(position, rng_key)


def step(settings: Settings, rng_key: Any, state: State) -> tuple[State, DelayedRejectionInfo]:
    """The first move; where it is rejected, the second."""
    key_first, key_second, key_coins = random.split(rng_key, 3)
    coins = jnp.log(random.uniform(key_coins, (3,), state.logdensity.dtype))
    move = settings.first(key_first, state)
    state, first = accept_by(coins[0], state, move)

    second = lazy_cond(
        ~first.is_accepted,
        Partial(_second_stage, settings, key_first, key_second, coins[1:]),
        Partial(_no_second_stage, state),
        state,
        move.log_acceptance,
        block_share=1 / 4,
    )
    return second.state, DelayedRejectionInfo(
        acceptance_rate=first.acceptance_rate,
        is_accepted=first.is_accepted | second.is_accepted,
        is_divergent=first.is_divergent,
        num_gradients=first.num_gradients + second.num_gradients,
        num_densities=first.num_densities + second.num_densities,
        is_second_stage=~first.is_accepted,
        second_stage_accepted=second.is_accepted,
        second_stage_divergent=second.is_divergent,
    )


def _second_stage(
    settings: Settings, key_first: Any, key_second: Any, coins: Array, state: State, log_acceptance: Array
) -> SecondStage:
    """Propose θ'. One coin is for α₂. The other is for the ratio of rejections, needed only where the first is won."""
    move = settings.second(key_second, state)
    is_candidate = coins[0] < move.log_acceptance
    ghost = Partial(_ghost, Partial(settings.first, key_first))
    num_gradients, num_densities, log_acceptance_there = lazy_cond(
        is_candidate, ghost, (0, 0, 0.0), move.state, block_share=1 / 2
    )
    log_ratio = log_complement(log_acceptance_there) - log_complement(log_acceptance)
    log_alpha = jnp.where(is_candidate & ~jnp.isnan(log_ratio), jnp.minimum(log_ratio, 0.0), -jnp.inf)
    state, info = accept_by(coins[1], state, Proposal(move.state, log_alpha, move.info))
    return SecondStage(
        state=state,
        is_accepted=info.is_accepted,
        is_divergent=info.is_divergent,
        num_gradients=info.num_gradients + num_gradients,
        num_densities=info.num_densities + num_densities,
    )


def _ghost(propose: Callable, state: State) -> tuple[Array, Array, Array]:
    """The cost of the first move from θ', and log α₁(θ'; z)."""
    proposal = propose(state)
    return proposal.info.num_gradients, proposal.info.num_densities, proposal.log_acceptance


def _no_second_stage(state: State, shapes: SecondStage) -> SecondStage:
    """Nothing tried, nothing counted."""
    return jax.tree.map(lambda leaf: jnp.zeros(leaf.shape, leaf.dtype), shapes)._replace(state=state)
