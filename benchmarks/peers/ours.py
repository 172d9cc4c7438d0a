"""VHMC: ``vj.sample`` of this package, told the box and nothing else.

Budget one is the call with all its defaults, 64 chains of 1,000 draws; less makes the chains shorter. All evaluations
count, those for the evidence too; production alone is the phase of that name.
"""

import functools
import time
import warnings
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from form import Case, Outcome

import vhmc_jax as vj

TUNE_BUDGET = 0.25
NAME, PACKAGE, NUM_SEEDS = "VHMC", "vhmc_jax", None
BUDGETS = (1 / 64, 1 / 16, 1 / 4, 1.0)


def grid(case: Case) -> list[dict[str, Any]]:
    """Nothing to tune: the defaults."""
    return [{}]


def run(
    case: Case, settings: dict[str, Any], budget: float, seed: int, log_weights: Callable[[Any], Any] | None = None
) -> Outcome:
    """One call from a cold start; with weights of the draws, where a function of the result gives such."""
    compile_seconds = _first_call(case, budget)
    result, seconds = _kept_call(case, budget, seed)
    seconds -= sum(phase.compile_seconds for phase in result.phases)  # another number of modes has other shapes
    phases = {phase.name: phase for phase in result.phases}
    produce = phases["produce"]
    return Outcome(
        draws=result.draws.reshape(-1, case.dim),
        log_weights=None if log_weights is None else log_weights(result),
        num_gradients=sum(phase.num_gradients for phase in result.phases),
        num_densities=sum(phase.num_densities for phase in result.phases),
        seconds=seconds,
        compile_seconds=compile_seconds,
        production_seconds=produce.seconds - produce.compile_seconds,
        production_evaluations=produce.num_gradients + produce.num_densities,
        num_groups=len(result.draws) if log_weights is None else 1,
        phases={
            name: {
                "seconds": round(phase.seconds - phase.compile_seconds, 4),
                "num_gradients": phase.num_gradients,
                "num_densities": phase.num_densities,
            }
            for name, phase in phases.items()
        },
    )


def options(budget: float) -> dict[str, int]:
    """Arguments of ``sample`` for a budget."""
    return {"num_samples": max(16, round(1000 * budget))}


def _call(case: Case, budget: float, seed: int) -> tuple[Any, float]:
    """The result, and the seconds of the call."""
    region = vj.box(jnp.full(case.dim, case.low), jnp.full(case.dim, case.high))
    arguments: dict[str, Any] = options(budget)
    started = time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        result = vj.sample(jax.random.key(seed), case.target.logdensity, region, progress=False, **arguments)
    jax.block_until_ready(result.draws)
    return result, time.perf_counter() - started


# One call gives the weights by either way, see bridged.py: those of one target are kept, up to 40 seeds a budget.
_kept_call = functools.lru_cache(maxsize=40 * len(BUDGETS))(_call)


@functools.lru_cache(maxsize=8)
def _first_call(case: Case, budget: float) -> float:
    """What a first call takes longer than a second one; with everything to compile where the budget is whole."""
    if budget == 1:
        jax.clear_caches()
    (_, first), (_, second) = (_call(case, budget, 12345) for _ in range(2))
    return first - second
