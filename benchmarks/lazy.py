"""What jumps and second trajectories cost under ``vmap``.

Time of a vmapped ``vhmc`` step with jump probability 0.05 and about 5 % rejections, 512 chains, L = 30, divided by
that of plain ``lhmc``; beside it the same step with ``lax.cond``, which under ``vmap`` evaluates both branches for
every chain. All in one process, interleaved, compile time apart; the figure is the smallest of the repeats.

    python benchmarks/lazy.py
"""

import argparse
import functools
import time

import jax
import jax.numpy as jnp
import numpy as np

import vhmc_jax as vj
from vhmc_jax import lazy

NUM_CHAINS, NUM_STEPS, JUMP_PROBABILITY = 512, 30, 0.05
STEP_SIZES = {2: 0.62, 32: 0.40, 128: 0.30}
"""Step sizes with about 5 % rejections."""


def eager_cond(predicate, function, otherwise, *operands, block_share=1):
    """``lax.cond`` in the place of the lazy conditional."""
    if callable(otherwise):
        otherwise = otherwise(jax.eval_shape(function, *operands))
    return jax.lax.cond(predicate, lambda: function(*operands), lambda: jax.tree.map(jnp.asarray, otherwise))


def guide_of(target):
    """The target's own mixture as a guide."""
    dim = target.dim
    scale = jnp.broadcast_to(jnp.eye(dim, dtype=jnp.float32), (2, dim, dim))
    return vj.GaussianMixture(
        jnp.log(jnp.asarray(target.weights, jnp.float32)), jnp.asarray(target.means, jnp.float32), scale
    )


def loop(kernel):
    """A compiled loop over iterations of the vmapped step; infos are added up for each chain, as in ``run_chains``."""

    @functools.partial(jax.jit, static_argnames="num_iterations")
    def run(rng_key, states, num_iterations):
        def body(carry, keys):
            states, totals = carry
            states, info = jax.vmap(kernel.step)(keys, states)
            return (states, jax.tree.map(jnp.add, totals, info)), None

        keys = jax.random.split(rng_key, (num_iterations, NUM_CHAINS))
        infos = jax.eval_shape(jax.vmap(kernel.step), keys[0], states)[1]
        nothing = jax.tree.map(lambda leaf: jnp.zeros(leaf.shape, jnp.float32), infos)
        (states, totals), _ = jax.lax.scan(body, (states, nothing), keys)
        return states, jax.tree.map(lambda total: jnp.mean(total) / num_iterations, totals)

    return run


def seconds(function):
    started = time.perf_counter()
    jax.block_until_ready(function())
    return time.perf_counter() - started


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=15)
    parser.add_argument("--seconds", type=float, default=0.3, help="time of one repeat of plain lhmc")
    options = parser.parse_args()
    print(f"jax {jax.__version__}, float32, {NUM_CHAINS} chains, L = {NUM_STEPS}, jump probability {JUMP_PROBABILITY}")
    columns = f"{'vhmc / lhmc':>13}{'with lax.cond':>15}{'rejected':>10}{'jumps ok':>10}{'compile s':>11}"
    print(f"{'d':>5}{'lhmc, µs a step':>18}{columns}")
    for dim, step_size in STEP_SIZES.items():
        target = vj.targets.high_dimensional_pair(dim, 3.0)
        x = target.sample(jax.random.key(0), NUM_CHAINS).astype(jnp.float32)
        settings = {"step_size": step_size, "num_integration_steps": NUM_STEPS}
        jumps = {"jump_probability": JUMP_PROBABILITY, "log_envelope": 0.0}
        local = vj.lhmc(target.logdensity, **settings)
        kernel = vj.vhmc(target.logdensity, guide_of(target), **settings, **jumps)
        states = jax.vmap(kernel.init)(x)
        loops = {"lhmc": loop(local), "vhmc": loop(kernel), "cond": loop(kernel)}
        trial = functools.partial(loops["lhmc"], jax.random.key(1), states, 10)
        num_iterations = max(20, int(options.seconds / (min(seconds(trial) for _ in range(3)) / 10)))
        runs = {name: functools.partial(run, jax.random.key(1), states, num_iterations) for name, run in loops.items()}
        module = __import__("vhmc_jax.kernels.with_jumps", fromlist=["with_jumps"])
        compile_seconds = {"lhmc": seconds(runs["lhmc"]), "vhmc": seconds(runs["vhmc"])}
        module.lazy_cond = eager_cond
        compile_seconds["cond"] = seconds(runs["cond"])
        module.lazy_cond = lazy.lazy_cond
        best = dict.fromkeys(runs, np.inf)
        for _ in range(options.repeats):
            for name, run in runs.items():
                best[name] = min(best[name], seconds(run))
        _, info = runs["vhmc"]()
        rejected = float(info.is_second_stage) / (1 - JUMP_PROBABILITY)
        jumped = float(info.jump_accepted) / JUMP_PROBABILITY
        print(
            f"{dim:5}{1e6 * best['lhmc'] / num_iterations:18.0f}{best['vhmc'] / best['lhmc']:13.2f}"
            f"{best['cond'] / best['lhmc']:15.2f}{rejected:10.3f}{jumped:10.3f}{compile_seconds['vhmc']:11.1f}",
            flush=True,
        )


if __name__ == "__main__":
    main()
