"""Time and memory of a run with a store, beside the same run without one.

    python benchmarks/store.py [--chains 64] [--dim 2] [--samples 200000] [--thinning 1] [--turns 3] [--kind run_chains]

Memory is the peak of a process of its own, above that of a short run. Time is that of both ways in turn, in one
process. ``--turns 0`` leaves the time out, and the memory of the run without a store too: where that is large.
``--kind sample`` runs ``vj.sample``, which judges the draws as well.
"""

import argparse
import resource
import subprocess
import sys
import tempfile
import time
import warnings

import jax
import jax.numpy as jnp
import numpy as np

import vhmc_jax as vj
from vhmc_jax.runner.stored import CHUNK_BYTES

MEGA = 2**20


def logdensity(x):
    """Two Gaussians, far apart."""
    return jnp.logaddexp(-0.5 * jnp.sum((x - 3.0) ** 2), -0.5 * jnp.sum((x + 3.0) ** 2))


KERNEL = vj.hmc(logdensity, step_size=0.5, num_integration_steps=10)


def run(options, num_samples, store=None):
    key, amount = jax.random.key(0), {"num_samples": num_samples, "thinning": options.thinning, "store": store}
    if options.kind == "run_chains":
        starts = jnp.zeros((options.chains, options.dim))
        return jax.block_until_ready(vj.run_chains(key, KERNEL, starts, stop_on_interrupt=True, **amount).final_states)
    region = vj.box(jnp.full(options.dim, -10.0), jnp.full(options.dim, 10.0))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", vj.TrustWarning)
        result = vj.sample(key, logdensity, region, num_chains=options.chains, progress=False, **amount)
    weights, error = result.evidence.mode_weights, result.log_evidence_error
    print(f"one draw in {result.judged_every} is judged; weights {weights}, evidence ± {error:.1g}", file=sys.stderr)
    str(result)  # the moments
    return result


def peak(options, num_samples, is_stored):
    """Peak of the memory of a process that runs one way, and the bytes it stored, in megabytes."""
    command = [sys.executable, __file__, *sys.argv[1:], "--report", str(num_samples), "--stored", str(int(is_stored))]
    output = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout
    return [float(word) for word in output.split()[-2:]]


def report(options):
    with tempfile.TemporaryDirectory(dir=options.folder) as path:
        run(options, options.report, f"{path}/run" if options.stored else None)
        size = 0 if not options.stored else int(subprocess.check_output(["du", "-sk", path]).split()[0])
    print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024, size / 1024)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kind", choices=("run_chains", "sample"), default="run_chains")
    for name, default in (("chains", 64), ("dim", 2), ("samples", 200_000), ("thinning", 1), ("turns", 3)):
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("--folder", help="where stores are made and removed")
    parser.add_argument("--report", type=int, help="be one of the processes, with so many draws")
    parser.add_argument("--stored", type=int, help="whether that process has a store")
    options = parser.parse_args()
    if options.report:
        report(options)
        return
    num_samples = options.samples
    print(f"{options.kind}: {options.chains} chains of {num_samples:,} draws, d = {options.dim}", flush=True)
    short, _ = peak(options, 100, False)
    for name, is_stored in (("without", False), ("with", True)):
        if is_stored or options.turns:
            most, size = peak(options, num_samples, is_stored)
            print(
                f"{name:>8} a store: {most - short:7.0f} MB above the {short:.0f} MB of a run of 100 draws", flush=True
            )
    print(f"{'chunk':>8}         : {CHUNK_BYTES / MEGA:7.0f} MB; on the disk {size:,.0f} MB", flush=True)

    seconds: dict[bool, list[tuple[float, float]]] = {False: [], True: []}
    for _ in range(1 + options.turns if options.turns else 0):  # the first turn compiles
        for is_stored, times in seconds.items():
            with tempfile.TemporaryDirectory(dir=options.folder) as path:
                started = time.perf_counter(), time.process_time()
                run(options, num_samples, f"{path}/run" if is_stored else None)
                times.append((time.perf_counter() - started[0], time.process_time() - started[1]))
    if options.turns:
        # On a machine that others use too, the time of the processors says more than that of the clock.
        medians = (np.median(seconds[is_stored][1:], axis=0) for is_stored in (False, True))
        for what, without, with_store in zip(("clock", "processors"), *medians, strict=True):
            ratio = with_store / without
            print(f"{what}: {without:.2f} s without a store, {with_store:.2f} s with, {ratio:.2f} x")


if __name__ == "__main__":
    main()
