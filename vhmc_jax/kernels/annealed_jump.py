"""Jumps along annealed paths: where the guide is too far from the target for a draw of it to be accepted.

Notation: as in ``moves.candidate`` and ``dynamics.annealing``; W the weight of a path, which takes the place of π / q.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.tree_util import Partial

from vhmc_jax import random
from vhmc_jax.arguments import as_array, as_count, as_parameter, is_concrete
from vhmc_jax.base import Array, Kernel, PRNGKey, PyTree, State, as_pytree_function
from vhmc_jax.density import FlatDensity, flatten, init_state
from vhmc_jax.dynamics.annealing import Annealing, run_path
from vhmc_jax.dynamics.kinetic import gaussian_kinetic
from vhmc_jax.kernels.jump import JumpInfo
from vhmc_jax.lazy import lazy_cond
from vhmc_jax.metropolis import Proposal, accept
from vhmc_jax.moves.candidate import Heights, Jump, jump_from_guide


class Settings(NamedTuple):
    """What the kernel is made of; the numbers are arguments of the compiled program."""

    logdensity_fn: Callable
    jump: Jump
    annealing: Annealing


def annealed_jump(
    logdensity_fn: Callable,
    guide: Any,
    *,
    num_steps: int,
    step_size: Any,
    log_envelope: Any,
    num_tries: int = 1,
    schedule: Any = None,
    friction: Any = 1.0,
    inverse_mass_matrix: Any = 1.0,
) -> Kernel:
    """Jumps to the ends of annealed paths that start at draws from a guide.

    Draw x₀ ~ q and run T Langevin steps under q^{1−λ} π^λ, λ from 0 to 1, to y. The path has a weight W(y). Up to K
    paths are tried, and the first with u < W(y) / c is taken. A path backwards from the current θ has the weight W(θ).
    Accept y with min(1, max(1, W(y) / c) / max(1, W(θ) / c)).

    Parameters
    ----------
    logdensity_fn
        Log density of a position, up to a constant.
    guide
        Anything with ``sample(rng_key) -> x`` and ``log_prob(x)`` on flat vectors, normalised. ``log_prob`` must have a
        gradient. It is frozen.
    num_steps
        T ≥ 0. With T = 0 this is ``jump``.
    step_size
        ε > 0 of the steps. ``fit_annealing`` finds it, and the schedule and the envelope with it.
    log_envelope
        log c; any value is exact. What it decides is how many jumps succeed.
    num_tries
        K. Where the first path does not pass, the others are run as one batch.
    schedule
        λ₀ = 0 to λ_T = 1, T + 1 numbers that increase; None for equal steps.
    friction
        γ ≥ 0 of the thermostats.
    inverse_mass_matrix
        M⁻¹: a scalar, a vector (diagonal) or a matrix, in the order of ``ravel_pytree``.

    Returns
    -------
    The kernel, with ``State`` and ``JumpInfo``. T + 1 gradients for each path tried, and T for the path backwards,
    which is run only where a candidate was found. ``is_divergent`` says that the candidate's path or the path
    backwards was not finite; then the chain stays.

    Notes
    -----
    Why exact: on the space of paths, q(x₀) times the density of the path forwards is the law of proposals, and π(y)
    times that of the path backwards is a target whose marginal is π. The kernel is ``jump`` on that space, after a draw
    of the path backwards from its conditional law. W is the ratio of the two. The thermostat is reversible for N(0, M)
    and the rest of a step preserves volume, so that log W = log π(y) − log q(x₀) − [K(p_T) − K(p₀) − heat].

    It costs 2T + 1 gradients, so it pays only where ``jump`` is accepted less than once in about as many tries.

    References
    ----------
    Neal (2001), Annealed importance sampling; Tierney (1994) on independence kernels with an envelope.

    Examples
    --------
    >>> import jax, jax.numpy as jnp, vhmc_jax as vj
    >>> guide = vj.GaussianMixture(jnp.zeros(1), jnp.zeros((1, 2)), 2.0 * jnp.eye(2)[None])  # twice too wide
    >>> kernel = vj.annealed_jump(lambda x: -0.5 * x @ x, guide, num_steps=4, step_size=0.5, log_envelope=1.0)
    >>> state, info = jax.jit(kernel.step)(jax.random.key(0), kernel.init(jnp.zeros(2)))
    >>> state.position.shape
    (2,)
    """
    num_steps = as_count("num_steps", num_steps, 0)
    annealing = Annealing(
        _checked_schedule(schedule, num_steps),
        as_parameter("step_size", step_size, positive=True),
        as_parameter("friction", friction, nonnegative=True),
        gaussian_kinetic(inverse_mass_matrix),
    )
    jump = jump_from_guide(guide, log_envelope, num_tries, "exact")
    settings = Settings(as_pytree_function(logdensity_fn, "logdensity_fn"), jump, annealing)
    return Kernel(Partial(init, settings), Partial(step, settings))


def _checked_schedule(schedule: Any, num_steps: int) -> Array:
    """λ₀ to λ_T, of the default float type."""
    if num_steps == 0 or schedule is None:
        return as_array(np.linspace(0.0, 1.0, num_steps + 1), jnp.result_type(float))
    values = as_array(schedule, jnp.result_type(float))
    if values.shape != (num_steps + 1,):
        raise ValueError(f"schedule must have num_steps + 1 = {num_steps + 1} numbers, got shape {values.shape}")
    if is_concrete(values):
        numbers = np.asarray(values)
        if not (numbers[0] == 0 and numbers[-1] == 1 and np.all(np.diff(numbers) >= 0)):
            raise ValueError(f"schedule must increase from 0 to 1, got {numbers}")
    return values


def init(settings: Settings, position: PyTree, rng_key: PRNGKey | None = None) -> State:
    """The state at ``position``; raises where the guide or the mass does not fit it."""
    state = init_state(settings.logdensity_fn, position, rng_key)
    settings.jump.check_guide(state.position)
    settings.annealing.kinetic.check_dimension(sum(leaf.size for leaf in jax.tree.leaves(state.position)))
    return state


class End(NamedTuple):
    """The state at the end of a path, and whether all of the path was finite."""

    state: State
    is_finite: Array


def step(settings: Settings, rng_key: Any, state: State) -> tuple[State, JumpInfo]:
    """Draw a candidate along paths, run a path backwards, then accept or stay."""
    key_candidate, key_backwards, key_accept = random.split(rng_key, 3)
    jump, num_steps = settings.jump, settings.annealing.num_steps
    density, start = flatten(settings.logdensity_fn, state)

    candidate = jump.first_that_passes(key_candidate, Partial(forwards, settings, density))
    back = Partial(backwards, settings, density, key_backwards)
    nothing = Heights(start.logdensity, jnp.zeros_like(start.logdensity)), True
    here, is_finite = lazy_cond(candidate.is_found, back, nothing, start, block_share=1 / 4)
    log_alpha = jump.log_acceptance(candidate, here)

    info = JumpInfo(
        acceptance_rate=jnp.exp(log_alpha),
        is_accepted=jnp.bool_(False),
        is_divergent=~(candidate.state.is_finite & is_finite),
        num_gradients=candidate.num_gradients * (num_steps + 1) + jnp.where(candidate.is_found, num_steps, 0),
        num_densities=jnp.int32(0),
        is_jump=jnp.bool_(True),
        is_candidate_found=candidate.is_found,
        jump_accepted=jnp.bool_(False),
        jump_from=jump.label(start.position),
        jump_to=candidate.jump_to,
    )
    end = density.unflatten(candidate.state.state)
    state, info = accept(key_accept, state, Proposal(end, log_alpha, info))
    return state, info._replace(jump_accepted=info.is_accepted)


def forwards(settings: Settings, density: FlatDensity, rng_key: Any) -> tuple[End, Heights, Array]:
    """A path from a draw of the guide: its end, and log π and log q with which π / q is W."""
    key_start, key_path = random.split(rng_key)
    x = settings.jump.sample(key_start)
    log_prob = settings.jump.guide.log_prob
    path = run_path(settings.annealing, density, log_prob, key_path, density.state_at(x))
    heights = settings.jump.heights(path.state.logdensity, x)
    heights = heights._replace(log_prob=heights.log_prob + path.excess)
    is_finite = jnp.all(jnp.isfinite(path.state.position)) & jnp.isfinite(path.excess)
    return End(path.state, is_finite), heights, path.state.position


def backwards(settings: Settings, density: FlatDensity, rng_key: Any, start: State) -> tuple[Heights, Array]:
    """A path from the current position back to the guide: log π and log q with which π / q is W."""
    log_prob = settings.jump.guide.log_prob
    path = run_path(settings.annealing, density, log_prob, rng_key, start, backwards=True)
    heights = settings.jump.heights(start.logdensity, path.state.position)
    heights = heights._replace(log_prob=heights.log_prob - path.excess)
    return heights, jnp.isfinite(heights.log_prob)
