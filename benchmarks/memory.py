"""Peak memory of a long run, which must be in proportion to the draws that are kept.

Many chains of HMC in two dimensions with different thinning, each in a process of its own. The same program runs
first for as few iterations as fill the store, so that compilation is over; then the peak (VmHWM) is set
back, and the figure is its rise during the long run above the memory in use before it.

    python benchmarks/memory.py [--chains 10000 --iterations 10000]

Reads /proc, hence Linux alone.
"""

import argparse
import json
import os
import subprocess
import sys
import time
from pathlib import Path

import jax
import jax.numpy as jnp

import vhmc_jax as vj

THINNINGS = (100, 50, 20, 10)
# Large blocks go back to the system when they are freed: else the peak would count what the first run left.
ENVIRONMENT = os.environ | {"MALLOC_MMAP_THRESHOLD_": "65536", "MALLOC_TRIM_THRESHOLD_": "65536"}


def logdensity(x):
    return -0.5 * jnp.sum(x**2)


def keep_position(state, info):
    return state.position


def memory(field):
    """VmHWM (peak) or VmRSS (now) of this process in bytes."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return 1024 * next(int(line.split()[1]) for line in lines if line.startswith(field))


def measure(num_chains, num_iterations, thinning):
    """Run once in this process: bytes kept, rise of the peak, seconds."""
    kernel = vj.hmc(logdensity, step_size=1.0, num_integration_steps=1)
    starts, num_samples = jnp.zeros((num_chains, 2), jnp.float32), num_iterations // thinning

    def run(thinning):
        chains = vj.run_chains(jax.random.key(0), kernel, starts, num_samples, thinning=thinning, keep=keep_position)
        return jax.block_until_ready(chains.kept)

    run(1).delete()
    Path("/proc/self/clear_refs").write_text("5")  # sets VmHWM back to what is in use
    before = memory("VmRSS")
    started = time.perf_counter()
    kept = run(thinning)
    return {"kept": kept.nbytes, "rise": memory("VmHWM") - before, "seconds": time.perf_counter() - started}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--chains", type=int, default=10_000)
    parser.add_argument("--iterations", type=int, default=10_000)
    parser.add_argument("--thinning", type=int, help="measure this one alone, and print figures as JSON")
    options = parser.parse_args()
    if options.thinning:
        print(json.dumps(measure(options.chains, options.iterations, options.thinning)))
        return
    print(f"{options.chains:,} chains × {options.iterations:,} iterations in 2 dimensions, float32")
    print(f"all draws would take {8 * options.chains * options.iterations / 2**20:,.0f} MiB")
    print(f"{'thinning':>8}  {'kept (MiB)':>10}  {'peak rise (MiB)':>15}  {'ratio':>5}  {'seconds':>7}")
    for thinning in THINNINGS:
        arguments = ["--chains", options.chains, "--iterations", options.iterations, "--thinning", thinning]
        command = [sys.executable, __file__, *map(str, arguments)]
        row = json.loads(subprocess.run(command, check=True, capture_output=True, text=True, env=ENVIRONMENT).stdout)
        kept, rise = row["kept"] / 2**20, row["rise"] / 2**20
        print(f"{thinning:8}  {kept:10.1f}  {rise:15.1f}  {rise / kept:5.2f}  {row['seconds']:7.1f}", flush=True)


if __name__ == "__main__":
    main()
