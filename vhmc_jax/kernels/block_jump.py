"""Jumps of blocks of coordinates, from a guide that is a product over them.

Notation: π the target, unnormalised; q_B the guide's density of the coordinates x_B of block B; x_−B the others.

Rounding: as in ``moves.candidate``, log π is subtracted from log π first. Values of log q_B are small.
"""

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.tree_util import Partial

from vhmc_jax import random
from vhmc_jax.arguments import as_count
from vhmc_jax.base import Array, Kernel, PyTree, State, as_pytree_function
from vhmc_jax.density import FlatDensity, flatten, init_state
from vhmc_jax.guide import HasBlocks, Prepares, draw_from, require_guide, require_guide_fits
from vhmc_jax.lazy import lazy_cond
from vhmc_jax.metropolis import Proposal, accept_by, log_acceptance, metropolis_info


class BlockJumpInfo(NamedTuple):
    """What happened in one step of block jumps.

    Attributes
    ----------
    acceptance_rate
        Mean over the jumps of the probability with which each was accepted.
    is_accepted
        Whether any was.
    is_divergent
        Always false: a candidate whose log density is not finite has density zero, and is rejected.
    num_gradients
        One where the chain moved, else zero.
    num_densities
        One for each jump.
    num_jumps_accepted
        How many of the jumps were accepted.
    """

    acceptance_rate: Array
    is_accepted: Array
    is_divergent: Array
    num_gradients: Array
    num_densities: Array
    num_jumps_accepted: Array


@functools.partial(
    jax.tree_util.register_dataclass, data_fields=["guide", "block_of"], meta_fields=["num_blocks", "num_jumps"]
)
@dataclass(frozen=True)
class Settings:
    """What the kernel is made of; the numbers are arguments of the compiled program."""

    guide: Any
    block_of: Array
    num_blocks: int
    num_jumps: int


def block_jump(logdensity_fn: Callable, guide: Any, *, num_jumps: int | None = None) -> Kernel:
    """Jumps of one block of coordinates after another, each from its own part of a product guide.

    Take a block B by a rule that does not depend on x, draw x_B' from q_B, and accept it with
    min(1, π(x_B', x_−B) q_B(x_B) / (π(x) q_B(x_B'))). A jump of all coordinates at once succeeds with about the
    product of what its blocks would succeed with. Jumps of blocks cost their sum.

    Parameters
    ----------
    logdensity_fn
        Log density of a position, up to a constant.
    guide
        A product over blocks of coordinates, such as a ``ProductMixture``. It is frozen.
    num_jumps
        Jumps in one step, of neighbouring blocks one after another from a random one on. None: as many as there are
        blocks, so that each block jumps once.

    Returns
    -------
    The kernel, with ``State`` and ``BlockJumpInfo``.

    Notes
    -----
    The blocks need not be independent under the target. The more they depend on each other, the fewer jumps are
    accepted, since q_B knows nothing of x_−B. What no block can do alone is left to another kernel: a local move, or
    ``jump`` with the same guide for all blocks at once.

    A jump takes one density value, and a step one gradient at its end.

    Examples
    --------
    A local move and then a jump of each block:

    >>> import jax
    >>> import jax.numpy as jnp
    >>> import vhmc_jax as vj
    >>> def logdensity(x):  # four modes
    ...     return jnp.sum(jnp.logaddexp(-0.5 * (x - 3) ** 2, -0.5 * (x + 3) ** 2))
    >>> sign = vj.GaussianMixture(jnp.zeros(2), jnp.array([[-3.0], [3.0]]), jnp.ones((2, 1, 1)))
    >>> guide = vj.ProductMixture([[0], [1]], [sign, sign])
    >>> local = vj.lhmc(logdensity, step_size=1.0, num_integration_steps=2)
    >>> kernel = vj.cycle(local, vj.block_jump(logdensity, guide))
    >>> chains = vj.run_chains(jax.random.key(0), kernel, jnp.full((4, 2), 3.0), 100)
    >>> _, jumps = chains.infos.parts
    >>> bool(jumps.acceptance_rate.mean() > 0.99)
    True
    """
    require_guide(guide)
    if not isinstance(guide, HasBlocks):
        raise TypeError(
            "guide must be a product over blocks of coordinates, with block_of and block_log_probs(x), as a "
            f"ProductMixture is, got {type(guide).__name__}; jump takes any guide"
        )
    block_of = np.asarray(guide.block_of)
    num_blocks = int(block_of.max()) + 1
    prepared = guide.prepared() if isinstance(guide, Prepares) else guide
    if jax.tree_util.all_leaves([prepared]):
        raise TypeError(f"guide must be a pytree of arrays, got {type(guide).__name__}")
    settings = Settings(
        prepared,
        jnp.asarray(block_of, jnp.int32),
        num_blocks,
        num_blocks if num_jumps is None else as_count("num_jumps", num_jumps, 1),
    )
    logdensity_fn = as_pytree_function(logdensity_fn, "logdensity_fn")
    return Kernel(Partial(init, logdensity_fn, settings), Partial(step, logdensity_fn, settings))


def init(logdensity_fn: Callable, settings: Settings, position: PyTree, rng_key: Array | None = None) -> State:
    """The state at ``position``; raises where the guide does not fit it."""
    state = init_state(logdensity_fn, position, rng_key)
    require_guide_fits(settings.guide, state.position)
    return state


class Place(NamedTuple):
    """Where the chain is between two jumps: x, log π(x), and log q_B(x_B) of every block."""

    position: Array
    logdensity: Array
    log_probs: Array


class Draw(NamedTuple):
    """What one jump draws: its block, a candidate for every block, of which it takes one, and log u of its coin."""

    block: Array
    candidate: Array
    log_probs: Array
    log_uniform: Array


def step(logdensity_fn: Callable, settings: Settings, rng_key: Any, state: State) -> tuple[State, BlockJumpInfo]:
    """Jumps one after another, then the gradient where the chain has come."""
    density, start = flatten(logdensity_fn, state)
    here = Place(start.position, start.logdensity, settings.guide.block_log_probs(start.position))
    draws = draw_jumps(settings, rng_key, here.logdensity.dtype)
    end, infos = jax.lax.scan(functools.partial(jump_once, density, settings), here, draws)

    is_accepted = jnp.any(infos.is_accepted)
    moved = lazy_cond(is_accepted, density.state_at, start, end.position, block_share=1 / 4)
    return density.unflatten(moved), BlockJumpInfo(
        acceptance_rate=jnp.mean(infos.acceptance_rate),
        is_accepted=is_accepted,
        is_divergent=jnp.bool_(False),
        num_gradients=is_accepted.astype(jnp.int32),
        num_densities=jnp.sum(infos.num_densities, dtype=jnp.int32),
        num_jumps_accepted=jnp.sum(infos.is_accepted, dtype=jnp.int32),
    )


def draw_jumps(settings: Settings, rng_key: Any, dtype: Any) -> Draw:
    """The blocks, candidates and coins of a step, each with a leading axis of jumps. None depends on the position.

    One draw of the guide is a candidate for each of the blocks, so it serves as many jumps as there are blocks.
    """
    key_first, key_candidates, key_coins = random.split(rng_key, 3)
    numbers = jnp.arange(settings.num_jumps, dtype=jnp.int32)
    first = random.integer(key_first, 0, settings.num_blocks - 1).astype(jnp.int32)
    rounds = range(-(-settings.num_jumps // settings.num_blocks))
    candidates = [draw_from(settings.guide, random.fold_in(key_candidates, number)) for number in rounds]
    log_probs = [settings.guide.block_log_probs(candidate) for candidate in candidates]
    round_of = numbers // settings.num_blocks
    return Draw(
        block=(first + numbers) % settings.num_blocks,
        candidate=jnp.stack(candidates)[round_of],
        log_probs=jnp.stack(log_probs)[round_of],
        log_uniform=jnp.log(random.uniform(key_coins, (settings.num_jumps,), dtype)),
    )


def jump_once(density: FlatDensity, settings: Settings, here: Place, draw: Draw) -> tuple[Place, Any]:
    """Put the candidate in the place of one block, and accept it or stay."""
    is_block = jnp.arange(settings.num_blocks, dtype=jnp.int32) == draw.block
    x = jnp.where(settings.block_of == draw.block, draw.candidate, here.position)
    there = Place(x, density.value(x), jnp.where(is_block, draw.log_probs, here.log_probs))
    # log q_B(x_B) − log q_B(x_B'); of the other blocks nothing has changed, whatever their values.
    log_ratio = jnp.sum(jnp.where(is_block, here.log_probs - draw.log_probs, 0.0))
    log_alpha, is_divergent = log_acceptance(-here.logdensity, -there.logdensity, log_ratio)
    info = metropolis_info(log_alpha, is_divergent, num_gradients=0, num_densities=1)
    return accept_by(draw.log_uniform, here, Proposal(there, log_alpha, info))
