"""A local move, jumps between modes, and a jump as the second chance of a rejected move.

Notation: as in ``kernels.lhmc`` and ``moves.candidate``; β the probability of a jump, α(θ; z) the acceptance
probability of the local move from θ with the random numbers z.
"""

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax.flatten_util import ravel_pytree
from jax.tree_util import Partial

from vhmc_jax import random
from vhmc_jax.arguments import as_parameter, cast, is_concrete
from vhmc_jax.base import Array, Info, Kernel, PyTree, as_pytree_function
from vhmc_jax.kernels.part import as_part, init_part, shared, shares, step_part
from vhmc_jax.lazy import lazy_cond
from vhmc_jax.metropolis import Proposal, accept, accept_by, log_complement
from vhmc_jax.moves.candidate import Jump, jump_from_guide

MOSTLY = 0.5
"""β from which the jump is the move that all chains of a batch make at once, and the local one that of a few."""


class VHMCInfo(NamedTuple):
    """What happened in one step of VHMC, or of another local move with jumps.

    Attributes
    ----------
    acceptance_rate
        Acceptance probability of the first move: the local one, or the jump where ``is_jump``.
    is_accepted
        Whether the chain moved, by whichever move.
    is_divergent
        Whether the local trajectory diverged.
    num_gradients
        Gradients that the step needed.
    num_densities
        Density values that the step needed.
    is_jump
        Whether the step began with a jump.
    is_candidate_found
        Whether a jump, first or second, found a candidate.
    jump_accepted
        Whether the step began with a jump and it was accepted.
    jump_from
        Component of the guide that the chain was in, where a jump was tried; else −1.
    jump_to
        Component of the candidate, where one was found; else −1.
    is_second_stage
        Whether the local move was rejected, and a jump tried in its place. Always false around a local kernel without
        ``propose``: the second stage is off.
    second_stage_accepted
        Whether that jump was accepted.
    local
        Info of the local move, where it tells more than ``Info`` does; else None.
    """

    acceptance_rate: Array
    is_accepted: Array
    is_divergent: Array
    num_gradients: Array
    num_densities: Array
    is_jump: Array
    is_candidate_found: Array
    jump_accepted: Array
    jump_from: Array
    jump_to: Array
    is_second_stage: Array
    second_stage_accepted: Array
    local: Any


@functools.partial(
    jax.tree_util.register_dataclass,
    data_fields=["local", "propose", "jump", "jump_probability"],
    meta_fields=["reuse_randomness", "mostly_jumps"],
)
@dataclass(frozen=True)
class Settings:
    """What the kernel is made of; the numbers are arguments of the compiled program."""

    local: Kernel
    propose: Callable | None
    jump: Jump
    jump_probability: Array
    reuse_randomness: bool
    mostly_jumps: bool


def with_jumps(
    local: Kernel,
    guide: Any,
    *,
    jump_probability: Any = 0.1,
    log_envelope: Any,
    num_tries: int = 4,
    form: str = "exact",
    reuse_randomness: bool = True,
) -> Kernel:
    """Jumps and second chances around any local move: ``vhmc`` with the local kernel of your choice.

    Parameters
    ----------
    local
        A kernel whose state has position, log density and gradient: one of ours, or BlackJAX's NUTS as it is. Its
        ``init`` gives the density at a candidate. Further fields of its state are kept when a jump moves the
        position, so they must be variables of their own and not functions of it.
        The second chance needs a step that is a ``MetropolisStep``, as of ``hmc``, ``lhmc``, ``lhmc_et``,
        ``monomial_gamma_hmc``, ``equipotential`` or your own: ``step.propose(rng_key, state)`` gives a ``Proposal``
        whose ``log_acceptance`` is a function of the key and the state alone, and the law of what it draws from the
        key must not depend on the state. Around a kernel without ``propose`` (NUTS) the second stage is off: a step
        is a jump with probability β and else a local step, and ``is_second_stage`` is always false.
    guide
        Anything with ``sample(rng_key) -> x`` and ``log_prob(x)`` on flat vectors, normalised. It is frozen.
    jump_probability
        β in [0, 1].
    log_envelope
        log c.
    num_tries
        K, the most candidates that a jump draws.
    form
        ``"exact"`` or ``"paper"``.
    reuse_randomness
        Whether α(θ*; z') of the second stage takes z' = z, the random numbers of the rejected move, or fresh ones.
        Both are exact; with the same the two rejection probabilities are alike, and more is accepted.

    Returns
    -------
    The kernel, with the local kernel's state and ``VHMCInfo``.

    Examples
    --------
    >>> import jax, jax.numpy as jnp, vhmc_jax as vj
    >>> target = vj.targets.far_pair(0.7)
    >>> means = jnp.array([[6.5, -6.5], [-6.5, 6.5]])
    >>> guide = vj.GaussianMixture(jnp.log(jnp.array([0.7, 0.3])), means, jnp.stack([jnp.eye(2)] * 2))
    >>> local = vj.hmc(target.logdensity, step_size=0.9, num_integration_steps=5)
    >>> kernel = vj.with_jumps(local, guide, jump_probability=0.5, log_envelope=target.log_normalizer)
    >>> state, info = jax.jit(kernel.step)(jax.random.key(0), kernel.init(means[0]))
    >>> state.position.shape
    (2,)
    """
    beta = as_parameter("jump_probability", jump_probability, nonnegative=True, at_most=1.0)
    part = as_part(local, "local")
    propose = getattr(local.step, "propose", None)
    jump = jump_from_guide(guide, log_envelope, num_tries, form)
    mostly_jumps = is_concrete(beta) and float(beta) >= MOSTLY
    propose = None if propose is None else as_pytree_function(propose)
    settings = Settings(part, propose, jump, beta, bool(reuse_randomness), mostly_jumps)
    return Kernel(Partial(init, part, jump), Partial(step, settings))


def init(local: Kernel, jump: Jump, position: PyTree, rng_key: Array | None = None) -> Any:
    """The local state at ``position``; raises where the local kernel's settings or the guide do not fit it."""
    state = init_part(local, position, rng_key)
    if not shares(state):
        raise TypeError(
            "local must be a kernel whose state has position, logdensity and logdensity_grad, "
            f"got a state of type {type(state).__name__}; combine it with vj.jump by vj.mixture"
        )
    jump.check_guide(state.position)
    return state


class Chance(NamedTuple):
    """A jump that was tried, as the first move of a step or as its second: what became of it, and the cost."""

    state: Any
    acceptance_rate: Array
    is_accepted: Array
    is_candidate_found: Array
    jump_from: Array
    jump_to: Array
    num_gradients: Array
    num_densities: Array


def step(settings: Settings, rng_key: Any, state: Any) -> tuple[Any, VHMCInfo]:
    """A jump, or a local move with a jump as its second chance."""
    key_coins, key_local, key_jump = random.split(rng_key, 3)
    # One hash for both coins. In logarithms, since XLA would hash again in every place that reads a coin.
    jump_coin, accept_coin = jnp.log(random.uniform(key_coins, (2,), state.logdensity.dtype))
    is_jump = jump_coin < jnp.log(cast(settings.jump_probability, jump_coin.dtype))

    # First stage: the local move, unless the step begins with a jump.
    few, most = 1 / 8, 1
    local_share, jump_share = (few, most) if settings.mostly_jumps else (most, few)
    if settings.propose is None:
        local_step = Partial(step_part, settings.local, key_local)
        state, local = lazy_cond(~is_jump, local_step, Partial(_no_step, state), state, block_share=local_share)
        is_second_stage, log_acceptance = jnp.zeros_like(is_jump), jnp.zeros_like(state.logdensity)
    else:
        propose_here = Partial(settings.propose, key_local)
        move = lazy_cond(~is_jump, propose_here, Partial(_no_move, state), state, block_share=local_share)
        state, local = accept_by(accept_coin, state, move)
        is_second_stage, log_acceptance = ~is_jump & ~local.is_accepted, move.log_acceptance

    # A jump: the first move of some steps, the second chance of others.
    try_jump = Partial(_try_jump, settings, key_jump, key_local)
    arguments = state, is_second_stage, log_acceptance
    chance = lazy_cond(is_jump | is_second_stage, try_jump, _no_chance(state), *arguments, block_share=jump_share)

    return chance.state, VHMCInfo(
        acceptance_rate=jnp.where(is_jump, chance.acceptance_rate, local.acceptance_rate),
        is_accepted=local.is_accepted | chance.is_accepted,
        is_divergent=local.is_divergent,
        num_gradients=local.num_gradients + chance.num_gradients,
        num_densities=local.num_densities + chance.num_densities,
        is_jump=is_jump,
        is_candidate_found=chance.is_candidate_found,
        jump_accepted=is_jump & chance.is_accepted,
        jump_from=chance.jump_from,
        jump_to=chance.jump_to,
        is_second_stage=is_second_stage,
        second_stage_accepted=is_second_stage & chance.is_accepted,
        local=None if isinstance(local, Info) else local,
    )


def _try_jump(
    settings: Settings, rng_key: Any, key_local: Any, state: Any, is_second_stage: Array, log_acceptance: Array
) -> Chance:
    """Draw a candidate; accept it with min(1, w(θ*) / w(θ)), times the ratio of rejections in the second stage."""
    key_candidate, key_accept, key_fresh, key_init = random.split(rng_key, 4)
    x, unravel = ravel_pytree(state.position)

    def state_at(x: Array) -> Any:
        return state._replace(**shared(init_part(settings.local, unravel(x), key_init))._asdict())

    candidate = settings.jump.draw_candidate(key_candidate, state_at)
    here = settings.jump.heights(state.logdensity, x)
    num_gradients_there, num_densities_there = 0, 0
    log_ratio = jnp.zeros_like(state.logdensity)
    if settings.propose is not None:
        # The second chance needs α(θ*; z): the local move from the candidate, with the same random numbers.
        needs_ratio = is_second_stage & candidate.is_found
        propose_there = Partial(settings.propose, key_local if settings.reuse_randomness else key_fresh)
        num_gradients_there, num_densities_there, log_acceptance_there = lazy_cond(
            needs_ratio,
            Partial(_cost_and_acceptance, propose_there),
            (0, 0, 0.0),
            candidate.state,
            block_share=1 / 16 if settings.mostly_jumps else 1 / 2,
        )
        log_ratio = log_complement(log_acceptance_there) - log_complement(log_acceptance)
        log_ratio = jnp.where(needs_ratio, log_ratio, 0.0)
    log_alpha = settings.jump.log_acceptance(candidate, here, log_ratio)

    chance = Chance(
        state=candidate.state,
        acceptance_rate=jnp.exp(log_alpha),
        is_accepted=jnp.bool_(False),
        is_candidate_found=candidate.is_found,
        jump_from=settings.jump.label(x),
        jump_to=candidate.jump_to,
        num_gradients=candidate.num_gradients + num_gradients_there,
        num_densities=jnp.asarray(num_densities_there, jnp.int32),
    )
    state, chance = accept(key_accept, state, Proposal(candidate.state, log_alpha, chance))
    return chance._replace(state=state)


def _cost_and_acceptance(propose: Callable, state: Any) -> tuple[Array, Array, Array]:
    proposal = propose(state)
    return proposal.info.num_gradients, proposal.info.num_densities, proposal.log_acceptance


def _no_step(state: Any, shapes: tuple[Any, Any]) -> tuple[Any, Any]:
    """The local step of a step that begins with a jump: nothing moved, nothing counted."""
    return state, jax.tree.map(lambda leaf: jnp.zeros(leaf.shape, leaf.dtype), shapes[1])


def _no_move(state: Any, shapes: Proposal) -> Proposal:
    """The local proposal of a step that makes none: never accepted, nothing counted."""
    nothing = jax.tree.map(lambda leaf: jnp.zeros(leaf.shape, leaf.dtype), shapes)
    return nothing._replace(state=state, log_acceptance=jnp.full_like(nothing.log_acceptance, -jnp.inf))


def _no_chance(state: Any) -> Chance:
    """A jump that was not tried: the chain is where it was, nothing counted."""
    none, no, no_cost = jnp.int32(-1), jnp.bool_(False), jnp.int32(0)
    return Chance(state, jnp.zeros_like(state.logdensity), no, no, none, none, no_cost, no_cost)
