"""Kill ``sample`` at random moments, go on, and compare all bits with a run that nothing disturbed.

    python benchmarks/survive.py [--kills 20] [--seed 0]

Every run is a process of its own. It is killed by SIGKILL, which a process cannot hear of. The moments are spread over
the whole of the run: starting Python, discover, fit, tune, a pilot run, another fit, produce, judge.
"""

import argparse
import dataclasses
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

import vhmc_jax as vj
from vhmc_jax.store.folder import read_manifest
from vhmc_jax.store.records import encode

NUM_CHAINS, NUM_SAMPLES, NUM_PILOT = 32, 100_000, 200
"""With so many draws about a third of the time is production, where files are many and the moments to be killed too."""
LAST = ".last.npz"


def run(store):
    """One call of ``sample``, whose result goes to a file beside the store."""
    import jax
    import jax.numpy as jnp

    from vhmc_jax.runner import chunks, stored

    # Files that are small, and written often: there are then many moments at which a run can be killed in production.
    stored.FILE_SECONDS = chunks.CHUNK_SECONDS = 0.05
    region = vj.box(jnp.full(2, -10.0), jnp.full(2, 10.0))
    result = vj.sample(
        jax.random.key(0),
        vj.targets.far_pair(0.7).logdensity,
        region,
        num_chains=NUM_CHAINS,
        num_samples=NUM_SAMPLES,
        num_pilot=NUM_PILOT,
        progress=False,
        store=store,
    )
    result.save(f"{store}{LAST}")


def start(store):
    return subprocess.Popen([sys.executable, __file__, "--run", str(store)])


def bits(store):
    """Everything in a result as text and bytes, but for how long the phases took."""
    result = vj.load(f"{store}{LAST}")
    phases = tuple(phase._replace(seconds=0.0, compile_seconds=0.0) for phase in result.phases)
    description, arrays = encode(dataclasses.replace(result, phases=phases))
    return json.dumps(description), {name: (array.dtype, array.tobytes()) for name, array in arrays.items()}


def done_in(store):
    """Phases and chunks that a killed run has left."""
    if not store.exists():
        return "nothing yet"
    names = [Path(entry["file"]).stem for entry in read_manifest(store)]
    counts = [f"{len(read_manifest(store / name))} files of {name}" for name in ("pilot", "produce")]
    return ", ".join([*names, *(count for count in counts if not count.startswith("0"))]) or "nothing yet"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--run", help="be one of the runs, with this store")
    options = parser.parse_args()
    if options.run:
        run(options.run)
        return
    with tempfile.TemporaryDirectory() as folder:
        for name in ("whole", "again"):  # the second tells the time: the first may have to compile for all
            started = time.perf_counter()
            assert start(Path(folder) / name).wait() == 0
            seconds = time.perf_counter() - started
        whole = bits(Path(folder) / "whole")
        assert bits(Path(folder) / "again") == whole, "two undisturbed runs differ"
        print(f"undisturbed: {seconds:.1f} s, {sum(len(data) for _, data in whole[1].values()):,} bytes", flush=True)
        num_same = 0
        generator = np.random.default_rng(options.seed)
        moments = seconds * (np.arange(options.kills) + generator.uniform(size=options.kills)) / options.kills
        for number, moment in enumerate(generator.permutation(moments)):
            store = Path(folder) / f"run{number}"
            process = start(store)
            time.sleep(moment)
            process.kill()
            was_running = process.wait() != 0
            left = done_in(store)
            assert start(store).wait() == 0
            is_same = bits(store) == whole
            num_same += is_same
            state = "killed" if was_running else "was done"
            print(f"{moment:6.1f} s: {state} with {left}: {'same bits' if is_same else 'DIFFERENT'}", flush=True)
        print(f"{num_same} of {options.kills} ended with the same bits")
        sys.exit(num_same != options.kills)


if __name__ == "__main__":
    main()
