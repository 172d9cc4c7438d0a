"""BlackJAX: NUTS with window adaptation, chains from all over the box, each with a step size and a mass of its own.

Evaluations: the leapfrog steps that NUTS reports, one gradient each, in warm-up and after it.
"""

import functools
from typing import Any

import jax
import jax.numpy as jnp
from form import Case, Outcome, Timed, compiled, hashable, timed

TUNE_BUDGET = 0.25
NAME, PACKAGE, NUM_SEEDS = "NUTS", "blackjax", None
BUDGETS = (0.25, 1.0)
NUM_CHAINS, NUM_DRAWS = 64, 500


def grid(case: Case) -> list[dict[str, Any]]:
    """Warm-up and target acceptance."""
    return [
        {"num_warmup": warmup, "target_acceptance": acceptance, "max_doublings": 8}
        for warmup, acceptance in ((200, 0.8), (500, 0.8))
    ]


def run(case: Case, settings: dict[str, Any], budget: float, seed: int) -> Outcome:
    """One run: warm-up and draws are two programs, so that production has a time of its own."""
    warmup, produce = _programs(case.name, case, hashable(settings), budget)
    key_warmup, key_draws = jax.random.split(jax.random.key(seed))
    (states, parameters, warmup_steps), warmup_seconds = timed(warmup, key_warmup)
    (draws, steps), seconds = timed(_bound(produce, states, parameters), key_draws)
    gradients, produced = float(jnp.sum(warmup_steps)), float(jnp.sum(steps))
    return Outcome(
        draws=draws.reshape(-1, case.dim),
        log_weights=None,
        num_gradients=gradients + produced,
        num_densities=0,
        seconds=warmup_seconds + seconds,
        compile_seconds=warmup.compile_seconds + produce.compile_seconds,
        production_seconds=seconds,
        production_evaluations=produced,
        num_groups=NUM_CHAINS,
    )


def _bound(timed_program: Timed, *arguments: Any) -> Timed:
    return Timed(lambda rng_key: timed_program.program(rng_key, *arguments), timed_program.compile_seconds)


@functools.lru_cache(maxsize=2)
def _programs(name: str, case: Case, items: tuple, budget: float) -> tuple[Timed, Timed]:
    import blackjax

    settings = dict(items)
    num_draws, num_warmup = max(8, round(NUM_DRAWS * budget)), max(50, round(settings["num_warmup"] * budget))
    logdensity = case.target.logdensity
    adaptation = blackjax.window_adaptation(
        blackjax.nuts,
        logdensity,
        target_acceptance_rate=settings["target_acceptance"],
        max_num_doublings=settings["max_doublings"],
        adaptation_info_fn=lambda _, info, __: info.num_integration_steps,
    )
    nuts = blackjax.nuts.build_kernel()

    def warmup(rng_key: Any) -> Any:
        def chain(rng_key: Any, position: Any) -> Any:
            result, steps = adaptation.run(rng_key, position, num_warmup)
            parameters = result.parameters["step_size"], result.parameters["inverse_mass_matrix"]
            return result.state, parameters, jnp.sum(steps)

        key_starts, key_chains = jax.random.split(rng_key)
        return jax.vmap(chain)(jax.random.split(key_chains, NUM_CHAINS), case.starts(key_starts, NUM_CHAINS))

    def produce(rng_key: Any, states: Any, parameters: Any) -> Any:
        def chain(rng_key: Any, state: Any, parameters: Any) -> Any:
            def step(state: Any, rng_key: Any) -> Any:
                state, info = nuts(rng_key, state, logdensity, *parameters, max_num_doublings=settings["max_doublings"])
                return state, (state.position, info.num_integration_steps)

            _, (draws, steps) = jax.lax.scan(step, state, jax.random.split(rng_key, num_draws))
            return draws, jnp.sum(steps)

        return jax.vmap(chain)(jax.random.split(rng_key, NUM_CHAINS), states, parameters)

    warmed = compiled(warmup)
    states, parameters, _ = warmed.program(jax.random.key(0))
    return warmed, compiled(produce, states, parameters)
