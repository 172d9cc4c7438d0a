"""HMC and VHMC on the posteriors of E5: kernels with a run's own numbers, chunks of iterations, predictions."""

import time
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from e5_posterior import Problem, Run, logdensity, on_one_core, one_by_one, over_runs
from jax.tree_util import Partial

import vhmc_jax as vj
from vhmc_jax.fit.envelope import best_envelope

METHODS = ("LR", "VBLR", "HMC", "VHMC")
TUNED = ("HMC tuned", "VHMC tuned")
FRICTION = 0.5
NUM_TRIES = 4
JUMP_PROBABILITY = 0.1
GUIDE_WEIGHTS, GUIDE_WIDTHS = (0.9, 0.1), (1.0, 1.5)
PREDICT_EVERY = 10
PAPER = {"step_size": 0.00045, "num_integration_steps": (80, 120), "inverse_mass_matrix": 1 / 3}
TUNED_STEPS = {"HMC": (3, 6), "VHMC": (1, 4)}  # VHMC's two Langevin steps come on top


class Numbers(NamedTuple):
    """What the kernels of a run are made with."""

    step_size: Any
    inverse_mass: Any
    maximum: Any
    guide_mean: Any
    guide_tril: Any
    log_envelope: Any


def guide_of(numbers: Numbers) -> vj.GaussianMixture:
    """The run's Gaussian in two widths: the wider one keeps π/q bounded further out."""
    widths = jnp.asarray(GUIDE_WIDTHS, jnp.float32)
    return vj.GaussianMixture(
        jnp.log(jnp.asarray(GUIDE_WEIGHTS, jnp.float32)),
        jnp.stack([numbers.guide_mean] * len(widths)),
        widths[:, None, None] * numbers.guide_tril,
    )


def settings_of(sampler: str, numbers: Numbers) -> dict[str, Any]:
    if sampler in METHODS:
        return PAPER
    return {
        "step_size": numbers.step_size,
        "num_integration_steps": TUNED_STEPS[sampler.split()[0]],
        "inverse_mass_matrix": numbers.inverse_mass,
    }


def kernel_of(sampler: str, density_of: Callable, run: Run, numbers: Numbers) -> vj.Kernel:
    """The kernel of a run; ``density_of(run, theta)`` is the log density with the shared rows in it."""
    density = Partial(density_of, run)
    if sampler.startswith("HMC"):
        return vj.hmc(density, **settings_of(sampler, numbers))
    return vj.vhmc(
        density,
        guide_of(numbers),
        friction=FRICTION,
        jump_probability=JUMP_PROBABILITY,
        log_envelope=numbers.log_envelope,
        num_tries=NUM_TRIES,
        **settings_of(sampler, numbers),
    )


class Outcome(NamedTuple):
    """Draws (run, draw, coefficient), means of the infos over runs and draws, and what it took."""

    draws: np.ndarray
    info: dict[str, float]
    seconds: float
    core_seconds: float
    compile_seconds: float


def density_of(problem: Problem) -> Callable:
    """Log density of a run and its coefficients. The rows are no argument, so that no run gets a copy of them."""
    return lambda run, theta: logdensity(problem.rows, run, theta)


def sampler_of(sampler: str, problem: Problem, chunk: int) -> tuple[Any, Any]:
    """Functions for all runs: kernels with their first states, and ``chunk`` iterations."""
    density, dim = density_of(problem), problem.rows.shape[1]

    def start(run: Run, numbers: Numbers) -> Any:
        kernel = kernel_of(sampler, density, run, numbers)
        return kernel, kernel.init(jnp.zeros(dim, jnp.float32) if sampler in METHODS else numbers.maximum)

    def advance(kernel: vj.Kernel, key: Any, state: Any) -> Any:
        def iteration(state: Any, key: Any) -> Any:
            state, info = kernel.step(key, state)
            return state, (state.position, {k: v for k, v in info._asdict().items() if v is not None})

        state, (draws, infos) = jax.lax.scan(iteration, state, jax.random.split(key, chunk))
        return state, draws, jax.tree.map(lambda x: jnp.mean(x.astype(jnp.float32)), infos)

    return one_by_one(start), over_runs(advance, len(problem.is_training))


def sample(
    functions: tuple[Any, Any],
    problem: Problem,
    numbers: Numbers,
    seed: int,
    num_burnin: int,
    num_chunks: int,
) -> Outcome:
    """All runs, in chunks of iterations, the burn-in's not kept."""
    start, advance = functions
    num_runs = len(problem.is_training)
    keys = jax.random.split(jax.random.key(seed), (num_burnin + num_chunks, num_runs))
    began = time.perf_counter()
    kernels, states = start(problem.runs, numbers)
    compiled = advance.lower(kernels, keys[0], states).compile()
    compile_seconds, began, core_began = time.perf_counter() - began, time.perf_counter(), time.process_time()
    draws, infos = [], []
    for number in range(num_burnin + num_chunks):
        states, drawn, info = compiled(kernels, keys[number], states)
        if number >= num_burnin:
            draws.append(np.asarray(drawn))
            infos.append(jax.tree.map(lambda x: float(jnp.mean(x)), info))
    seconds = time.perf_counter() - began
    return Outcome(
        np.concatenate(draws, axis=1),
        {name: float(np.mean([info[name] for info in infos])) for name in infos[0]},
        seconds,
        time.process_time() - core_began,
        compile_seconds,
    )


def tune(problem: Problem, laplace: Any, seed: int) -> Numbers:
    """Laplace's covariance as inverse mass, and ε by dual averaging, for each run."""
    density = density_of(problem)

    def one(run: Run, key: Any, mean: Any, covariance: Any) -> Any:
        def factory(step_size: Any) -> vj.Kernel:
            numbers = Numbers(step_size, covariance, mean, None, None, None)
            return kernel_of("HMC tuned", density, run, numbers)

        return vj.adapt_step_size(key, factory, mean, num_chains=4, num_steps=200).step_size

    num_runs = len(problem.is_training)
    mean, covariance = (np.asarray(a, np.float32) for a in (laplace.mean, laplace.covariance))
    keys = jax.random.split(jax.random.key(seed), num_runs)
    step_sizes = on_one_core(one)(problem.runs, keys, mean, covariance)
    zeros = np.zeros(num_runs, np.float32)
    return Numbers(step_sizes, covariance, mean, mean, np.linalg.cholesky(covariance), zeros)


def with_guide(problem: Problem, numbers: Numbers, pilot: np.ndarray, seed: int) -> tuple[Numbers, float]:
    """The numbers with a guide of the pilot draws' moments, and the log envelope with which the most jumps succeed."""
    centred = pilot - pilot.mean(axis=1, keepdims=True, dtype=np.float64)
    covariance = np.einsum("rti,rtj->rij", centred, centred) / pilot.shape[1]
    numbers = numbers._replace(
        guide_mean=pilot.mean(axis=1), guide_tril=np.linalg.cholesky(covariance).astype(np.float32)
    )

    def log_ratios(run: Run, guide: vj.GaussianMixture, key: Any) -> Any:
        def one(key: Any) -> Any:
            x = guide.sample(key)
            return logdensity(problem.rows, run, x) - guide.log_prob(x)

        return jax.lax.map(one, jax.random.split(key, 1000), batch_size=50)

    keys = jax.random.split(jax.random.key(seed), len(pilot))
    ratios = np.asarray(over_runs(log_ratios, len(pilot))(problem.runs, one_by_one(guide_of)(numbers), keys))
    envelopes, acceptances = np.asarray([best_envelope(ratio, NUM_TRIES) for ratio in ratios]).T
    return numbers._replace(log_envelope=envelopes.astype(np.float32)), float(acceptances.mean())


def predictive(problem: Problem, draws: np.ndarray) -> np.ndarray:
    """Log of the posterior mean probabilities of both labels, (label, run, row), from some of the draws."""

    def one(run: Run, draws: Any) -> Any:
        def add(sums: Any, theta: Any) -> Any:
            weights = theta * run.inverse_scale
            logits = jnp.matmul(problem.rows, weights) - jnp.sum(run.shift * weights)
            return sums + jax.nn.sigmoid(jnp.stack([-logits, logits])), None

        return jax.lax.scan(add, jnp.zeros((2, len(problem.rows)), jnp.float32), draws)[0] / len(draws)

    means = over_runs(one, len(draws))(problem.runs, draws[:, ::PREDICT_EVERY])
    return np.log(np.maximum(np.asarray(means, np.float64), 1e-300))[..., problem.row_of].transpose(1, 0, 2)
