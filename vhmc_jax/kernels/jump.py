"""The variational jump: accept–reject Metropolis–Hastings from a guide.

Notation: as in ``moves.candidate``.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax.numpy as jnp
from jax.tree_util import Partial

from vhmc_jax import random
from vhmc_jax.base import Array, Kernel, PyTree, State, as_pytree_function
from vhmc_jax.density import flatten, init_state
from vhmc_jax.metropolis import Proposal, accept
from vhmc_jax.moves.candidate import Jump, jump_from_guide


class JumpInfo(NamedTuple):
    """What happened in one jump.

    Attributes
    ----------
    acceptance_rate
        Probability with which the candidate was accepted; 0 where none was found.
    is_accepted
        Whether it was.
    is_divergent
        Always false: a candidate of density zero is not found.
    num_gradients
        Gradients: one, at the first try; where it did not pass the envelope, one at each of the K − 1 others.
    num_densities
        Always zero: a density value alone would have to be followed by the gradient at the candidate.
    is_jump
        Whether a jump was tried: always.
    is_candidate_found
        Whether one of the tries passed the envelope.
    jump_accepted
        Whether the jump was accepted.
    jump_from
        Component of the guide that the chain was in; −1 where the guide has no components.
    jump_to
        Component of the candidate; −1 where there is none.
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


def jump(logdensity_fn: Callable, guide: Any, *, log_envelope: Any, num_tries: int = 4, form: str = "exact") -> Kernel:
    """Jumps to draws from a guide, wherever the chain is.

    Draw up to K candidates from q and take the first with u < π(θ*) / (c q(θ*)); if none passes, stay; else accept
    it with min(1, w(θ*) / w(θ)), w(θ) = max(1, π(θ) / (c q(θ))).

    Parameters
    ----------
    logdensity_fn
        Log density of a position, up to a constant.
    guide
        Anything with ``sample(rng_key) -> x`` and ``log_prob(x)`` on flat vectors, normalised: a
        ``GaussianMixture``, a normalising flow. It is frozen.
    log_envelope
        log c, relative to the log density as given and the normalised guide. Any value is exact, in single precision
        too; what it decides is how many jumps succeed.
    num_tries
        K. Where the first candidate does not pass, the others are drawn as one batch.
    form
        ``"exact"``. ``"paper"`` omits the correction w, as the paper does: biased wherever π exceeds c q; for
        comparison only.

    Returns
    -------
    The kernel, with ``State`` and ``JumpInfo``.

    Notes
    -----
    The first success has a density in proportion to min(π, c q), whatever K is, and the chance of no success does
    not depend on θ.

    References
    ----------
    Tierney (1994), Markov chains for exploring posterior distributions; Gu & Sun (2019), section 4.2.

    Examples
    --------
    >>> import jax, jax.numpy as jnp, vhmc_jax as vj
    >>> target = vj.targets.far_pair(0.7)
    >>> means = jnp.array([[6.5, -6.5], [-6.5, 6.5]])
    >>> guide = vj.GaussianMixture(jnp.log(jnp.array([0.7, 0.3])), means, jnp.stack([jnp.eye(2)] * 2))
    >>> kernel = vj.jump(target.logdensity, guide, log_envelope=target.log_normalizer)
    >>> chains = vj.run_chains(jax.random.key(0), kernel, jnp.zeros((4, 2)) + means[0], num_samples=50)
    >>> bool(chains.infos.jump_accepted.mean() > 0.95)
    True
    """
    logdensity_fn = as_pytree_function(logdensity_fn, "logdensity_fn")
    settings = jump_from_guide(guide, log_envelope, num_tries, form)
    return Kernel(Partial(init, logdensity_fn, settings), Partial(step, logdensity_fn, settings))


def init(logdensity_fn: Callable, settings: Jump, position: PyTree, rng_key: Array | None = None) -> State:
    """The state at ``position``; raises where the guide does not fit it."""
    state = init_state(logdensity_fn, position, rng_key)
    settings.check_guide(state.position)
    return state


def step(logdensity_fn: Callable, settings: Jump, rng_key: Any, state: State) -> tuple[State, JumpInfo]:
    """Draw a candidate, then accept or stay."""
    key_candidate, key_accept = random.split(rng_key)
    density, start = flatten(logdensity_fn, state)
    candidate = settings.draw_candidate(key_candidate, lambda x: density.unflatten(density.state_at(x)))
    log_alpha = settings.log_acceptance(candidate, settings.heights(start.logdensity, start.position))
    info = JumpInfo(
        acceptance_rate=jnp.exp(log_alpha),
        is_accepted=jnp.bool_(False),
        is_divergent=jnp.bool_(False),
        num_gradients=candidate.num_gradients,
        num_densities=jnp.int32(0),
        is_jump=jnp.bool_(True),
        is_candidate_found=candidate.is_found,
        jump_accepted=jnp.bool_(False),
        jump_from=settings.label(start.position),
        jump_to=candidate.jump_to,
    )
    state, info = accept(key_accept, state, Proposal(candidate.state, log_alpha, info))
    return state, info._replace(jump_accepted=info.is_accepted)
