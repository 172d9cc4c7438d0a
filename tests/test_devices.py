"""Chains over several devices: as many devices as are there are one in most tests, so four are made in a process."""

import json
import socket
import subprocess
import sys
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import vhmc_jax as vj
from vhmc_jax.runner.devices import local_values, mesh_of

KERNEL = vj.hmc(lambda x: -0.5 * jnp.sum(x**2), step_size=0.6, num_integration_steps=3)
BENCHMARK = Path(__file__).parent.parent / "benchmarks" / "devices.py"


@pytest.mark.slow
def test_four_devices_give_the_bits_of_one_without_an_exchange():
    found = subprocess.run([sys.executable, str(BENCHMARK), "4"], capture_output=True, text=True, check=False)
    assert found.returncode == 0, found.stdout + found.stderr
    assert "4 devices, draws on 4: the bits of one device, also with a store; collectives: none" in found.stdout


def test_one_device_that_is_named_changes_nothing():
    runs = [vj.run_chains(jax.random.key(0), KERNEL, jnp.zeros((2, 2)), 10, devices=d) for d in (None, 1)]
    np.testing.assert_array_equal(runs[0].draws, runs[1].draws)


@pytest.mark.parametrize(
    ("devices", "error", "message"),
    [
        (0, ValueError, "devices must be from 1 to the 1 that are there, got 0"),
        (99, ValueError, "devices must be from 1 to the 1 that are there, got 99"),
        ("cpu", TypeError, "devices must be a number or a list of JAX's devices, got 'cpu'"),
        (1.0, TypeError, "devices must be a number or a list"),
        ([], TypeError, "devices must be a number or a list"),
        ([1], TypeError, "devices must be a number or a list"),
        (jax.devices()[:1] * 2, ValueError, "devices must be different ones"),
    ],
    ids=str,
)
def test_devices_that_are_not_there_are_named(devices, error, message):
    with pytest.raises(error, match=message):
        mesh_of(devices, 8)


def test_chains_that_devices_cannot_share_are_refused(monkeypatch):
    monkeypatch.setattr(jax, "devices", lambda: jax.local_devices() * 3)
    with pytest.raises(ValueError, match="share the chains evenly, got 8 chains on 3 devices: give 9 chains"):
        mesh_of(3, 8)
    with pytest.raises(ValueError, match="got 2 chains on 3 devices: give 3 chains"):
        mesh_of(3, 2)
    with pytest.raises(ValueError, match="devices must share the particles evenly, got 64 particles on 3 devices"):
        vj.population(jax.random.key(0), KERNEL, None, num_particles=64, devices=3)


PROCESS = """
import sys, jax
jax.config.update("jax_cpu_collectives_implementation", "gloo")
jax.distributed.initialize(f"127.0.0.1:{sys.argv[1]}", 2, int(sys.argv[2]))
import jax.numpy as jnp, numpy as np, vhmc_jax as vj
from vhmc_jax.runner.devices import local_values
kernel = vj.hmc(lambda x: -0.5 * jnp.sum(x**2), step_size=0.6, num_integration_steps=3)
starts = jnp.arange(8.0).reshape(4, 2)
first = vj.run_chains(jax.random.key(0), kernel, starts, 5, devices=jax.devices(), progress=True)
assert not first.draws.is_fully_addressable
last = first.final_states
second = vj.run_chains(jax.random.key(0), kernel, initial_states=last, num_samples=5, first_iteration=5, progress=True)
print(local_values(second.draws).ravel().tolist())
"""


@pytest.mark.slow
def test_two_processes_share_the_chains():
    """The second call gets arrays that the processes share, and is not told of devices."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    commands = [[sys.executable, "-c", PROCESS, port, str(number)] for number in range(2)]
    both = [
        subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) for command in commands
    ]
    outputs = [process.communicate(timeout=300) for process in both]
    assert [process.returncode for process in both] == [0, 0], outputs
    found = np.array([json.loads(output.splitlines()[-1]) for output, _ in outputs]).reshape(4, 5, 2)
    with jax.enable_x64(False):
        whole = vj.run_chains(jax.random.key(0), KERNEL, jnp.arange(8.0, dtype=jnp.float32).reshape(4, 2), 10)
    np.testing.assert_allclose(found, whole.draws[:, 5:], rtol=1e-4)


class Shard:
    def __init__(self, start, data):
        self.index, self.data = (slice(start, None),), data


def test_of_an_array_of_several_processes_the_own_part_is_seen(monkeypatch):
    """Made up: a test has one process."""
    array = jnp.arange(4.0)
    np.testing.assert_array_equal(local_values(array), np.arange(4.0))
    shards = [Shard(6, np.array([6.0, 7.0])), Shard(2, np.array([2.0, 3.0])), Shard(2, np.array([2.0, 3.0]))]
    monkeypatch.setattr(type(array), "is_fully_addressable", property(lambda _: False))
    monkeypatch.setattr(type(array), "addressable_shards", property(lambda _: shards))
    np.testing.assert_array_equal(local_values(array), [2.0, 3.0, 6.0, 7.0])
