"""Time and memory of a run with a store, beside the same run without one.

``python benchmarks/store.py [--samples 200000]`` runs 64 chains in two dimensions each way: memory in processes of
their own, time in one process, the two ways in turn.
"""

import argparse
import resource
import subprocess
import sys
import tempfile
import time

import jax
import jax.numpy as jnp
import numpy as np

import vhmc_jax as vj
from vhmc_jax.runner.stored import CHUNK_BYTES

NUM_CHAINS, DIM, NUM_TURNS = 64, 2, 3
MEGA = 2**20


def logdensity(x):
    """Two Gaussians, far apart."""
    return jnp.logaddexp(-0.5 * jnp.sum((x - 3.0) ** 2), -0.5 * jnp.sum((x + 3.0) ** 2))


KERNEL = vj.hmc(logdensity, step_size=0.5, num_integration_steps=10)
STARTS = jnp.zeros((NUM_CHAINS, DIM))


def run(num_samples, store=None):
    chains = vj.run_chains(jax.random.key(0), KERNEL, STARTS, num_samples, store=store, stop_on_interrupt=True)
    return jax.block_until_ready(chains)


def peak(num_samples, is_stored):
    """Peak of the memory of a process that runs one way, in megabytes, beside that of a short run."""
    code = f"import sys; sys.path.insert(0, 'benchmarks'); import store; store.report({num_samples}, {is_stored})"
    output = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout
    return float(output.split()[-1])


def report(num_samples, is_stored):
    with tempfile.TemporaryDirectory() as path:
        run(num_samples, f"{path}/run" if is_stored else None)
    print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--samples", type=int, default=200_000)
    num_samples = parser.parse_args().samples

    short = peak(100, False)
    for name, is_stored in (("without", False), ("with", True)):
        print(f"{name:>8} a store: {peak(num_samples, is_stored) - short:7.0f} MB above a run of 100 draws")
    print(f"{'chunk':>8}         : {CHUNK_BYTES / MEGA:7.0f} MB")

    seconds: dict[bool, list[float]] = {False: [], True: []}
    for _ in range(1 + NUM_TURNS):  # the first turn compiles
        for is_stored, times in seconds.items():
            with tempfile.TemporaryDirectory() as path:
                started = time.perf_counter()
                run(num_samples, f"{path}/run" if is_stored else None)
                times.append(time.perf_counter() - started)
    without, with_store = (np.median(seconds[is_stored][1:]) for is_stored in (False, True))
    print(
        f"{num_samples:,} draws: {without:.2f} s without a store, {with_store:.2f} s with: {with_store / without:.2f} x"
    )


if __name__ == "__main__":
    main()
