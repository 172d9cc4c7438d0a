"""Phases with a store: what is done is not done again, and a call that was killed ends with the same bits."""

import dataclasses
import errno
import json
import signal
import subprocess
import sys
import time

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import xarray

import vhmc_jax as vj
from vhmc_jax.__main__ import main
from vhmc_jax.pipeline import phase, produce
from vhmc_jax.runner import chunks
from vhmc_jax.runner.progress import ProgressBar
from vhmc_jax.store import folder
from vhmc_jax.store.records import encode
from vhmc_jax.store.stitched import Stitched

sample_module = sys.modules["vhmc_jax.pipeline.sample"]

pytestmark = pytest.mark.slow
KEY = jax.random.key(31)
TARGET = vj.targets.far_pair(0.7)
REGION = vj.box(jnp.full(2, -10.0), jnp.full(2, 10.0))
SETTINGS = {"num_chains": 8, "num_samples": 100, "num_starts": 64, "progress": False}


def sample(store=None, rng_key=KEY, region=REGION, **settings):
    return vj.sample(rng_key, TARGET.logdensity, region, **SETTINGS | settings, store=store)


def bits(result):
    """Everything in a result as text and bytes, but for how long the phases took."""
    phases = tuple(phase._replace(seconds=0.0, compile_seconds=0.0) for phase in result.phases)
    description, arrays = encode(dataclasses.replace(result, phases=phases), is_lenient=True)
    return json.dumps(description), {name: (str(array.dtype), array.tobytes()) for name, array in arrays.items()}


@pytest.fixture(scope="module")
def whole():
    return bits(sample())


def test_a_store_changes_no_bit_and_phases_that_are_done_are_read(whole, tmp_path, monkeypatch, capsys):
    assert bits(sample(tmp_path / "run")) == whole
    monkeypatch.setattr(phase.Phases, "_run", None)  # nothing may run
    monkeypatch.setattr(phase.Phases, "run_chains", lambda self, *_: pytest.fail("runs chains"))
    with pytest.raises(pytest.fail.Exception, match="runs chains"):
        sample(tmp_path / "run")
    monkeypatch.undo()
    assert bits(sample(tmp_path / "run")) == whole
    assert vj.open_run(tmp_path / "run").is_complete
    assert main(["watch", str(tmp_path / "run")]) == 0
    assert "phases done: discover, fit, tune, judge, done" in capsys.readouterr().out


@pytest.mark.parametrize("num_files", range(6))
def test_a_call_that_failed_goes_on_in_every_phase(whole, tmp_path, monkeypatch, num_files):
    """A disk that is full, after so many files of whichever phase."""
    save, count = folder.save, 0

    def fail(*arguments):
        nonlocal count
        count += 1
        if count > num_files:
            raise OSError(errno.ENOSPC, "No space left on device")
        return save(*arguments)

    with monkeypatch.context() as patch:
        patch.setattr(folder, "save", fail)
        with pytest.raises(OSError, match="No space left"):
            sample(tmp_path)
    assert bits(sample(tmp_path)) == whole


def test_a_result_is_saved_and_loaded(tmp_path):
    result = sample()
    result.save(tmp_path / "result.npz")
    again = vj.load(tmp_path / "result.npz")
    assert bits(again) == bits(result)
    assert str(again) == str(result)
    result.save(tmp_path / "result.nc")
    np.testing.assert_array_equal(xarray.open_dataset(tmp_path / "result.nc", group="posterior")["x"], result.draws)
    result.save(tmp_path / "result.zarr")
    tree = xarray.open_datatree(tmp_path / "result.zarr", engine="zarr")
    assert tree.attrs["log_evidence"] == result.log_evidence
    assert tree["sample_stats"]["diverging"].dtype == bool
    vj.save(tmp_path / "frozen.npz", result.frozen)
    frozen = result.frozen, vj.load(tmp_path / "frozen.npz")
    more = [sample(frozen=each, region=None, num_starts=None) for each in frozen]
    assert bits(more[0]) == bits(more[1])
    vj.save(tmp_path / "guide.npz", result.frozen.guide)
    x = jnp.ones(2)
    assert float(vj.load(tmp_path / "guide.npz").log_prob(x)) == float(result.frozen.guide.log_prob(x))


@pytest.mark.parametrize(
    ("options", "what"),
    [
        ({"rng_key": jax.random.key(1)}, "rng_key"),
        ({"region": vj.box(jnp.full(2, -9.0), jnp.full(2, 10.0))}, "region.low"),
        ({"num_samples": 200}, "amount"),
        ({"num_starts": 32}, "num_starts"),
        ({"max_components": 2}, "options"),
        ({"friction": 0.1}, "tuning"),
    ],
)
def test_another_call_is_refused_with_what_differs(tmp_path, monkeypatch, options, what):
    monkeypatch.setattr(phase.Phases, "run", lambda self, *_: pytest.fail("runs"))
    with pytest.raises(pytest.fail.Exception, match="runs"):
        sample(tmp_path)
    with pytest.raises(ValueError, match=rf"holds another run, which differs in .*{what}"):
        sample(tmp_path, **options)


def test_more_draws_of_a_call_as_it_is(tmp_path):
    sample(tmp_path)
    assert bits(sample(tmp_path, num_samples=150, resume="as is")) == bits(sample(num_samples=150))


def test_a_signal_in_production_leaves_a_part_that_is_not_taken_for_the_whole(whole, tmp_path, monkeypatch):
    monkeypatch.setattr(chunks, "CHUNK_SECONDS", 0.0)
    show = ProgressBar.show

    def interrupt(self, done, rates=None):
        show(self, done, rates)
        if done == 50:
            signal.raise_signal(signal.SIGTERM)

    with monkeypatch.context() as patch:
        patch.setattr(ProgressBar, "show", interrupt)
        partial = sample(tmp_path)
    assert not partial.is_complete
    assert partial.draws.shape == (8, 40, 2)
    assert not (tmp_path / "judge.npz").exists()
    again = sample(tmp_path)
    assert again.is_complete
    assert bits(again) == whole


@pytest.mark.parametrize("name", ["discover", "fit", "tune"])
def test_a_signal_before_there_are_draws_lets_the_phase_end(whole, tmp_path, monkeypatch, name):
    run = phase.Phases._run

    def run_and_raise(self, called, *arguments):
        record = run(self, called, *arguments)
        if called == name:
            signal.raise_signal(signal.SIGTERM)
        return record

    with monkeypatch.context() as patch:
        patch.setattr(phase.Phases, "_run", run_and_raise)
        with pytest.raises(KeyboardInterrupt, match=f"after the phase {name}; .* the same call goes on"):
            sample(tmp_path)
    assert (tmp_path / f"{name}.npz").exists()
    assert bits(sample(tmp_path)) == whole


@pytest.mark.parametrize("name", ["judge", "rediscover"])
@pytest.mark.parametrize("is_stored", [True, False])
def test_a_signal_after_production_returns_what_there_is(whole, tmp_path, monkeypatch, name, is_stored):
    """While the first round is judged, or in the second round: the draws of the first are returned."""
    run, judge = phase.Phases._run, sample_module.judge
    store = tmp_path if is_stored else None

    def run_and_raise(self, called, *arguments):
        if called == name:
            signal.raise_signal(signal.SIGINT)
        return run(self, called, *arguments)

    def judge_and_ask_again(*arguments):
        return judge(*arguments)._replace(asks_again=True, notes=("Made up.",))

    with monkeypatch.context() as patch:
        patch.setattr(phase.Phases, "_run", run_and_raise)
        patch.setattr(sample_module, "judge", judge_and_ask_again)
        with pytest.warns(vj.TrustWarning, match="Made up"):
            partial = sample(store)
    assert not partial.is_complete
    assert partial.draws.shape == (8, 100, 2)
    assert [phase.name for phase in partial.phases][-1] in ("judge", "rediscover")
    assert not (tmp_path / "done.npz").exists()


def test_a_second_round_that_was_cut_gives_way_to_the_first(monkeypatch):
    first, judge = sample(), sample_module.judge
    cut = lambda *arguments: produce.produce(*arguments)._replace(is_complete=False)  # noqa: E731
    asks_again = lambda *arguments: judge(*arguments)._replace(asks_again=True, notes=("Made up.",))  # noqa: E731
    monkeypatch.setattr(sample_module, "judge", asks_again)
    monkeypatch.setattr(sys.modules["vhmc_jax.pipeline.rounds"], "produce", cut)
    with pytest.warns(vj.TrustWarning, match="Made up"):
        partial = sample()
    assert not partial.is_complete
    assert partial.phases[-1].name == "reproduce"
    np.testing.assert_array_equal(partial.draws, first.draws)


@pytest.mark.parametrize("is_stored", [True, False])
def test_a_long_run_is_judged_from_a_part_that_memory_holds(tmp_path, monkeypatch, is_stored):
    """With and without a store alike; with one, the draws stay on the disk."""
    monkeypatch.setattr(produce, "ALWAYS_JUDGED", 8 * 40)
    monkeypatch.setattr(produce, "MOST_NUMBERS", 0)
    problem = vj.Problem(
        logdensity_fn=TARGET.logdensity, region=REGION, constrain=lambda x: {"sum": x[0] + x[1], "x": x}
    )
    result = vj.sample(KEY, problem, **SETTINGS, store=tmp_path / "run" if is_stored else None)
    assert result.judged_every == 3
    assert result.modes.labels.shape == (8, 34)
    assert "One draw in 3 of each chain was judged" in str(result)
    assert isinstance(result.unconstrained, Stitched) == isinstance(result.draws["sum"], Stitched) == is_stored
    assert result.draws["x"].shape == (8, 100, 2)
    np.testing.assert_array_equal(result.draws["x"], result.unconstrained)
    np.testing.assert_allclose(result.draws["sum"][:, 5], np.asarray(result.unconstrained)[:, 5].sum(-1))
    assert result.to_arviz().posterior["x"].shape == (8, 34, 2)
    result.save(tmp_path / "result.npz")
    again = vj.load(tmp_path / "result.npz")
    np.testing.assert_array_equal(again.draws["sum"], result.draws["sum"])
    assert str(again) == str(result)


KILLED = """
import sys, jax, jax.numpy as jnp, vhmc_jax as vj
from vhmc_jax.runner import chunks, stored
stored.FILE_SECONDS = chunks.CHUNK_SECONDS = 0.02
region = vj.box(jnp.full(2, -10.0), jnp.full(2, 10.0))
result = vj.sample(jax.random.key(0), vj.targets.far_pair(0.7).logdensity, region, num_chains=8, num_samples=40_000,
                   num_starts=64, progress=False, store=sys.argv[1])
result.save(sys.argv[1] + ".npz")
"""


def test_a_call_that_is_killed_goes_on_with_the_same_bits(tmp_path):
    """A few moments; ``benchmarks/survive.py`` has twenty."""

    def start(name):
        return subprocess.Popen([sys.executable, "-c", KILLED, str(tmp_path / name)])

    moments = ["run/discover.npz", "run/produce/chunk-000001.npz"]
    for moment in moments:
        with start("run") as process:
            while not (tmp_path / moment).exists() and process.poll() is None:
                time.sleep(0.01)
            process.kill()
    assert not vj.open_run(tmp_path / "run").is_complete
    for name in ("run", "whole"):
        assert start(name).wait() == 0
    with jax.enable_x64(False):
        first, second = (bits(vj.load(tmp_path / f"{name}.npz")) for name in ("run", "whole"))
    assert first == second
