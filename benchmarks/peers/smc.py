"""BlackJAX: adaptive tempered SMC with an HMC kernel, from the Gaussian of the box to the target.

Temperatures by the effective size of the weights; the step size follows the acceptance from one temperature to the
next, and may differ between particles (``spread``, for modes of unlike widths). ``chain_length`` is that of waste-free
SMC: all points of the short chains are particles; 1 is the plain form, that keeps the last points alone.
Evaluations: a particle's gradients in a temperature are its leapfrog steps and one for its start, its density one.
"""

import functools
from typing import Any

import jax
import jax.numpy as jnp
from form import Case, Outcome, Timed, compiled, hashable, timed

TUNE_BUDGET = 0.25
NAME, PACKAGE, NUM_SEEDS = "tempered SMC", "blackjax", None
TARGET_ACCEPTANCE, ADAPTATION_RATE = 0.75, 2.0


def grid(case: Case) -> list[dict[str, Any]]:
    """Settings to try, about as dear as each other at first sight."""
    spreads = (0.0, 2.0) if max(case.scales) > min(case.scales) else (0.0,)
    plain = [
        {"num_particles": 4096, "num_steps": num_steps, "num_leapfrogs": leapfrogs, "target_ess": ess}
        for num_steps, leapfrogs, ess in ((1, 5, 0.9), (2, 5, 0.7), (2, 5, 0.9), (2, 10, 0.9), (2, 3, 0.95))
    ]
    waste_free = [{"num_particles": 16384, "chain_length": 8, "num_leapfrogs": 5, "target_ess": 0.9}]
    return [{"num_steps": 0, "chain_length": 1, "spread": s, **g} for s in spreads for g in (*plain, *waste_free)]


def run(case: Case, settings: dict[str, Any], budget: float, seed: int) -> Outcome:
    """One run: all particles at the end, alike in weight."""
    timed_program = _program(case.name, case, hashable(settings), budget)
    (draws, num_temperatures), seconds = timed(timed_program, jax.random.key(seed))
    moves, temperatures = _num_moves(settings), float(num_temperatures)
    chains = len(draws) // settings["chain_length"]
    return Outcome(
        draws=draws,
        log_weights=None,
        num_gradients=chains * temperatures * (moves * settings["num_leapfrogs"] + 1),
        num_densities=len(draws) * temperatures,
        seconds=seconds,
        compile_seconds=timed_program.compile_seconds,
    )


def _num_moves(settings: dict[str, Any]) -> int:
    return settings["num_steps"] if settings["chain_length"] == 1 else settings["chain_length"] - 1


@functools.lru_cache(maxsize=2)
def _program(name: str, case: Case, items: tuple, budget: float) -> Timed:
    import blackjax
    from blackjax.smc import resampling
    from blackjax.smc.base import update_and_take_last
    from blackjax.smc.waste_free import waste_free_smc

    settings = dict(items)
    length, num_steps = settings["chain_length"], settings["num_steps"]
    num = max(2, round(settings["num_particles"] * budget) // length) * length
    hmc, unit = blackjax.hmc.build_kernel(), jnp.ones(case.dim)

    def move(rng_key: Any, state: Any, logdensity: Any, step_size: Any) -> Any:
        return hmc(rng_key, state, logdensity, step_size, unit, settings["num_leapfrogs"])

    parts = (case.log_prior, case.log_likelihood, move, blackjax.hmc.init, resampling.systematic)
    update = update_and_take_last if length == 1 else waste_free_smc(num, length)
    steps = num_steps if length == 1 else None
    adaptive = blackjax.smc.adaptive_tempered.build_kernel(*parts, settings["target_ess"], update_strategy=update)
    plain = blackjax.smc.tempered.build_kernel(*parts, update_strategy=update)
    factors = jnp.exp(-settings["spread"] * jnp.linspace(0.0, 1.0, num // length))

    def program(rng_key: Any) -> tuple[Any, Any]:
        key_prior, key_loop, key_last = jax.random.split(rng_key, 3)
        state = blackjax.smc.tempered.init(case.prior_draws(key_prior, num))
        state = state._replace(tempering_param=jnp.zeros(()))

        def body(carry: Any) -> Any:
            rng_key, state, log_step, number = carry
            rng_key, key_step = jax.random.split(rng_key)
            state, info = adaptive(key_step, state, steps, {"step_size": jnp.exp(log_step) * factors})
            acceptance = jnp.mean(info.update_info.acceptance_rate)
            return rng_key, state, log_step + ADAPTATION_RATE * (acceptance - TARGET_ACCEPTANCE), number + 1

        start = (key_loop, state, jnp.log(case.spread * case.dim**-0.25), 0)
        _, state, log_step, number = jax.lax.while_loop(lambda carry: carry[1].tempering_param < 1.0, body, start)
        parameters = {"step_size": jnp.exp(log_step) * factors}
        state, _ = plain(key_last, state, steps, jnp.ones(()), parameters)  # resampled and moved at temperature one
        return state.particles, number + 1

    return compiled(program)
