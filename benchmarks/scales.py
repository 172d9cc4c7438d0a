"""Local moves on densities of several scales: gradients for one independent draw.

Neal's funnel (d = 10) and a banana, unimodal both. Chains start from exact draws, so that autocovariances about the
known means need no burn-in and do not flatter a chain that misses the neck. Each kernel runs with several step sizes
and the best counts. Prints the integrated autocorrelation time of each statistic in gradients, negative where half of
the run is too short to tell.

    python benchmarks/scales.py funnel
"""

import argparse
import functools
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import blackjax
import jax
import jax.numpy as jnp
import numpy as np

import vhmc_jax as vj

NUM_CHAINS = 256


class Density(NamedTuple):
    """A log density, exact draws, statistics of a position, and a scale of step sizes."""

    logdensity: Callable
    draw: Callable
    statistics: Callable
    step_sizes: tuple[float, ...]


def funnel() -> Density:
    def logdensity(x: Any) -> Any:
        return -(x[0] ** 2) / 18 - 0.5 * jnp.sum(x[1:] ** 2) * jnp.exp(-x[0]) - 4.5 * x[0]

    def draw(rng_key: Any) -> Any:
        normal = jax.random.normal(rng_key, (10,))
        return jnp.concatenate([3 * normal[:1], jnp.exp(1.5 * normal[0]) * normal[1:]])

    def statistics(x: Any) -> Any:
        return jnp.array([x[0], x[0] ** 2, jnp.where(x[0] < -4, 1.0, 0.0)])

    return Density(logdensity, draw, statistics, (0.05, 0.1, 0.2, 0.4))


def banana() -> Density:
    def logdensity(x: Any) -> Any:
        return -(x[0] ** 2) / 18 - 0.5 * (x[1] - 0.5 * (x[0] ** 2 - 9)) ** 2

    def draw(rng_key: Any) -> Any:
        first, second = jax.random.normal(rng_key, (2,))
        return jnp.stack([3 * first, second + 4.5 * (first**2 - 1)])

    def statistics(x: Any) -> Any:
        return jnp.array([x[0], x[1], x[1] ** 2])

    return Density(logdensity, draw, statistics, (0.1, 0.2, 0.3, 0.4))


DENSITIES = {"funnel": funnel, "banana": banana}


def kernels(f: Callable, step_sizes: tuple[float, ...]) -> Iterator[tuple[str, str, Any]]:
    """Family, setting and kernel."""
    for step_size in step_sizes:
        for length in (10, 30):
            yield (
                "hmc",
                f"{step_size} × {length}",
                vj.hmc(f, step_size=step_size, num_integration_steps=(1, 2 * length)),
            )
    for step_size in step_sizes:
        lhmc = functools.partial(vj.lhmc, f, step_size=step_size)
        yield "lhmc", f"{step_size} × 20", lhmc(num_integration_steps=(1, 40))
    for step_size in step_sizes[2:]:
        for factor in (3, 6):
            first, second = (
                vj.hmc(f, step_size=e, num_integration_steps=(1, n))
                for e, n in ((step_size * 1.5, 20), (step_size * 1.5 / factor, 40))
            )
            yield "delayed rejection", f"{step_size * 1.5:.2f}, / {factor}", vj.delayed_rejection(first, second)
    for factor in (2, 4):
        sizes = [step_sizes[-1] * 2 / factor**k for k in range(4)]
        parts = [vj.hmc(f, step_size=e, num_integration_steps=(1, 40)) for e in sizes]
        yield "mixture of step sizes", f"{sizes[0]}, / {factor}, 4 of them", vj.mixture(parts, np.ones(4))
    for step_size in step_sizes:
        nuts = blackjax.nuts(f, step_size, jnp.ones(2 if step_sizes[0] == 0.1 else 10))
        yield "nuts", f"{step_size}", vj.cycle(nuts)


def autocorrelation_times(statistics: np.ndarray, means: np.ndarray) -> np.ndarray:
    """Of values (time, chain, statistic) about known means; negative where lags of half the run do not suffice."""
    num = len(statistics)
    transform = np.fft.rfft(statistics - means, 2 * num, axis=0)
    covariances = np.fft.irfft(np.abs(transform) ** 2, axis=0)[:num].mean(axis=1) / np.arange(num, 0, -1)[:, None]
    pairs = (covariances / covariances[0])[: num // 2 * 2].reshape(-1, 2, len(means)).sum(axis=1)[: num // 4]
    times = []
    for column in pairs.T:
        below = np.flatnonzero(column < 0.02)
        end = below[0] if len(below) else len(column)
        time = 2 * column[:end].sum() - 1
        times.append(time if len(below) else -time)
    return np.array(times)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("density", choices=DENSITIES)
    parser.add_argument("--gradients", type=int, default=60_000, help="of one chain, about")
    arguments = parser.parse_args()
    density = DENSITIES[arguments.density]()
    exact = jax.vmap(density.draw)(jax.random.split(jax.random.key(0), 1_000_000))
    means = np.asarray(jax.vmap(density.statistics)(exact), np.float64).mean(axis=0)

    def keep(state: Any, info: Any) -> Any:
        return density.statistics(state.position)

    best: dict[str, tuple[float, str]] = {}
    for family, setting, kernel in kernels(density.logdensity, density.step_sizes):
        run = functools.partial(vj.run_chains, jax.random.key(1), kernel, keep=keep)
        pilot = run(exact[:NUM_CHAINS], 50)
        cost = float(np.mean(pilot.info_means.num_gradients))
        chains = run(exact[:NUM_CHAINS], int(arguments.gradients / cost))
        cost = float(np.mean(chains.info_means.num_gradients))
        times = cost * autocorrelation_times(np.asarray(chains.kept).swapaxes(0, 1).astype(np.float64), means)
        acceptance = float(np.mean(chains.info_means.acceptance_rate))
        print(f"{family:22s} {setting:22s} acceptance {acceptance:.2f}, {cost:6.1f} gradients a step, times", end=" ")
        print(" ".join(f"{time:8.0f}" for time in times), flush=True)
        worst = np.inf if np.any(times < 0) else np.max(times)
        best[family] = min(best.get(family, (np.inf, "")), (worst, setting))
        jax.clear_caches()
    for family, (time, setting) in best.items():
        print(f"best {family:22s} {time:8.0f} gradients for one draw of the worst statistic, at {setting}")


if __name__ == "__main__":
    main()
