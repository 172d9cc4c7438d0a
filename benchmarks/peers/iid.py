"""Independent exact draws: the limit. One draw counts as one evaluation."""

import functools
from typing import Any

import jax
from form import Case, Outcome, Timed, compiled, timed

TUNE_BUDGET = 0.25
NAME, PACKAGE, NUM_SEEDS = "iid", "jax", None
NUM_DRAWS, NUM_GROUPS = 64_000, 64


def grid(case: Case) -> list[dict[str, Any]]:
    """Nothing to tune."""
    return [{}]


def run(case: Case, settings: dict[str, Any], budget: float, seed: int) -> Outcome:
    """Exact draws, in groups as if they were chains."""
    timed_program = _program(case.name, case, budget)
    draws, seconds = timed(timed_program, jax.random.key(seed))
    return Outcome(
        draws=draws,
        log_weights=None,
        num_gradients=0,
        num_densities=len(draws),
        seconds=seconds,
        compile_seconds=timed_program.compile_seconds,
        production_seconds=seconds,
        production_evaluations=len(draws),
        num_groups=NUM_GROUPS,
    )


@functools.lru_cache(maxsize=2)
def _program(name: str, case: Case, budget: float) -> Timed:
    num = max(1, round(NUM_DRAWS * budget) // NUM_GROUPS) * NUM_GROUPS
    return compiled(lambda rng_key: case.target.sample(rng_key, num))
