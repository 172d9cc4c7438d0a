"""Peak memory of a long run, which must be in proportion to the draws that are kept.

Many chains of HMC in two dimensions with different thinning, each in a process of its own. The same program runs
first for as few iterations as fill the store, so that compilation is over; the figure is how far the process's own
memory rises above that before the long run, looked at every five milliseconds while it lasts. (The system's own
record of the peak counts pages of files too, which come and go as the system likes.)

    python benchmarks/memory.py [--chains 10000 --iterations 10000]

Reads /proc, hence Linux alone.
"""

import argparse
import json
import os
import subprocess
import sys
import threading
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


def memory():
    """Bytes of this process that are no file's: resident or swapped out."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return 1024 * sum(int(line.split()[1]) for line in lines if line.startswith(("RssAnon", "VmSwap")))


def peak_during(function):
    """What ``function`` returns, and the largest memory seen while it ran."""
    peak, is_done = memory(), threading.Event()

    def watch():
        nonlocal peak
        while not is_done.wait(0.005):
            peak = max(peak, memory())

    watcher = threading.Thread(target=watch)
    watcher.start()
    result = function()
    is_done.set()
    watcher.join()
    return result, max(peak, memory())


def measure(num_chains, num_iterations, thinning):
    """Run once in this process: bytes kept, rise of the peak, seconds."""
    kernel = vj.hmc(logdensity, step_size=1.0, num_integration_steps=1)
    starts, num_samples = jnp.zeros((num_chains, 2), jnp.float32), num_iterations // thinning

    def run(thinning):
        chains = vj.run_chains(jax.random.key(0), kernel, starts, num_samples, thinning=thinning, keep=keep_position)
        return jax.block_until_ready(chains.kept)

    run(1).delete()
    time.sleep(1.0)  # the runtime frees the store from another thread
    before, started = memory(), time.perf_counter()
    kept, peak = peak_during(lambda: run(thinning))
    return {"kept": kept.nbytes, "rise": peak - before, "seconds": time.perf_counter() - started}


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
