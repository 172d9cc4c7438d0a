"""Who finds both of two distant modes, and their weights: 0.7 N(μ, I) + 0.3 N(−μ, I), μ = (6.5, −6.5).

HMC runs twice, all chains started in the lighter mode and half of them in each. It never crosses, so its
weights are those of the starts; in the first case R-hat and ESS look perfect all the same.

    python benchmarks/demo.py [--samples 5000] [--picture out/demo.png]
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
NUM_CHAINS = 64
NUM_BURNIN = 500
TRACE_LENGTH = 500


class Outcome(NamedTuple):
    """What a sampler leaves for the table and the picture."""

    draws: Any
    infos: Any
    num_gradients: float
    seconds: float


def hmc(start_modes: np.ndarray) -> Callable[[jax.Array, int], Outcome]:
    """HMC with its chains started at the centres of the given modes."""

    def run(rng_key: jax.Array, num_samples: int) -> Outcome:
        kernel = vj.hmc(TARGET.logdensity, step_size=0.5, num_integration_steps=(8, 12))
        starts = jnp.asarray(TARGET.means[start_modes], float)
        started = time.perf_counter()
        chains = vj.run_chains(rng_key, kernel, starts, num_samples, num_burnin=NUM_BURNIN, progress=True)
        jax.block_until_ready(chains.draws)
        seconds = time.perf_counter() - started
        num_gradients = float(jnp.sum(chains.info_means.num_gradients)) * chains.next_iteration
        return Outcome(chains.draws, chains.infos, num_gradients, seconds)

    return run


# One row of the table and of the picture each.
SAMPLERS = {
    "HMC, all chains from mode 1": hmc(np.ones(NUM_CHAINS, int)),
    "HMC, half of them from each": hmc(np.arange(NUM_CHAINS) % 2),
}


def table(outcomes: dict[str, Outcome], reports: dict[str, Any]) -> str:
    """Mode weights against the truth, what the usual diagnostics say, and what it cost."""
    head = ["", "weights", "crossings", "R-hat", "ESS", "gradients", "seconds"]
    rows = [head, ["truth", _weights(TARGET.mode_weights), "", "", "", "", ""]]
    for name, outcome in outcomes.items():
        report = reports[name]
        rows.append(
            [
                name,
                _weights(report.weights),
                f"{int(np.sum(report.transitions) - np.trace(report.transitions)):,}",
                f"{np.max(vj.diagnostics.rhat(outcome.draws)):.2f}",
                f"{np.min(vj.diagnostics.ess(outcome.draws)):,.0f}",
                f"{outcome.num_gradients:,.0f}",
                f"{outcome.seconds:.2f}",
            ]
        )
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


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--samples", type=int, default=5000, help="draws of each chain")
    parser.add_argument("--picture", type=Path, default=Path("out/demo.png"), help="where to save the picture")
    options = parser.parse_args()

    print("Two Gaussians of weight 0.7 and 0.3, their means 18 standard deviations apart;")
    print(f"{NUM_CHAINS} chains of {options.samples:,} draws each.\n")
    outcomes, reports = {}, {}
    for number, (name, run) in enumerate(SAMPLERS.items()):
        print(name, flush=True)
        outcomes[name] = run(jax.random.key(number), options.samples)
        reports[name] = vj.diagnostics.mode_report(outcomes[name].draws, TARGET, infos=outcomes[name].infos)

    print("\n" + table(outcomes, reports))
    print("\nCrossings are moves between modes. Seconds include compilation, of which a second run needs none.")
    options.picture.parent.mkdir(parents=True, exist_ok=True)
    picture(outcomes, reports).savefig(options.picture, dpi=150)
    print(f"Picture: {options.picture}")


if __name__ == "__main__":
    main()
