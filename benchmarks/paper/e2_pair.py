"""E2: two Gaussians of equal weight, near and far: ½ N(μ, I) + ½ N(−μ, I), μ = (2.5, −2.5) and (6.5, −6.5).

HMC, magnetic HMC (MHMC), monomial-Gamma HMC (MGHMC) and VHMC at the paper's settings: 10,000 iterations of which 1,000
are burn-in, L ~ U(80, 120), ε = 0.05, γ = 0.5, start (0, 0), 100 runs. Scatter of one run; MMD² from the exact moments
and autocorrelation of the first coordinate about its true mean, 0, over the runs (about its own mean a chain that never
leaves its mode looks perfect: that figure is stored too). VHMC's guide is found and fitted from starts in a box; β is
0.1. The paper names neither the field of MHMC nor the exponent of MGHMC; both are 1 here.

On the far pair, where no local move crosses, β in 0.1, 0.3, 0.5, 0.9 and the lag-1 autocorrelation ρ of the mode
indicator beside what it should be. A step is a jump with probability β, accepted with probability a; a share s of all
steps is a second chance, after a local rejection, that is accepted. Either lands in a mode drawn without regard to the
present one, and all other steps stay in theirs: ρ = 1 − β a − s. At ε = 0.05 hardly anything is rejected and s is next
to nothing, so the same is done with ε = 0.9 and L ~ U(1, 3), a trajectory that suits the target. The relative error of
the mean is not given: the true mean is 0.

    python benchmarks/paper/e2_pair.py [--quick]
"""

import time

import jax
import jax.numpy as jnp
import matplotlib as mpl
import numpy as np
from common import (
    fitted_guide,
    guide_results,
    log_spaced,
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

PAIRS = {"near": vj.targets.near_pair(0.5), "far": vj.targets.far_pair(0.5)}
HALF_WIDTHS = {"near": 6.0, "far": 10.0}
PAPER = {"step_size": 0.05, "num_integration_steps": (80, 120)}
TUNED = {"step_size": 0.9, "num_integration_steps": (1, 3)}
FRICTION, FIELD, EXPONENT = 0.5, 1.0, 1.0
BETAS = (0.1, 0.3, 0.5, 0.9)
NUM_ITERATIONS, NUM_BURNIN = 10_000, 1_000
NUM_SAMPLES = NUM_ITERATIONS - NUM_BURNIN
FROM_SAMPLE = 200  # MMD² is compared from here on
SAMPLE_NUMBERS = np.union1d(log_spaced(NUM_SAMPLES), [FROM_SAMPLE, 500])
MAX_LAG = 60
NUM_POINTS = 600
COLOURS = {"HMC": "#333333", "MHMC": "#E69F00", "MGHMC": "#CC79A7", "VHMC": "#0072B2"}
DASHES: dict = {"HMC": "-", "MHMC": (0, (6, 4)), "MGHMC": (0, (2, 2)), "VHMC": "-"}  # lines that lie on one another


def keep_position(state, info):
    return state.position


def baselines(density):
    return {
        "HMC": vj.hmc(density, **PAPER),
        "MHMC": vj.magnetic_hmc(density, field=FIELD, **PAPER),
        "MGHMC": vj.monomial_gamma_hmc(density, exponent=EXPONENT, **PAPER),
    }


def vhmc(density, guide, report, beta, trajectory):
    return vj.vhmc(
        density,
        guide,
        friction=FRICTION,
        jump_probability=beta,
        log_envelope=report.log_envelope,
        **trajectory,
    )


def run(key, kernel, runs):
    """All runs from (0, 0): draws, and the means of the infos' fields over runs and iterations."""
    chains = vj.run_chains(key, kernel, jnp.zeros((runs, 2)), NUM_SAMPLES, num_burnin=NUM_BURNIN, keep=keep_position)
    return chains.kept, jax.tree.map(lambda field: float(field.mean()), chains.info_means)


def in_first_mode(target, draws):
    """Whether each draw is on the first mode's side, as 0 or 1."""
    return np.asarray(draws @ jnp.asarray(target.means[0], draws.dtype) > 0, np.float32)


def measure(target, draws, means):
    """MMD², autocorrelation, crossings and cost. The curve itself is for the comparison, and not stored."""
    curve = np.asarray(vj.diagnostics.mmd_curve(draws, mean=target.mean, covariance=target.covariance))
    first = draws[..., 0]
    about_truth = vj.diagnostics.autocorrelation(first, MAX_LAG, mean=jnp.zeros(()))
    about_own = vj.diagnostics.autocorrelation(first, MAX_LAG)
    indicator = in_first_mode(target, draws)
    crossings = np.abs(np.diff(indicator, axis=1)).sum(axis=1)
    evaluations = means.num_gradients + means.num_densities
    ess = float(vj.diagnostics.ess(indicator, kind="mean")) if np.all(crossings > 0) else None
    return curve, {
        "mmd": over_runs(curve[:, SAMPLE_NUMBERS - 1]),
        "mmd_end": over_runs(curve[:, -1]),
        "autocorrelation": over_runs(about_truth),
        "autocorrelation_about_own_mean_lag_10": float(np.mean(about_own[:, 10])),
        "weight": over_runs(indicator.mean(axis=1)),
        "crossings_per_1000": 1000 * float(crossings.mean()) / NUM_SAMPLES,
        "runs_that_never_cross": int(np.sum(crossings == 0)),
        "acceptance": means.acceptance_rate,
        "evaluations": evaluations,
        "ess_of_mode_per_1000": None if ess is None else 1000 * ess / (evaluations * indicator.size),
        "scatter": draws[0, :: max(1, NUM_SAMPLES // NUM_POINTS)],
    }


def indicator_check(target, draws, means, beta):
    """Lag-1 autocorrelation of the mode indicator, measured and as it should be."""
    centred = in_first_mode(target, draws) - 0.5
    lag_1 = np.mean(centred[:, 1:] * centred[:, :-1], axis=1) / 0.25  # the variance is known, the weight being ½
    jump_acceptance = means.jump_accepted / means.is_jump
    predicted = 1 - beta * jump_acceptance - means.second_stage_accepted
    return {
        "beta": beta,
        "jump_acceptance": jump_acceptance,
        "second_stage_accepted": means.second_stage_accepted,
        "predicted": predicted,
        "measured": float(lag_1.mean()),
        "error": float(lag_1.std() / np.sqrt(len(lag_1))),
        "difference": float(lag_1.mean()) - predicted,
    }


def measure_pair(name, runs, with_tuned):
    """Everything about one of the two pairs."""
    target = PAIRS[name]
    density = target.logdensity
    with progress(f"E2 {name}: modes and guide"):
        guide, report, modes = fitted_guide(target, HALF_WIDTHS[name])
    samplers, curves = {}, {}
    for sampler, kernel in baselines(density).items():
        with progress(f"E2 {name}: {sampler}"):
            draws, means = run(run_key("E2", name, sampler), kernel, runs)
            curves[sampler], samplers[sampler] = measure(target, draws, means)
    checks, costs = [], {}
    for beta in BETAS if name == "far" else BETAS[:1]:
        with progress(f"E2 {name}: VHMC, β = {beta}"):
            draws, means = run(run_key("E2", name, "VHMC", beta), vhmc(density, guide, report, beta, PAPER), runs)
            if beta == BETAS[0]:
                curves["VHMC"], samplers["VHMC"] = measure(target, draws, means)
            if name == "far":
                checks.append({**indicator_check(target, draws, means, beta), "trajectory": PAPER})
    if name == "far" and with_tuned:
        for beta in (0.1, 0.5):
            with progress(f"E2 {name}: VHMC, β = {beta}, tuned trajectory"):
                key = run_key("E2", name, "VHMC tuned", beta)
                draws, means = run(key, vhmc(density, guide, report, beta, TUNED), runs)
                _, figures = measure(target, draws, means)
                checks.append({**indicator_check(target, draws, means, beta), "trajectory": TUNED})
                costs[f"β = {beta}, ε = 0.9, L ~ U(1, 3)"] = {
                    key: figures[key] for key in ("acceptance", "evaluations", "ess_of_mode_per_1000")
                }
    averages = {sampler: curve.mean(axis=0)[FROM_SAMPLE - 1 :] for sampler, curve in curves.items()}
    best_baseline = np.min([averages[sampler] for sampler in baselines(density)], axis=0)
    return {
        "samplers": samplers,
        "guide": guide_results(report, modes),
        "indicator": checks,
        "tuned": costs,
        # VHMC's mean MMD² over the least of the baselines', at its greatest: below 1, VHMC is the best throughout.
        "worst_mmd_ratio_from_200": float(np.max(averages["VHMC"] / best_baseline)),
        "share_of_numbers_below_from_200": float(np.mean(averages["VHMC"] < best_baseline)),
    }


def main():
    chosen = options(__doc__)
    if not chosen.draw:
        started, runs = time.perf_counter(), num_runs(chosen, 100, 10)
        results = {name: measure_pair(name, runs, not chosen.quick) for name in PAIRS}
        settings = {
            "runs": runs,
            "iterations": NUM_ITERATIONS,
            "burnin": NUM_BURNIN,
            "start": [0.0, 0.0],
            **PAPER,
            "friction": FRICTION,
            "field": FIELD,
            "exponent": EXPONENT,
            "jump_probability": BETAS[0],
        }
        results["sample_numbers"] = SAMPLE_NUMBERS
        write(chosen, "e2", settings, results, time.perf_counter() - started)
    results = read(chosen, "e2")["results"]
    for check in results["far"]["indicator"]:
        print(
            f"β = {check['beta']}, ε = {check['trajectory']['step_size']}: lag-1 autocorrelation of the mode "
            f"{check['measured']:.4f} ± {check['error']:.4f}, predicted {check['predicted']:.4f}"
        )
    for name in PAIRS:
        ratio = results[name]["worst_mmd_ratio_from_200"]
        print(f"{name}: MMD² of VHMC over that of the best baseline from 200 samples on, at worst {ratio:.3g}")
    draw(chosen, results)
    draw_scatter(chosen, results)


def draw(chosen, results):
    """MMD² over all samples and over the first 500, and the autocorrelation."""
    figure, axes = plt.subplots(2, 3, figsize=(13, 7), layout="constrained", width_ratios=[1.3, 1, 1])
    numbers = np.array(results["sample_numbers"])
    for row, name in zip(axes, PAIRS, strict=True):
        whole, first, lags = row
        for sampler, figures in results[name]["samplers"].items():
            colour, dashes = COLOURS[sampler], DASHES[sampler]
            mmd = {key: np.array(values) for key, values in figures["mmd"].items()}
            for panel, shown in ((whole, numbers >= 1), (first, numbers <= 500)):
                panel.plot(numbers[shown], mmd["mean"][shown], color=colour, linestyle=dashes, label=sampler)
                panel.fill_between(
                    numbers[shown], mmd["low"][shown], mmd["high"][shown], color=colour, alpha=0.12, linewidth=0
                )
            curve = figures["autocorrelation"]
            lags.plot(curve["mean"], color=colour, linestyle=dashes)
            lags.fill_between(
                range(len(curve["mean"])), curve["low"], curve["high"], color=colour, alpha=0.12, linewidth=0
            )
        whole.set(xscale="log", yscale="log", ylabel="MMD² from the exact moments", title=f"{name} pair")
        first.set(yscale="log", ylabel="MMD²", xlim=(0, 500), title=f"{name} pair, the first 500 samples")
        lags.axhline(0, color="k", linewidth=0.5)
        lags.set(ylabel="autocorrelation of x[0]", ylim=(-0.25, 1.05), xlim=(0, MAX_LAG), title=f"{name} pair")
    for panel, label in zip(axes[1], ("sample number", "sample number", "lag (iterations)"), strict=True):
        panel.set(xlabel=label)
    figure.legend(*axes[0, 0].get_legend_handles_labels(), loc="outside lower center", ncols=4, frameon=False)
    figure.suptitle("E2: lines are means over the runs, bands the middle 80 % of them", fontsize="medium")
    save_picture(chosen, "e2", figure)


def draw_scatter(chosen, results):
    """One run of HMC, MHMC and VHMC on each pair."""
    names = ("HMC", "MHMC", "VHMC")
    figure, axes = plt.subplots(2, 3, figsize=(11, 7.4), layout="constrained")
    for row, (pair, target) in zip(axes, PAIRS.items(), strict=True):
        for panel, sampler in zip(row, names, strict=True):
            points = np.array(results[pair]["samplers"][sampler]["scatter"])
            panel.plot(*points.T, ".", markersize=3, alpha=0.5, color=COLOURS[sampler])
            for centre in target.means:
                panel.add_patch(plt.Circle(centre, 2.0, fill=False, color="k", linewidth=0.8))
            limit = float(np.abs(target.means).max()) + 4
            panel.set(
                xlim=(-limit, limit), ylim=(-limit, limit), aspect="equal", xlabel="x[0]", ylabel="x[1]",
                title=f"{sampler}, {pair} pair",
            )  # fmt: skip
    figure.suptitle(
        "E2: the first run of each; circles are two standard deviations of the true modes", fontsize="medium"
    )
    save_picture(chosen, "e2_scatter", figure)


if __name__ == "__main__":
    main()
