"""Who finds every mode, and its weight: HMC and VHMC side by side on two targets.

1. 0.7 N(μ, I) + 0.3 N(−μ, I), μ = (6.5, −6.5). HMC runs twice, all chains started in the lighter mode and half of
   them in each. It never crosses, so its weights are those of the starts; in the first case R-hat and ESS look perfect
   all the same. VHMC is ``vj.sample`` with its defaults, told no more than a box that holds the modes.
2. Forty Gaussians of equal weight at random places (some merge: 36 modes), chains of HMC started all over the box.

    python benchmarks/demo.py [--samples 5000] [--pictures out]
"""

import argparse
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import matplotlib as mpl
import numpy as np

import vhmc_jax as vj

mpl.use("Agg")
import matplotlib.pyplot as plt

TARGET = vj.targets.far_pair(weight=0.7)
REGION = vj.box(jnp.full(2, -10.0), jnp.full(2, 10.0))
MANY = vj.targets.gmm40()
MANY_REGION = vj.box(jnp.full(2, -50.0), jnp.full(2, 50.0))
NUM_CHAINS = 64
NUM_BURNIN = 500
TRACE_LENGTH = 500


class Outcome(NamedTuple):
    """What a sampler leaves for the table and the picture."""

    draws: Any
    infos: Any
    num_gradients: float
    seconds: float


def hmc(target: Any, starts: Any) -> Callable[[jax.Array, int], Outcome]:
    """HMC with its chains started there."""

    def run(rng_key: jax.Array, num_samples: int) -> Outcome:
        kernel = vj.hmc(target.logdensity, step_size=0.5, num_integration_steps=(8, 12))
        started = time.perf_counter()
        chains = vj.run_chains(rng_key, kernel, starts, num_samples, num_burnin=NUM_BURNIN, progress=True)
        jax.block_until_ready(chains.draws)
        seconds = time.perf_counter() - started
        num_gradients = float(jnp.sum(chains.info_means.num_gradients)) * chains.next_iteration
        return Outcome(chains.draws, chains.infos, num_gradients, seconds)

    return run


def vhmc(target: Any, region: Callable) -> Callable[[jax.Array, int], Outcome]:
    """VHMC with its modes found in the region, and everything else by default."""

    def run(rng_key: jax.Array, num_samples: int) -> Outcome:
        started = time.perf_counter()
        result = vj.sample(rng_key, target.logdensity, region, num_chains=NUM_CHAINS, num_samples=num_samples)
        seconds = time.perf_counter() - started
        print(f"  log evidence {result.log_evidence:.4f} ± {result.log_evidence_error:.4f}, truth 0")
        return Outcome(result.draws, result.infos, result.num_gradients, seconds)

    return run


# One row of the table and of the picture each.
SAMPLERS = {
    "HMC, all chains from mode 1": hmc(TARGET, jnp.asarray(TARGET.means[np.ones(NUM_CHAINS, int)], float)),
    "HMC, half of them from each": hmc(TARGET, jnp.asarray(TARGET.means[np.arange(NUM_CHAINS) % 2], float)),
    "VHMC, told a box": vhmc(TARGET, REGION),
}
MANY_SAMPLERS = {
    "HMC from all over the box": hmc(MANY, jax.vmap(MANY_REGION)(jax.random.split(jax.random.key(7), NUM_CHAINS))),
    "VHMC, told the box": vhmc(MANY, MANY_REGION),
}


def table(target: Any, outcomes: dict[str, Outcome], reports: dict[str, Any]) -> str:
    """Mode weights against the truth, what the usual diagnostics say, and what it cost."""
    is_many = len(target.mode_weights) > 2
    head = ["", "weights", "modes seen", "weight error", "crossings", "R-hat", "ESS", "gradients", "seconds"]
    rows = [head, ["truth", _weights(target.mode_weights), str(len(target.mode_weights)), "", "", "", "", "", ""]]
    for name, outcome in outcomes.items():
        report = reports[name]
        rows.append(
            [
                name,
                _weights(report.weights),
                str(int(np.sum(report.num_chains_seen > 0))),
                f"{0.5 * np.abs(report.weights - target.mode_weights).sum():.3f}",
                f"{int(np.sum(report.transitions) - np.trace(report.transitions)):,}",
                f"{np.max(vj.diagnostics.rhat(outcome.draws)):.2f}",
                f"{np.min(vj.diagnostics.ess(outcome.draws)):,.0f}",
                f"{outcome.num_gradients:,.0f}",
                f"{outcome.seconds:.2f}",
            ]
        )
    if is_many:
        rows = [[row[0], *row[2:]] for row in rows]  # so many weights are for the picture
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = [
        "  ".join([row[0].ljust(widths[0]), *(c.rjust(w) for c, w in zip(row[1:], widths[1:], strict=True))])
        for row in rows
    ]
    return "\n".join(line.rstrip() for line in lines)


def _weights(weights: Any) -> str:
    return " / ".join(f"{weight:.3f}" for weight in weights)


def picture(outcomes: dict[str, Outcome], reports: dict[str, Any]) -> Any:
    """For each sampler: draws, traces of two chains, and the weights beside the true ones."""
    figure, axes = plt.subplots(
        len(outcomes), 3, figsize=(10, 2.9 * len(outcomes)), layout="constrained", squeeze=False,
        width_ratios=[1, 1.6, 0.8],
    )  # fmt: skip
    for (name, outcome), (scatter, trace, weights) in zip(outcomes.items(), axes, strict=True):
        report = reports[name]
        spread = slice(None, None, 50)  # all draws would be one blot
        vj.diagnostics.plot_scatter(outcome.draws[:, spread], labels=report.labels[:, spread], ax=scatter)
        for centre in TARGET.means:
            scatter.add_patch(plt.Circle(centre, 2.0, fill=False, color="k", linewidth=0.8))
        scatter.set(title=name, xlim=(-11, 11), ylim=(-11, 11), aspect="equal")
        for chain in (0, 1):
            first = slice(TRACE_LENGTH)
            vj.diagnostics.plot_trace(outcome.draws[:, first], labels=report.labels[:, first], chain=chain, ax=trace)
        trace.set(title="the first two chains", xlabel="draw", ylim=(-11, 11))
        vj.diagnostics.plot_mode_weights(report, TARGET.mode_weights, ax=weights)
        weights.set(title="mode weights", ylim=(-0.05, 1.6), yticks=np.linspace(0, 1, 6))
        weights.legend(loc="upper center", frameon=False)
    figure.supxlabel("circles: two standard deviations of the true modes", fontsize="small")
    return figure


def picture_of_many(outcomes: dict[str, Outcome], reports: dict[str, Any]) -> Any:
    """For each sampler draws, and its weights of the modes against the true ones."""
    figure, axes = plt.subplots(2, len(outcomes), figsize=(10, 9), layout="constrained", height_ratios=[2.2, 1])
    for (name, outcome), (scatter, weights) in zip(outcomes.items(), axes.T, strict=True):
        report = reports[name]
        points = np.asarray(outcome.draws[:, ::50]).reshape(-1, 2)
        scatter.plot(*points.T, ".", markersize=2, alpha=0.4, color="#0072B2")
        scatter.plot(*MANY.means.T, "+", color="k", markersize=8, label="true means")
        scatter.set(title=name, xlim=(-50, 50), ylim=(-50, 50), aspect="equal", xlabel="x[0]", ylabel="x[1]")
        scatter.legend(loc="upper right")
        order = np.argsort(-MANY.mode_weights, kind="stable")
        weights.step(np.arange(len(order)), MANY.mode_weights[order], where="mid", color="k", label="truth")
        errors = np.nan_to_num(report.errors[order])
        weights.errorbar(
            np.arange(len(order)),
            report.weights[order],
            2 * errors,
            fmt="o",
            markersize=4,
            color="#0072B2",
            label="draws",
        )
        weights.set(xlabel="mode, heaviest first", ylabel="weight", ylim=(0, 0.17))
        weights.legend(loc="upper right")
    return figure


def compare(target: Any, samplers: dict[str, Callable], num_samples: int) -> tuple[dict[str, Outcome], dict[str, Any]]:
    """Run every sampler, report on its modes, and print the table."""
    outcomes, reports = {}, {}
    for number, (name, run) in enumerate(samplers.items()):
        print(name, flush=True)
        outcomes[name] = run(jax.random.key(number), num_samples)
        reports[name] = vj.diagnostics.mode_report(
            outcomes[name].draws, target, mode_of=target.mode_of, infos=_jumps_aside(outcomes[name])
        )
    print("\n" + table(target, outcomes, reports))
    return outcomes, reports


def _jumps_aside(outcome: Outcome) -> Any:
    """No infos: the components of VHMC's guide are numbered in another order than the target's."""
    return None if hasattr(outcome.infos, "is_jump") else outcome.infos


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--samples", type=int, default=5000, help="draws of each chain")
    parser.add_argument("--pictures", type=Path, default=Path("out"), help="folder for the pictures")
    options = parser.parse_args()
    options.pictures.mkdir(parents=True, exist_ok=True)

    print("Two Gaussians of weight 0.7 and 0.3, their means 18 standard deviations apart;")
    print(f"{NUM_CHAINS} chains of {options.samples:,} draws each.\n")
    pair = compare(TARGET, SAMPLERS, options.samples)
    path = options.pictures / "demo.png"
    picture(*pair).savefig(path, dpi=150)

    print("\nForty Gaussians of equal weight, 36 modes.\n")
    many = compare(MANY, MANY_SAMPLERS, options.samples)
    path_of_many = options.pictures / "demo_many.png"
    picture_of_many(*many).savefig(path_of_many, dpi=150)

    print("\nCrossings are moves between modes; the weight error is the total variation. Seconds include compilation.")
    print(f"Pictures: {path}, {path_of_many}")


if __name__ == "__main__":
    main()
