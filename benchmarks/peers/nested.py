"""BlackJAX: nested slice sampling, from the uniform density of the box.

All dead points and the last live ones are draws, weighed by likelihood and shrinking volume. Evaluations: the density
values of stepping out and shrinking that the slices report, and one for every first live point.
"""

import functools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from form import Case, Outcome, Timed, compiled, hashable, timed

TUNE_BUDGET = 0.25
NAME, PACKAGE, NUM_SEEDS = "nested slice sampling", "blackjax", 5
STOP = -3.0  # log of what the live points may still add to the evidence


def grid(case: Case) -> list[dict[str, Any]]:
    """Live points, slices for a new point, and the share that is replaced at once."""
    if case.dim >= 128:
        return [{"num_live": 1000, "num_slices": case.dim, "share_replaced": 0.25}]
    steps = (case.dim, 2 * case.dim) if case.dim >= 8 else (3, 6)
    return [
        {"num_live": 4000 if case.dim < 8 else 2000, "num_slices": num, "share_replaced": share}
        for num, share in ((steps[0], 0.25), (steps[1], 0.25), (steps[1], 0.5))
    ]


def run(case: Case, settings: dict[str, Any], budget: float, seed: int) -> Outcome:
    """One run until the live points hold little of the evidence."""
    timed_program = _program(case.name, case, hashable(settings), budget)
    (draws, log_weights, evaluations, is_full), seconds = timed(timed_program, jax.random.key(seed))
    if bool(is_full):
        raise RuntimeError(f"{NAME} on {case.name}: the buffer of dead points is full")
    return Outcome(
        draws=draws,
        log_weights=log_weights,
        num_gradients=0,
        num_densities=float(evaluations),
        seconds=seconds,
        compile_seconds=timed_program.compile_seconds,
    )


def _depth(case: Case) -> float:
    """A bound on the log of the box's volume over the target's: how far the volume has to shrink, with room."""
    return case.dim * max(1.0, np.log((case.high - case.low) / min(case.scales))) + 12.0


@functools.lru_cache(maxsize=2)
def _program(name: str, case: Case, items: tuple, budget: float) -> Timed:
    import blackjax

    settings = dict(items)
    num_live = max(8 if case.dim < 8 else 4 * case.dim, round(settings["num_live"] * budget))
    num_replaced = max(1, round(settings["share_replaced"] * num_live))
    max_rounds = round(_depth(case) / -np.log1p(-num_replaced / num_live)) + 1

    def log_prior(x: Any) -> Any:
        is_inside = jnp.all((x >= case.low) & (x <= case.high))
        return jnp.where(is_inside, -case.dim * jnp.log(case.high - case.low), -jnp.inf)

    sampler = blackjax.nss(
        log_prior,
        case.target.logdensity,
        num_inner_steps=settings["num_slices"],
        num_delete=num_replaced,
    )

    def program(rng_key: Any) -> Any:
        key_starts, key_init, key_loop = jax.random.split(rng_key, 3)
        state = sampler.init(case.starts(key_starts, num_live), key_init)
        dead = jnp.zeros((max_rounds, num_replaced, case.dim)), jnp.full((max_rounds, num_replaced), -jnp.inf)

        def is_going(carry: Any) -> Any:
            state, _, number, _ = carry
            return (state.integrator.logZ_live - state.integrator.logZ > STOP) & (number < max_rounds)

        def body(carry: Any) -> Any:
            state, (points, values), number, evaluations = carry
            state, info = sampler.step(jax.random.fold_in(key_loop, number), state)
            dead = points.at[number].set(info.particles.position), values.at[number].set(info.particles.loglikelihood)
            slices = info.update_info
            taken = jnp.sum(slices.num_expansions) + jnp.sum(slices.num_shrink)
            return state, dead, number + 1, evaluations + taken

        start = (state, dead, 0, jnp.asarray(num_live))
        state, (points, values), number, evaluations = jax.lax.while_loop(is_going, body, start)

        # Volumes shrink by 1/n at each death among n live points; within a round n goes down by one a death.
        steps = jnp.tile(1.0 / (num_live - jnp.arange(num_replaced)), (max_rounds, 1))
        steps = jnp.where(jnp.arange(max_rounds)[:, None] < number, steps, 0.0)
        last = jnp.sort(state.particles.loglikelihood), jnp.argsort(state.particles.loglikelihood)
        all_steps = jnp.concatenate([steps.ravel(), 1.0 / (num_live - jnp.arange(num_live))])
        log_volumes = -jnp.cumsum(all_steps)
        log_shells = log_volumes + jnp.log(jnp.expm1(all_steps))
        log_weights = jnp.concatenate([values.ravel(), last[0]]) + log_shells
        draws = jnp.concatenate([points.reshape(-1, case.dim), state.particles.position[last[1]]])
        is_full = number >= max_rounds
        return draws, jnp.nan_to_num(log_weights, nan=-jnp.inf, neginf=-jnp.inf), evaluations, is_full

    return compiled(program)
