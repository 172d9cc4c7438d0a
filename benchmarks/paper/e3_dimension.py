"""E3: the relative error of the mean (REM) by dimension, on 0.7 N(−1, I) + 0.3 N(+1, I), every coordinate ∓1.

HMC, parallel HMC and VHMC with β = 0.1 and 0.5, for d = 2, 4, ..., 256, at E2's settings, which the paper's text on E3
does not change: ε = 0.05, L ~ U(80, 120), γ = 0.5, 10,000 iterations of which 1,000 are burn-in. Runs of HMC and VHMC
start at the origin, as in E2. A run of parallel HMC is one chain from each mode that the search found, each of an equal
share of the 10,000 iterations, so that all runs cost the same. REM is of one run, then averaged over 100 runs.

Beside it stands what perfect jumps would give: every jump accepted and an exact draw, local moves that mix a mode as
ε and L do on a Gaussian and never leave it. Then a coordinate of a run's mean is Gaussian about the truth with variance
(4 · 0.7 · 0.3 (2 − β)/β + (1 + r)/(1 − r))/n, r = (1 − β) E cos(ε (L + 2)), and REM follows.

    python benchmarks/paper/e3_dimension.py [--quick] [--dimensions 2 128]
"""

import time
from typing import Any, NamedTuple

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
from jax.tree_util import Partial

import vhmc_jax as vj

mpl.use("Agg")
import matplotlib.pyplot as plt

DIMENSIONS = (2, 4, 8, 16, 32, 64, 128, 256)
QUICK_DIMENSIONS = (2, 128)
PAPER: dict[str, Any] = {"step_size": 0.05, "num_integration_steps": (80, 120)}
FRICTION = 0.5
BETAS = (0.1, 0.5)
NUM_ITERATIONS, NUM_BURNIN, BLOCK = 10_000, 1_000, 100
HALF_WIDTH = 5.0
COLOURS = {"HMC": "#333333", "parallel HMC": "#E69F00", "VHMC, β = 0.1": "#56B4E9", "VHMC, β = 0.5": "#0072B2"}


class Summed(NamedTuple):
    """A chain's state with the sums of its positions, and of the heavier mode's responsibility, so far."""

    state: Any
    positions: jax.Array
    responsibilities: jax.Array


def summed(kernel, target):
    """The kernel with running sums in its state: a hundred runs in 256 dimensions need no draws stored."""
    return vj.Kernel(Partial(_init, kernel), Partial(_step, kernel, target))


def _init(kernel, position, rng_key=None):
    return Summed(kernel.init(position), jnp.zeros_like(position), jnp.zeros((), position.dtype))


def _step(kernel, target, rng_key, summed):
    state, info = kernel.step(rng_key, summed.state)
    responsibility = target.responsibilities(state.position)[0]
    return Summed(state, summed.positions + state.position, summed.responsibilities + responsibility), info


def keep_sums(state, info):
    return state.positions, state.responsibilities


def block_means(name, kernel, target, starts, iterations):
    """Means over blocks of iterations of the positions and responsibilities of every chain, and of the infos."""
    chains = vj.run_chains(
        run_key("E3", target.dim, name),
        summed(kernel, target),
        starts,
        iterations // BLOCK,
        thinning=BLOCK,
        keep=keep_sums,
    )
    means = [np.diff(np.asarray(sums, np.float64), axis=1, prepend=0.0) / BLOCK for sums in chains.kept]
    return *means, jax.tree.map(lambda field: float(field.mean()), chains.info_means)


def measure(target, positions, responsibilities, means):
    """REM after every block since the burn-in, for runs (run, block, d) of equal blocks."""
    rem = np.asarray(vj.diagnostics.relative_error_of_mean(positions, target.mean))
    jumps = getattr(means, "is_jump", 0.0)
    return {
        "rem": over_runs(rem),
        "rem_end": over_runs(rem[:, -1]),
        "weight": over_runs(responsibilities.mean(axis=1)),
        "acceptance": means.acceptance_rate,
        "jump_acceptance": means.jump_accepted / jumps if jumps else None,
        "evaluations": means.num_gradients + means.num_densities,
    }


def perfect_rem(target, beta):
    """REM of perfect jumps at the end, by the formula above."""
    low, high = PAPER["num_integration_steps"]
    angles = PAPER["step_size"] * (np.arange(low, high + 1) + 2)
    local = (1 - beta) * np.mean(np.cos(angles))
    separation = float(np.abs(target.means[0] - target.means[1]).mean())
    between = separation**2 * target.weights[0] * target.weights[1] * (2 - beta) / beta
    variance = (between + (1 + local) / (1 - local)) / (NUM_ITERATIONS - NUM_BURNIN)
    return float(np.sqrt(2 * variance / np.pi) / np.abs(target.mean).mean())


def measure_dimension(dim, runs):
    """All samplers in one dimension."""
    target = vj.targets.high_dimensional_pair(dim)
    density, burnin = target.logdensity, NUM_BURNIN // BLOCK
    with progress(f"E3 d = {dim}: modes and guide"):
        guide, report, modes = fitted_guide(target, HALF_WIDTH)
    origin, num_modes = jnp.zeros((runs, dim)), len(modes.logdensities)
    samplers = {}

    with progress(f"E3 d = {dim}: HMC"):
        positions, responsibilities, means = block_means(
            "HMC", vj.hmc(density, **PAPER), target, origin, NUM_ITERATIONS
        )
        samplers["HMC"] = measure(target, positions[:, burnin:], responsibilities[:, burnin:], means)

    with progress(f"E3 d = {dim}: parallel HMC"):
        starts = jnp.tile(modes.positions, (runs, 1))  # the chains of a run are neighbours
        blocks = block_means("parallel HMC", vj.hmc(density, **PAPER), target, starts, NUM_ITERATIONS // num_modes)
        # A block of a run is one of each of its chains, and so as many times longer.
        positions, responsibilities = (
            block.reshape(runs, num_modes, *block.shape[1:]).mean(axis=1)[:, burnin // num_modes :]
            for block in blocks[:2]
        )
        samplers["parallel HMC"] = measure(target, positions, responsibilities, blocks[2])

    for beta in BETAS:
        with progress(f"E3 d = {dim}: VHMC, β = {beta}"):
            kernel = vj.vhmc(
                density, guide, friction=FRICTION, jump_probability=beta, log_envelope=report.log_envelope, **PAPER
            )
            positions, responsibilities, means = block_means(f"VHMC {beta}", kernel, target, origin, NUM_ITERATIONS)
            samplers[f"VHMC, β = {beta}"] = {
                **measure(target, positions[:, burnin:], responsibilities[:, burnin:], means),
                "perfect_jumps": perfect_rem(target, beta),
            }
    return {"samplers": samplers, "guide": guide_results(report, modes)}


def main():
    chosen = options(__doc__, dimensions={"type": int, "nargs": "+", "help": "dimensions, in place of 2, 4, ..., 256"})
    if not chosen.draw:
        started, runs = time.perf_counter(), num_runs(chosen, 100, 8)
        dimensions = chosen.dimensions or (QUICK_DIMENSIONS if chosen.quick else DIMENSIONS)
        if min(dimensions) < 2:
            raise SystemExit(f"--dimensions must be at least 2, got {min(dimensions)}: in one there is one mode")
        settings = {
            "runs": runs,
            "iterations": NUM_ITERATIONS,
            "burnin": NUM_BURNIN,
            "block": BLOCK,
            "start": "the origin; parallel HMC: the modes found",
            **PAPER,
            "friction": FRICTION,
        }
        results = {
            "dimensions": list(dimensions),
            "by_dimension": {dim: measure_dimension(dim, runs) for dim in dimensions},
        }
        write(chosen, "e3", settings, results, time.perf_counter() - started)
    document = read(chosen, "e3")
    table(document["results"])
    draw(chosen, document)


def table(results):
    print(f"{'d':>4}" + "".join(f"{name:>18}" for name in COLOURS) + f"{'jumps accepted':>18}")
    for dim in results["dimensions"]:
        samplers = results["by_dimension"][str(dim)]["samplers"]
        ends = "".join(f"{samplers[name]['rem_end']['mean']:18.4f}" for name in COLOURS)
        print(f"{dim:4}{ends}{samplers['VHMC, β = 0.5']['jump_acceptance']:18.4f}")


def draw(chosen, document):
    """REM at the end by dimension, and on the way at the largest dimension up to 128."""
    settings, results = document["settings"], document["results"]
    dimensions = results["dimensions"]
    shown = max((dim for dim in dimensions if dim <= 128), default=dimensions[0])
    figure, (left, right) = plt.subplots(1, 2, figsize=(11, 4.8), layout="constrained")
    for name, colour in COLOURS.items():
        samplers = [results["by_dimension"][str(dim)]["samplers"][name] for dim in dimensions]
        ends = {key: [sampler["rem_end"][key] for sampler in samplers] for key in ("mean", "low", "high")}
        left.plot(dimensions, ends["mean"], "o-", color=colour, label=name, markersize=4)
        left.fill_between(dimensions, ends["low"], ends["high"], color=colour, alpha=0.12, linewidth=0)
        if "perfect_jumps" in samplers[0]:
            perfect = [sampler["perfect_jumps"] for sampler in samplers]
            left.plot(dimensions, perfect, ":", color=colour, label=name.replace("VHMC", "perfect jumps"))
        curve = results["by_dimension"][str(shown)]["samplers"][name]["rem"]
        iterations = np.linspace(settings["burnin"], settings["iterations"], len(curve["mean"]) + 1)[1:]
        right.plot(iterations, curve["mean"], color=colour)
        right.fill_between(iterations, curve["low"], curve["high"], color=colour, alpha=0.12, linewidth=0)
    left.set(xscale="log", yscale="log", xlabel="dimension", ylabel="REM after 10,000 iterations", xticks=dimensions)
    left.set_xticks([], minor=True)
    left.set_xticklabels([str(dim) for dim in dimensions])
    right.set(yscale="log", xlabel="iteration", ylabel=f"REM at d = {shown}", ylim=left.get_ylim())
    figure.legend(
        *left.get_legend_handles_labels(), loc="outside lower center", ncols=6, frameon=False, fontsize="small"
    )
    figure.suptitle("E3: lines are means over the runs, bands the middle 80 % of them", fontsize="medium")
    save_picture(chosen, "e3", figure)


if __name__ == "__main__":
    main()
