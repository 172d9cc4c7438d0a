"""E6: what parallel HMC makes of mode weights: its histogram beside VHMC's and the exact density.

E3's mixture, 0.7 N(−1, I) + 0.3 N(+1, I), in 32 dimensions. Chains start at the modes that the search found, equal
numbers at each, and both samplers take the same starts: 100 chains, 10,000 iterations of which 1,000 are burn-in,
ε = 0.05, L ~ U(80, 120), γ = 0.5, β = 0.1. The histogram is of s = Σ xᵢ / √d, along which the modes are told apart; its
exact law is 0.7 N(−√d, 1) + 0.3 N(√d, 1).

The paper's jump takes whatever passes the envelope, which is exact only where the envelope lies above the density. So
VHMC runs twice more with a guide whose two modes weigh the same, in the paper's form and in the exact one.

    python benchmarks/paper/e6_parallel.py [--quick]
"""

import time

import jax
import jax.numpy as jnp
import matplotlib as mpl
import numpy as np
from common import fitted_guide, guide_results, num_runs, options, progress, read, run_key, save_picture, write

import vhmc_jax as vj

mpl.use("Agg")
import matplotlib.pyplot as plt

DIM = 32
TARGET = vj.targets.high_dimensional_pair(DIM)
MARGINAL = vj.targets.GaussianMixtureTarget(TARGET.weights, np.sqrt(DIM) * TARGET.means[:, :1], np.ones(2))
PAPER = {"step_size": 0.05, "num_integration_steps": (80, 120)}
FRICTION, BETA = 0.5, 0.1
NUM_ITERATIONS, NUM_BURNIN = 10_000, 1_000
BINS = np.linspace(-10, 10, 101)
COLOURS = {"parallel HMC": "#E69F00", "VHMC": "#0072B2"}


def keep_projection(state, info):
    return jnp.sum(state.position, keepdims=True) / np.sqrt(DIM)


def measure(name, kernel, starts):
    """Histogram, mode weights with errors, and crossings of all chains together."""
    chains = vj.run_chains(
        run_key("E6", name), kernel, starts, NUM_ITERATIONS - NUM_BURNIN, num_burnin=NUM_BURNIN, keep=keep_projection
    )
    report = vj.diagnostics.mode_report(chains.kept, MARGINAL)
    means = jax.tree.map(lambda field: float(field.mean()), chains.info_means)
    return {
        "weights": report.weights,
        "errors": report.errors,
        "weight_error": 0.5 * float(np.abs(report.weights - TARGET.weights).sum()),
        "crossings": int(report.transitions.sum() - np.trace(report.transitions)),
        "stuck_chains": len(report.stuck_chains),
        "rhat": float(np.max(vj.diagnostics.rhat(chains.kept))),
        "acceptance": means.acceptance_rate,
        "evaluations": means.num_gradients + means.num_densities,
        "histogram": np.histogram(np.asarray(chains.kept), BINS, density=True)[0],
    }


def equal_weights(guide, report):
    """The guide with the same weight for each mode, its defensive component as it was."""
    is_mode = jnp.asarray(report.component_modes) >= 0
    weights = jnp.exp(guide.log_weights)
    equal = jnp.where(is_mode, jnp.sum(weights * is_mode) / jnp.sum(is_mode), weights)
    return vj.GaussianMixture(jnp.log(equal), guide.means, guide.scale_trils)


def main():
    chosen = options(__doc__)
    if not chosen.draw:
        started, chains = time.perf_counter(), num_runs(chosen, 100, 10)
        with progress("E6: modes and guide"):
            guide, report, modes = fitted_guide(TARGET, 5.0)
        starts = modes.positions[jnp.arange(chains) % len(modes.positions)]
        density = TARGET.logdensity
        jumps = {"friction": FRICTION, "jump_probability": BETA, "log_envelope": report.log_envelope}
        wrong = equal_weights(guide, report)
        kernels = {
            "parallel HMC": vj.hmc(density, **PAPER),
            "VHMC": vj.vhmc(density, guide, **jumps, **PAPER),
            "VHMC, guide of equal weights": vj.vhmc(density, wrong, **jumps, **PAPER),
            "VHMC, guide of equal weights, paper's jump": vj.vhmc(density, wrong, form="paper", **jumps, **PAPER),
        }
        samplers = {}
        for name, kernel in kernels.items():
            with progress(f"E6: {name}"):
                samplers[name] = measure(name, kernel, starts)
        settings = {
            "chains": chains,
            "dimension": DIM,
            "iterations": NUM_ITERATIONS,
            "burnin": NUM_BURNIN,
            "starts": "the modes found, equal numbers at each",
            **PAPER,
            "friction": FRICTION,
            "jump_probability": BETA,
        }
        results = {
            "truth": TARGET.weights,
            "samplers": samplers,
            "guide": guide_results(report, modes),
            "basin_shares": np.asarray(modes.basin_counts) / int(np.sum(modes.basin_counts)),
        }
        write(chosen, "e6", settings, results, time.perf_counter() - started)
    results = read(chosen, "e6")["results"]
    for name, figures in results["samplers"].items():
        print(f"{name:43} weights {figures['weights']} ± {figures['errors']}, {figures['crossings']:,} crossings")
    draw(chosen, results)


def draw(chosen, results):
    """Histograms against the density, and the weights of the modes."""
    figure, (left, right) = plt.subplots(1, 2, figsize=(11, 4.4), layout="constrained", width_ratios=[2, 1])
    s = np.linspace(BINS[0], BINS[-1], 801)
    z = s[:, None] - MARGINAL.means[:, 0]
    left.plot(s, np.exp(-0.5 * z**2) @ MARGINAL.weights / np.sqrt(2 * np.pi), "k", linewidth=1, label="density")
    places = np.arange(2)
    right.bar(places - 0.27, results["truth"], 0.25, color="k", alpha=0.7, label="truth")
    for number, name in enumerate(COLOURS):
        figures = results["samplers"][name]
        left.stairs(figures["histogram"], BINS, color=COLOURS[name], label=name, linewidth=1.4)
        errors = [2 * (error or 0.0) for error in figures["errors"]]
        right.bar(places + 0.27 * number, figures["weights"], 0.25, yerr=errors, color=COLOURS[name], label=name)
    left.set(xlabel="s = Σ xᵢ / √d", ylabel="density", title=f"E6: all chains pooled, d = {DIM}")
    left.legend(frameon=False)
    right.set(
        xticks=places,
        xticklabels=["mode at −1", "mode at +1"],
        ylabel="weight",
        ylim=(0, 1.05),
        title="weights of the modes",
    )
    right.legend(frameon=False, loc="upper center", ncols=3, fontsize="small")
    save_picture(chosen, "e6", figure)


if __name__ == "__main__":
    main()
