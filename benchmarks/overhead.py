"""What a kernel costs beyond its gradients.

Time per gradient (total time over counted gradients, float32) of each kernel with 50 leapfrog steps on
0.7 N(3·1, I) + 0.3 N(−3·1, I), divided by the time of one turn of the bare loop x + c ∇log π(x) over the same
batch. All in one process, interleaved, compile time apart; the figure is the smallest of the repeats.

    python benchmarks/overhead.py
"""

import argparse
import functools
import time

import blackjax
import jax
import jax.numpy as jnp
import numpy as np

import vhmc_jax as vj

SHAPES = [(2, 1), (2, 64), (2, 1024), (64, 1), (64, 256), (256, 64)]
NUM_STEPS = 50


def logdensity(x):
    """0.7 N(3·1, I) + 0.3 N(−3·1, I), up to a constant."""
    return jnp.logaddexp(jnp.log(0.7) - 0.5 * jnp.sum((x - 3) ** 2), jnp.log(0.3) - 0.5 * jnp.sum((x + 3) ** 2))


@functools.partial(jax.jit, static_argnames="num_turns")
def bare_loop(x, num_turns):
    gradient = jax.vmap(jax.grad(logdensity))
    return jax.lax.fori_loop(0, num_turns, lambda _, x: x + 1e-3 * gradient(x), x)


def kernel_loop(kernel):
    """A compiled loop over iterations of the vmapped step, nothing stored."""

    @functools.partial(jax.jit, static_argnames="num_iterations")
    def run(rng_key, states, num_iterations):
        def body(states, keys):
            states, _ = jax.vmap(kernel.step)(keys, states)
            return states, None

        keys = jax.random.split(rng_key, (num_iterations, len(states.logdensity)))
        return jax.lax.scan(body, states, keys)[0]

    return run


def kernels(dim):
    """Every kernel with 50 leapfrog steps and unit mass, and the gradients that one step takes."""
    settings = {"step_size": 0.05, "num_integration_steps": NUM_STEPS}
    return {
        "BlackJAX hmc": (blackjax.hmc(logdensity, inverse_mass_matrix=jnp.ones(dim), **settings), NUM_STEPS),
        "hmc": (vj.hmc(logdensity, **settings), NUM_STEPS),
        "lhmc": (vj.lhmc(logdensity, **settings), NUM_STEPS + 2),
        "magnetic_hmc": (vj.magnetic_hmc(logdensity, field=1.0, **settings), NUM_STEPS),
        "monomial_gamma_hmc": (vj.monomial_gamma_hmc(logdensity, **settings), NUM_STEPS),
        "hmc (40, 60)": (vj.hmc(logdensity, step_size=0.05, num_integration_steps=(40, 60)), NUM_STEPS),
    }


def seconds(function, *args):
    started = time.perf_counter()
    jax.block_until_ready(function(*args))
    return time.perf_counter() - started


def measure(dim, chains, num_repeats, budget):
    """Smallest seconds a gradient of the bare loop and of each kernel."""
    x = jax.random.normal(jax.random.key(0), (chains, dim), jnp.float32)
    jax.block_until_ready(bare_loop(x, NUM_STEPS))
    turn = seconds(bare_loop, x, NUM_STEPS) / NUM_STEPS
    num_iterations = max(4, int(budget / (NUM_STEPS * turn)))
    runs = {"bare loop": (lambda: bare_loop(x, NUM_STEPS * num_iterations), NUM_STEPS)}
    for name, (kernel, gradients) in kernels(dim).items():
        states = jax.vmap(kernel.init)(x)
        loop = kernel_loop(kernel)
        runs[name] = (functools.partial(loop, jax.random.key(1), states, num_iterations), gradients)
    for run, _ in runs.values():
        jax.block_until_ready(run())  # compile
    best = dict.fromkeys(runs, np.inf)
    for _ in range(num_repeats):
        for name, (run, gradients) in runs.items():
            best[name] = min(best[name], seconds(run) / (num_iterations * gradients))
    return best


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument("--seconds", type=float, default=0.3, help="time of one repeat of the bare loop")
    options = parser.parse_args()
    print(f"jax {jax.__version__}, blackjax {blackjax.__version__}, {jax.devices()[0].platform}, float32")
    ratios = {}
    for dim, chains in SHAPES:
        best = measure(dim, chains, options.repeats, options.seconds)
        bare = best.pop("bare loop")
        for name, value in best.items():
            ratios.setdefault(name, []).append(value / bare)
        print(f"  ({dim}, {chains}): bare loop {1e6 * bare:.2f} µs a gradient", flush=True)
    print("\nTime per gradient over the bare loop's, by (dimension, chains)")
    print(f"{'':20}" + "".join(f"{s!s:>11}" for s in SHAPES) + f"{'geo. mean':>11}")
    for name, row in ratios.items():
        print(f"{name:20}" + "".join(f"{r:11.2f}" for r in row) + f"{np.exp(np.mean(np.log(row))):11.2f}")


if __name__ == "__main__":
    main()
