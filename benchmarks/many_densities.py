"""One process, many log densities: memory and memory maps must stay level.

    python benchmarks/many_densities.py [--densities 60] [--kind sample | run_chains]

Each density is a new function with data of its own, and is forgotten after its call. Linux gives a process 65,530 maps
by default. Reads /proc, hence Linux alone. Memory is what is in use, and beside it what the process holds: glibc keeps
what was freed, up to the most that a call ever needed. JAX keeps 4,096 descriptions of programs, of which a density
has 14: some 70 kB each, until there are 300.
"""

import argparse
import contextlib
import ctypes
import gc
import os
import warnings
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np

import vhmc_jax as vj

REGION = vj.box(jnp.full(2, -10.0), jnp.full(2, 10.0))
NUM_FIRST = 3
"""Calls before the first figures count: those compile what all densities share."""


def maps():
    with open("/proc/self/maps") as file:
        return sum(1 for _ in file)


def megabytes():
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 2**20


def give_back():
    """Have glibc return what was freed, so that memory is what is in use."""
    gc.collect()
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL("libc.so.6").malloc_trim(0)


def density_of(number):
    centre = np.random.default_rng(number).normal(size=2)

    def logdensity(x):
        at = jnp.asarray(centre, x.dtype)
        return jnp.logaddexp(-0.5 * jnp.sum((x - at - 4.0) ** 2), -0.5 * jnp.sum((x - at + 4.0) ** 2))

    return logdensity


def call(number, kind):
    logdensity = density_of(number)
    if kind == "sample":
        vj.sample(jax.random.key(number), logdensity, REGION, num_chains=8, num_samples=100, progress=False)
    else:
        kernel = vj.hmc(logdensity, step_size=0.5, num_integration_steps=3)
        vj.run_chains(jax.random.key(number), kernel, jnp.zeros((4, 2)), 10)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--densities", type=int, default=60)
    parser.add_argument("--kind", choices=("sample", "run_chains"), default="sample")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    rows = []
    for number in range(options.densities):
        call(number, options.kind)
        held = megabytes()
        give_back()
        rows.append((maps(), megabytes()))
        if number % 5 == 4 or number < NUM_FIRST:
            in_use = f"{rows[-1][0]:6} maps, {rows[-1][1]:7.1f} MB in use of {held:.0f} MB"
            print(f"{number + 1:5} densities: {in_use}", flush=True)
    (maps_before, before), (maps_after, after) = rows[NUM_FIRST - 1], rows[-1]
    count = options.densities - NUM_FIRST
    print(f"a density adds {(maps_after - maps_before) / count:.1f} maps and {(after - before) / count:.2f} MB")


if __name__ == "__main__":
    main()
