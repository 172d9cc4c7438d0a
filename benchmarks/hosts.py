"""Two processes on one machine share a run, as two machines would: both end; what happens to one, both recover from.

    python benchmarks/hosts.py [sample | run_chains]

The processes speak by JAX's own runtime over the loopback device, with gloo. One of them is killed by SIGKILL in the
middle of production. Then both are started again. In another run one of them is sent SIGTERM, as a cluster does: both
must end, with all that they have done on the disk, and go on when they are started again. Exits with 1 where a bit of
the draws, or of the result that the first process writes, differs from those of two processes that nothing disturbed.
"""

import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

import vhmc_jax as vj

NUM_CHAINS, NUM_SAMPLES = 8, 300_000
INTERRUPTED = 130
"""With this number a process ends that was interrupted in order."""
SECONDS = 300
"""After so long a process that waits for another one is given up."""


def work(kind, port, number, store):
    """What each process does: the same call."""
    import jax

    jax.config.update("jax_cpu_collectives_implementation", "gloo")
    jax.distributed.initialize(f"127.0.0.1:{port}", num_processes=2, process_id=number)
    import jax.numpy as jnp

    from vhmc_jax.runner import chunks, stored

    # Small files, so that there is a middle in which to be killed.
    stored.FILE_SECONDS = chunks.CHUNK_SECONDS = 0.05
    target, key, common = vj.targets.far_pair(0.7), jax.random.key(0), {"devices": jax.devices(), "store": store}
    if kind == "sample":
        region = vj.box(jnp.full(2, -10.0), jnp.full(2, 10.0))
        amount = {"num_chains": NUM_CHAINS, "num_samples": NUM_SAMPLES, "progress": False}
        result = vj.sample(key, target.logdensity, region, **amount, **common)
        record = result.modes, result.evidence, result.frozen, result.draws, result.final_states
    else:
        kernel = vj.lhmc(target.logdensity, step_size=0.5, num_integration_steps=5)
        chains = vj.run_chains(key, kernel, target.sample(key, NUM_CHAINS), NUM_SAMPLES, **common)
        record = chains.draws, chains.info_means, chains.final_states
    vj.save(f"{store}.{number}.npz", record)


def start(kind, store):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    return [subprocess.Popen([sys.executable, __file__, kind, port, str(number), str(store)]) for number in range(2)]


def finish(processes):
    assert [process.wait(timeout=SECONDS) for process in processes] == [0, 0], "a process failed"


def num_files(store, number):
    return len(list(store.glob(f"**/process-{number:03d}/chunk-*.npz")))


def wait_for_files(processes, store):
    while num_files(store, 1) < 2:
        assert processes[1].poll() is None, "it ended before anything could happen to it"
        time.sleep(0.01)


def kill_one(processes, store):
    """Kill the second process when it has a few files; the first one waits for it in vain, and is ended too."""
    wait_for_files(processes, store)
    processes[1].kill()
    time.sleep(1.0)
    processes[0].kill()
    return [process.wait() for process in processes]


def ask_one(processes, store):
    """Ask the second process to end when it has a few files; the first one hears of it, and ends by itself."""
    wait_for_files(processes, store)
    processes[1].terminate()
    started = time.perf_counter()
    codes = [process.wait(timeout=SECONDS) for process in processes]
    assert codes == [INTERRUPTED, INTERRUPTED], f"ended with {codes}"
    return time.perf_counter() - started


def content(path):
    with np.load(path) as file:
        return {name: file[name].tobytes() for name in file.files}


def main():
    kind = sys.argv[1] if len(sys.argv) > 1 else "sample"
    if len(sys.argv) > 2:
        try:
            work(kind, sys.argv[2], int(sys.argv[3]), sys.argv[4])
        except KeyboardInterrupt as interrupt:
            print(f"process {sys.argv[3]}: {interrupt}", flush=True)
            sys.exit(INTERRUPTED)
        return
    with tempfile.TemporaryDirectory() as folder:
        whole, cut, asked = (Path(folder) / name for name in ("whole", "cut", "asked"))
        started = time.perf_counter()
        finish(start(kind, whole))
        print(f"both end: {time.perf_counter() - started:.1f} s, {num_files(whole, 0)} and {num_files(whole, 1)} files")
        kill_one(start(kind, cut), cut)
        assert not vj.open_run(cut).is_complete, "it was killed too late"
        print(f"the second is killed after {num_files(cut, 1)} files, the first had {num_files(cut, 0)}")
        seconds = ask_one(start(kind, asked), asked)
        assert not vj.open_run(asked).is_complete, "it was asked too late"
        print(f"the second is asked to end: both do, after {seconds:.1f} s")
        for store in (cut, asked):
            finish(start(kind, store))
        # What both processes return is the same too.
        files = [f"{whole}.1.npz", *(f"{store}.{number}.npz" for store in (cut, asked) for number in range(2))]
        is_same = all(content(path) == content(f"{whole}.0.npz") for path in files)
        print(f"both started again: {'the same bits' if is_same else 'OTHER BITS'} in draws and result of {kind}")
    sys.exit(not is_same)


if __name__ == "__main__":
    main()
