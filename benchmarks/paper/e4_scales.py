"""E4: modes of unequal weight and width, HMC against VHMC.

Three Gaussians on the line, weights 0.1, 0.8, 0.1, standard deviations 1, 3, 2; and two in the plane, each of
covariance diag(0.01, 1), of equal weight. The paper does not give the distances: here the three are at −20, 0, 20 and
the two at ±(4, 0). 10,000 iterations of which 1,000 are burn-in; ε = 0.05, L ~ U(80, 120), γ = 0.5, β = 0.1 and starts
at the origin as in E2, since the paper's text on E4 names no others. Scatter and histogram of the first run; weights
of the modes (mean responsibilities) and their total-variation error over 100 runs.

    python benchmarks/paper/e4_scales.py [--quick]
"""

import time

import jax
import jax.numpy as jnp
import matplotlib as mpl
import numpy as np
from common import (
    fitted_guide,
    guide_results,
    num_runs,
    options,
    over_runs,
    progress,
    read,
    run_key,
    save_picture,
    write,
)

import vhmc_jax as vj

mpl.use("Agg")
import matplotlib.pyplot as plt

TARGETS = {"three": vj.targets.three_modes(), "narrow": vj.targets.narrow_pair()}
HALF_WIDTHS = {"three": 40.0, "narrow": 8.0}
BINS = {"three": np.linspace(-27, 27, 109), "narrow": np.linspace(-4.6, 4.6, 185)}
PAPER = {"step_size": 0.05, "num_integration_steps": (80, 120)}
FRICTION, BETA = 0.5, 0.1
NUM_ITERATIONS, NUM_BURNIN = 10_000, 1_000
NUM_SAMPLES = NUM_ITERATIONS - NUM_BURNIN
NUM_POINTS = 900
COLOURS = {"HMC": "#333333", "VHMC": "#0072B2"}


def keep_position(state, info):
    return state.position


@jax.jit
def weights_by_run(target, draws):
    """Mean responsibilities of the modes, (run, mode)."""
    return jax.vmap(lambda run: jnp.mean(jax.vmap(target.mode_responsibilities)(run), axis=0))(draws)


def measure(name, sampler, kernel, runs):
    """Weights over all runs, scatter and histogram of the first."""
    target = TARGETS[name]
    chains = vj.run_chains(
        run_key("E4", name, sampler),
        kernel,
        jnp.zeros((runs, target.dim)),
        NUM_SAMPLES,
        num_burnin=NUM_BURNIN,
        keep=keep_position,
    )
    weights = np.asarray(weights_by_run(target, chains.kept), np.float64)
    labels = np.argmax(np.asarray(jax.vmap(jax.vmap(target.mode_responsibilities))(chains.kept)), axis=-1)
    means = jax.tree.map(lambda field: float(field.mean()), chains.info_means)
    return {
        "weights": {"mean": weights.mean(axis=0), "sd": weights.std(axis=0)},
        "weight_error": over_runs(0.5 * np.abs(weights - target.mode_weights).sum(axis=1)),
        "weights_of_first_run": weights[0],
        "modes_seen": float(np.mean([len(np.unique(run)) for run in labels])),
        "crossings_per_1000": 1000 * float(np.mean(labels[:, 1:] != labels[:, :-1])),
        "acceptance": means.acceptance_rate,
        "evaluations": means.num_gradients + means.num_densities,
        "histogram": np.histogram(np.asarray(chains.kept[0, :, 0]), BINS[name], density=True)[0],
        "scatter": chains.kept[0, :: NUM_SAMPLES // NUM_POINTS],
    }


def measure_target(name, runs):
    target = TARGETS[name]
    with progress(f"E4 {name}: modes and guide"):
        guide, report, modes = fitted_guide(target, HALF_WIDTHS[name])
    kernels = {
        "HMC": vj.hmc(target.logdensity, **PAPER),
        "VHMC": vj.vhmc(
            target.logdensity,
            guide,
            friction=FRICTION,
            jump_probability=BETA,
            log_envelope=report.log_envelope,
            **PAPER,
        ),
    }
    samplers = {}
    for sampler, kernel in kernels.items():
        with progress(f"E4 {name}: {sampler}"):
            samplers[sampler] = measure(name, sampler, kernel, runs)
    return {"truth": target.mode_weights, "samplers": samplers, "guide": guide_results(report, modes)}


def main():
    chosen = options(__doc__)
    if not chosen.draw:
        started, runs = time.perf_counter(), num_runs(chosen, 100, 10)
        results = {name: measure_target(name, runs) for name in TARGETS}
        settings = {
            "runs": runs,
            "iterations": NUM_ITERATIONS,
            "burnin": NUM_BURNIN,
            "start": "the origin",
            **PAPER,
            "friction": FRICTION,
            "jump_probability": BETA,
        }
        write(chosen, "e4", settings, results, time.perf_counter() - started)
    results = read(chosen, "e4")["results"]
    for name in TARGETS:
        print(f"{name}: truth {results[name]['truth']}")
        for sampler, figures in results[name]["samplers"].items():
            print(f"  {sampler:5} weights {figures['weights']['mean']}, error {figures['weight_error']['mean']:.4f}")
    draw(chosen, results)


def marginal(name, x):
    """The exact density of the first coordinate."""
    target = TARGETS[name]
    scales = np.reshape(target.scale_trils, (len(target.weights), -1))[:, 0]
    z = (x[:, None] - target.means[:, 0]) / scales
    return np.exp(-0.5 * z**2) @ (target.weights / (scales * np.sqrt(2 * np.pi)))


def draw(chosen, results):
    """Scatter of both samplers, and their histograms of the first coordinate against the density."""
    figure, axes = plt.subplots(2, 3, figsize=(13, 7.4), layout="constrained", width_ratios=[1, 1, 1.3])
    titles = {"three": "three modes", "narrow": "narrow pair"}
    for row, (name, title) in zip(axes, titles.items(), strict=True):
        *scatters, histogram = row
        x = np.linspace(BINS[name][0], BINS[name][-1], 2001)
        histogram.plot(x, marginal(name, x), "k", linewidth=0.8, label="density")
        for panel, (sampler, figures) in zip(scatters, results[name]["samplers"].items(), strict=True):
            points, colour = np.array(figures["scatter"]), COLOURS[sampler]
            if points.shape[1] == 1:
                iterations = NUM_BURNIN + NUM_SAMPLES / len(points) * np.arange(len(points))
                panel.plot(iterations, points[:, 0], ".", markersize=3, color=colour, alpha=0.6)
                panel.set(xlabel="iteration", ylabel="x", ylim=(BINS[name][0], BINS[name][-1]))
            else:
                panel.plot(*points.T, ".", markersize=3, color=colour, alpha=0.6)
                panel.set(xlabel="x[0]", ylabel="x[1]", xlim=(-5, 5), ylim=(-4, 4))
            panel.set(title=f"{sampler}, {title}")
            histogram.stairs(
                figures["histogram"], BINS[name], color=colour, label=sampler, alpha=0.75,
                linestyle="--" if sampler == "HMC" else "-",
            )  # fmt: skip
        histogram.set(title=f"{title}, one run", xlabel="x" if name == "three" else "x[0]", ylabel="density")
        histogram.legend(loc="upper right" if name == "three" else "upper center", frameon=False)
    save_picture(chosen, "e4", figure)


if __name__ == "__main__":
    main()
