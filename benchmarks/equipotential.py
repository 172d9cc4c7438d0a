"""What equipotential transformations gain on the paper's first target, every evaluation counted.

E1: a two-dimensional Gaussian, variances 10² and 10⁻², rotated by π/4, at the paper's settings (M = 1.2 I, γ = 0.5,
ε = 0.05, L = 40). Integrated autocorrelation time and effective sample size per evaluation of the slow coordinate,
for HMC, LHMC and LHMC-ET. One gradient is one evaluation, and so is a value with its directional derivative; a value
with two directional derivatives counts as two. "moved" is the number of transformations a step that reached the other
end of their chord; seconds include compilation.

    python benchmarks/equipotential.py
"""

import argparse
import time

import jax
import jax.numpy as jnp
import numpy as np

import vhmc_jax as vj

PAPER = {"step_size": 0.05, "num_integration_steps": 40, "inverse_mass_matrix": 1 / 1.2}
LANGEVIN = {**PAPER, "friction": 0.5}


def slow_coordinate(target):
    """The direction of the largest variance."""
    _, vectors = np.linalg.eigh(np.asarray(target.covariance))
    return jnp.asarray(vectors[:, -1], dtype=jnp.float32)


def fitted_metric(target, num_chains):
    """Covariance of a short run of LHMC-ET with isotropic directions."""
    kernel = vj.lhmc_et(target.logdensity, num_transformations=20, **LANGEVIN)
    chains = vj.run_chains(jax.random.key(1), kernel, jnp.zeros((num_chains, 2), jnp.float32), 100, num_burnin=50)
    return jnp.cov(chains.draws.reshape(-1, 2).T)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--chains", type=int, default=64)
    parser.add_argument("--samples", type=int, default=4000)
    options = parser.parse_args()
    target = vj.targets.correlated_gaussian()
    direction = slow_coordinate(target)
    start = target.sample(jax.random.key(0), options.chains).astype(jnp.float32)
    metric = fitted_metric(target, options.chains)

    logdensity = target.logdensity
    kernels = {
        "HMC": vj.hmc(logdensity, **PAPER),
        "LHMC": vj.lhmc(logdensity, **LANGEVIN),
        **{
            f"LHMC-ET, {m} isotropic": vj.lhmc_et(logdensity, num_transformations=m, **LANGEVIN) for m in (1, 5, 20, 50)
        },
        "LHMC-ET, 1 with fitted metric": vj.lhmc_et(logdensity, direction_metric=metric, **LANGEVIN),
    }
    print(f"jax {jax.__version__}, float32, {options.chains} chains × {options.samples} draws")
    print(f"{'':32}{'IACT':>8}{'evals':>8}{'ESS/eval':>11}{'× HMC':>8}{'accept':>8}{'moved':>7}{'seconds':>9}")
    baseline = None
    for name, kernel in kernels.items():
        started = time.perf_counter()
        chains = jax.block_until_ready(vj.run_chains(jax.random.key(2), kernel, start, options.samples))
        seconds = time.perf_counter() - started
        ess = float(vj.diagnostics.ess(chains.draws @ direction, kind="mean"))
        iact = options.chains * options.samples / ess
        means = jax.tree.map(lambda field: float(field.mean()), chains.info_means)
        per_evaluation = 1 / (iact * means.num_gradients)
        baseline = baseline or per_evaluation
        transformed = getattr(means, "num_transformed", 0.0)
        print(
            f"{name:32}{iact:8.1f}{means.num_gradients:8.1f}{per_evaluation:11.2e}{per_evaluation / baseline:8.1f}"
            f"{means.acceptance_rate:8.3f}{transformed:7.2f}{seconds:9.1f}",
            flush=True,
        )


if __name__ == "__main__":
    main()
