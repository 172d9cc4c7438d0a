"""flowMC: local MALA moves and global moves by a normalising flow that is trained on the chains.

The draws are those of its production, after training. Evaluations: a MALA step takes two gradients (it does not keep
the one of its position), a global move one density value, in training and in production alike.
"""

import functools
import logging
import time
from typing import Any

import jax
import numpy as np
from form import Case, Outcome, hashable

TUNE_BUDGET = 0.25
NAME, PACKAGE, NUM_SEEDS = "flowMC", "flowMC", 5
BUDGETS = (0.25, 1.0)
NUM_CHAINS, NUM_LOCAL, NUM_GLOBAL, NUM_PRODUCTION_LOOPS = 64, 20, 50, 10


def grid(case: Case) -> list[dict[str, Any]]:
    """Training loops with their epochs, and the learning rate."""
    return [
        {"num_loops": loops, "num_epochs": epochs, "learning_rate": rate, "batch_size": 2000, "step_size": step}
        for loops, epochs, rate, step in ((20, 5, 5e-3, 0.3 * min(case.scales)), (30, 10, 2e-3, 0.3 * min(case.scales)))
    ]


def run(case: Case, settings: dict[str, Any], budget: float, seed: int) -> Outcome:
    """One run; the first of its shapes is run twice, to know what compiling took."""
    compile_seconds = _first_run(case.name, case, hashable(settings), budget)
    draws, training_seconds, production_seconds = _run(case, settings, budget, seed)
    loops, production_loops = _loops(settings, budget)
    gradients, densities = 2 * NUM_CHAINS * NUM_LOCAL, NUM_CHAINS * (NUM_GLOBAL + 1)
    return Outcome(
        draws=draws.reshape(-1, case.dim),
        log_weights=None,
        num_gradients=gradients * (loops + production_loops),
        num_densities=densities * (loops + production_loops),
        seconds=training_seconds + production_seconds,
        compile_seconds=compile_seconds,
        production_seconds=production_seconds,
        production_evaluations=(gradients + densities) * production_loops,
    )


def _loops(settings: dict[str, Any], budget: float) -> tuple[int, int]:
    return max(4, round(settings["num_loops"] * budget)), max(2, round(NUM_PRODUCTION_LOOPS * budget))


@functools.lru_cache(maxsize=2)
def _first_run(name: str, case: Case, items: tuple, budget: float) -> float:
    """What a first run takes longer than a second one."""
    _bundles.cache_clear()
    (_, *first), (_, *second) = (_run(case, dict(items), budget, 12345) for _ in range(2))
    return sum(first) - sum(second)


@functools.lru_cache(maxsize=2)
def _bundles(name: str, case: Case, items: tuple, budget: float) -> tuple[Any, Any]:
    """A maker of flowMC's parts, and a first set: its strategies hold what is compiled, and serve all runs."""
    from flowMC.resource_strategy_bundle.RQSpline_MALA import RQSpline_MALA_Bundle

    logging.getLogger("flowMC").setLevel(logging.ERROR)
    settings = dict(items)
    loops, production_loops = _loops(settings, budget)

    def logdensity(x: Any, _: Any) -> Any:
        return case.target.logdensity(x)

    def bundle(rng_key: Any) -> Any:
        return RQSpline_MALA_Bundle(
            rng_key=rng_key,
            n_chains=NUM_CHAINS,
            n_dims=case.dim,
            logpdf=logdensity,
            n_local_steps=NUM_LOCAL,
            n_global_steps=NUM_GLOBAL,
            n_training_loops=loops,
            n_production_loops=production_loops,
            n_epochs=settings["num_epochs"],
            mala_step_size=settings["step_size"],
            adapt_step_size_per_dim=False,
            rq_spline_hidden_units=(32, 32),
            rq_spline_n_layers=4,
            learning_rate=settings["learning_rate"],
            batch_size=settings["batch_size"],
            n_max_examples=settings["batch_size"] * 5,
        )

    return bundle, bundle(jax.random.PRNGKey(0))


def _run(case: Case, settings: dict[str, Any], budget: float, seed: int) -> tuple[Any, float, float]:
    """Draws of production, (chain, draw, coordinate), and the seconds of training and of production."""
    from flowMC.Sampler import Sampler

    bundle, first = _bundles(case.name, case, hashable(settings), budget)
    key_model, key_starts, key_run = jax.random.split(jax.random.PRNGKey(seed), 3)
    starts = case.starts(key_starts, NUM_CHAINS)
    started = time.perf_counter()
    resources = bundle(key_model).resources
    resources["optimizer"].optim = first.resources["optimizer"].optim
    resources["logpdf"] = first.resources["logpdf"]
    for strategy in first.strategies.values():
        for name, value in (("current_position", 0), ("_call_count", 0)):
            if hasattr(strategy, name):
                setattr(strategy, name, value)
    split = first.strategy_order.index("reset_steppers")
    seconds, rng_key = [], key_run
    for order in (first.strategy_order[:split], first.strategy_order[split:]):
        sampler = Sampler(
            n_dim=case.dim,
            n_chains=NUM_CHAINS,
            rng_key=rng_key,
            resources=resources,
            strategies=first.strategies,
            strategy_order=order,
            checkpoint_interval=0,
        )
        sampler.sample(starts, {})
        resources = sampler.resources
        starts = resources["positions_training"].data[:, -1]
        rng_key = jax.random.fold_in(key_run, 1)
        draws = jax.block_until_ready(resources["positions_production"].data)
        seconds.append(time.perf_counter() - started)
        started = time.perf_counter()
    return np.asarray(draws), seconds[0], seconds[1]
