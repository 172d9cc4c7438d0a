"""The one accept step of the library.

A proposal comes with its log acceptance probability; whatever is not a number on the way counts as density zero.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from vhmc_jax import random
from vhmc_jax.base import Array, Info, PRNGKey

DIVERGENCE_THRESHOLD = 1000.0
"""An energy increase beyond this is reported as a divergence."""


class Proposal(NamedTuple):
    """A proposed state and the probability of taking it, before the coin is thrown.

    Attributes
    ----------
    state
        The proposed state.
    log_acceptance
        log α ≤ 0, −inf where the proposal has density zero; never NaN.
    info
        The kernel's own info, with everything but ``is_accepted`` in its final form.
    """

    state: Any
    log_acceptance: Array
    info: Any


def log_acceptance(energy: Array, proposed_energy: Array, log_jacobian: Array | float = 0.0) -> tuple[Array, Array]:
    """Compute log α = min(0, H − Ĥ + log |J|), safe against NaN.

    Parameters
    ----------
    energy
        Energy H of the current state, finite.
    proposed_energy
        Energy Ĥ of the proposal, less the heat that it took up. Where it is not finite the density is zero.
    log_jacobian
        Log-Jacobian of the proposal map.

    Returns
    -------
    log α, and whether the proposal diverged: an energy that is not finite, or that is higher than the current
    one by more than ``DIVERGENCE_THRESHOLD``. A decrease, however large, is no divergence.

    Examples
    --------
    >>> import jax.numpy as jnp, vhmc_jax as vj
    >>> log_alpha, is_divergent = vj.log_acceptance(jnp.array(1.0), jnp.array(1.5))
    >>> float(log_alpha), bool(is_divergent)
    (-0.5, False)
    >>> log_alpha, is_divergent = vj.log_acceptance(jnp.array(1.0), jnp.array(jnp.nan))
    >>> float(log_alpha), bool(is_divergent)
    (-inf, True)
    """
    increase = proposed_energy - energy
    log_alpha = jnp.minimum(log_jacobian - increase, 0.0)
    is_possible = jnp.isfinite(proposed_energy) & ~jnp.isnan(log_alpha)
    is_divergent = ~is_possible | (increase > DIVERGENCE_THRESHOLD)
    return jnp.where(is_possible, log_alpha, -jnp.inf), is_divergent


def log_complement(log_probability: Array) -> Array:
    """log(1 − α) from log α ≤ 0; −inf where α = 1."""
    return jnp.log(-jnp.expm1(jnp.minimum(log_probability, 0.0)))


def metropolis_info(log_alpha: Array, is_divergent: Array, num_gradients: Any, num_densities: Any = 0) -> Info:
    """The info of a proposal whose coin is not thrown yet.

    Parameters
    ----------
    log_alpha
        log α of the proposal.
    is_divergent
        Whether it diverged.
    num_gradients
        Gradients that it took.
    num_densities
        Density values that it took.

    Returns
    -------
    The info, with ``is_accepted`` false until the coin is thrown.

    Examples
    --------
    >>> import jax.numpy as jnp, vhmc_jax as vj
    >>> info = vj.metropolis_info(jnp.log(0.25), jnp.array(False), num_gradients=5)
    >>> float(info.acceptance_rate), int(info.num_gradients)
    (0.25, 5)
    """
    return Info(
        acceptance_rate=jnp.exp(log_alpha),
        is_accepted=jnp.zeros_like(is_divergent),
        is_divergent=is_divergent,
        num_gradients=jnp.asarray(num_gradients, dtype=jnp.int32),
        num_densities=jnp.asarray(num_densities, dtype=jnp.int32),
    )


def accept(rng_key: PRNGKey, state: Any, proposal: Proposal) -> tuple[Any, Any]:
    """Take the proposal with probability α, else keep ``state``.

    The test is log u < log α with u uniform on [0, 1): α = 1 is always accepted and α = 0 never.

    Parameters
    ----------
    rng_key
        Key of the coin.
    state
        What the chain keeps if the proposal is rejected.
    proposal
        The proposed state with its log acceptance probability.

    Returns
    -------
    The next state and the info with ``is_accepted`` set.
    """
    uniform = random.uniform(rng_key, dtype=proposal.log_acceptance.dtype)
    # In logarithms for speed too: XLA would hash u again in each select, but does not repeat a logarithm.
    return accept_by(jnp.log(uniform), state, proposal)


def accept_by(log_uniform: Array, state: Any, proposal: Proposal) -> tuple[Any, Any]:
    """``accept`` with log u that has been drawn already, along with other coins of the step for instance."""
    is_accepted = log_uniform < proposal.log_acceptance
    next_state = jax.tree.map(lambda new, old: jnp.where(is_accepted, new, old), proposal.state, state)
    return next_state, proposal.info._replace(is_accepted=is_accepted)


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class MetropolisStep:
    """A kernel's ``step`` made of its proposal and the accept step.

    Attributes
    ----------
    propose
        ``propose(rng_key, state) -> Proposal``, a callable pytree. Its key is everything random in the proposal;
        the coin's key is another one, so that a proposal can be looked at again from elsewhere with the same
        random numbers. The key is for ``vhmc_jax.random``; ``vhmc_jax.random.as_jax_key`` makes it one of JAX.
    """

    propose: Callable

    def __call__(self, rng_key: PRNGKey, state: Any) -> tuple[Any, Any]:
        """Propose, then accept or stay."""
        key_proposal, key_accept = random.split(rng_key)
        return accept(key_accept, state, self.propose(key_proposal, state))
