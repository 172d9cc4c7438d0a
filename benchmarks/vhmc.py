"""How VHMC moves between modes.

1. How often a rejected local move gets its second chance, with the same random numbers at both ends and with fresh
   ones.
2. E2 far and E3 at d = 128, with a guide that was fitted: jump acceptance, mode switches, and the effective sample
   size of the mode indicator per evaluation (gradient or density value), for several jump probabilities.

    python benchmarks/vhmc.py
"""

import argparse
import time

import jax
import jax.numpy as jnp
import numpy as np

import vhmc_jax as vj

NUM_CHAINS = 64


def fitted(target, box, seed=0):
    """A guide from scratch, and its envelope."""
    key_modes, key_fit = jax.random.split(jax.random.key(seed))
    modes = vj.find_modes(key_modes, target.logdensity, vj.box(*(jnp.full(target.dim, end) for end in box)))
    return vj.fit_guide(key_fit, target.logdensity, modes)


def second_stage(num_samples):
    print("Second stage on the far pair, jump probability 0, share of all steps")
    print(f"{'step size':>10}{'local acceptance':>18}{'same numbers':>14}{'fresh ones':>12}{'ratio':>8}")
    target = vj.targets.far_pair(0.7)
    guide, report = fitted(target, (-10.0, 10.0))
    start = target.sample(jax.random.key(1), NUM_CHAINS).astype(jnp.float32)
    for step_size in (0.5, 0.9, 1.3):
        shares, local = [], vj.lhmc(target.logdensity, step_size=step_size, num_integration_steps=10)
        for reuse in (True, False):
            kernel = vj.with_jumps(
                local,
                guide,
                jump_probability=0.0,
                log_envelope=report.log_envelope,
                reuse_randomness=reuse,
            )
            means = vj.run_chains(jax.random.key(2), kernel, start, num_samples, keep=nothing).info_means
            shares.append(float(means.second_stage_accepted.mean()))
        acceptance = float(means.acceptance_rate.mean())
        print(
            f"{step_size:10}{acceptance:18.3f}{shares[0]:14.4f}{shares[1]:12.4f}{shares[0] / shares[1]:8.2f}",
            flush=True,
        )


def nothing(state, info):
    return ()


def modes(name, target, box, step_size, num_samples):
    guide, report = fitted(target, box)
    print(f"{name}: expected acceptance of a jump {report.expected_acceptance:.3f}")
    start = jnp.broadcast_to(jnp.asarray(target.means[0], jnp.float32), (NUM_CHAINS, target.dim))
    for beta in (0.05, 0.1, 0.5):
        kernel = vj.vhmc(
            target.logdensity,
            guide,
            step_size=step_size,
            num_integration_steps=10,
            jump_probability=beta,
            log_envelope=report.log_envelope,
        )
        started = time.perf_counter()
        chains = vj.run_chains(
            jax.random.key(3), kernel, start, num_samples, num_burnin=100, keep=mode_indicator(target)
        )
        seconds = time.perf_counter() - started
        means = jax.tree.map(lambda field: float(np.mean(field)), chains.info_means)
        indicator = np.asarray(chains.kept, np.float32)
        switches = 1000 * np.mean(indicator[:, 1:] != indicator[:, :-1])
        ess = float(vj.diagnostics.ess(indicator, kind="mean"))
        evaluations = (means.num_gradients + means.num_densities) * NUM_CHAINS * num_samples
        weight, error = indicator.mean(), np.sqrt(indicator.var() / ess)
        print(
            f"{name:12}{beta:6}{means.jump_accepted / beta:12.3f}{means.second_stage_accepted:14.4f}{switches:12.1f}"
            f"{1000 * ess / evaluations:12.2f}{weight:10.4f} ± {error:.4f}{seconds:9.1f}",
            flush=True,
        )


def mode_indicator(target):
    """Whether a chain is nearer to the first mean than to the second."""
    means = jnp.asarray(target.means, jnp.float32)

    def keep(state, info):
        return jnp.argmin(jnp.sum((state.position - means) ** 2, axis=1)) == 0

    return keep


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--samples", type=int, default=2000)
    options = parser.parse_args()
    print(f"jax {jax.__version__}, float32, {NUM_CHAINS} chains × {options.samples} draws, all from one mode\n")
    second_stage(options.samples)
    columns = f"{'β':>6}{'jumps ok':>12}{'second stage':>14}{'switches':>12}{'ESS':>12}{'weight of mode 1':>19}{'s':>9}"
    print(f"\n{'target':12}{columns}")
    print(f"{'':12}{'':6}{'':12}{'of all steps':>14}{'per 1,000':>12}{'per 1,000':>12}")
    modes("E2 far", vj.targets.far_pair(0.7), (-10.0, 10.0), 0.9, options.samples)
    modes("E3 d = 128", vj.targets.high_dimensional_pair(128), (-5.0, 5.0), 0.4, options.samples)


if __name__ == "__main__":
    main()
