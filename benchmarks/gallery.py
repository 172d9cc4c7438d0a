"""One page of every picture that the diagnostics draw.

Run as ``python benchmarks/gallery.py [PATH.png]``. The chains are ideal ones, so that the page depends on the
diagnostics alone: within a mode they are autoregressive, and now and then they jump to an independent draw.
"""

import sys
from pathlib import Path

import jax.numpy as jnp
import matplotlib as mpl
import numpy as np

import vhmc_jax.diagnostics as vd
from vhmc_jax.guide.mixture import GaussianMixture

mpl.use("Agg")
import matplotlib.pyplot as plt

WEIGHTS = np.array([0.2, 0.5, 0.3])
MEANS = np.array([[-6.0, 0.0], [0.0, 5.0], [6.0, -1.0]])
SCALES = np.array([[[1.0, 0.0], [0.6, 0.8]], [[1.6, 0.0], [-0.4, 0.7]], [[0.5, 0.0], [0.0, 1.5]]])
MEAN = WEIGHTS @ MEANS
COVARIANCE = np.einsum("k,kij,klj->il", WEIGHTS, SCALES, SCALES) + (WEIGHTS[:, None] * (MEANS - MEAN)).T @ (
    MEANS - MEAN
)


def ideal_chains(rng, jump_probability, num_chains=32, num_draws=2000, persistence=0.9):
    """Chains that leave the mixture invariant: AR(1) within a mode, a fresh draw at a jump; from mode 0."""
    modes = np.zeros(num_chains, int)
    noise = rng.normal(size=(num_chains, 2))
    draws = np.empty((num_chains, num_draws, 2))
    for t in range(num_draws):
        jump = rng.random(num_chains) < jump_probability
        modes = np.where(jump, rng.choice(3, num_chains, p=WEIGHTS), modes)
        fresh = rng.normal(size=(num_chains, 2))
        noise = np.where(jump[:, None], fresh, persistence * noise + np.sqrt(1 - persistence**2) * fresh)
        draws[:, t] = MEANS[modes] + np.einsum("cij,cj->ci", SCALES[modes], noise)
    return draws


def main(path: Path) -> None:
    rng = np.random.default_rng(0)
    often, seldom = (ideal_chains(rng, p) for p in (0.1, 0.002))
    guide = GaussianMixture(np.log([0.3, 0.4, 0.3]), jnp.asarray(MEANS + 0.1), jnp.asarray(1.05 * SCALES))
    report = vd.mode_report(often, guide)
    mpl.rcParams.update({"font.size": 8, "axes.titlesize": 9, "axes.titleweight": "bold", "axes.titlelocation": "left"})
    figure, axes = plt.subplots(2, 3, figsize=(10, 5.8), layout="constrained", dpi=200)
    vd.plot_scatter(often, guide, labels=report.labels, ax=axes[0, 0]).set_title("a  draws and guide")
    vd.plot_trace(often[:, :400], labels=report.labels[:, :400], ax=axes[0, 1]).set_title("b  trace by mode")
    for draws, label in ((often, "a jump in 10 draws"), (seldom, "a jump in 500")):
        vd.plot_autocorrelation(draws, mean=float(MEAN[0]), label=label, ax=axes[0, 2])
        vd.plot_mmd(vd.mmd_curve(draws, mean=MEAN, covariance=COVARIANCE), label=label, ax=axes[1, 0])
    axes[0, 2].set_title("c  autocorrelation, mean known")
    axes[1, 0].set_title("d  distance from the target")
    vd.plot_mode_weights(report, WEIGHTS, ax=axes[1, 1]).set_title("e  mode weights")
    vd.plot_transitions(report, ax=axes[1, 2]).set_title("f  transitions")
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path)
    print(f"{report}\n\nwritten to {path}")


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parent / "results" / "diagnostics.png")
