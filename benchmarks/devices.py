"""Chains on four devices beside the same chains on one: equal draws, and no exchange between devices.

    python benchmarks/devices.py [1 2 4] [sample]

The four devices are threads of one CPU, as XLA makes them on demand. The particles of a population are compared too,
and with ``sample`` everything that it returns. Exits with 1 where a bit differs or where a compiled program has a
collective operation.
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
from vhmc_jax.density import FlatDensity
from vhmc_jax.runner import devices, loop
from vhmc_jax.runner.chains import Kernel, as_pytree_function
from vhmc_jax.search import tempering
from vhmc_jax.search.reference import reference_of

NUM_CHAINS, NUM_SAMPLES, KEY = 16, 200, jax.random.key(0)
TARGET = vj.targets.far_pair(0.7)
GUIDE = vj.GaussianMixture(jnp.log(TARGET.weights), TARGET.means, jnp.stack([jnp.eye(2)] * 2))
KERNEL = vj.vhmc(TARGET.logdensity, GUIDE, step_size=0.5, num_integration_steps=5, log_envelope=0.0)
REGION = vj.box(jnp.full(2, -10.0), jnp.full(2, 10.0))
STARTS = TARGET.sample(jax.random.key(1), NUM_CHAINS)
COLLECTIVE = re.compile(r"\b(all-reduce|all-gather|all-to-all|collective-permute|collective-broadcast|reduce-scatter)")


def run(num_devices, store=None):
    started = time.perf_counter()
    chains = vj.run_chains(KEY, KERNEL, STARTS, NUM_SAMPLES, devices=num_devices, store=store)
    draws = np.asarray(chains.draws)
    return chains, draws, time.perf_counter() - started


def particles(num_devices):
    return vj.population(KEY, TARGET.logdensity, REGION, num_particles=64, devices=num_devices)


def sampled(num_devices):
    amount = {"num_chains": 16, "num_samples": 500, "progress": False}
    result = vj.sample(KEY, TARGET.logdensity, REGION, devices=num_devices, **amount)
    return result.draws, result.infos, result.frozen.guide, result.log_evidence


def are_equal(first, second):
    return all(jax.tree.leaves(jax.tree.map(np.array_equal, first, second)))


def program_text(num_devices):
    """The compiled program of the loop, as XLA writes it, and that of a population's moves."""
    kernel = Kernel(*map(as_pytree_function, KERNEL))
    keep = as_pytree_function(loop.keep_draw)
    placed = devices.Placed(mesh := devices.mesh_of(num_devices, NUM_CHAINS))
    keys, starts = placed.spread((jax.random.split(KEY, NUM_CHAINS), STARTS))
    state, buffer = placed.start(kernel, keep, keys, starts, True, NUM_SAMPLES)
    schedule = loop.Schedule(*map(np.int32, (0, 0, 1)))
    arguments = kernel.step, keep, keys, schedule, np.int32(NUM_SAMPLES), state, buffer
    loops = devices.advance_on(mesh).lower(*arguments).compile().as_text()
    return loops + moves_text(mesh)


def moves_text(mesh):
    density = FlatDensity.at(TARGET.logdensity, jnp.zeros(2))
    reference = reference_of(KEY, REGION)
    first = tempering.first_particles(density, reference.log_prob, reference.draws(64))
    tempered = tempering.Tempered(density, reference.log_prob, jnp.asarray(0.5, first.x.dtype))
    arguments = KEY, tempered, np.arange(64, dtype=np.int32), jax.tree.map(np.asarray, first), jnp.eye(2), np.int32(2)
    return tempering.move_on(mesh).lower(*arguments).compile().as_text()


def main():
    _, one, _ = run(None)
    one_population = particles(None)
    numbers = [int(word) for word in sys.argv[1:] if word.isdigit()] or [1, 2, 4]
    is_good = True
    for num_devices in numbers:
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
        population = particles(num_devices)
        is_same_population = are_equal(population, one_population)
        # XLA compiles a batch of another size to other roundings, and then other particles are chosen.
        difference = population.log_evidence - one_population.log_evidence
        error = 5 * np.hypot(population.log_evidence_error, one_population.log_evidence_error)
        print(
            f"{num_devices} devices: {'the bits' if is_same_population else 'other roundings'} of a population on one"
        )
        is_good = is_good and is_same and is_stored and on == num_devices and not found and abs(difference) <= error
    if "sample" in sys.argv:
        one_sample = sampled(None)
        for num_devices in numbers:
            is_same = are_equal(sampled(num_devices), one_sample)
            print(f"{num_devices} devices: {'the bits' if is_same else 'NOT the bits'} of sample on one")
            is_good = is_good and is_same
    sys.exit(not is_good)


if __name__ == "__main__":
    main()
