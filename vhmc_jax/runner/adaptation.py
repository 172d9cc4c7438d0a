"""The step size that gives a wanted acceptance, by dual averaging.

Notation: ε step size, a the mean acceptance rate of the chains at an iteration, δ the target.
"""

import functools
import math
import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from vhmc_jax import random
from vhmc_jax.arguments import as_count, as_parameter, as_position, is_concrete
from vhmc_jax.base import Array, PRNGKey, PyTree, as_pytree_function
from vhmc_jax.programs import SOON_COMPILED, program

SHRINKAGE, STABILISATION, FORGETTING = 0.05, 10.0, 0.75
"""γ, t₀ and κ of Hoffman & Gelman."""
LOG_FARTHEST = math.log(1e10)
"""How far a step size may go from where it started, as a logarithm. On a plateau, where all is accepted, or where
nothing is, it would go on until it overflows."""
FEW_ACCEPTED, NEARLY_FARTHEST = 0.2, 0.5
"""An acceptance below so much of the target, or a step size beyond so much of the farthest, is warned of."""


class AdaptedStepSize(NamedTuple):
    """The step size found, and what it took.

    Attributes
    ----------
    step_size
        ε.
    acceptance_rate
        Mean acceptance over the second half of the adaptation: near the target where it converged.
    positions
        Where the chains ended, on a leading axis.
    num_gradients
        Gradients taken by all chains.
    """

    step_size: Array
    acceptance_rate: Array
    positions: PyTree
    num_gradients: Array


class DualAverage(NamedTuple):
    """log ε as it is tried, its running average, and the running mean of δ − a."""

    log_step_size: Array
    log_average: Array
    mean_error: Array


def adapt_step_size(
    rng_key: PRNGKey,
    factory: Callable,
    position: PyTree = None,
    *,
    initial_positions: PyTree = None,
    target_acceptance: Any = 0.8,
    initial_step_size: Any = 1.0,
    num_chains: int = 8,
    num_steps: int = 200,
) -> AdaptedStepSize:
    """Find the step size at which a kernel accepts as often as wanted.

    log ε ← μ − √t / (γ (t + t₀)) Σ (δ − a), averaged with weights t^{−κ}; a is the mean over the chains.

    Parameters
    ----------
    rng_key
        Key of the adaptation.
    factory
        ``factory(step_size) -> Kernel``: any kernel with an acceptance rate in its info, for instance
        ``lambda step_size: vj.lhmc(logdensity, step_size=step_size, num_integration_steps=10)``.
    position
        Where the chains start, all from the same place. Either this or ``initial_positions``.
    initial_positions
        Where they start, one to each entry of a leading axis: draws from several modes, for instance.
    target_acceptance
        δ, between 0 and 1.
    initial_step_size
        Where ε starts. It need not be near.
    num_chains
        Chains whose acceptance is averaged, where they start from the same place.
    num_steps
        Iterations.

    Returns
    -------
    The step size, with the acceptance reached.

    Warns
    -----
    UserWarning
        Where no step size was found: nearly nothing is accepted, or all is, as far from the initial one as it goes.

    References
    ----------
    Hoffman & Gelman (2014), The No-U-Turn sampler, section 3.2.

    Examples
    --------
    >>> import jax, jax.numpy as jnp, vhmc_jax as vj
    >>> def factory(step_size):
    ...     return vj.hmc(lambda x: -0.5 * jnp.sum(x**2), step_size=step_size, num_integration_steps=5)
    >>> found = vj.adapt_step_size(jax.random.key(0), factory, jnp.zeros(2))
    >>> bool(0.3 < found.step_size < 2.0)
    True
    """
    target = as_parameter("target_acceptance", target_acceptance, positive=True, at_most=1.0)
    if (position is None) == (initial_positions is None):
        raise ValueError(f"give either position or initial_positions, got {'neither' if position is None else 'both'}")
    if position is not None:
        num_chains = as_count("num_chains", num_chains, 1)
        initial_positions = jax.tree.map(
            lambda leaf: jnp.broadcast_to(leaf, (num_chains, *leaf.shape)), as_position(position)
        )
    initial_step_size = as_parameter("initial_step_size", initial_step_size, positive=True)
    adapted = _adapt(
        rng_key,
        as_pytree_function(factory, "factory"),
        as_position(initial_positions, "initial_positions"),
        target,
        initial_step_size,
        as_count("num_steps", num_steps, 1),
    )
    _warn_where_none_was_found(adapted, target, initial_step_size)
    return adapted


def _warn_where_none_was_found(adapted: AdaptedStepSize, target: Any, initial_step_size: Any) -> None:
    """Say so where the acceptance is not near the target at any step size within reach."""
    if not is_concrete(adapted, target, initial_step_size):
        return
    step_size, rate = float(adapted.step_size), float(adapted.acceptance_rate)
    far = abs(math.log(step_size / float(initial_step_size))) > NEARLY_FARTHEST * LOG_FARTHEST
    if rate < FEW_ACCEPTED * float(target) or far:
        warnings.warn(
            f"adapt_step_size found no step size: at {step_size:.2g}, from {float(initial_step_size):.2g}, the "
            f"acceptance is {rate:.2f} where {float(target):.2f} was wanted. Look at logdensity_fn about the start, or "
            "give an initial_step_size nearer to its scale.",
            stacklevel=3,
        )


@functools.partial(program, options=SOON_COMPILED, static_argnames="num_steps")
def _adapt(
    rng_key: PRNGKey, factory: Callable, positions: PyTree, target: Array, initial_step_size: Array, num_steps: int
) -> AdaptedStepSize:
    centre = jnp.log(10 * initial_step_size)
    states = jax.vmap(factory(initial_step_size).init)(positions)
    num_chains = len(states.logdensity)
    start = DualAverage(jnp.log(initial_step_size), jnp.log(initial_step_size), jnp.zeros_like(centre))

    def iteration(carry: tuple[Any, DualAverage], at: tuple[Array, Any]) -> tuple[Any, tuple[Array, Array]]:
        (states, average), (t, keys) = carry, at
        states, infos = jax.vmap(factory(jnp.exp(average.log_step_size)).step)(keys, states)
        acceptance = jnp.mean(jnp.nan_to_num(infos.acceptance_rate)).astype(centre.dtype)
        average = update(average, target - acceptance, centre, (t + 1).astype(centre.dtype))
        return (states, average), (acceptance, jnp.sum(infos.num_gradients))

    numbers, keys = jnp.arange(num_steps), keys_of(rng_key, num_steps, num_chains)
    (states, average), (acceptances, gradients) = jax.lax.scan(iteration, (states, start), (numbers, keys))
    return AdaptedStepSize(
        step_size=jnp.exp(average.log_average),
        acceptance_rate=jnp.mean(acceptances[num_steps // 2 :]),
        positions=states.position,
        num_gradients=jnp.sum(gradients),
    )


def keys_of(rng_key: PRNGKey, num_iterations: int, num_chains: int) -> Any:
    """Keys (iteration, chain) of all iterations, made before the loop over them.

    Within the loop, XLA may put the two hashes of a key into the hashes of the step's random numbers, and write the
    hashes out again in each place that uses them. Ten dimensions and 8 chains then took 40 seconds to compile.
    """
    chains = jnp.arange(num_chains)
    of_one = lambda t: jax.vmap(lambda chain: random.fold_in(random.fold_in(rng_key, t), chain))(chains)  # noqa: E731
    return jax.vmap(of_one)(jnp.arange(num_iterations))


def update(average: DualAverage, error: Array, centre: Array, t: Array) -> DualAverage:
    """One update of the dual average with δ − a at iteration t, counted from one."""
    share = 1 / (t + STABILISATION)
    mean_error = (1 - share) * average.mean_error + share * error
    log_step_size = centre - jnp.clip(jnp.sqrt(t) / SHRINKAGE * mean_error, -LOG_FARTHEST, LOG_FARTHEST)
    weight = t**-FORGETTING
    return DualAverage(log_step_size, weight * log_step_size + (1 - weight) * average.log_average, mean_error)
