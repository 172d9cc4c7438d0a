"""The paper's baselines beside VHMC on the far pair, 0.7 N(μ, I) + 0.3 N(−μ, I) with μ = (6.5, −6.5).

HMC, magnetic and monomial-Gamma HMC start all chains in the lighter mode; parallel HMC finds the modes and starts as
many independent chains in each; VHMC is ``vj.sample``. Printed for each: the weight of the heavier mode, how often a
chain crossed, the effective size of the first coordinate within its mode (what a local sampler is good at) and of the
mode indicator, both for 1,000 evaluations, a gradient or a density value being one.

    python benchmarks/baselines.py [--samples 2000]
"""

import argparse

import jax
import jax.numpy as jnp
import numpy as np

import vhmc_jax as vj

TARGET = vj.targets.far_pair(0.7)
REGION = vj.box(jnp.full(2, -10.0), jnp.full(2, 10.0))
NUM_CHAINS = 64
SETTINGS = {"step_size": 0.9, "num_integration_steps": (1, 3)}


def local(kernel, starts=None):
    """Chains of a kernel from the lighter mode, or from the starts: draws and evaluations."""

    def run(rng_key, num_samples):
        positions = jnp.tile(jnp.asarray(TARGET.means[1], float), (NUM_CHAINS, 1)) if starts is None else starts()
        chains = vj.run_chains(rng_key, kernel, positions, num_samples)
        means = chains.info_means
        return chains.draws, float(jnp.sum(means.num_gradients + means.num_densities)) * chains.next_iteration

    return run


def starts_at_modes():
    """As many chains at each mode that the search finds: parallel HMC."""
    modes = vj.find_modes(jax.random.key(9), TARGET.logdensity, REGION)
    return jnp.tile(modes.positions, (NUM_CHAINS // len(modes.positions), 1))


def vhmc(rng_key, num_samples):
    """``sample`` with its search and fit counted."""
    result = vj.sample(
        rng_key, TARGET.logdensity, REGION, num_chains=NUM_CHAINS, num_samples=num_samples, progress=False
    )
    return result.draws, sum(phase.num_gradients + phase.num_densities for phase in result.phases)


def samplers():
    density = TARGET.logdensity
    return {
        "hmc": local(vj.hmc(density, **SETTINGS)),
        "lhmc": local(vj.lhmc(density, **SETTINGS)),
        "magnetic_hmc": local(vj.magnetic_hmc(density, field=1.0, **SETTINGS)),
        "monomial_gamma_hmc": local(vj.monomial_gamma_hmc(density, exponent=1.0, **SETTINGS)),
        "parallel HMC": local(vj.hmc(density, **SETTINGS), starts_at_modes),
        "vhmc": vhmc,
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--samples", type=int, default=2000, help="draws of each chain")
    options = parser.parse_args()
    print(f"jax {jax.__version__}, float32, {NUM_CHAINS} chains of {options.samples:,} draws; truth 0.700")
    print(f"{'':20}{'weight':>8}{'crossings':>11}{'ESS within':>12}{'ESS of modes':>14}{'evaluations':>13}")
    print(f"{'':20}{'':8}{'':11}{'per 1,000':>12}{'per 1,000':>14}")
    for name, run in samplers().items():
        draws, evaluations = run(jax.random.key(0), options.samples)
        report = vj.diagnostics.mode_report(draws, TARGET)
        centres = jnp.asarray(TARGET.means, draws.dtype)[np.maximum(report.labels, 0)]
        within = float(np.min(vj.diagnostics.ess(draws - centres)))
        between = report.ess[0] if np.isfinite(report.errors[0]) and not report.stuck_chains else 0.0
        crossings = int(np.sum(report.transitions) - np.trace(report.transitions))
        print(
            f"{name:20}{report.weights[0]:8.3f}{crossings:11,}{1000 * within / evaluations:12.1f}"
            f"{1000 * between / evaluations:14.1f}{evaluations:13,.0f}",
            flush=True,
        )


if __name__ == "__main__":
    main()
