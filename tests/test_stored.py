"""Runs with a store: the same bits as without one, whatever ended them; and what is refused."""

import errno
import signal
import subprocess
import sys
import threading
import time

import blackjax
import chex
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import vhmc_jax as vj
from vhmc_jax.__main__ import main
from vhmc_jax.runner import chunks, stored
from vhmc_jax.store import folder

KEY = jax.random.key(5)
STARTS = jnp.array([[0.0, 0.0], [1.0, -1.0], [2.0, 0.5]])
SCHEDULE = {"num_samples": 60, "num_burnin": 4, "thinning": 3}
SCALE = np.array([0.5, 0.7])


def logdensity(x):
    """A skewed log density with a constant of its own."""
    return x[0] - jnp.exp(x[0]) - 0.5 * jnp.sum(jnp.asarray(SCALE) * (x - 0.5 * x[0]) ** 2)


def other_logdensity(x):
    return logdensity(x) - 0.1 * x[1]


def kernel(step_size=0.6, density=logdensity):
    return vj.hmc(density, step_size=step_size, num_integration_steps=3)


def run(store=None, rng_key=KEY, hmc=None, starts=STARTS, **options):
    return vj.run_chains(rng_key, hmc or kernel(), starts, **SCHEDULE | options, store=store)


def assert_same(chains, whole):
    chex.assert_trees_all_equal(*(jax.tree.map(np.asarray, tree) for tree in (chains, whole)))


@pytest.fixture(scope="module")
def whole():
    return run()


@pytest.fixture(autouse=True)
def _small_chunks(monkeypatch):
    """Seven draws a file, and a look at the host after every iteration."""
    monkeypatch.setattr(stored, "CHUNK_BYTES", 7 * 3 * (2 * 8 + 8 + 2 + 2 * 4))
    monkeypatch.setattr(chunks, "CHUNK_SECONDS", 0.0)


def die_after(monkeypatch, num_files):
    """Make the process fail when it writes the file after so many."""
    save, count = folder.save, 0

    def fail(*arguments):
        nonlocal count
        count += 1
        if count > num_files:
            raise OSError(errno.ENOSPC, "No space left on device")
        return save(*arguments)

    monkeypatch.setattr(folder, "save", fail)


def test_a_store_changes_no_bit(whole, tmp_path):
    chains = run(tmp_path)
    assert_same(chains, whole)
    assert len(list(tmp_path.glob("chunk-*.npz"))) == 9
    assert chains.draws[:, 3:5].shape == (3, 2, 2)
    assert_same(run(tmp_path), whole)


@pytest.mark.parametrize("num_files", [0, 1, 4])
def test_a_full_disk_costs_the_chunk_alone(whole, tmp_path, monkeypatch, num_files):
    with monkeypatch.context() as patch:
        die_after(patch, num_files)
        with pytest.raises(OSError, match="No space left"):
            run(tmp_path)
    assert len(folder.read_manifest(tmp_path)) == num_files
    assert_same(run(tmp_path), whole)


def test_files_are_written_after_some_time_too(whole, tmp_path, monkeypatch):
    """Also within a draw, and during burn-in: then a file has a state and no draws."""
    monkeypatch.setattr(stored, "FILE_SECONDS", 0.0)
    with monkeypatch.context() as patch:
        die_after(patch, 50)
        with pytest.raises(OSError, match="No space left"):
            run(tmp_path)
    entries = folder.read_manifest(tmp_path)
    assert [entry["num_draws"] for entry in entries[:8]] == [0, 0, 0, 0, 0, 0, 1, 0]
    assert_same(run(tmp_path), whole)


@pytest.mark.parametrize("harm", ["flip", "cut"])
def test_a_damaged_chunk_is_made_again(whole, tmp_path, harm):
    run(tmp_path)
    path = tmp_path / "chunk-000005.npz"
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 4
    path.write_bytes(bytes(content) if harm == "flip" else bytes(content[: len(content) // 2]))
    with pytest.raises(ValueError, match=r"chunk-000005.npz is damaged"):
        vj.open_run(tmp_path).verify()
    with pytest.warns(UserWarning, match=r"chunk-000005.npz is damaged .* made again"):
        assert_same(run(tmp_path), whole)
    vj.open_run(tmp_path).verify()


@pytest.mark.parametrize(
    ("options", "what"),
    [
        ({"rng_key": jax.random.key(6)}, r"rng_key: .*\[0, 5\] there, .*\[0, 6\] here"),
        ({"hmc": kernel(0.5)}, r"kernel\.propose.*step_size: float64 0.6 there, float64 0.5 here"),
        ({"hmc": kernel(density=other_logdensity)}, "log density, or other code of the kernel"),
        ({"starts": STARTS + 0.1}, "starts"),
        ({"starts": STARTS[:2]}, "num_chains: 3 there, 2 here"),
        ({"num_samples": 70}, "num_samples: 60 there, 70 here"),
        ({"thinning": 1}, "thinning: 3 there, 1 here"),
        ({"keep": lambda state, info: state.position}, "log density, or other code of the kernel"),
    ],
    ids=["key", "step size", "density", "starts", "chains", "length", "thinning", "keep"],
)
def test_another_run_is_refused_with_what_differs(tmp_path, options, what):
    run(tmp_path, num_samples=60)
    with pytest.raises(ValueError, match=rf"holds another run, which differs in .*{what}"):
        run(tmp_path, **options)


def test_another_version_is_refused(tmp_path, monkeypatch):
    run(tmp_path)
    monkeypatch.setattr(stored, "versions", lambda: {"jax": "0.0"})
    with pytest.raises(ValueError, match=r"version\.jax: .* there, 0.0 here"):
        run(tmp_path)


def test_a_constant_of_the_density_counts(tmp_path, monkeypatch):
    def density(x):
        return logdensity(x)

    run(tmp_path, hmc=kernel(density=density))
    monkeypatch.setitem(globals(), "SCALE", SCALE + 1e-9)
    jax.clear_caches()
    with pytest.raises(ValueError, match="log density, or other code of the kernel"):
        run(tmp_path, hmc=kernel(density=lambda x: logdensity(x)))


def test_as_is_goes_on_with_more_draws(tmp_path):
    run(tmp_path)
    assert_same(run(tmp_path, num_samples=90, resume="as is"), run(num_samples=90))
    with pytest.raises(ValueError, match="holds 274 iterations, more than the 184 that are asked for"):
        run(tmp_path, resume="as is")


def test_keep_and_foreign_kernels(tmp_path):
    def keep(state, info):
        return {"first": state.position[0], "accepted": info.is_accepted}

    assert_same(run(tmp_path / "keep", keep=keep), run(keep=keep))
    foreign = blackjax.hmc(logdensity, step_size=0.5, num_integration_steps=3, inverse_mass_matrix=jnp.ones(2))
    chains = run(tmp_path / "foreign", hmc=foreign)
    assert_same(chains, run(hmc=foreign))
    assert vj.open_run(tmp_path / "foreign").infos._fields == ("acceptance_rate", "is_accepted", "is_divergent")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_at_a_chunk_with_everything_written(whole, tmp_path, monkeypatch, number):
    take = stored.StoredChunks.take

    def take_and_raise(self, run, buffer, before, done, is_last):
        buffer = take(self, run, buffer, before, done, is_last)
        if done == 60:
            signal.raise_signal(number)
        return buffer

    with monkeypatch.context() as patch:
        patch.setattr(stored.StoredChunks, "take", take_and_raise)
        partial = run(tmp_path)
    assert not partial.is_complete
    assert partial.next_iteration == 61
    assert_same(partial.draws, whole.draws[:, :19])
    assert not vj.open_run(tmp_path).is_complete
    assert signal.getsignal(number) is not None
    again = run(tmp_path)
    assert again.is_complete
    assert_same(again, whole)


def test_a_signal_without_a_store_returns_what_there_is(whole, monkeypatch):
    is_raised = False

    def show(self, done, rates=None):
        nonlocal is_raised
        if done == 60 and not is_raised:
            is_raised = True
            signal.raise_signal(signal.SIGTERM)

    monkeypatch.setattr("vhmc_jax.runner.progress.ProgressBar.show", show)
    partial = run(stop_on_interrupt=True)
    assert not partial.is_complete
    assert_same(partial.draws, whole.draws[:, :18])


def test_a_run_is_read_while_it_goes_on(whole, tmp_path, monkeypatch, capsys):
    is_there, may_go_on = threading.Event(), threading.Event()
    write = folder.Folder.write

    def write_and_wait(self, name, record, **about):
        write(self, name, record, **about)
        if name == "chunk-000002.npz":
            is_there.set()
            may_go_on.wait(60)

    monkeypatch.setattr(folder.Folder, "write", write_and_wait)
    thread = threading.Thread(target=run, args=(tmp_path,))
    thread.start()
    assert is_there.wait(60)
    opened = vj.open_run(tmp_path)
    assert (opened.num_samples, opened.total_samples, opened.is_complete) == (21, 60, False)
    assert_same(opened.draws, whole.draws[:, :21])
    assert_same(next(opened.chunks())["infos"], jax.tree.map(lambda leaf: leaf[:, :7], whole.infos))
    assert main(["watch", str(tmp_path), "--once"]) == 0
    assert "3 chains: 21 of 60 draws (35.0%), iteration 67, acceptance 0." in capsys.readouterr().out
    may_go_on.set()
    thread.join()
    opened.refresh()
    assert opened.is_complete
    assert_same(opened.draws, whole.draws)
    assert main(["watch", str(tmp_path)]) == 0
    assert "60 of 60" in capsys.readouterr().out
    assert main(["watch", str(tmp_path / "nowhere")]) == 1
    assert "path must be the folder of a run" in capsys.readouterr().err


def test_what_is_no_run_is_named(tmp_path):
    with pytest.raises(ValueError, match="holds no run"):
        vj.open_run(tmp_path)
    with pytest.raises(ValueError, match="not there"):
        vj.open_run(tmp_path / "gone")


KILLED = """
import sys, jax, jax.numpy as jnp, vhmc_jax as vj
from vhmc_jax.runner import chunks, stored
stored.FILE_SECONDS = chunks.CHUNK_SECONDS = 0.02
kernel = vj.hmc(lambda x: -0.5 * jnp.sum(x**2), step_size=0.6, num_integration_steps=3)
vj.run_chains(jax.random.key(0), kernel, jnp.zeros((4, 2)), {num_samples}, store=sys.argv[1])
"""


@pytest.mark.slow
def test_a_run_that_is_killed_goes_on_with_the_same_bits(tmp_path):
    code = KILLED.format(num_samples=100_000)
    command = [sys.executable, "-c", code, str(tmp_path / "killed")]
    for num_files in (2, 4):
        with subprocess.Popen(command) as process:
            while len(folder.read_manifest(tmp_path / "killed")) < num_files and process.poll() is None:
                time.sleep(0.01)
            process.kill()
    num_files = len(folder.read_manifest(tmp_path / "killed"))
    assert not vj.open_run(tmp_path / "killed").is_complete
    for name in ("killed", "whole"):
        subprocess.run([*command[:-1], str(tmp_path / name)], check=True)
    killed, undisturbed = (vj.open_run(tmp_path / name) for name in ("killed", "whole"))
    assert num_files >= 4
    assert_same((killed.draws, killed.infos), (undisturbed.draws, undisturbed.infos))
    last = [list((tmp_path / name).glob("chunk-*.npz")) for name in ("killed", "whole")]
    carries = [vj.load(sorted(names)[-1]).carry for names in last]
    assert_same(*carries)
