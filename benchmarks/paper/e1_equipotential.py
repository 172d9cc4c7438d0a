"""E1: what equipotential transformations do on one Gaussian that is long and narrow.

A Gaussian in two dimensions, variances 10² and 10⁻², rotated by π/4, at the paper's settings: M = 1.2 I, γ = 0.5,
ε = 0.05, L = 40, 200 samples, 100 runs. For HMC, LHMC and LHMC-ET the autocorrelation of the slow coordinate (about its
true mean, 0) and MMD² from the exact moments, mean and spread over the runs. LHMC-ET has one isotropic transformation a
step as in the paper, with the paper's iteration (EL = 10, err = 0.01) and with the one that is exact for any density;
then 20 of them; then one whose direction has a covariance fitted to a short run beforehand.

The paper does not say where its runs start. Here each starts from an exact draw, so that mixing alone is compared; what
MMD² comes to from the origin instead is reported beside it. Runs go on after the paper's 200 samples, for figures that
100 runs of 200 correlated samples are too few for: the integrated autocorrelation time (IACT), the effective size for
1,000 evaluations, and the mean MMD² of 200 samples over all stretches of 200 in the longer runs. LHMC makes L + 2 steps
where HMC makes L, so HMC with 42 steps is run too: what LHMC gains beyond that is due to its thermostats.

    python benchmarks/paper/e1_equipotential.py [--quick]
"""

import time

import jax
import jax.numpy as jnp
import matplotlib as mpl
import numpy as np
from common import log_spaced, num_runs, options, over_runs, progress, read, run_key, save_picture, write

import vhmc_jax as vj

mpl.use("Agg")
import matplotlib.pyplot as plt

TARGET = vj.targets.correlated_gaussian()
PAPER = {"step_size": 0.05, "num_integration_steps": 40, "inverse_mass_matrix": 1 / 1.2}
LANGEVIN = {**PAPER, "friction": 0.5}
PAPER_SOLVER = {"solver": "paper", "max_iterations": 10, "tolerance": 0.01}
NUM_SAMPLES = 200
NUM_LONG = {"HMC": 40_000, "HMC, L = 42": 40_000, "LHMC": 40_000}  # a tenth between them is to be told
NUM_LONG_ET = 4000
MAX_LAG = 100
LONGER = "HMC, L = 42"
COLOURS = {
    "HMC": "#333333",
    "LHMC": "#E69F00",
    "LHMC-ET, paper's iteration": "#D55E00",
    "LHMC-ET": "#56B4E9",
    "LHMC-ET, 20 transformations": "#0072B2",
    "LHMC-ET, fitted metric": "#009E73",
}


def slow_direction():
    """The direction of the largest variance."""
    return jnp.asarray(np.linalg.eigh(TARGET.covariance)[1][:, -1], float)


def fitted_metric(num_chains):
    """Covariance of a short run of LHMC-ET with isotropic directions, from the origin."""
    kernel = vj.lhmc_et(TARGET.logdensity, num_transformations=20, **LANGEVIN)
    chains = vj.run_chains(jax.random.key(1), kernel, jnp.zeros((num_chains, 2)), 100, num_burnin=50)
    return jnp.cov(chains.draws.reshape(-1, 2).T)


def kernels(metric):
    density = TARGET.logdensity
    return {
        "HMC": vj.hmc(density, **PAPER),
        LONGER: vj.hmc(density, **{**PAPER, "num_integration_steps": 42}),
        "LHMC": vj.lhmc(density, **LANGEVIN),
        "LHMC-ET, paper's iteration": vj.lhmc_et(density, **LANGEVIN, **PAPER_SOLVER),
        "LHMC-ET": vj.lhmc_et(density, **LANGEVIN),
        "LHMC-ET, 20 transformations": vj.lhmc_et(density, num_transformations=20, **LANGEVIN),
        "LHMC-ET, fitted metric": vj.lhmc_et(density, direction_metric=metric, **LANGEVIN),
    }


def discrepancy(draws):
    return vj.diagnostics.mmd_curve(draws, mean=TARGET.mean, covariance=TARGET.covariance)


def integrated_time(chains):
    return chains.size / float(vj.diagnostics.ess(chains, kind="mean"))


def keep_position(state, info):
    return state.position


def measure(name, kernel, runs, num_long):
    """Figures of all runs of a kernel: the paper's 200 samples, and what the runs come to when they go on."""
    exact = TARGET.sample(run_key("E1 starts", name), runs)
    # Runs from exact draws and from the origin are chains of one program; the latter go on for company.
    starts = jnp.concatenate([exact, jnp.zeros_like(exact)])
    chains = vj.run_chains(run_key("E1", name), kernel, starts, num_long, keep=keep_position)
    draws, from_origin = chains.kept[:runs], chains.kept[runs:, :NUM_SAMPLES]
    paper, stretches = draws[:, :NUM_SAMPLES], draws.reshape(-1, NUM_SAMPLES, 2)
    slow = draws @ slow_direction()
    curve = discrepancy(paper)
    means = jax.tree.map(lambda field: float(field.mean()), chains.info_means)
    iact = integrated_time(slow)
    by_group = [integrated_time(group) for group in np.array_split(np.asarray(slow), min(10, runs))]
    return {
        "autocorrelation": over_runs(
            vj.diagnostics.autocorrelation(slow[:, :NUM_SAMPLES], MAX_LAG, mean=jnp.zeros(()))
        ),
        "mmd": over_runs(curve[:, log_spaced(NUM_SAMPLES) - 1]),
        "mmd_end": over_runs(curve[:, -1]),
        "mmd_end_of_stretches": over_runs(discrepancy(stretches)[:, -1].reshape(runs, -1).mean(axis=1)),
        "mmd_end_from_origin": over_runs(discrepancy(from_origin)[:, -1]),
        "samples_of_iact": num_long,
        "iact": iact,
        "iact_error": float(np.std(by_group, ddof=1) / np.sqrt(len(by_group))) if len(by_group) > 1 else None,
        "evaluations": means.num_gradients + means.num_densities,
        "ess_per_1000": 1000 / (iact * (means.num_gradients + means.num_densities)),
        "acceptance": means.acceptance_rate,
        "transformed": getattr(means, "num_transformed", 0.0),
    }


def main():
    chosen = options(__doc__)
    if not chosen.draw:
        started = time.perf_counter()
        runs = num_runs(chosen, 100, 20)
        with progress("E1: fitting a metric"):
            metric = fitted_metric(64)
        samplers = {}
        for name, kernel in kernels(metric).items():
            with progress(f"E1: {name}"):
                num_long = 1000 if chosen.quick else NUM_LONG.get(name, NUM_LONG_ET)
                samplers[name] = measure(name, kernel, runs, num_long)
        ideal = discrepancy(TARGET.sample(jax.random.key(4), runs * NUM_SAMPLES).reshape(runs, NUM_SAMPLES, 2))
        settings = {
            "runs": runs,
            "samples": NUM_SAMPLES,
            "starts": "exact draws",
            **LANGEVIN,
            "paper_solver": PAPER_SOLVER,
        }
        results = {
            "sample_numbers": log_spaced(NUM_SAMPLES),
            "samplers": samplers,
            "independent_draws": {"mmd": over_runs(ideal[:, log_spaced(NUM_SAMPLES) - 1])},
            "fitted_metric": metric,
        }
        write(chosen, "e1", settings, results, time.perf_counter() - started)
    draw(chosen)


def draw(chosen):
    """Autocorrelation and MMD², mean with the middle 80 % of the runs."""
    results = read(chosen, "e1")["results"]
    figure, (left, right) = plt.subplots(1, 2, figsize=(11, 4.6), layout="constrained")
    numbers = results["sample_numbers"]
    for name, figures in results["samplers"].items():
        if name == LONGER:
            continue  # on HMC's, to the eye
        for axes, x, curve in (
            (left, range(MAX_LAG + 1), figures["autocorrelation"]),
            (right, numbers, figures["mmd"]),
        ):
            dashes = (0, (4, 3)) if name == "LHMC-ET, paper's iteration" else "-"  # it lies on LHMC-ET's
            order = 3 if name == "LHMC-ET, paper's iteration" else 2
            axes.plot(x, curve["mean"], color=COLOURS[name], label=name, linestyle=dashes, zorder=order)
            axes.fill_between(x, curve["low"], curve["high"], color=COLOURS[name], alpha=0.12, linewidth=0)
    right.plot(numbers, results["independent_draws"]["mmd"]["mean"], "k:", label="independent draws")
    left.axhline(0, color="k", linewidth=0.5)
    left.set(
        xlabel="lag (iterations)", ylabel="autocorrelation of the slow coordinate", xlim=(0, MAX_LAG), ylim=(-0.4, 1)
    )
    right.set(xscale="log", yscale="log", xlabel="sample number", ylabel="MMD² from the exact moments")
    figure.legend(*right.get_legend_handles_labels(), loc="outside lower center", ncols=4, frameon=False)
    figure.suptitle("E1: lines are means over the runs, bands the middle 80 % of them", fontsize="medium")
    save_picture(chosen, "e1", figure)


if __name__ == "__main__":
    main()
