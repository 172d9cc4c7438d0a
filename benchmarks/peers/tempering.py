"""TensorFlow Probability on JAX: parallel tempering (replica exchange) with an HMC kernel at every temperature.

The coldest replica has the target, the hottest the Gaussian of the box. Between them the precision of a mode of the
given width goes down in geometric progression, and the step sizes go with that width. Swaps alternate between even and
odd neighbours, which carries replicas through the ladder faster than random ones.
Evaluations: a leapfrog step is a gradient, for every replica of every chain; the density at its end comes with it.
"""

import functools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from form import Case, Outcome, Timed, compiled, hashable, timed

TUNE_BUDGET = 1.0
NAME, PACKAGE, NUM_SEEDS = "parallel tempering", "tensorflow_probability", None
BURNIN_SHARE = 0.2


def grid(case: Case) -> list[dict[str, Any]]:
    """Settings to try: chains, replicas, leapfrog steps, and the step size at the coldest in widths of a mode."""
    tries: tuple[tuple[int, int, int, float], ...]
    if case.dim >= 32:
        few, many = (12, 20) if case.dim == 32 else (20, 32)
        step = 1.4 * case.dim**-0.25
        tries = ((16, few, 3, step), (16, few, 6, step), (16, many, 3, step))
    else:
        tries = ((64, 4, 2, 1.0), (64, 4, 5, 0.8), (64, 8, 2, 1.0), (16, 8, 3, 1.0))
    return [
        {
            "num_chains": chains,
            "num_iterations": 64_000 // chains,
            "num_replicas": replicas,
            "num_leapfrogs": leapfrogs,
            "width": width,
            "step_size": round(step, 3),
        }
        for width in case.scales
        for chains, replicas, leapfrogs, step in tries
    ]


def run(case: Case, settings: dict[str, Any], budget: float, seed: int) -> Outcome:
    """One run: the draws of the coldest replicas after burn-in."""
    timed_program = _program(case.name, case, hashable(settings), budget)
    draws, seconds = timed(timed_program, jax.random.key(seed))
    iterations, burnin = _lengths(settings, budget)
    num_replicas = settings["num_chains"] * settings["num_replicas"]
    gradients = num_replicas * settings["num_leapfrogs"] * (iterations + burnin)
    share = iterations / (iterations + burnin)
    return Outcome(
        draws=draws.reshape(-1, case.dim),
        log_weights=None,
        num_gradients=gradients,
        num_densities=num_replicas,
        seconds=seconds,
        compile_seconds=timed_program.compile_seconds,
        production_seconds=share * seconds,
        production_evaluations=share * gradients,
        num_groups=settings["num_chains"],
    )


def _lengths(settings: dict[str, Any], budget: float) -> tuple[int, int]:
    """Iterations that are kept, and those before them."""
    iterations = max(8, round(settings["num_iterations"] * budget))
    return iterations, round(BURNIN_SHARE * iterations)


def ladder(case: Case, num: int, width: float) -> tuple[np.ndarray, np.ndarray]:
    """Inverse temperatures, the coldest first, and the width of a mode at each."""
    least = (width / case.spread) ** 2
    precisions = np.geomspace(1.0, least, num)
    return np.append((precisions[:-1] - least) / (1 - least), 0.0), width * precisions**-0.5


@functools.lru_cache(maxsize=2)
def _program(name: str, case: Case, items: tuple, budget: float) -> Timed:
    import tensorflow_probability.substrates.jax as tfp

    settings = dict(items)
    betas, widths = ladder(case, settings["num_replicas"], settings["width"])
    step_sizes = jnp.asarray(settings["step_size"] * widths, jnp.float32)[:, None, None]
    iterations, burnin = _lengths(settings, budget)

    def over_leading_axes(function: Any) -> Any:
        return lambda x: jax.vmap(function)(x.reshape(-1, case.dim)).reshape(x.shape[:-1])

    def inner(target_log_prob_fn: Any) -> Any:
        return tfp.mcmc.HamiltonianMonteCarlo(
            target_log_prob_fn, step_size=step_sizes, num_leapfrog_steps=settings["num_leapfrogs"]
        )

    kernel = tfp.mcmc.ReplicaExchangeMC(
        None,
        inverse_temperatures=jnp.asarray(betas, jnp.float32),
        make_kernel_fn=inner,
        swap_proposal_fn=tfp.mcmc.even_odd_swap_proposal_fn(1.0),
        untempered_log_prob_fn=over_leading_axes(case.log_prior),
        tempered_log_prob_fn=over_leading_axes(case.log_likelihood),
    )

    def program(rng_key: Any) -> Any:
        key_starts, key_chains = jax.random.split(rng_key)
        draws = tfp.mcmc.sample_chain(
            iterations,
            case.starts(key_starts, settings["num_chains"]),
            kernel=kernel,
            num_burnin_steps=burnin,
            trace_fn=None,
            seed=key_chains,
        )
        return jnp.swapaxes(draws, 0, 1)  # chains first

    return compiled(program)
