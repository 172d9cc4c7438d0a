"""``vj.sample`` with its defaults on every target, over seeds.

For each target: the worst total-variation error of the mode weights over the seeds, the worst mean and variance of a
coordinate in standard errors (Monte Carlo errors of the draws), the smallest effective size of a mode indicator and
of a coordinate per second and per 1,000 gradients of the whole call, the median time of a call without compiling, and
the time to the first draw of a first call, compiling included. For the logistic regression, which has no known
moments, those of the seeds are compared with those of one more run; its first call counts all of its draws.

    python benchmarks/sample.py [--seeds 10] [--only "E2 far" ...]
"""

import argparse
import time
import warnings

import jax
import jax.numpy as jnp
import numpy as np
from sklearn.datasets import load_breast_cancer

import vhmc_jax as vj

T = vj.targets


def cases():
    """Target and the box of the starts."""
    return {
        "E2 far": (T.far_pair(0.7), (-10.0, 10.0)),
        "E3 d = 2": (T.high_dimensional_pair(2), (-5.0, 5.0)),
        "E3 d = 32": (T.high_dimensional_pair(32), (-5.0, 5.0)),
        "E3 d = 128": (T.high_dimensional_pair(128), (-5.0, 5.0)),
        "E3 d = 256": (T.high_dimensional_pair(256), (-5.0, 5.0)),
        "E4 three": (T.three_modes(), (-40.0, 40.0)),
        "E4 narrow": (T.narrow_pair(), (-8.0, 8.0)),
        "GMM-40": (T.gmm40(), (-50.0, 50.0)),
        "20 modes": (T.twenty_modes(), (0.0, 10.0)),
        "breast cancer": (None, (-3.0, 3.0)),
    }


def breast_cancer():
    """Posterior of logistic regression on scikit-learn's breast-cancer data, standardised: 31 dimensions."""
    features, labels = load_breast_cancer(return_X_y=True)
    return T.logistic_regression((features - features.mean(0)) / features.std(0), labels, prior_variance=1.0)


def measure_breast_cancer(num_seeds):
    """The worst difference of means and variances from those of one more run, in standard errors of the difference."""
    target = breast_cancer()
    region = vj.box(jnp.full(target.dim, -3.0), jnp.full(target.dim, 3.0))
    results = []
    for seed in range(num_seeds + 1):
        started = time.perf_counter()
        result = vj.sample(jax.random.key(seed), target.logdensity, region, progress=False)
        results.append((result, time.perf_counter() - started))

    def moments(draws):
        squares = (draws - jnp.mean(reference.draws, (0, 1))) ** 2
        return [(jnp.mean(x, (0, 1)), vj.diagnostics.mcse(x)) for x in (draws, squares)]

    reference = results[0][0]
    rows = []
    for result, seconds in results[1:]:
        z = [
            float(jnp.max(jnp.abs(ours - theirs) / jnp.hypot(error, other_error)))
            for (ours, error), (theirs, other_error) in zip(
                moments(result.draws), moments(reference.draws), strict=True
            )
        ]
        ess = float(np.min(vj.diagnostics.ess(result.draws)))
        seconds -= sum(phase.compile_seconds for phase in result.phases)
        rows.append((0.0, *z, ess / seconds, 1000 * ess / result.num_gradients, seconds, len(result.warnings)))
    return np.array(rows), results[0][1]


def z_scores(draws, mean, variance):
    """Greatest deviation of a mean and of a variance from the truth, in Monte Carlo standard errors."""
    mean, variance = jnp.asarray(mean), jnp.asarray(variance)
    squares = (draws - mean) ** 2
    z_mean = (jnp.mean(draws, (0, 1)) - mean) / vj.diagnostics.mcse(draws)
    z_variance = (jnp.mean(squares, (0, 1)) - variance) / vj.diagnostics.mcse(squares)
    return float(jnp.max(jnp.abs(z_mean))), float(jnp.max(jnp.abs(z_variance)))


def measure(target, region, num_seeds):
    """Figures of all seeds; the first call is measured apart, since it compiles."""
    started = time.perf_counter()
    first = vj.sample(jax.random.key(1000), target.logdensity, region, num_samples=1, progress=False)
    jax.block_until_ready(first.draws)
    to_first_draw = time.perf_counter() - started
    rows = []
    vj.sample(jax.random.key(1001), target.logdensity, region, progress=False)  # the shape of the stored draws
    for seed in range(num_seeds):
        started = time.perf_counter()
        result = vj.sample(jax.random.key(seed), target.logdensity, region, progress=False)
        seconds = time.perf_counter() - started
        ess = min(float(np.min(vj.diagnostics.ess(result.draws))), float(np.nanmin(result.modes.ess)))
        compiling = sum(phase.compile_seconds for phase in result.phases)
        rows.append(
            (
                float(target.weight_error(result.draws.reshape(-1, target.dim))),
                *z_scores(result.draws, target.mean, np.diag(target.covariance)),
                ess / (seconds - compiling),
                1000 * ess / result.num_gradients,
                seconds - compiling,
                len(result.warnings),
            )
        )
    return np.array(rows), to_first_draw


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--only", nargs="*", help="names of targets")
    options = parser.parse_args()
    warnings.simplefilter("ignore", UserWarning)
    print(f"jax {jax.__version__}, float32, 64 chains of 1,000 draws, {options.seeds} seeds, defaults")
    print(
        f"{'target':14}{'weight error':>14}{'|z| mean':>10}{'|z| var.':>10}{'ESS / s':>10}{'ESS / 1,000 grad':>18}"
        f"{'seconds':>9}{'first draw, s':>15}{'warnings':>10}"
    )
    for name, (target, (low, high)) in cases().items():
        if options.only and name not in options.only:
            continue
        if target is None:
            rows, to_first_draw = measure_breast_cancer(options.seeds)
        else:
            region = vj.box(jnp.full(target.dim, low), jnp.full(target.dim, high))
            rows, to_first_draw = measure(target, region, options.seeds)
        worst, median, least = rows.max(axis=0), np.median(rows, axis=0), rows.min(axis=0)
        print(
            f"{name:14}{worst[0]:14.4f}{worst[1]:10.2f}{worst[2]:10.2f}{least[3]:10,.0f}{least[4]:18,.0f}"
            f"{median[5]:9.2f}{to_first_draw:15.1f}{worst[6]:10.0f}",
            flush=True,
        )


if __name__ == "__main__":
    main()
