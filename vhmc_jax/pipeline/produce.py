"""Produce: chains of the frozen kernel."""

from collections.abc import Callable
from typing import Any, NamedTuple, Self

import jax
import jax.numpy as jnp
import numpy as np

from vhmc_jax import random
from vhmc_jax.arguments import as_count
from vhmc_jax.base import Array, PyTree
from vhmc_jax.pipeline.frozen import Frozen
from vhmc_jax.pipeline.phase import Cost
from vhmc_jax.runner.chains import run_chains
from vhmc_jax.runner.hosts import whole

MOST_NUMBERS, ALWAYS_JUDGED = 2**24, 2**16
"""A run is judged from so many numbers at most, where a draw counts for its coordinates, the components of the guide,
and four more; and from so many draws in any case. Of a longer run every k-th draw is judged, so that memory does not
grow with the run."""
LEAST_BURNIN, MOST_BURNIN, UNFORGOTTEN = 10, 80, 1e-3
"""Burn-in goes on, within these bounds, until so few chains have not jumped."""


class Amount(NamedTuple):
    """How much to produce.

    Attributes
    ----------
    num_chains
        Chains.
    num_samples
        Stored draws of each chain.
    num_burnin
        Iterations before the first that is stored; None to choose them.
    thinning
        One iteration in ``thinning`` is stored.
    """

    num_chains: int
    num_samples: int
    num_burnin: int | None
    thinning: int

    def checked(self) -> Self:
        """The same, or an error that names what is wrong."""
        as_count("num_chains", self.num_chains, 1)
        as_count("num_samples", self.num_samples, 1)
        as_count("thinning", self.thinning, 1)
        if (total := self.num_samples * self.thinning + (self.num_burnin or MOST_BURNIN)) >= 2**31:
            raise ValueError(f"num_samples * thinning and burn-in must stay below 2**31 iterations, got {total}")
        if self.num_burnin is not None:
            as_count("num_burnin", self.num_burnin, 0)
        return self


class Produced(NamedTuple):
    """What the chains left behind.

    Attributes
    ----------
    draws
        Positions, (chain, draw, ...).
    infos
        What happened at each step, (chain, draw).
    logdensities
        Log density at the draws, (chain, draw).
    final_states, next_iteration
        To continue from.
    cost
        Evaluations of all iterations, stored or not.
    is_complete
        Whether all iterations were taken: not where Ctrl-C or SIGTERM ended the run.
    judged_every
        One draw in so many is judged.
    """

    draws: PyTree
    infos: Any
    logdensities: Array
    final_states: Any
    next_iteration: int
    cost: Cost
    is_complete: bool = True
    judged_every: int = 1

    @property
    def seen(self) -> Self:
        """The part that is judged, in memory."""
        every = self.judged_every
        draws, infos, logdensities = one_in(every, (self.draws, self.infos, self.logdensities))
        return self._replace(draws=draws, infos=infos, logdensities=logdensities, judged_every=1)


def one_in(every: int, tree: PyTree) -> PyTree:
    """One draw in so many of (chain, draw, ...) arrays, in memory; the arrays as they are where that is each."""
    return tree if every == 1 else jax.tree.map(lambda leaf: jnp.asarray(leaf[:, ::every]), tree)


def produce(
    rng_key: Array,
    logdensity_fn: Callable,
    frozen: Frozen,
    amount: Amount,
    progress: bool,
    devices: Any = None,
    store: Any = None,
    resume: str = "same",
) -> Produced:
    """Run chains from the guide. Nothing adapts.

    Parameters
    ----------
    rng_key
        Key of starts and chains.
    logdensity_fn
        Log density of a pytree position.
    frozen
        The parameters.
    amount
        How much.
    progress
        Whether to show a bar. Ctrl-C returns the draws so far in any case.
    devices, store, resume
        As for ``run_chains``. Draws that are judged whole are loaded when all are there; more of them stay on the disk.

    Returns
    -------
    The draws.
    """
    key_starts, key_chains = (random.as_jax_key(key) for key in random.split(rng_key))
    chains = run_chains(
        key_chains,
        frozen.kernel(logdensity_fn),
        frozen.starts(key_starts, amount.num_chains),
        amount.num_samples,
        num_burnin=num_burnin_for(frozen) if amount.num_burnin is None else amount.num_burnin,
        thinning=amount.thinning,
        keep=_keep,
        progress=progress,
        stop_on_interrupt=True,
        store=store,
        resume=resume,
        devices=devices,
    )
    jax.block_until_ready(chains)
    chains = whole(chains) if store is None else chains
    cost = Cost(
        *(
            round(float(np.sum(np.asarray(mean, np.float64))) * chains.next_iteration)
            for mean in (chains.info_means.num_gradients, chains.info_means.num_densities)
        )
    )
    every = _judged_every(frozen, chains.kept[2].size)
    may_stay = store is None or every > 1
    draws, infos, logdensities = chains.kept if may_stay else jax.tree.map(jnp.asarray, chains.kept)
    last = chains.final_states, chains.next_iteration
    return Produced(draws, infos, logdensities, *last, cost, chains.is_complete, every)


def _judged_every(frozen: Frozen, num_draws: int) -> int:
    """One draw in how many is judged, so that all of them are no more than memory holds."""
    dim = sum(np.size(leaf) for leaf in jax.tree.leaves(frozen.modes.template))
    num_components = getattr(frozen.guide, "num_components", 0)
    return -(-num_draws // max(ALWAYS_JUDGED, MOST_NUMBERS // (dim + num_components + 4)))


def _keep(state: Any, info: Any) -> tuple[PyTree, Any, Array]:
    return state.position, info, state.logdensity


def num_burnin_for(frozen: Frozen) -> int:
    """Doubled from the least until all but one chain in a thousand have jumped: few numbers, so few programs."""
    stays, num = 1 - frozen.jump_probability * frozen.guide_report.expected_acceptance, LEAST_BURNIN
    while stays**num > UNFORGOTTEN and num < MOST_BURNIN:
        num *= 2
    return num
