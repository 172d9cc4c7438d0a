"""Diagnostics beside ArviZ: time, and how far the figures differ.

Run as ``python benchmarks/diagnostics.py [--chains 1000 --draws 10000 --dim 10 --dtype float32]``. Draws are
autoregressive with a fifth of them repeated, as rejections repeat them. Ours is timed apart from compilation,
as the best of three calls; ArviZ, which compiles nothing, in one call after a small one.
"""

import argparse
import json
import time
import warnings

import jax
import jax.numpy as jnp
import numpy as np

import vhmc_jax.diagnostics as vd

with warnings.catch_warnings():  # ArviZ 0.x announces 1.x when it is imported
    warnings.simplefilter("ignore", FutureWarning)
    import arviz


def autoregressive(rng_key, chains, draws, dim, dtype, coefficient=0.9, acceptance=0.8):
    """Draws (chain, draw, component) of a stationary AR(1), a share of them replaced by the one before."""

    def step(x, key):
        noise_key, accept_key = jax.random.split(key)
        noise = jax.random.normal(noise_key, (chains, dim), dtype)
        accept = jax.random.uniform(accept_key, (chains, 1), dtype) < acceptance
        x = jnp.where(accept, coefficient * x + (1 - coefficient**2) ** 0.5 * noise, x)
        return x, x

    first_key, steps_key = jax.random.split(rng_key)
    first = jax.random.normal(first_key, (chains, dim), dtype)
    path = jax.lax.scan(step, first, jax.random.split(steps_key, draws))[1]
    return jnp.swapaxes(path, 0, 1)


def seconds(function):
    start = time.perf_counter()
    value = jax.block_until_ready(function())
    return time.perf_counter() - start, value


def by_dataset(function, **options):
    """ArviZ's figure of every component, as an array."""
    return lambda x: np.asarray(function(arviz.convert_to_dataset(x), **options)["x"])


FIGURES = {
    "autocorrelation": (vd.autocorrelation, lambda x: arviz.autocorr(x, axis=1)),
    "ESS of the mean": (lambda x: vd.ess(x, "mean"), by_dataset(arviz.ess, method="mean")),
    "split R-hat": (lambda x: vd.rhat(x, "split"), by_dataset(arviz.rhat, method="split")),
    "bulk ESS": (lambda x: vd.ess(x, "bulk"), by_dataset(arviz.ess, method="bulk")),
    "tail ESS": (lambda x: vd.ess(x, "tail"), by_dataset(arviz.ess, method="tail")),
    "rank-normalised R-hat": (lambda x: vd.rhat(x, "rank"), by_dataset(arviz.rhat, method="rank")),
}


def measure(ours, theirs, draws, host):
    theirs(host[:4, :100])
    first, _ = seconds(lambda: ours(draws))
    best, value = min((seconds(lambda: ours(draws)) for _ in range(3)), key=lambda pair: pair[0])
    arviz_seconds, expected = seconds(lambda: theirs(host))
    scale = np.maximum(np.abs(expected), 1e-3 if expected.ndim == 1 else 1.0)
    difference = float(np.max(np.abs(np.asarray(value, expected.dtype) - expected) / scale))
    return {"compile": first - best, "ours": best, "arviz": arviz_seconds, "difference": difference}


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--chains", type=int, default=1000)
    parser.add_argument("--draws", type=int, default=10_000)
    parser.add_argument("--dim", type=int, default=10)
    parser.add_argument("--dtype", choices=["float32", "float64"], default="float32")
    parser.add_argument("--json", help="also write the figures to this file")
    arguments = parser.parse_args()
    jax.config.update("jax_enable_x64", arguments.dtype == "float64")
    shape = (arguments.chains, arguments.draws, arguments.dim)
    draws = jax.block_until_ready(autoregressive(jax.random.key(0), *shape, arguments.dtype))
    host = np.asarray(draws)
    print(f"{shape[0]:,} chains x {shape[1]:,} draws x {shape[2]} components, {arguments.dtype}")
    print("| figure | compile s | ours s | ArviZ s | ArviZ / ours | largest difference |")
    print("|---|---|---|---|---|---|")
    results = {}
    for name, (ours, theirs) in FIGURES.items():
        row = results[name] = measure(ours, theirs, draws, host)
        print(
            f"| {name} | {row['compile']:.2f} | {row['ours']:.2f} | {row['arviz']:.2f} "
            f"| {row['arviz'] / row['ours']:.1f} | {row['difference']:.1e} |",
            flush=True,
        )
    if arguments.json:
        with open(arguments.json, "w") as file:
            json.dump({"shape": shape, "dtype": arguments.dtype, "figures": results}, file, indent=2)


if __name__ == "__main__":
    main()
