"""Chains over several devices: as many devices as are there are one in most tests, so four are made in a process."""

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
