"""Is the sentence about the smallest basin true? A mode of half the mass that gets narrower and narrower.

The mode report says that a basin of a share b of the region was reached with a probability of 95 %. Here the density is
½ N(−4, s² I) + ½ N(4, I) in two dimensions and a box of ±10. For each s the table shows the share of 65,536 starts that
climb to the narrow mode, the b of the reports, and the share of runs of ``find_modes`` that found the mode, beside
1 − (1 − share)ⁿ for n starts. Where the share is at least b, at least 95 % of the runs should find it.

    python benchmarks/needle.py [--runs 200]
"""

import argparse

import jax
import jax.numpy as jnp
import numpy as np
from jax.tree_util import Partial
from provenance import commit

import vhmc_jax as vj

WIDTHS = (0.1, 0.05, 0.04, 0.03, 0.025, 0.02, 0.01)
NUM_MEASURED, STARTS = 16, 4096
REGION = vj.box(jnp.full(2, -10.0), jnp.full(2, 10.0))


def logdensity(width, x):
    """Log of the density, up to a constant."""
    narrow = -0.5 * jnp.sum(((x + 4) / width) ** 2) - 2 * jnp.log(width)
    return jnp.logaddexp(narrow, -0.5 * jnp.sum((x - 4) ** 2))


def search(density, seed, num_starts=None):
    """Starts that led to the narrow mode, those that there were, and the smallest basin by the report."""
    modes = vj.find_modes(jax.random.key(seed), density, REGION, num_starts=num_starts)
    is_narrow = np.asarray(modes.positions)[:, 0] < 0
    return int(np.asarray(modes.basin_counts)[is_narrow].sum()), modes.num_starts, modes.smallest_basin


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=200)
    options = parser.parse_args()
    print(f"jax {jax.__version__}, commit {commit('benchmarks')}, {options.runs} runs")
    print(f"{'s':>6}{'basin':>10}{'b':>10}{'starts':>8}{'found':>9}{'expected':>10}")
    for width in WIDTHS:
        density = Partial(logdensity, jnp.float32(width))
        counts = [search(density, 10_000 + seed, STARTS)[0] for seed in range(NUM_MEASURED)]
        basin = sum(counts) / (NUM_MEASURED * STARTS)
        found, starts, bounds = zip(*(search(density, seed) for seed in range(options.runs)), strict=True)
        least = int(np.median(starts))
        print(
            f"{width:6.3g}{basin:10.5f}{np.median(bounds):10.5f}{least:8d}{np.mean(np.array(found) > 0):9.1%}"
            f"{1 - (1 - basin) ** least:10.1%}",
            flush=True,
        )


if __name__ == "__main__":
    main()
