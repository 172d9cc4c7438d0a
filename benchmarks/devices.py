"""Chains on four devices beside the same chains on one: equal draws, and no exchange between devices.

    python benchmarks/devices.py [1 2 4]

The four devices are threads of one CPU, as XLA makes them on demand. Exits with 1 where draws differ or where the
compiled program has a collective operation.
"""

import os

os.environ["XLA_FLAGS"] = "--xla_force_host_platform_device_count=4"

import re
import sys
import tempfile
import time

import jax
import jax.numpy as jnp
import numpy as np

import vhmc_jax as vj
from vhmc_jax.runner import devices, loop
from vhmc_jax.runner.chains import Kernel, as_pytree_function

NUM_CHAINS, NUM_SAMPLES, KEY = 16, 200, jax.random.key(0)
TARGET = vj.targets.far_pair(0.7)
GUIDE = vj.GaussianMixture(jnp.log(TARGET.weights), TARGET.means, jnp.stack([jnp.eye(2)] * 2))
KERNEL = vj.vhmc(TARGET.logdensity, GUIDE, step_size=0.5, num_integration_steps=5, log_envelope=0.0)
STARTS = TARGET.sample(jax.random.key(1), NUM_CHAINS)
COLLECTIVE = re.compile(r"\b(all-reduce|all-gather|all-to-all|collective-permute|collective-broadcast|reduce-scatter)")


def run(num_devices, store=None):
    started = time.perf_counter()
    chains = vj.run_chains(KEY, KERNEL, STARTS, NUM_SAMPLES, devices=num_devices, store=store)
    draws = np.asarray(chains.draws)
    return chains, draws, time.perf_counter() - started


def program_text(num_devices):
    """The compiled program of the loop, as XLA writes it."""
    kernel = Kernel(*map(as_pytree_function, KERNEL))
    keep = as_pytree_function(loop.keep_draw)
    placed = devices.Placed(mesh := devices.mesh_of(num_devices, NUM_CHAINS))
    keys, starts = placed.spread((jax.random.split(KEY, NUM_CHAINS), STARTS))
    state, buffer = placed.start(kernel, keep, keys, starts, True, NUM_SAMPLES)
    schedule = loop.Schedule(*map(np.int32, (0, 0, 1)))
    arguments = kernel.step, keep, keys, schedule, np.int32(NUM_SAMPLES), state, buffer
    return devices.advance_on(mesh).lower(*arguments).compile().as_text()


def main():
    _, one, _ = run(None)
    is_good = True
    for num_devices in map(int, sys.argv[1:] or ("1", "2", "4")):
        chains, draws, _ = run(num_devices)
        seconds = run(num_devices)[2]
        with tempfile.TemporaryDirectory() as path:
            is_stored = np.array_equal(run(num_devices, path)[1], draws)
        is_same, on = np.array_equal(draws, one), len(chains.draws.sharding.device_set)
        found = sorted(set(COLLECTIVE.findall(program_text(num_devices))))
        print(
            f"{num_devices} devices, draws on {on}: {'the bits' if is_same else 'NOT the bits'} of one device, "
            f"{'also' if is_stored else 'NOT'} with a store; collectives: {', '.join(found) or 'none'}; {seconds:.2f} s"
        )
        is_good = is_good and is_same and is_stored and on == num_devices and not found
    sys.exit(not is_good)


if __name__ == "__main__":
    main()
