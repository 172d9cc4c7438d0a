"""Several processes that share a run. They are made up but in one test, which starts two and kills one of them."""

import socket
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import vhmc_jax as vj
from vhmc_jax.runner import hosts as hosts_module
from vhmc_jax.runner.devices import mesh_of
from vhmc_jax.runner.hosts import Hosts, whole
from vhmc_jax.store.stitched import Joined

BENCHMARK = Path(__file__).parent.parent / "benchmarks" / "hosts.py"
KERNEL = vj.hmc(lambda x: -0.5 * jnp.sum(x**2), step_size=0.6, num_integration_steps=3)


@pytest.mark.slow
def test_two_processes_end_and_one_that_is_killed_is_resumed_with_the_same_bits():
    found = subprocess.run([sys.executable, str(BENCHMARK), "run_chains"], capture_output=True, text=True, check=False)
    assert found.returncode == 0, found.stdout + found.stderr
    assert "the second is asked to end: both do" in found.stdout
    assert "both started again: the same bits in draws and result" in found.stdout


INTERRUPTED = """
import signal, sys, jax
jax.config.update("jax_cpu_collectives_implementation", "gloo")
jax.distributed.initialize(f"127.0.0.1:{sys.argv[1]}", 2, int(sys.argv[2]))
import jax.numpy as jnp, numpy as np, vhmc_jax as vj
from vhmc_jax.runner import advance, chunks
from vhmc_jax.runner.devices import local_values
chunks.CHUNK_SECONDS = 0.05
ends = chunks.chunk_ends
def asked_at_the_tenth(*arguments):
    for number, end in enumerate(ends(*arguments)):
        yield end
        if number == 10 and jax.process_index() == 1:
            signal.raise_signal(signal.SIGTERM)
advance.chunk_ends = asked_at_the_tenth
kernel = vj.hmc(lambda x: -0.5 * jnp.sum(x**2), step_size=0.6, num_integration_steps=3)
amount = {"num_samples": 30_000, "thinning": 1_000, "stop_on_interrupt": True}
chains = vj.run_chains(jax.random.key(0), kernel, jnp.zeros((4, 2)), devices=jax.devices(), **amount)
print(chains.is_complete, chains.next_iteration, chains.draws.shape, np.isfinite(local_values(chains.draws)).all())
"""


@pytest.mark.slow
def test_of_two_processes_without_a_store_one_that_is_asked_stops_both_at_the_same_iteration():
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    commands = [[sys.executable, "-c", INTERRUPTED, port, str(number)] for number in range(2)]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    both = [subprocess.Popen(command, **pipes) for command in commands]
    outputs = [process.communicate(timeout=300) for process in both]
    assert [process.returncode for process in both] == [0, 0], outputs
    first, second = (output.splitlines()[-1] for output, _ in outputs)
    assert first == second
    is_complete, iteration, *_, is_finite = first.split()
    assert (is_complete, is_finite) == ("False", "True")
    assert 10 < int(iteration) < 30_000_000


def mesh_of_processes(*numbers):
    devices = [SimpleNamespace(process_index=number) for number in numbers]
    return SimpleNamespace(devices=np.array(devices, dtype=object), axis_names=("chains",))


def test_one_process_is_alone():
    assert not Hosts.of(mesh_of(1, 4)).are_several
    alone, tree = Hosts.of(None), {"a": jnp.arange(4.0)}
    assert not alone.are_several
    assert alone.share(tree) is alone.gathered(tree) is tree
    assert alone.from_first(lambda: tree) is tree
    assert whole(tree)["a"] is tree["a"]


@pytest.mark.parametrize(("owners", "message"), [((1, 1), "{1: 2} by process"), ((0, 0, 1), "{0: 2, 1: 1} by process")])
def test_devices_of_some_processes_are_refused(monkeypatch, owners, message):
    monkeypatch.setattr(jax, "process_count", lambda: 2)
    with pytest.raises(ValueError, match=f"as many of each of the 2 processes, got {message}: give jax.devices"):
        Hosts.of(mesh_of_processes(*owners))


def test_each_process_has_chains_and_a_folder_of_its_own(tmp_path):
    second = Hosts(1, 2)
    np.testing.assert_array_equal(second.share(jnp.arange(6)), [3, 4, 5])
    assert second.folder(tmp_path) == tmp_path / "process-001"
    with pytest.raises(TypeError, match="store must be the path of a folder, got int"):
        second.folder(3)
    vj.run_chains(jax.random.key(0), KERNEL, jnp.zeros((2, 2)), 3, store=tmp_path)
    with pytest.raises(ValueError, match="holds a run of one process, got 2 processes"):
        second.folder(tmp_path)


def test_a_disk_that_is_not_shared_is_named(monkeypatch, tmp_path):
    monkeypatch.setattr(hosts_module.multihost_utils, "sync_global_devices", lambda _: None)
    (tmp_path / "process-000").mkdir()
    with pytest.raises(ValueError, match=r"a disk that all processes share, got .* without process-001"):
        Hosts(0, 2).wait(tmp_path)


def test_what_the_first_process_returns_or_that_it_failed_reaches_the_others(monkeypatch):
    """Messages go through a list: the first process puts them there, and the second takes them."""
    sent = []

    def broadcast(value):
        return sent.pop(0)

    monkeypatch.setattr(hosts_module.multihost_utils, "broadcast_one_to_all", lambda value: sent.append(value) or value)
    record = Hosts(0, 2).from_first(lambda: {"x": jnp.arange(3.0), "y": "text"})
    assert record["y"] == "text"
    with pytest.raises(OSError, match="of its own"):
        Hosts(0, 2).from_first(lambda: (_ for _ in ()).throw(OSError("of its own")))
    monkeypatch.setattr(hosts_module.multihost_utils, "broadcast_one_to_all", broadcast)
    again = Hosts(1, 2).from_first(lambda: pytest.fail("the second process does not call it"))
    np.testing.assert_array_equal(again["x"], record["x"])
    with pytest.raises(RuntimeError, match="the first process failed"):
        Hosts(1, 2).from_first(lambda: None)


def test_the_folders_of_several_processes_are_read_as_one_run(tmp_path):
    """The first has done more than the second: draws that both have are shown."""
    starts = jnp.zeros((2, 2))
    runs = [
        vj.run_chains(jax.random.key(0), KERNEL, starts, n, store=tmp_path / f"process-00{i}")
        for i, n in ((0, 9), (1, 6))
    ]
    opened = vj.open_run(tmp_path)
    assert (opened.num_chains, opened.num_samples, opened.next_iteration) == (4, 6, 6)
    assert isinstance(opened.draws, Joined)
    whole = np.concatenate([np.asarray(run.draws)[:, :6] for run in runs])
    np.testing.assert_array_equal(opened.draws, whole)
    np.testing.assert_array_equal(
        opened.infos.is_accepted[:, 2], np.concatenate([run.infos.is_accepted[:, 2] for run in runs])
    )
    assert opened.acceptance_rate == pytest.approx(np.mean([run.info_means.acceptance_rate for run in runs]))
    assert sum(chunk["draws"].shape[1] for chunk in opened.chunks()) == 9 + 6
    opened.verify()
    with pytest.raises(ValueError, match=r"a new or an empty folder, .* with process-000"):
        vj.run_chains(jax.random.key(0), KERNEL, starts, 3, store=tmp_path)
