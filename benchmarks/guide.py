"""Finding, fitting and weighing the modes of targets whose truth is known.

For each target: modes found out of the true ones, total-variation error of the guide's weights (from exact draws of the
guide), expected acceptance of a jump, evaluations, and the time of a first call, compilation included, and of a second
one with another key.

    python benchmarks/guide.py
"""

import argparse
import time
import warnings

import jax
import jax.numpy as jnp
import numpy as np

import vhmc_jax as vj

T = vj.targets


def cases():
    """Target, number of true modes, and the box of the starts."""
    return {
        "E2 far": (T.far_pair(0.5), 2, (-10.0, 10.0)),
        "E3 d = 2": (T.high_dimensional_pair(2), 2, (-5.0, 5.0)),
        "E3 d = 32": (T.high_dimensional_pair(32), 2, (-5.0, 5.0)),
        "E3 d = 128": (T.high_dimensional_pair(128), 2, (-5.0, 5.0)),
        "E3 d = 256": (T.high_dimensional_pair(256), 2, (-5.0, 5.0)),
        "E4 three": (T.three_modes(), 3, (-40.0, 40.0)),
        "E4 narrow": (T.narrow_pair(), 2, (-8.0, 8.0)),
        "GMM-40": (T.gmm40(), 36, (-50.0, 50.0)),
        "20 modes": (T.twenty_modes(), 20, (0.0, 10.0)),
    }


def fit(target, region, seed):
    started = time.perf_counter()
    key_modes, key_fit = jax.random.split(jax.random.key(seed))
    modes = vj.find_modes(key_modes, target.logdensity, region)
    found = time.perf_counter()
    guide, report = vj.fit_guide(key_fit, target.logdensity, modes)
    jax.block_until_ready(guide.means)
    return modes, guide, report, found - started, time.perf_counter() - found


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--draws", type=int, default=100_000, help="draws of the guide for the error of its weights")
    parser.add_argument("--only", nargs="*", help="names of targets")
    options = parser.parse_args()
    warnings.simplefilter("ignore", UserWarning)
    print(f"jax {jax.__version__}, float32; 1,024 draws a mode")
    print(
        f"{'target':12}{'modes':>8}{'weight error':>14}{'acceptance':>12}{'gradients':>11}{'densities':>11}"
        f"{'1st call, s':>13}{'2nd: find + fit, s':>20}"
    )
    for name, (target, num_modes, (low, high)) in cases().items():
        if options.only and name not in options.only:
            continue
        region = vj.box(jnp.full(target.dim, low), jnp.full(target.dim, high))
        modes, guide, report, *first = fit(target, region, 0)
        draws = jax.lax.map(guide.sample, jax.random.split(jax.random.key(7), options.draws), batch_size=10_000)
        error = float(target.weight_error(draws))
        *_, find_seconds, fit_seconds = fit(target, region, 1)
        print(
            f"{name:12}{f'{len(modes.logdensities)}/{num_modes}':>8}{error:14.4f}{report.expected_acceptance:12.3f}"
            f"{modes.num_gradients + report.num_gradients:11,}{modes.num_densities + report.num_densities:11,}"
            f"{np.sum(first):13.1f}{f'{find_seconds:.2f} + {fit_seconds:.2f}':>20}",
            flush=True,
        )


if __name__ == "__main__":
    main()
